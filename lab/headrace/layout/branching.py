# SPDX-License-Identifier: Apache-2.0
"""How good a placement can be at most, its ways being told apart by where each segment is and ends,
and by how many replicas it has (Land and Doig 1960, An Automatic Method of Solving Discrete
Programming Problems). A bound by prices has every chain in two areas by halves; in a leaf of this
tree each is in one, and the areas cannot be filled evenly any more.

One load is refuted at a time, from half way between what is proved and what was met on. All prices
that are known are tried on each part of the placements (price_pool.py), which takes microseconds.
Where none refutes it and each segment has its place, each area is by itself (area_bound.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from headrace.layout.area_bound import AreaBound
from headrace.layout.cheapest import (
    NEVER,
    ORIGINS,
    Array,
    Begin,
    Begins,
    Prices,
    SegmentKey,
    SomeSegments,
)
from headrace.layout.packed import Slot
from headrace.layout.patterns import ItemKind
from headrace.layout.placing import from_door
from headrace.layout.price_pool import LoadTables, PricePool, PricesAt, WholePrices, lifted
from headrace.layout.relaxation import Relaxation
from headrace.spec.placement import Branch, BranchNode, ModeBound, ModeTree, RefutedLeaf

_LOAD_SCALE = 10**9  # of prices of loads, so that costs are exact
_PARTS = 1e-6  # of a number of replicas: less is none
# Looks for a placement among these with nothing fuller than this, until then: the best value.
Attempt = Callable[[Begins, int, float], int | None]
Fits = Callable[[int, list[tuple[Slot, SegmentKey]], int], bool]  # an area, what is in it, how full
Place = tuple[int, int]  # where a segment ends, and its area


class Unrefuted(Exception):
    """Some placements may have the load, as far as can be told, or there was no time to tell."""


class Met(Exception):
    """A placement has the load, or less."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


@dataclass
class _Node:
    """Some of the placements: refuted by prices, or told apart by a segment of a chain."""

    begins: Begins
    refuted: PricesAt | None = None
    chain: int | None = None
    segment: int = 0
    branches: list[_Node] = field(default_factory=list)

    def prices(self) -> Iterator[PricesAt]:
        """Those of all leaves."""
        if self.refuted is not None:
            yield self.refuted
        for branch in self.branches:
            yield from branch.prices()

    def written(self, numbers: Mapping[int, int]) -> BranchNode:
        """`numbers`: of prices, by their identity."""
        if self.refuted is not None:
            number, surplus = numbers[id(self.refuted)], self.refuted.surplus(self.begins)
            assert surplus > 0
            told = None if surplus >= NEVER else int(surplus)
            return BranchNode(refuted=RefutedLeaf(prices=number, surplus=told))
        assert self.chain is not None
        branches = []
        for one in self.branches:
            some = one.begins[self.chain][self.segment]
            branches.append(
                Branch(
                    places=tuple(sorted(some.places)),
                    replicas=some.replicas,
                    node=one.written(numbers),
                )
            )
        return BranchNode(chain=self.chain, segment=self.segment, branches=tuple(branches))


@dataclass
class Branching:
    """One mode of a problem with the aim `rate`. `root`: what is proved of it so far. `attempt`:
    looks for a placement among some of the ways; `fits`: whether an area is known to have room."""

    relaxation: Relaxation
    began: Prices
    number: int
    root: ModeBound
    attempt: Attempt
    fits: Fits

    def solve(self, value: int, until: float) -> tuple[ModeTree | None, int]:
        """The tree, if it proves more than the root, and the lowest value that was met."""
        proved, top, tree = self.root.bound, value - 1, None
        kept = self._begin
        while proved <= min(top, value - 1) and time.monotonic() < until:
            full = (proved + min(top, value - 1)) // 2
            search = _AtLoad(self, full, until, kept)
            try:
                tree = search.refuted({})
                proved = full + 1
            except Met as met:
                value = min(value, met.value)
            except Unrefuted:
                top = full - 1
            kept = [one.prices for one in search.pool.known]
        if tree is None:
            return None, value
        return self._written(tree, proved), value

    def _written(self, tree: _Node, proved: int) -> ModeTree:
        prices = {id(one): one for one in tree.prices()}
        return ModeTree(
            mode=self.number,
            bound=proved,
            prices=tuple(one.bound(self.number) for one in prices.values()),
            node=tree.written({name: number for number, name in enumerate(prices)}),
        )

    @cached_property
    def _begin(self) -> list[WholePrices]:
        """An lcore is worth as much in all areas, or something in one of them alone; and what
        limits and time are worth, too."""
        areas, problem = len(self.relaxation.problem.areas), self.relaxation.problem
        nothing = np.zeros(len(problem.limits)), np.zeros(len(problem.chains))
        rows = [np.ones(areas), *(np.eye(areas) if areas > 1 else ())]
        several = [WholePrices.by_load(Prices(row, *nothing), 1) for row in rows]
        return [*several, WholePrices.by_load(self.began, _LOAD_SCALE)]

    @cached_property
    def lengths(self) -> list[int]:
        return [len(chain.functions) for chain in self.relaxation.problem.chains]

    @cached_property
    def largest(self) -> list[int]:
        """Chains by what they take of lcores, run to completion on their port's node."""
        work = self.relaxation.tables.work
        size = [int(work[c, 0, n].min()) for c, n in enumerate(self.lengths)]
        return sorted(range(len(size)), key=lambda c: -size[c])


