# SPDX-License-Identifier: Apache-2.0
"""How good a placement can be at most, its ways being told apart by where each chain's first
segment is and ends (Land and Doig 1960, An Automatic Method of Solving Discrete Programming
Problems). A bound by prices has every chain in two areas by halves; in a leaf of this tree large
chains are whole in one, and the areas cannot be filled evenly any more.

The leaf with the lowest bound is next: it is told apart further, or bounded by patterns
(pattern_bound.py) where there is nothing more to tell apart that matters.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from headrace.layout.cheapest import NEVER, Firsts, PricedWays, Prices
from headrace.layout.pattern_bound import PatternBound
from headrace.layout.relaxation import SCALE, Relaxation
from headrace.spec.placement import Branch, BranchNode, ModeBound, ModeTree

_PATTERN_S = 2.0  # for one leaf, and one load
_ASKED = 5  # loads
Attempt = Callable[[Firsts, float], int | None]  # a value that was met among these; until when


@dataclass
class _Leaf:
    """`by_patterns`: its bound is; `told_apart`: the chain and what became of it."""

    firsts: Firsts
    bound: ModeBound
    by_patterns: bool = False
    told_apart: tuple[int, list[_Leaf]] | None = None

    def node(self) -> BranchNode:
        if self.told_apart is None:
            return BranchNode(refuted=self.bound)
        chain, leaves = self.told_apart
        branches = tuple(
            Branch(firsts=tuple(sorted(leaf.firsts[chain])), node=leaf.node()) for leaf in leaves
        )
        return BranchNode(chain=chain, branches=branches)


@dataclass
class Branching:
    """One mode of a problem with the aim `rate`. `root`: what is proved of it so far. `attempt`:
    looks for a placement among some of the ways."""

    relaxation: Relaxation
    began: Prices
    number: int
    root: ModeBound
    attempt: Attempt
    _order: Iterator[int] = field(default_factory=itertools.count)

    def solve(self, value: int, until: float) -> tuple[ModeTree, int]:
        """The tree, and the lowest value that was met meanwhile."""
        first = _Leaf({}, self.root)
        heap = [(self.root.bound, 0, next(self._order), first)]
        least = self.root.bound
        while heap:
            least = heap[0][0]
            if least >= value or time.monotonic() > until:
                break
            *_, leaf = heapq.heappop(heap)
            leaves = self._further(leaf, value, until)
            if leaves is None:  # nothing more to tell apart
                break
            for one in leaves:
                if one.by_patterns and one.bound.bound < value:
                    met = self.attempt(one.firsts, until)
                    value = value if met is None else min(value, met)
                depth = -len(one.firsts)
                heapq.heappush(heap, (one.bound.bound, depth, next(self._order), one))
        else:
            least = value
        return ModeTree(mode=self.number, bound=min(least, value), node=first.node()), value

    def _further(self, leaf: _Leaf, value: int, until: float) -> list[_Leaf] | None:
        """What takes its place in the list of leaves."""
        left = [c for c in self._largest if c not in leaf.firsts]
        if left:
            return self._apart(leaf, left[0], self._coarse(left[0]), value)
        if not leaf.by_patterns:
            leaf.bound, leaf.by_patterns = self._by_patterns(leaf, value, until), True
            return [leaf]
        several = {c: firsts for c, firsts in leaf.firsts.items() if len(firsts) > 1}
        if not several:
            return None
        chain = max(several, key=lambda c: len(several[c]))
        single = [frozenset({one}) for one in sorted(several[chain])]
        return self._apart(leaf, chain, single, value)

    def _apart(
        self, leaf: _Leaf, chain: int, sets: list[frozenset[tuple[int, int]]], value: int
    ) -> list[_Leaf]:
        leaves = []
        for some in sets:
            firsts = {**leaf.firsts, chain: some}
            leaves.append(_Leaf(firsts, self._by_load(firsts, leaf.bound, value)))
        leaf.told_apart = chain, leaves
        return leaves

    @cached_property
    def _largest(self) -> list[int]:
        """Chains by what they take of lcores, run to completion on their port's node."""
        work = self.relaxation.tables.work
        size = [int(work[c, 0, n].min()) for c, n in enumerate(self._lengths)]
        return sorted(range(len(size)), key=lambda c: -size[c])

    @property
    def _lengths(self) -> list[int]:
        return [len(chain.functions) for chain in self.relaxation.problem.chains]

    def _coarse(self, chain: int) -> list[frozenset[tuple[int, int]]]:
        """Whole in each of the areas; or cut."""
        n, areas = self._lengths[chain], range(len(self.relaxation.problem.areas))
        cut = frozenset((end, area) for end in range(1, n) for area in areas)
        return [*(frozenset({(n, area)}) for area in areas), *([cut] if cut else [])]

    # --- bounds of a leaf ---

    def _at(self, firsts: Firsts, full: int) -> Relaxation:
        tables = self.relaxation.tables.narrowed(firsts)
        return Relaxation(tables, full, 0, "all", self.relaxation.times)

    @cached_property
    def _prices(self) -> list[Prices]:
        """An lcore is worth as much in all areas, or something in one of them alone."""
        areas, problem = len(self.relaxation.problem.areas), self.relaxation.problem
        nothing = np.zeros(len(problem.limits)), np.zeros(len(problem.chains))
        rows = [np.ones(areas), *(np.eye(areas) if areas > 1 else ())]
        return [Prices(row, *nothing) for row in rows]

    def _by_load(self, firsts: Firsts, known: ModeBound, value: int) -> ModeBound:
        """The highest load that one of the prices refutes, if it is above what is known."""
        low, high, best = known.bound - 1, value - 1, None
        middle = high  # it is this one, mostly, or none
        while low < high:
            at = self._at(firsts, middle)
            refutes = [prices for prices in self._prices if self._exceeds(at, prices)]
            if refutes:
                low, best = middle, refutes[0]
            else:
                high = middle - 1
            middle = (low + high + 1) // 2
        return known if best is None else self._certified(self._at(firsts, low), best, known)

    def _exceeds(self, at: Relaxation, prices: Prices) -> bool:
        if at.room <= 0:
            return False
        ways = PricedWays.at(at.tables, at.tables.shares(at.room, 0), prices, float(at.whole))
        least = ways.least()
        worth = float(np.dot(prices.areas, at.lcores())) * at.whole
        return bool(max(least) >= NEVER or sum(least) > worth)

    def _certified(self, at: Relaxation, prices: Prices, known: ModeBound) -> ModeBound:
        whole = Prices(
            np.array([int(p) * SCALE for p in prices.areas], dtype=object),
            prices.limits.astype(int).astype(object), prices.chains.astype(int).astype(object),
        )  # fmt: skip
        surplus = at.proven(whole)
        if surplus is not None and surplus <= 0:  # it was a rounding error that exceeded
            return known
        return at.certificate(self.number, at.full + 1, surplus, whole)

    def _by_patterns(self, leaf: _Leaf, value: int, until: float) -> ModeBound:
        """The highest load that patterns refute, if it is above what is known. Prices that are best
        at one load are not at another one: they are asked for anew where the program is even."""
        best, low, high = leaf.bound, leaf.bound.bound - 1, value - 1
        full = high
        for _ in range(_ASKED):
            if low >= high or time.monotonic() > until:
                break
            bound = PatternBound(self._at(leaf.firsts, full), self.began)
            bound.solve(min(until, time.monotonic() + _PATTERN_S), 1 + 1e-6)
            best = self._highest(bound, best, low, high)
            high = min(high, full - 1) if best.bound <= full else high
            low = best.bound - 1
            even = int(full * bound.ratio) if 0 < bound.ratio < 1 else (low + high + 1) // 2
            full = min(high, max(low + 1, even))
        return best

    def _highest(self, bound: PatternBound, known: ModeBound, low: int, high: int) -> ModeBound:
        """The highest of these loads that the best prices of the bound refute."""
        best, middle = known, high
        while low < high and bound.best is not None:
            one = bound.certified(self.number, middle)
            if one is not None and (one.surplus or 0) > 0:
                low, best = middle, one
            else:
                high = middle - 1
            middle = (low + high + 1) // 2
        return best
