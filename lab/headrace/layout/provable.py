# SPDX-License-Identifier: Apache-2.0
"""Placing chains: a placement, and a certificate of how far it can be from the best.

For each mode of the servers' threads: prices and ways by Lagrange (lagrange.py), a start from these
and annealing (annealed.py), and CP-SAT over all ways of small problems (solved.py). Where the
prices' bound stays below the value it is looked for with patterns of items (pattern_bound.py), and
where there are few placements all of them are the proof (enumerated.py).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from headrace.errors import BadInput, HeadraceError
from headrace.layout import solved
from headrace.layout.annealed import Annealer
from headrace.layout.area_bound import AreaBound
from headrace.layout.branching import Branching
from headrace.layout.cheapest import Begins, ChainWay, Prices, WayTables
from headrace.layout.enumerated import (
    ENUMERATED_MAX,
    enumerate_all,
    how_many,
    least_busy_ports,
    port_choices,
)
from headrace.layout.filled import AreaFiller
from headrace.layout.lagrange import Relaxed, relax
from headrace.layout.layered import LayeredFiller
from headrace.layout.packed import Draft, Packer, cut_once, everywhere, ways_through
from headrace.layout.pattern_bound import PatternBound
from headrace.layout.placing import areas_of, loads_of, value_of
from headrace.layout.relaxation import BoundPart, Relaxation, first_server, in_whole
from headrace.layout.unmet import why_unmet
from headrace.spec.placement import (
    WHOLE,
    Certificate,
    ChosenPlacement,
    ModeBound,
    ModeTree,
    PlacementAnswer,
    PlacementProblem,
)

_ALL_ARCS = 400  # up to so many CP-SAT has all ways
_FEW = 4  # caches of a server, of which all pairs are tried
_MANY = 24  # chains
_SMALL_S = 0.2  # of annealing, where CP-SAT has all ways
_PART = 0.15  # of the way from a bound to a value: what patterns refute at least, mostly
_FURTHER = 500  # by this part of it a load that is refuted is raised
_STEPS = (0, 1, 2, 3, 4)  # dual feasible functions that are tried
_TIE_S = 0.5  # for a placement that the aim counts alike, with less latency
_COUNTED = WHOLE // 100  # by loads below, the aim `rate` would be off by over a hundredth
_ANNEALED = 0.3  # of the time for a first placement, where areas are filled after that
_BEFORE_BRANCHES = 0.15
_COOLING_S = 0.5  # the first
_ATTEMPT_S = 4.0  # for a placement among some ways
_FLUID = 100 * WHOLE  # a load at which no segment is too large for an lcore


@dataclass
class _Mode:
    """What is known of one mode."""

    number: int
    tables: WayTables
    packer: Packer
    bounds: dict[BoundPart, ModeBound] = field(default_factory=dict)
    best: Draft | None = None
    ports: int = 0  # by these alone
    tree: ModeTree | None = None

    @cached_property
    def filler(self) -> AreaFiller:
        return AreaFiller(self.packer)

    @property
    def bound(self) -> int:
        """What is proved of it by all bounds."""
        return max(self.priced, self.ports)

    @property
    def priced(self) -> int:
        whole = self.bounds["all"].bound if "all" in self.bounds else 0
        apart = self.tree.bound if self.tree is not None else 0
        return max(whole, self._apart, apart)

    @property
    def _apart(self) -> int:
        """Splits off so many of the cheapest servers from the rest."""
        if "servers" not in self.bounds or "rest" not in self.bounds:
            return 0
        cheapest = sorted(server.fixed for server in self.packer.problem.servers)
        return sum(cheapest[: self.bounds["servers"].bound]) + self.bounds["rest"].bound

    @property
    def proof(self) -> tuple[ModeBound, ...]:
        if self.bounds["all"].bound >= self._apart:
            return (self.bounds["all"],)
        return self.bounds["servers"], self.bounds["rest"]


@dataclass
class Placing:
    problem: PlacementProblem
    seconds: float = 10.0
    say: Callable[[str], None] = lambda text: None
    began: float = field(default_factory=time.monotonic)

    def answer(self) -> PlacementAnswer:
        modes = [self._mode(number) for number in range(len(self.problem.modes))]
        self._compiled(modes)
        self.say(f"{len(self.problem.chains)} chains: looking for {self.seconds:g} s")
        for left, mode in zip(range(len(modes), 0, -1), modes, strict=True):
            now = time.monotonic()
            until = now + (self._until(self._looking) - now) / left
            if self.problem.aim == "rate" and LayeredFiller(mode.packer).suits:
                self._placed(mode, now + (until - now) * _ANNEALED)
                self._layered(mode, until)
            else:
                self._placed(mode, until)
        best = self._best(modes)
        self._counted(best)
        for mode in modes:
            self._bounded(mode, best)
        self._told("annealing, and bounds by load", modes, best)
        if best is None or best[0] > self._bound(modes):
            for mode in sorted(modes, key=lambda m: m.best.score if m.best else (9e99, 0.0)):
                self._solved(mode, self._until(0.5))
            best = self._best(modes)
            for left, mode in zip(range(len(modes), 0, -1), modes, strict=True):
                now = time.monotonic()
                until = now + (self._until(0.95) - now) / left
                if self._branched:
                    self._by_branches(mode, best, until)
                else:
                    self._by_patterns(mode, best, until)
                best = self._best(modes)
            self._told("bounds by what lcores can hold", modes, best)
            for mode in modes:
                self._annealed(mode, mode.best, self._until(1.0))
            best = self._best(modes)
        return self._answer(modes, best)

    def _told(
        self, what: str, modes: Sequence[_Mode], best: tuple[int, ChosenPlacement] | None
    ) -> None:
        bound, seconds = self._bound(modes), time.monotonic() - self.began
        far = "no placement yet"
        if best is not None:
            far = "optimal" if best[0] <= bound else "nothing is proved yet"
            if 0 < bound < best[0]:
                far = f"within {best[0] / bound - 1:.1%} of the optimum"
        self.say(f"{seconds:.1f} s, {what}: {far}")

    def _compiled(self, modes: Sequence[_Mode]) -> None:
        """Compiling the loops takes seconds, once after an installation: these are none of those
        that there are to look for a placement."""
        began = time.monotonic()
        self.say("preparing (the first time after an installation this takes some 20 s)")
        for mode in modes[:1]:
            if all(mode.packer.pool):
                Annealer(mode.packer).improve(mode.packer.start(mode.packer.spread(), 1), 0, began)
                if self.problem.aim == "rate":
                    LayeredFiller(mode.packer).met(0, began)
                    AreaBound([{1: 1}], 1, 1, 1).solve(began)
        self.began += time.monotonic() - began

    def _counted(self, best: tuple[int, ChosenPlacement] | None) -> None:
        """How often rates fit is a ratio of whole loads: of small ones it is off by too much."""
        if self.problem.aim != "rate" or best is None or best[0] >= _COUNTED:
            return
        raise BadInput(
            f"demands: what is asked is {round(WHOLE / max(1, best[0]))} times less than what "
            f"there is, and loads are counted in {WHOLE} parts of an lcore; allowed: rates of at "
            f"least {_COUNTED / WHOLE:.0%} of what is carried"
        )

    @cached_property
    def _first(self) -> PlacementProblem:
        return first_server(self.problem)

    @property
    def _many(self) -> bool:
        """They are so many that patterns would take minutes, which placements gain more from."""
        return len(self.problem.chains) > _MANY

    @property
    def _looking(self) -> float:
        """The part of the time that is for a first placement: most of it where no branches are
        made afterwards, little where these have it."""
        if self._many:
            return 0.9
        return _BEFORE_BRANCHES if self._branched else 0.4

    @property
    def _times(self) -> int:
        return len(self.problem.servers) // len(self._first.servers)

    def bound(self) -> int:
        """What is proved without any placement."""
        return self._bound([self._mode(number) for number in range(len(self.problem.modes))])

    @cached_property
    def _ports(self) -> int:
        """How busy ports are at least, by all choices of them; 0: too many, or not what counts."""
        counts = self.problem.aim == "rate" and port_choices(self.problem) <= ENUMERATED_MAX
        return least_busy_ports(self.problem) if counts else 0

    def _until(self, part: float) -> float:
        return self.began + part * self.seconds

    # --- placements ---

    def _mode(self, number: int) -> _Mode:
        tables = WayTables(self._first, self.problem.modes[number])
        full = _FLUID if self.problem.aim == "rate" else self.problem.full
        relaxation = Relaxation(tables, full, times=self._times)
        relaxed = relax(relaxation, self._until(0.25))
        pool: list[list[ChainWay]] = [[] for _ in self.problem.chains]
        for column, _ in sorted(
            zip(relaxed.columns, relaxed.parts, strict=True), key=lambda p: -p[1]
        ):
            pool[column.chain].append(column.way)
        if (
            max(map(len, (areas_of(self._first, s) for s in range(len(self._first.servers)))))
            <= _FEW
        ):
            pool = [[*ways, *cut_once(self._first, c)] for c, ways in enumerate(pool)]
        pool = [everywhere(self.problem, c, ways) for c, ways in enumerate(pool)]
        packer = Packer(self.problem, number, pool)
        mode = _Mode(number, tables, packer, ports=self._ports)
        self._price(mode, relaxation, relaxed, None)
        return mode

    def _placed(self, mode: _Mode, until: float) -> None:
        """A start from the ways that the linear program has most of, and a local search."""
        if any(not several for several in mode.packer.pool):
            return
        ways = mode.packer.spread()
        full = max(1, mode.bound) if self.problem.aim == "rate" else self.problem.full
        draft = mode.packer.start(ways, full)
        if self._times > 1:
            now = time.monotonic()
            draft = self._by_server(mode, draft, now + (until - now) / 2)
        self._annealed(mode, draft, until)

    def _annealed(self, mode: _Mode, draft: Draft | None, until: float) -> None:
        self._keep(mode, draft)
        if draft is None or draft.score[0] <= mode.bound or time.monotonic() >= until:
            return
        if self._small(mode):
            until = min(until, time.monotonic() + _SMALL_S)
        self._keep(mode, Annealer(mode.packer).improve(draft, mode.bound, until))

    def _layered(self, mode: _Mode, until: float) -> None:
        """Areas filled by layers, with chains that change places: in coolings from the beginning,
        each of which has longer than the one before."""
        if any(not several for several in mode.packer.pool):
            return
        filler, seconds = LayeredFiller(mode.packer), _COOLING_S
        while time.monotonic() < until:
            end = min(until, time.monotonic() + seconds)
            self._keep(mode, filler.met(mode.bound, end))
            if mode.best is not None and mode.best.score[0] <= mode.bound:
                return
            filler.seed, seconds = filler.seed + 1, 2 * seconds

    def _small(self, mode: _Mode) -> bool:
        """CP-SAT has all ways."""
        return len(solved.all_arcs(mode.packer)) <= _ALL_ARCS

    def _by_server(self, mode: _Mode, draft: Draft, until: float) -> Draft:
        """Each server's chains by themselves: moves are as fast as on one server. From the server
        that is busiest on, until each is as good as the bound or the time is over."""
        first, packer = self._first, mode.packer
        areas, doors = len(first.areas), len(first.chains[0].doors)
        here: dict[int, list[int]] = {}
        for c, way in enumerate(draft.ways):
            here.setdefault(way.door // doors, []).append(c)
        for left, (server, chains) in zip(range(len(here), 0, -1), here.items(), strict=True):
            some = first.model_copy(update={"chains": tuple(first.chains[c] for c in chains)})
            pool = [
                [way for way in packer.pool[c] if way.door < doors and _within(way, areas)]
                for c in chains
            ]
            alone = Packer(some, mode.number, pool)
            now = time.monotonic()
            ways = [_shifted(draft.ways[c], -server * areas, -server * doors) for c in chains]
            full = max(1, mode.bound) if self.problem.aim == "rate" else self.problem.full
            best = Annealer(alone).improve(
                alone.start(ways, full), mode.bound, now + (until - now) / left
            )
            for i, c in enumerate(chains):
                draft.ways[c] = _shifted(best.ways[i], server * areas, server * doors)
                for slot in [slot for slot in draft.replicas if slot[0] == c]:
                    del draft.replicas[slot]
                for s in range(len(best.ways[i].segments)):
                    draft.replicas[c, s] = best.replicas[i, s]
        packer.pack(draft)
        return draft

    def _keep(self, mode: _Mode, draft: Draft | None) -> None:
        if draft is None or not draft.lcores:
            return
        value = value_of(self.problem, mode.packer.placement(draft))
        if value is None:
            return
        if mode.best is None or value < mode.best.score[0]:
            draft.score = (float(value), 0.0)
            mode.best = draft

    def _solved(self, mode: _Mode, until: float) -> None:
        seconds = until - time.monotonic()
        if seconds <= 0 or not self._small(mode):
            return
        arcs = solved.all_arcs(mode.packer)
        draft, _ = solved.solve(mode.packer, arcs, mode.best, mode.bound, seconds)
        self._keep(mode, draft)

    def _best(self, modes: Sequence[_Mode]) -> tuple[int, ChosenPlacement] | None:
        placed = [m for m in modes if m.best is not None]
        if not placed:
            return None
        mode = min(placed, key=lambda m: m.best.score[0] if m.best else 0.0)
        assert mode.best is not None
        return int(mode.best.score[0]), mode.packer.placement(mode.best)

    def _swiftest(self, value: int, placement: ChosenPlacement, mode: _Mode) -> ChosenPlacement:
        """A tie in what the aim counts goes to less latency. With all lcores full (aim rate) it is
        even loads that count."""
        if mode.best is None or self.problem.aim == "rate":
            return placement
        packer = replace(mode.packer, swift=True)
        draft = Draft(list(mode.best.ways), dict(mode.best.replicas))
        packer.pack(draft)
        draft = Annealer(packer).improve(draft, -1, time.monotonic() + _TIE_S)
        other = packer.placement(draft)
        if value_of(self.problem, other) != value:
            return placement
        return min(placement, other, key=lambda p: sum(loads_of(self.problem, p).latency_ns))

    # --- bounds ---

    def _by_branches(
        self, mode: _Mode, best: tuple[int, ChosenPlacement] | None, until: float
    ) -> None:
        """Chains told apart by where they are: with the aim `rate`, on one server."""
        if best is None or mode.bound >= best[0] or not self._branched:
            return
        relaxation = Relaxation(mode.tables, best[0] - 1)

        def attempt(begins: Begins, full: int, end: float) -> int | None:
            return self._attempted(mode, begins, full, min(end, time.monotonic() + _ATTEMPT_S))

        began = relax(relaxation, until).prices
        branching = Branching(
            relaxation, began, mode.number, mode.bounds["all"], attempt, mode.filler.fits
        )
        tree, _ = branching.solve(best[0], until)
        if tree is not None and tree.bound > mode.bound:
            mode.tree = tree

    @property
    def _branched(self) -> bool:
        problem = self.problem
        return problem.aim == "rate" and len(problem.servers) == 1 and not self._many

    def _attempted(self, mode: _Mode, begins: Begins, full: int, until: float) -> int | None:
        """The value of the best placement, after a look for one among these ways, whose segments
        have their places, in which nothing is fuller than this."""
        ways = [
            ways_through(self.problem, c, [place for some in begins[c] for place in some.places])
            for c in range(len(self.problem.chains))
        ]
        self._keep(mode, mode.filler.met(ways, full, until))
        return None if mode.best is None else int(mode.best.score[0])

    def _bound(self, modes: Sequence[_Mode]) -> int:
        return min(m.bound for m in modes)

    def _bounded(self, mode: _Mode, best: tuple[int, ChosenPlacement] | None) -> None:
        """Loads taken otherwise, and servers counted apart, until the bound is the value."""
        parts: tuple[BoundPart, ...] = ("all",)
        if any(server.fixed for server in self.problem.servers):
            parts = ("servers", "rest", "all")
        steps = _STEPS[:1] if self.problem.aim == "rate" else _STEPS
        for step, part in itertools.product(steps, parts):
            if best is None or mode.bound >= best[0] or time.monotonic() > self._until(1.0):
                return
            full = best[0] - 1 if self.problem.aim == "rate" else self.problem.full
            relaxation = Relaxation(mode.tables, full, step, part, self._times)
            if relaxation.room <= 0:
                return
            self._price(mode, relaxation, relax(relaxation, self._until(1.0)), best[0])

    def _by_patterns(
        self, mode: _Mode, best: tuple[int, ChosenPlacement] | None, until: float
    ) -> None:
        """Lcores filled by patterns. Where the rate is asked for: what would refute a load between
        the bound and the value, then the one that this comes to."""
        if best is None or mode.bound >= best[0] or self._many:
            return
        if self.problem.aim != "rate":
            relaxation = Relaxation(mode.tables, self.problem.full, times=self._times)
            began = relax(relaxation, until).prices
            bound = PatternBound(relaxation, began)
            bound.solve(until, best[0] - 1 + 1e-6)
            self._certified(mode, bound, relaxation.full)
            return
        full = min(best[0] - 1, mode.bound + round(_PART * (best[0] - mode.bound)))
        relaxation = Relaxation(mode.tables, full, times=self._times)
        bound = PatternBound(relaxation, relax(relaxation, until).prices)
        while True:
            value = bound.solve(until, 1 + 1e-6)
            if not self._certified(mode, bound, full):
                self._highest(mode, bound, full)
                return
            further = min(best[0] - 1, int(full * value), full + 1 + full // _FURTHER)
            if further <= full or time.monotonic() > until:
                return
            full = further
            bound = bound.raised(full)

    def _highest(self, mode: _Mode, bound: PatternBound, full: int) -> None:
        """The highest load that the bound's prices refute."""
        low, high = mode.bound - 1, min(full - 1, int(full * bound.ratio) + 1)
        while low < high:
            middle = (low + high + 1) // 2
            if self._certified(mode, bound, middle):
                low = middle
            else:
                high = middle - 1

    def _certified(self, mode: _Mode, bound: PatternBound, full: int) -> bool:
        certificate = bound.certified(mode.number, full)
        if certificate is None:
            return False
        if self.problem.aim == "rate" and (certificate.surplus or 0) <= 0:
            return False
        self._better(mode, certificate)
        return True

    def _price(
        self, mode: _Mode, relaxation: Relaxation, relaxed: Relaxed, value: int | None
    ) -> None:
        prices = in_whole(relaxed.prices)
        if not relaxation.free:
            surplus = relaxation.proven(prices)
            bound = relaxation.bound(surplus) if surplus is not None else (value or 1 << 40)
            self._better(mode, relaxation.certificate(mode.number, bound, surplus, prices))
            return
        high = relaxation.full
        if value is not None and self._refuted(mode, relaxation, high, prices):
            return
        high = min(high, int(high * relaxed.value) + 2)
        low = mode.bounds["all"].bound - 1 if mode.bounds else 0
        while low < high:
            middle = (low + high + 1) // 2
            if self._refuted(mode, relaxation, middle, prices):
                low = middle
            else:
                high = middle - 1

    def _refuted(self, mode: _Mode, relaxation: Relaxation, full: int, prices: Prices) -> bool:
        one = replace(relaxation, full=full)
        if one.room <= 0:
            return True
        surplus = one.proven(prices)
        if surplus is not None and surplus <= 0:
            return False
        self._better(mode, one.certificate(mode.number, full + 1, surplus, prices))
        return True

    def _better(self, mode: _Mode, bound: ModeBound) -> None:
        known = mode.bounds.get(bound.part)
        if known is None or bound.bound > known.bound:
            mode.bounds[bound.part] = bound

    # --- the answer ---

    def _answer(
        self, modes: Sequence[_Mode], best: tuple[int, ChosenPlacement] | None
    ) -> PlacementAnswer:
        bounds = tuple(one for mode in modes for one in mode.proof)
        bound = self._bound(modes)
        enumerated = None
        if (best is None or bound < best[0]) and how_many(self.problem) <= ENUMERATED_MAX:
            placement, enumerated, value = enumerate_all(self.problem)
            best = None if placement is None else (value, placement)
            bound, bounds = value, ()
        if best is None:
            raise HeadraceError(_unmet(self.problem))
        value, placement = best
        if enumerated is None:
            placement = self._swiftest(value, placement, modes[placement.mode])
        by_ports = enumerated is None and min(m.priced for m in modes) < bound
        certificate = Certificate(
            bound=_sound(bound, value),
            modes=bounds,
            trees=tuple(mode.tree for mode in modes if mode.tree) if enumerated is None else (),
            enumerated=enumerated,
            ports=port_choices(self.problem) if by_ports else None,
        )
        certificate = certificate.sealed()
        return PlacementAnswer(
            problem=self.problem, placement=placement, value=value, certificate=certificate
        )


def _sound(bound: int, value: int) -> int:
    """What is proved and what placements are worth are both computed in whole numbers, exactly: the
    solvers of linear programs only propose prices. So there is no tolerance, and a bound above a
    value that was met is wrong, or the value is."""
    if bound > value:
        raise HeadraceError(
            f"no certificate: {bound} was proved to be the least, and a placement has {value}: one "
            "of them is computed wrongly, which is a defect of headrace"
        )
    return bound


def _within(way: ChainWay, areas: int) -> bool:
    return all(key.area < areas for key in way.segments)


def _shifted(way: ChainWay, areas: int, doors: int) -> ChainWay:
    """The same on another server of the same type."""
    segments = tuple(replace(key, area=key.area + areas) for key in way.segments)
    return ChainWay(way.door + doors, segments)


def _unmet(problem: PlacementProblem) -> str:
    lcores = sum(area.cores for area in problem.areas)
    reason = None if problem.aim == "rate" else why_unmet(problem)
    if reason is not None:
        return f"no placement keeps all goals: {reason}"
    return (
        f"no placement was met that keeps all goals of {len(problem.chains)} chains on {lcores} "
        f"cores, none busier than {problem.full / 100:g} %; `--aim rate` says what rates they carry"
    )
