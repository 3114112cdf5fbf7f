# SPDX-License-Identifier: Apache-2.0
"""Counting chain graphs without listing them, exactly.

A graph is a root over a forest; a forest is split into the tree that holds its first VNF and
the rest. The count depends only on how many VNFs of each class there are (labelled structures:
binomials choose which), on the parent's rules and on what the ancestors gave, so that a table
over those is small. What is left when only interchangeable instances remain is a multiset of
trees, which multisets.py counts; enumerating and unranking take these in falling order, equal
ones as combinations with repetition, which makes isomorphic graphs once. Both use the same splits
in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import comb, prod
from typing import NamedTuple

from headrace.errors import BadInput
from headrace.graph.multisets import Forests
from headrace.graph.problem import NO_LIMIT, Cap, Content, GraphProblem, Unit

STATES_MAX = 1_000_000
STEPS_MAX = 10_000_000  # half a minute or so
_SPLIT_STEPS = 8  # what looking at a split costs, in steps of a multiset's sum
Caps = tuple[int, ...]
# What a multiset of trees depends on: children, caps and gifts of the parent; hops.
_Kind = tuple[tuple[int, ...], tuple[Cap, ...], int, int]
Key = tuple[Content, int]  # of a tree of interchangeable instances: content, root unit


class State(NamedTuple):
    """A forest yet to be built: below whom, of what, with what left to use."""

    parent: int  # unit
    content: Content
    caps: Caps  # how many children each cap of the parent still allows
    given: int  # bits that ancestors gave
    hops: int  # of the forest's roots; 0 where no rule counts them
    before: Key | None  # trees of interchangeable instances must be smaller than this


@dataclass(frozen=True, slots=True)
class Split:
    """`copies` trees with this root and content each, and the rest."""

    unit: int
    content: Content
    copies: int
    below: State  # the forest under the root
    rest: State
    choices: int  # ways to choose which VNFs, and which of them is the root
    trees: int  # forests under the root
    rests: int

    @property
    def multisets(self) -> int:
        return comb(self.trees + self.copies - 1, self.copies)

    @property
    def count(self) -> int:
        return self.choices * self.multisets * self.rests


class GraphCounter:
    """Counts the graphs of one problem; keeps its table for enumerating and sampling."""

    def __init__(self, problem: GraphProblem) -> None:
        self.problem = problem
        self.leaves = problem.free_leaves()
        self.content = tuple(0 if c in self.leaves else n for c, n in enumerate(problem.content))
        self.labelled = tuple(not c.interchangeable for c in problem.classes)
        self._counts: dict[State, int] = {}
        self._splits: dict[State, tuple[Split, ...]] = {}
        self._next: dict[tuple[int, Caps, int, int], list[tuple[int, Caps]]] = {}
        self._forests: dict[_Kind, Forests] = {}
        self._steps = 0

    def total(self) -> int:
        return self.cores() * prod(len(parents) for _, parents in self.leaf_parents())

    def cores(self) -> int:
        """How many graphs there are of all but the free leaves."""
        return sum(choices * self.count(below) for _, choices, below in self.roots())

    def leaf_parents(self) -> list[tuple[int, tuple[int, ...]]]:
        """Each free leaf and the items that may be its parent."""
        classes = self.problem.classes
        return [(item, p) for c, p in self.leaves.items() for item in classes[c].items]

    def roots(self) -> Iterator[tuple[int, int, State]]:
        """Unit, ways to choose its VNFs, forest below: every way to begin a graph."""
        content = self.content
        for number, unit in enumerate(self.problem.units):
            if unit.may_be_root and self._holds(unit, content):
                below = self._below(number, content, given=0, hops=0)
                if below is not None:
                    yield number, self._picks(unit, content), below

    def count(self, state: State) -> int:
        """How many forests there are."""
        known = self._counts.get(state)
        if known is not None:
            return known
        if not any(state.content):
            return 1
        if state.before is None and self._first_labelled(state) is None:
            number = self._multisets(state)
        else:
            number = sum(split.count for split in self.splits(state))
        self._counts[state] = number
        return number

    def _multisets(self, state: State) -> int:
        """Counts forests of which only interchangeable instances are left."""
        parent = self.problem.units[state.parent]
        kind = (parent.children, parent.caps, state.given, state.hops)
        known = self._forests.get(kind)
        if known is None:
            free = state._replace(caps=(NO_LIMIT,) * len(parent.caps))
            units = tuple(
                (number, tuple(int(number in cap.units) for cap in parent.caps))
                for number in parent.children
                if self._allows(free, number, 1) is not None
            )

            def trees(number: int, content: Content) -> int:
                below = self._below(number, content, state.given, state.hops)
                return 0 if below is None else self.count(below)

            known = self._forests[kind] = Forests(trees, units, self._spend)
        return known.count(state.content, state.caps)

    def _first_labelled(self, state: State) -> int | None:
        return next((c for c, n in enumerate(state.content) if n and self.labelled[c]), None)

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > STEPS_MAX:
            raise BadInput(
                "VNFs: the rules tell too many of them apart, or too many are instances, to count "
                f"or list the graphs (more than {STEPS_MAX} steps); allowed: fewer VNFs or "
                "instances, --count alone, which needs fewer steps, or rules over categories"
            )

    def splits(self, state: State) -> tuple[Split, ...]:
        """Every way to take the first tree out of a forest; those that lead nowhere left out."""
        known = self._splits.get(state)
        if known is None:
            if len(self._splits) >= STATES_MAX:
                raise BadInput(
                    f"VNFs: the rules tell too many of them apart to count the graphs (more than "
                    f"{STATES_MAX} states); allowed: fewer VNFs, or rules over categories"
                )
            first = self._first_labelled(state)
            ways = self._repeated(state) if first is None else self._labelled(state, first)
            known = self._splits[state] = tuple(ways)
        return known

    # labelled VNFs ---------------------------------------------------------------------

    def _labelled(self, state: State, first: int) -> Iterator[Split]:
        for number, caps in self._allowed(state):
            unit = self.problem.units[number]
            for content in self._contents(state, unit, caps, first):
                choices = self._choices(state.content, content, first) * self._picks(unit, content)
                split = self._split(state, number, content, caps, 1, choices, None)
                if split is not None:
                    yield split

    def _contents(self, state: State, unit: Unit, caps: Caps, first: int) -> Iterator[Content]:
        """What the tree may hold: all that no other tree of the forest could."""
        left = self._reach(state, caps)
        ranges = []
        for c, available in enumerate(state.content):
            least = max(unit.content[c], 1 if c == first else 0, 0 if c in left else available)
            most = available if c in unit.reach else 0
            if least > most:
                return
            ranges.append(range(least, most + 1))
        yield from product(*ranges)

    def _choices(self, available: Content, taken: Content, first: int) -> int:
        ways = 1
        for c, n in enumerate(available):
            if self.labelled[c]:
                ways *= comb(n - 1, taken[c] - 1) if c == first else comb(n, taken[c])
        return ways

    def _picks(self, unit: Unit, content: Content) -> int:
        ways = 1
        for c, n in enumerate(unit.content):
            if n and self.labelled[c]:
                ways *= comb(content[c], n)
        return ways

    # interchangeable instances ---------------------------------------------------------

    def _repeated(self, state: State) -> Iterator[Split]:
        for content in product(*(range(n, -1, -1) for n in state.content)):
            if not any(content):
                continue
            most = min(n // k for n, k in zip(state.content, content, strict=True) if k)
            for number in reversed(range(len(self.problem.units))):
                if state.before is None or (content, number) < state.before:
                    yield from self._copies(state, number, content, most)

    def _copies(self, state: State, number: int, content: Content, most: int) -> Iterator[Split]:
        for copies in range(1, most + 1):
            caps = self._allows(state, number, copies)
            if caps is None:
                return
            split = self._split(state, number, content, caps, copies, 1, (content, number))
            if split is not None:
                yield split

    # both ------------------------------------------------------------------------------

    def _split(
        self,
        state: State,
        number: int,
        content: Content,
        caps: Caps,
        copies: int,
        choices: int,
        before: Key | None,
    ) -> Split | None:
        self._spend(_SPLIT_STEPS)
        below = self._below(number, content, state.given, state.hops)
        if below is None:
            return None
        left = tuple(n - copies * k for n, k in zip(state.content, content, strict=True))
        rest = State(state.parent, left, caps, state.given, state.hops, before)
        rests = self.count(rest)
        trees = self.count(below) if rests else 0
        if not trees:
            return None
        return Split(number, content, copies, below, rest, choices, trees, rests)

    def _below(self, number: int, content: Content, given: int, hops: int) -> State | None:
        """The forest under a root that holds `content` with it; None where it may not be."""
        unit = self.problem.units[number]
        left = tuple(n - k for n, k in zip(content, unit.content, strict=True))
        if min(left) < 0 or any(left[c] for c in unit.never_below):
            return None
        if unit.needs_children and not any(left):
            return None
        caps = tuple(cap.limit for cap in unit.caps)
        deeper = hops + 1 if self.problem.tracks_hops else 0
        return State(number, left, caps, given | unit.gives, deeper, None)

    def _allowed(self, state: State) -> list[tuple[int, Caps]]:
        """Units that may be a root of the forest, with what the caps then still allow."""
        key = (state.parent, state.caps, state.given, state.hops)
        known = self._next.get(key)
        if known is None:
            known = self._next[key] = [
                (number, caps)
                for number in self.problem.units[state.parent].children
                if (caps := self._allows(state, number, 1)) is not None
            ]
        return known

    def _allows(self, state: State, number: int, copies: int) -> Caps | None:
        unit = self.problem.units[number]
        parent = self.problem.units[state.parent]
        if unit.needs & ~state.given or not unit.may_be_child or number not in parent.children:
            return None
        if unit.hops_max < NO_LIMIT and state.hops > unit.hops_max:
            return None
        caps = tuple(
            left - copies if number in cap.units else left
            for left, cap in zip(state.caps, parent.caps, strict=True)
        )
        return None if caps and min(caps) < 0 else caps

    def _reach(self, state: State, caps: Caps) -> frozenset[int]:
        """Classes that the forest's other trees may hold."""
        rest = state._replace(caps=caps)
        units = self.problem.units
        return frozenset().union(*(units[u].reach for u, _ in self._allowed(rest)))

    @staticmethod
    def _holds(unit: Unit, content: Content) -> bool:
        return all(n >= k for n, k in zip(content, unit.content, strict=True))
