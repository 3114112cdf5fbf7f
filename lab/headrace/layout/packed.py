# SPDX-License-Identifier: Apache-2.0
"""Ways of chains put on lcores: where to begin searching (annealed.py)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from headrace.layout.cheapest import ChainWay, SegmentKey, WayTables
from headrace.layout.placing import (
    areas_of,
    between,
    capacity,
    from_door,
    lcores_of,
    segment_uses,
    share,
    up,
)
from headrace.spec.placement import (
    WHOLE,
    ChosenPlacement,
    ChosenSegment,
    ChosenWay,
    Door,
    PlacementProblem,
)

Slot = tuple[int, int]  # chain, which segment of its way
Score = tuple[float, float]
_EVENED, _POWER, _FEW = 60_000, 24, 8  # moves; chains up to which none is needed


@dataclass(frozen=True)
class PackedArea:
    """`most`: load of its fullest lcore; `used`: lcores with something to do."""

    lcores: dict[Slot, tuple[int, ...]]
    most: int
    used: int
    squares: float


@dataclass
class Draft:
    """Ways with replicas of each segment, and where these are."""

    ways: list[ChainWay]
    replicas: dict[Slot, int]
    areas: dict[int, PackedArea | None] = field(default_factory=dict)
    score: Score = (float("inf"), 0.0)

    @property
    def lcores(self) -> dict[Slot, tuple[int, ...]]:
        packed = (area.lcores for area in self.areas.values() if area is not None)
        return {slot: on for lcores in packed for slot, on in lcores.items()}


@dataclass
class Packer:
    """Drafts of one mode. `pool`: ways of each chain to choose from. `swift`: of those that the aim
    counts alike, the one with less latency is better, rather than the one with fuller lcores."""

    problem: PlacementProblem
    mode: int
    pool: Sequence[Sequence[ChainWay]]
    seed: int = 1
    swift: bool = False
    _parts: dict[tuple[int, ChainWay], tuple[list[tuple[int, float]], list[tuple[int, float]]]] = (
        field(default_factory=dict)
    )
    _items: dict[tuple[int, SegmentKey, int], int] = field(default_factory=dict)
    _ways: dict[tuple[int, ChainWay], tuple[int, list[tuple[int, int]]]] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    @cached_property
    def tables(self) -> WayTables:
        return WayTables(self.problem, self.problem.modes[self.mode])

    @property
    def free(self) -> bool:
        return self.problem.aim == "rate"

    @cached_property
    def areas(self) -> list[int]:
        mode = self.problem.modes[self.mode]
        return [lcores_of(self.problem, mode, area) for area in range(len(self.problem.areas))]

    def most(self, chain: int, key: SegmentKey) -> int:
        return min(len(self.problem.chains[chain].spread), self.areas[key.area])

    def item(self, chain: int, key: SegmentKey, replicas: int) -> int:
        name = chain, key, replicas
        if name not in self._items:
            work = int(self.tables.work[chain, key.first, key.end, key.area, key.origin])
            self._items[name] = share(self.problem.chains[chain], work, replicas)
        return self._items[name]

    def fewest(self, chain: int, key: SegmentKey, room: int) -> int:
        """Replicas so that each fits; as many as there can be where none does."""
        most = self.most(chain, key)
        fit = (k for k in range(1, most + 1) if self.item(chain, key, k) <= room)
        return next(fit, most)

    def start(self, ways: Sequence[ChainWay], full: int) -> Draft:
        room = capacity(self.problem, self.problem.modes[self.mode], full)
        draft = Draft(list(ways), {})
        for c, way in enumerate(ways):
            self._take(draft, c, way, room)
        self.pack(draft)
        return draft

    def _take(self, draft: Draft, chain: int, way: ChainWay, room: int) -> None:
        draft.ways[chain] = way
        for slot in [slot for slot in draft.replicas if slot[0] == chain]:
            del draft.replicas[slot]
        for s, key in enumerate(way.segments):
            draft.replicas[chain, s] = self.fewest(chain, key, room)

    def spread(self) -> list[ChainWay]:
        """A way for each chain, the largest first, where areas and limits are filled least."""
        filled = [0.0] * len(self.areas)
        used = [0.0] * len(self.problem.limits)
        chosen: dict[int, ChainWay] = {}
        sizes = [self._taken(c, several[0]) for c, several in enumerate(self.pool)]
        for c in sorted(range(len(self.pool)), key=lambda c: -sum(sizes[c][0].values())):
            best: tuple[float, float] | None = None
            for way in self.pool[c]:
                areas, limits = self._taken(c, way)
                level = max(
                    *(filled[a] + part for a, part in areas.items()),
                    *(used[i] + part for i, part in limits.items()),
                    0.0,
                )
                rank = level, sum(areas.values())
                if best is None or rank < best:
                    best, chosen[c] = rank, way
            areas, limits = self._taken(c, chosen[c])
            for a, part in areas.items():
                filled[a] += part
            for i, part in limits.items():
                used[i] += part
        return self._evened([chosen[c] for c in range(len(self.pool))], filled + used)

    def _evened(self, ways: list[ChainWay], filled: list[float]) -> list[ChainWay]:
        """Two chains change places as long as the fuller areas and limits get emptier by it, by the
        sum of a high power of all."""
        if len(ways) < 2:
            return ways
        for _ in range(_EVENED if len(ways) > _FEW else 0):
            several = self.random.sample(range(len(ways)), 2)
            places = [place_of(ways[c]) for c in reversed(several)]
            there = [self._by_place[c].get(p, []) for c, p in zip(several, places, strict=True)]
            if not all(there):
                continue
            others = [self.random.choice(some) for some in there]
            change: dict[int, float] = {}
            for c, other in zip(several, others, strict=True):
                for sign, way in ((-1, ways[c]), (1, other)):
                    areas, limits = self._shares(c, way)
                    for place, part in (*areas, *limits):
                        change[place] = change.get(place, 0.0) + sign * part
            before = sum(filled[i] ** _POWER for i in change)
            if sum((filled[i] + part) ** _POWER for i, part in change.items()) < before:
                for i, part in change.items():
                    filled[i] += part
                for c, other in zip(several, others, strict=True):
                    ways[c] = other
        return ways

    def _shares(
        self, chain: int, way: ChainWay
    ) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
        """Works as `_taken`, limits numbered behind areas."""
        name = chain, way
        if name not in self._parts:
            areas, limits = self._taken(chain, way)
            behind = [(len(self.areas) + i, part) for i, part in limits.items()]
            self._parts[name] = list(areas.items()), behind
        return self._parts[name]

    def _taken(self, chain: int, way: ChainWay) -> tuple[dict[int, float], dict[int, float]]:
        """Shares of areas and of limits."""
        one, problem = self.problem.chains[chain], self.problem
        areas: dict[int, float] = {}
        limits: dict[int, float] = {}
        for i, amount in one.doors[way.door].uses:
            limits[i] = limits.get(i, 0.0) + amount / problem.limits[i].capacity
        for key in way.segments:
            part = self.item(chain, key, 1) / self.areas[key.area] / WHOLE
            areas[key.area] = areas.get(key.area, 0.0) + part
            for i, amount in key_uses(problem, chain, key):
                limits[i] = limits.get(i, 0.0) + amount / problem.limits[i].capacity
        return areas, limits

    # --- packing ---

    def pack(self, draft: Draft, areas: Sequence[int] | None = None) -> None:
        """All areas, or these, in which something has changed."""
        slots: dict[int, list[Slot]] = {}
        for c, way in enumerate(draft.ways):
            for s, key in enumerate(way.segments):
                slots.setdefault(key.area, []).append((c, s))
        for area in range(len(self.areas)) if areas is None else areas:
            draft.areas[area] = self._packed(draft, area, slots.get(area, []))
        draft.score = self.scored(draft)

    def _packed(self, draft: Draft, area: int, slots: Sequence[Slot]) -> PackedArea | None:
        """The largest first: on the lcores with least to do, or, where lcores count, on the
        fullest that has room. None: too many for so few lcores."""
        order = []
        for c, s in slots:
            k = draft.replicas[c, s]
            order.append((-self.item(c, draft.ways[c].segments[s], k), c, s, k))
        here, taken = [0] * self.areas[area], [0] * self.areas[area]
        lcores: dict[Slot, tuple[int, ...]] = {}
        most, lots = self.problem.lcore_segments, self._room
        for minus, c, s, k in sorted(order):
            free = [i for i, count in enumerate(taken) if count < most]
            if len(free) < k:
                return None
            if k < len(free):
                if self.free:
                    free.sort(key=here.__getitem__)
                else:
                    free.sort(key=lambda i, m=minus: (here[i] - m > lots, -here[i]))  # type: ignore[misc]
            for i in free[:k]:
                here[i] -= minus
                taken[i] += 1
            lcores[c, s] = tuple(sorted(free[:k]))
        squares = sum(load * load for load in here) / WHOLE**2
        return PackedArea(lcores, max(here), sum(map(bool, taken)), squares)

    @cached_property
    def _room(self) -> int:
        return capacity(self.problem, self.problem.modes[self.mode], self.problem.full)

    def scored(self, draft: Draft) -> Score:
        """What the aim counts, with much added for what is not kept; and how even loads are."""
        problem, packed = self.problem, list(draft.areas.values())
        over, latency = 0, 0
        used = [0] * len(problem.limits)
        for c, way in enumerate(draft.ways):
            ns, limits = self.known(c, way)
            latency += ns
            over += max(0, ns - (problem.chains[c].within_ns or ns))
            for i, amount in limits:
                used[i] += amount
        speed = problem.modes[self.mode].speed
        most = 0
        for area in packed:
            if area is None:
                return float("inf"), float("inf")
            most = max(most, up(area.most * WHOLE, speed))
        for amount, limit in zip(used, problem.limits, strict=True):
            most = max(most, up(amount * WHOLE, limit.capacity))
        squares = sum(area.squares for area in packed if area is not None)
        if self.free:
            return most + 1e6 * over, squares
        total = problem.weight_ns * latency
        on = set()
        for number, area in draft.areas.items():
            if area is not None and area.used:
                server = problem.areas[number].server
                total += area.used * problem.servers[server].each
                on.add(server)
        total += sum(problem.servers[server].fixed for server in on)
        unkept = 1e9 * (max(0, most - problem.full) + over)
        return total + unkept, latency if self.swift else -squares

    def known(self, chain: int, way: ChainWay) -> tuple[int, list[tuple[int, int]]]:
        """A way's latency, and what it uses of limits."""
        name = chain, way
        if name not in self._ways:
            one, ns = self.problem.chains[chain], 0
            limits = list(one.doors[way.door].uses)
            for key in way.segments:
                ns += int(self.tables.ns[chain, key.first, key.end, key.area, key.origin])
                limits += key_uses(self.problem, chain, key)
            self._ways[name] = ns, limits
        return self._ways[name]

    def placement(self, draft: Draft) -> ChosenPlacement:
        ways, lcores = [], draft.lcores
        for c, way in enumerate(draft.ways):
            segments = tuple(
                ChosenSegment(first=k.first, end=k.end, area=k.area, lcores=lcores[c, s])
                for s, k in enumerate(way.segments)
            )
            ways.append(ChosenWay(door=way.door, segments=segments))
        return ChosenPlacement(mode=self.mode, ways=tuple(ways))

    @cached_property
    def _by_place(self) -> list[dict[tuple[int, int, int], list[ChainWay]]]:
        tables: list[dict[tuple[int, int, int], list[ChainWay]]] = []
        for several in self.pool:
            table: dict[tuple[int, int, int], list[ChainWay]] = {}
            for way in several:
                table.setdefault(place_of(way), []).append(way)
            tables.append(table)
        return tables


