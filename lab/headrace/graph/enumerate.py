# SPDX-License-Identifier: Apache-2.0
"""Streaming chain graphs, each once, the first at once however many there are.

Built incrementally (NfvInsight algorithm 1), but never into a dead end: Counter.splits only holds
ways that lead to a graph. A graph is text, the JSON members `"child":"parent"` of its links. Since
the links of disjoint parts do not depend on each other, the texts of small forests are kept and put
together by concatenation, a list at a time: that is where the speed comes from.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, combinations, combinations_with_replacement, product
from math import prod

from headrace.graph.count import GraphCounter, Split, State
from headrace.graph.problem import GraphProblem
from headrace.record.frozen import Record

Members = tuple[int, ...]  # items of one unit
Parts = tuple[Members, ...]  # items per class
Lists = Callable[[], Iterator[list[str]]]  # begun anew at each call
Graph = dict[str, str | None]  # VNF -> parent; None for the root; "a|b": a and b in parallel


class ChainCount(Record):
    """What `headrace chains --count` prints."""

    count: int


class ChainGraphs(Record):
    """What `headrace chains` prints."""

    count: int
    graphs: tuple[Graph, ...]


KEPT_FOREST = 4096  # graphs in a forest that is worth keeping
KEPT_TOTAL = 1_000_000  # graphs kept in all
BATCH = 16_384


class Enumerator:
    """Yields the graphs of a counted problem as batches of JSON objects."""

    def __init__(self, counter: GraphCounter) -> None:
        self.counter = counter
        self.problem = counter.problem
        self._kept: dict[tuple[State, Parts, Members], list[str]] = {}
        self._kept_graphs = 0

    def batches(self) -> Iterator[list[str]]:
        leaves = self._leaf_texts()
        for core in self._cores():
            if leaves == [""]:
                yield [f"{{{text}}}" for text in core]
            elif leaves is not None and len(leaves) <= BATCH:
                for text in core:
                    yield [f"{{{text}{leaf}}}" for leaf in leaves]
            else:
                for text in core:
                    yield from self._with_leaves(text)

    def _leaf_texts(self) -> list[str] | None:
        """Every way to hang the free leaves; None when they are too many to keep."""
        if prod(len(parents) for _, parents in self.counter.leaf_parents()) > BATCH:
            return None
        return ["".join(texts) for texts in product(*self._leaf_links())]

    def _leaf_links(self) -> list[list[str]]:
        return [
            [self._link((leaf,), (parent,)) for parent in parents]
            for leaf, parents in self.counter.leaf_parents()
        ]

    def _with_leaves(self, core: str) -> Iterator[list[str]]:
        *head, last = self._leaf_links()
        for texts in product(*head):
            text = core + "".join(texts)
            yield [f"{{{text}{leaf}}}" for leaf in last]

    def _cores(self) -> Iterator[list[str]]:
        items: Parts = tuple(
            () if c in self.counter.leaves else of.items
            for c, of in enumerate(self.problem.classes)
        )
        for number, _, below in self.counter.roots():
            if self.counter.count(below):
                for members, left in self._pick(number, items):
                    head = f"{self._name(members)}:null"
                    for batch in self._forests(below, left, members):
                        yield [head + text for text in batch]

    # forests ---------------------------------------------------------------------------

    def _forests(self, state: State, items: Parts, parent: Members) -> Iterator[list[str]]:
        if not any(items):
            return iter(([""],))
        if self.counter.count(state) > KEPT_FOREST:
            return self._build(state, items, parent)
        key = (state, items, parent)
        kept = self._kept.get(key)
        if kept is None:
            kept = list(chain.from_iterable(self._build(state, items, parent)))
            if self._kept_graphs > KEPT_TOTAL:
                self._kept.clear()
                self._kept_graphs = 0
            self._kept[key] = kept
            self._kept_graphs += len(kept)
        return iter((kept,))

    def _build(self, state: State, items: Parts, parent: Members) -> Iterator[list[str]]:
        for split in self.counter.splits(state):
            if split.copies > 1:
                yield from self._several(split, items, parent)
                continue
            for tree, rest in self._divide(split, items):
                yield from self._joined(
                    partial(self._trees, split, tree, parent),
                    partial(self._forests, split.rest, rest, parent),
                )

    @staticmethod
    def _joined(left: Lists, right: Lists) -> Iterator[list[str]]:
        for batch in left():
            for other in right():
                if len(batch) * len(other) <= BATCH:
                    yield [a + b for a in batch for b in other]
                else:
                    for a in batch:
                        yield [a + b for b in other]

    def _trees(self, split: Split, items: Parts, parent: Members) -> Iterator[list[str]]:
        for members, left in self._pick(split.unit, items):
            head = self._link(members, parent)
            for batch in self._forests(split.below, left, members):
                yield [head + text for text in batch]

    def _several(self, split: Split, items: Parts, parent: Members) -> Iterator[list[str]]:
        """Equal trees of interchangeable instances: each multiset of them once.

        The copies' trees come in the same order, because which instances they hold does not
        matter to it; so a multiset of positions is a multiset of trees.
        """
        copies: list[list[str]] = []
        left = items
        for _ in range(split.copies):
            tree = tuple(part[:n] for part, n in zip(left, split.content, strict=True))
            left = tuple(part[n:] for part, n in zip(left, split.content, strict=True))
            copies.append(list(chain.from_iterable(self._trees(split, tree, parent))))
        for rest in self._forests(split.rest, left, parent):
            for places in combinations_with_replacement(range(len(copies[0])), split.copies):
                head = "".join(copy[i] for copy, i in zip(copies, places, strict=True))
                yield [head + text for text in rest]

    # which items -----------------------------------------------------------------------

    def _divide(self, split: Split, items: Parts) -> Iterator[tuple[Parts, Parts]]:
        """Items of the split's tree, and those left. The first labelled item is in the tree."""
        choices: list[list[tuple[Members, Members]]] = []
        first = True
        for c, part in enumerate(items):
            n = split.content[c]
            if not self.counter.labelled[c]:
                choices.append([(part[:n], part[n:])])
                continue
            choices.append(list(_choose(part, n, with_first=first and bool(part))))
            first = first and not part
        for choice in product(*choices):
            yield tuple(taken for taken, _ in choice), tuple(left for _, left in choice)

    def _pick(self, number: int, items: Parts) -> Iterator[tuple[Members, Parts]]:
        """The unit's own items out of a tree's, and those below it."""
        choices: list[list[tuple[Members, Members]]] = []
        for c, n in enumerate(self.problem.units[number].content):
            part = items[c]
            if n and self.counter.labelled[c]:
                choices.append(list(_choose(part, n, with_first=False)))
            else:
                choices.append([(part[:n], part[n:])])
        for choice in product(*choices):
            members = tuple(chain.from_iterable(taken for taken, _ in choice))
            yield members, tuple(left for _, left in choice)

    def _link(self, members: Members, parent: Members) -> str:
        return f",{self._name(members)}:{self._name(parent)}"

    def _name(self, members: Members) -> str:
        return json.dumps(unit_name(self.problem, members))


def unit_name(problem: GraphProblem, members: Members) -> str:
    """`nat`, or `ids|monitor` for two in parallel with a join."""
    return "|".join(problem.items[m].name for m in members)


def _choose(part: Members, n: int, *, with_first: bool) -> Iterator[tuple[Members, Members]]:
    pool, fixed = (part[1:], part[:1]) if with_first else (part, ())
    for others in combinations(pool, n - len(fixed)):
        taken = fixed + others
        yield taken, tuple(item for item in part if item not in taken)


def stream(counter: GraphCounter) -> Iterator[str]:
    """Each graph as one JSON object."""
    return chain.from_iterable(Enumerator(counter).batches())


def parse(text: str) -> Graph:
    graph: Graph = json.loads(text)
    return graph