@dataclass(frozen=True)
class _Part:
    """A segment that has its place: of a chain, which of its segments, and what it may take."""

    chain: int
    segment: int
    key: SegmentKey
    sizes: dict[int, int]  # by number of replicas


class _AtLoad:
    """Whether any placement has no more than one load."""

    def __init__(self, of: Branching, full: int, until: float, kept: list[WholePrices]) -> None:
        self.of, self.full, self.until = of, full, until
        self.tables = of.relaxation.tables
        self.pool = PricePool(LoadTables(self.tables, full))
        self._bounds: dict[tuple[tuple[SegmentKey, int, tuple[int, ...]], ...], AreaBound] = {}
        for prices in kept:
            self.pool.add(prices)

    def refuted(self, begins: Begins) -> _Node:
        """A tree of these placements, all of whose leaves are refuted."""
        if time.monotonic() > self.until:
            raise Unrefuted
        chains = range(len(self.of.lengths))
        costs = [self.pool.costs(c, begins.get(c, ())) for c in chains]
        total = np.sum(costs, axis=0)
        exceeding = np.flatnonzero(total > self.pool.worth)
        if len(exceeding):
            return _Node(begins, self.pool.known[int(exceeding[0])])
        chain = self._open(begins)
        if chain is not None:
            return self._apart(begins, chain, total - costs[chain])
        return self._by_area(begins)

    def _open(self, begins: Begins) -> int | None:
        """A chain with a segment that has no place yet: first segments first."""
        for c in self.of.largest:
            if c not in begins:
                return c
        for c in self.of.largest:
            if self._end(begins[c]) < self.of.lengths[c]:
                return c
        return None

    def _end(self, begin: Begin) -> int:
        [(end, _)] = begin[-1].places
        return end

    def _places(self, chain: int, begin: Begin) -> list[Place]:
        """Where the next segment may end and be."""
        problem, near = self.tables.problem, self.tables.near
        areas = range(len(problem.areas))
        first = 0
        if begin:
            [(first, before)] = begin[-1].places
            areas_left = [a for a in areas if near[before, a] != ORIGINS]
        else:
            areas_left = list(areas)
        return [(end, a) for end in range(self.of.lengths[chain], first, -1) for a in areas_left]

    def _apart(self, begins: Begins, chain: int, others: Array) -> _Node:
        """Places of the chain's next segment that one of the prices refutes are one branch."""
        begin = begins.get(chain, ())
        node = _Node(begins, chain=chain, segment=len(begin))
        by_prices: dict[int, set[Place]] = {}
        left: list[Place] = []
        for place in self._places(chain, begin):
            some = SomeSegments(frozenset({place}))
            exceeds = others + self.pool.costs(chain, (*begin, some)) > self.pool.worth
            refuting = np.flatnonzero(exceeds)
            if len(refuting):
                by_prices.setdefault(int(refuting[0]), set()).add(place)
            else:
                left.append(place)
        for number, several in by_prices.items():
            here = {**begins, chain: (*begin, SomeSegments(frozenset(several)))}
            node.branches.append(_Node(here, self.pool.known[number]))
        for place in left:
            here = {**begins, chain: (*begin, SomeSegments(frozenset({place})))}
            node.branches.append(self.refuted(here))
        return node

    # --- where each segment has its place ---

    def _by_area(self, begins: Begins) -> _Node:
        bounds: dict[int, tuple[AreaBound, list[_Part]]] = {}
        limited = any(some.replicas for begin in begins.values() for some in begin)
        for area in range(len(self.tables.problem.areas)):
            parts = [one for one in self._parts(begins) if one.key.area == area]
            placed = [((one.chain, one.segment), one.key) for one in parts]
            if not limited and self.of.fits(area, placed, self.full):
                continue
            bound = self._bound(area, parts)
            if bound.refuted:
                one = self._priced(bound, parts, area)
                if one.surplus(begins) > 0:
                    self._known(bound, parts)
                    return _Node(begins, one)
            bounds[area] = bound, parts
        if not limited:
            value = self.of.attempt(begins, self.full, self.until)
            if value is not None and value <= self.full:
                raise Met(value)
        return self._by_replicas(begins, bounds)

    def _parts(self, begins: Begins) -> Iterator[_Part]:
        """All segments. Of a first one's ports, that with which it takes least counts."""
        problem, near = self.tables.problem, self.tables.near
        for c, begin in begins.items():
            first, before = 0, None
            for s, some in enumerate(begin):
                [(end, area)] = some.places
                origins = [
                    from_door(problem, door, area)
                    for door in problem.chains[c].doors
                    if door.server == problem.areas[area].server
                ]
                if before is not None:
                    origins = [int(near[before, area])]
                keys = [SegmentKey(first, end, area, origin) for origin in origins]
                key = min(keys, key=lambda key: self._work(c, key))
                low, high = some.replicas or (1, 1 << 30)
                sizes = self.pool.at.fitting(c, key)
                yield _Part(c, s, key, {k: n for k, n in sizes.items() if low <= k <= high})
                first, before = end, area

    def _work(self, chain: int, key: SegmentKey) -> int:
        return int(self.tables.work[chain, key.first, key.end, key.area, key.origin])

    def _bound(self, area: int, parts: list[_Part]) -> AreaBound:
        name = tuple((one.key, one.chain, tuple(one.sizes)) for one in parts)
        if name not in self._bounds:
            lcores, polled = self._lcores[area], self.tables.problem.lcore_segments
            bound = AreaBound([one.sizes for one in parts], lcores, self.pool.at.of.room, polled)
            bound.solve(self.until)
            self._bounds[name] = bound
        return self._bounds[name]

    @cached_property
    def _lcores(self) -> list[int]:
        return [int(count) for count in self.pool.at.of.lcores()]

    def _priced(self, bound: AreaBound, parts: list[_Part], area: int) -> PricesAt:
        kinds = {
            ItemKind(area, one.chain, one.key.first, one.key.end): prices
            for one, prices in zip(parts, bound.prices, strict=True)
        }
        return PricesAt(WholePrices.by_items(kinds, self.tables.problem), self.pool.at)

    def _known(self, bound: AreaBound, parts: list[_Part]) -> None:
        """The prices are known from now on, in all areas that have as many lcores."""
        for area, lcores in enumerate(self._lcores):
            if lcores == bound.lcores:
                self.pool.add(lifted(self._priced(bound, parts, area)))

    def _by_replicas(
        self, begins: Begins, bounds: dict[int, tuple[AreaBound, list[_Part]]]
    ) -> _Node:
        """Fewer and more replicas of a segment that has some of both, by an area's program: of the
        area that needs most lcores, the segment of which least can be said."""
        ranked = sorted(bounds.values(), key=lambda one: -one[0].needed)
        for bound, parts in ranked:
            best: tuple[float, _Part, int] | None = None
            for one, shares in zip(parts, bound.parts, strict=True):
                total = sum(shares.values())
                middle = int(sum(k * part for k, part in shares.items()) / total)
                few = sum(part for k, part in shares.items() if k <= middle) / total
                even = min(few, 1 - few)
                if even > _PARTS and (best is None or even > best[0]):
                    best = even, one, middle
            if best is not None:
                return self._fewer_or_more(begins, best[1], best[2])
        raise Unrefuted

    def _fewer_or_more(self, begins: Begins, part: _Part, middle: int) -> _Node:
        begin, at = begins[part.chain], part.segment
        node = _Node(begins, chain=part.chain, segment=at)
        spread = self.tables.problem.chains[part.chain].spread
        low, high = begin[at].replicas or (1, len(spread))
        for replicas in ((low, middle), (middle + 1, high)):
            some = SomeSegments(begin[at].places, replicas)
            here = {**begins, part.chain: (*begin[:at], some, *begin[at + 1 :])}
            node.branches.append(self.refuted(here))
        return node