def place_of(way: ChainWay) -> tuple[int, int, int]:
    """Port, and where the first and the last segment are."""
    return way.door, way.segments[0].area, way.segments[-1].area


def key_uses(problem: PlacementProblem, chain: int, key: SegmentKey) -> list[tuple[int, int]]:
    segment = ChosenSegment.model_construct(first=key.first, end=key.end, area=key.area, lcores=())
    return segment_uses(problem, problem.chains[chain], segment, key.origin)


def everywhere(problem: PlacementProblem, chain: int, ways: Sequence[ChainWay]) -> list[ChainWay]:
    """These ways, by each port and on each server of their type. On each other area, too, where
    they have but one."""
    doors = problem.chains[chain].doors
    moved: dict[ChainWay, None] = dict.fromkeys(ways)
    for way in ways:
        here = doors[way.door].server
        areas = list(areas_of(problem, here))
        for d, door in enumerate(doors):
            if problem.servers[door.server].type != problem.servers[here].type:
                continue
            there = list(areas_of(problem, door.server))
            places = [[there[areas.index(key.area)] for key in way.segments]]
            if len({key.area for key in way.segments}) == 1:
                places = [[area] * len(way.segments) for area in there]
            for place in places:
                cuts = tuple((key.first, key.end) for key in way.segments)
                moved[_way(problem, d, door, cuts, place)] = None
    return list(moved)


