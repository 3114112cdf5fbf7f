# SPDX-License-Identifier: Apache-2.0
"""Ways of chains put on lcores, and a local search over ways and numbers of replicas."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from headrace.layout.cheapest import ChainWay, SegmentKey, WayTables
from headrace.layout.placing import busiest, capacity, counted, lcores_of, loads_of, share
from headrace.spec.placement import (
    WHOLE,
    ChosenPlacement,
    ChosenSegment,
    ChosenWay,
    PlacementProblem,
)

Slot = tuple[int, int]  # chain, which segment of its way
Score = tuple[float, float]


@dataclass
class Draft:
    """Ways with replicas of each segment, and where these are."""

    ways: list[ChainWay]
    replicas: dict[Slot, int]
    lcores: dict[Slot, tuple[int, ...]] = field(default_factory=dict)
    score: Score = (float("inf"), 0.0)


@dataclass
class Packer:
    """Drafts of one mode. `pool`: ways of each chain to choose from."""

    problem: PlacementProblem
    mode: int
    pool: Sequence[Sequence[ChainWay]]
    seed: int = 1
    _items: dict[tuple[int, SegmentKey, int], int] = field(default_factory=dict)

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

    # --- packing ---

    def pack(self, draft: Draft) -> None:
        """The largest first: on the lcores with least to do, or, where lcores count, on the
        fullest that has room."""
        room = capacity(self.problem, self.problem.modes[self.mode], self.problem.full)
        loads = [[0] * n for n in self.areas]
        polled = [[0] * n for n in self.areas]
        draft.lcores = {}
        order = []
        for (c, s), k in draft.replicas.items():
            key = draft.ways[c].segments[s]
            order.append((-self.item(c, key, k), c, s, key.area, k))
        for minus, c, s, area, k in sorted(order):
            here, taken = loads[area], polled[area]
            free = [i for i in range(len(here)) if taken[i] < self.problem.lcore_segments]
            if self.free:
                free.sort(key=here.__getitem__)
            else:
                free.sort(key=lambda i: (here[i] - minus > room, -here[i]))
            if len(free) < k:
                draft.score = (float("inf"), float("inf"))
                return
            draft.lcores[c, s] = tuple(sorted(free[:k]))
            for i in free[:k]:
                here[i] -= minus
                taken[i] += 1
        draft.score = self._score(draft, loads)

    def _score(self, draft: Draft, loads: list[list[int]]) -> Score:
        placement = self.placement(draft)
        known = loads_of(self.problem, placement)
        over = sum(
            max(0, ns - (chain.within_ns or ns))
            for chain, ns in zip(self.problem.chains, known.latency_ns, strict=True)
        )
        mode = self.problem.modes[self.mode]
        most = busiest(self.problem, mode, known)
        squares = sum(one * one for area in loads for one in area) / WHOLE**2
        if self.free:
            return most + 1e6 * over, squares
        beyond = max(0, most - self.problem.full)
        return counted(self.problem, known) + 1e9 * (beyond + over), -squares

    def placement(self, draft: Draft) -> ChosenPlacement:
        ways = []
        for c, way in enumerate(draft.ways):
            segments = tuple(
                ChosenSegment(first=k.first, end=k.end, area=k.area, lcores=draft.lcores[c, s])
                for s, k in enumerate(way.segments)
            )
            ways.append(ChosenWay(door=way.door, segments=segments))
        return ChosenPlacement(mode=self.mode, ways=tuple(ways))

    # --- searching ---

    def improve(self, draft: Draft, enough: float, until: float) -> Draft:
        """Moves of one chain or one segment, taken where nothing gets worse by them."""
        best = draft
        idle = 0
        while best.score[0] > enough and time.monotonic() < until and idle < 4000:
            other = self._moved(draft)
            self.pack(other)
            if other.score <= draft.score:
                idle = 0 if other.score < draft.score else idle + 1
                draft = other
            else:
                idle += 1
            if draft.score < best.score:
                best = draft
        return best

    def _moved(self, draft: Draft) -> Draft:
        other = Draft(list(draft.ways), dict(draft.replicas))
        for _ in range(self.random.choice((1, 1, 1, 2))):
            if self.random.random() < 0.3:
                chain = self.random.randrange(len(other.ways))
                way = self.random.choice(self.pool[chain])
                full = (
                    int(draft.score[0]) if self.free and draft.score[0] < 1e9 else self.problem.full
                )
                room = capacity(self.problem, self.problem.modes[self.mode], full)
                self._take(other, chain, way, room)
            else:
                slot = self.random.choice(list(other.replicas))
                key = other.ways[slot[0]].segments[slot[1]]
                most = self.most(slot[0], key)
                step = self.random.choice((-1, 1, 2, most, self.random.randint(1, most)))
                here = step if step in (most,) else other.replicas[slot] + step
                other.replicas[slot] = min(most, max(1, here))
        return other