def cut_once(problem: PlacementProblem, chain: int) -> list[ChainWay]:
    """Each chain whole, and each two of its parts, on all caches of a first server, by its ports:
    by these loads of sockets can be evened."""
    one = problem.chains[chain]
    n, server = len(one.functions), one.doors[0].server
    areas, ways = areas_of(problem, server), []
    for d, door in enumerate(one.doors):
        if door.server == server:
            ways += [_way(problem, d, door, [(0, n)], [a]) for a in areas]
            ways += [
                _way(problem, d, door, [(0, at), (at, n)], [a, b])
                for at in range(1, n)
                for a, b in itertools.product(areas, repeat=2)
            ]
    return ways


def ways_through(
    problem: PlacementProblem, chain: int, places: Sequence[tuple[int, int]]
) -> list[ChainWay]:
    """Ways whose segments end, and are, so: by each port of their server."""
    ends, areas = zip(*places, strict=True)
    cuts, server = list(itertools.pairwise((0, *ends))), problem.areas[areas[0]].server
    return [
        _way(problem, d, door, cuts, areas)
        for d, door in enumerate(problem.chains[chain].doors)
        if door.server == server
    ]


def _way(
    problem: PlacementProblem,
    number: int,
    door: Door,
    cuts: Sequence[tuple[int, int]],
    places: Sequence[int],
) -> ChainWay:
    origins = [from_door(problem, door, places[0])]
    origins += [between(problem, a, b) for a, b in itertools.pairwise(places)]
    parts = zip(cuts, places, origins, strict=True)
    segments = tuple(SegmentKey(*cut, area, origin) for cut, area, origin in parts)
    return ChainWay(number, segments)
