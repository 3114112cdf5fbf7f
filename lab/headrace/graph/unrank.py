# SPDX-License-Identifier: Apache-2.0
"""The graph of a given number, without making those before it: uniform samples of huge sets.

Numbers are split along Counter.splits by division; choices of VNFs are numbered by the
combinatorial number system (Knuth, TAOCP 4A, 7.2.1.3). The order is not that of streaming.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import comb

from headrace.graph.count import GraphCounter, Split, State
from headrace.graph.enumerate import Graph, Members, Parts, unit_name


def combination(rank: int, n: int, k: int) -> list[int]:
    """The rank-th k-subset of range(n), ascending."""
    chosen = []
    for size in range(k, 0, -1):
        low, high = size - 1, n
        while high - low > 1:  # the largest with comb(., size) <= rank
            middle = (low + high) // 2
            low, high = (middle, high) if comb(middle, size) <= rank else (low, middle)
        chosen.append(low)
        rank -= comb(low, size)
    return chosen[::-1]


def multiset(rank: int, n: int, k: int) -> list[int]:
    """The rank-th multiset of k numbers of range(n), ascending."""
    return [value - i for i, value in enumerate(combination(rank, n + k - 1, k))]


class Unranker:
    """Turns numbers below Counter.total() into graphs."""

    def __init__(self, counter: GraphCounter) -> None:
        self.counter = counter
        self.problem = counter.problem

    def graph(self, rank: int) -> Graph:
        links: list[tuple[Members, Members]] = []  # unit, parent
        rank, core = divmod(rank, self.counter.cores())
        items: Parts = tuple(
            () if c in self.counter.leaves else of.items
            for c, of in enumerate(self.problem.classes)
        )
        for number, choices, below in self.counter.roots():
            weight = choices * self.counter.count(below)
            if core < weight:
                pick, forest = divmod(core, self.counter.count(below))
                members, left = self._pick(number, items, pick)
                links.append((members, ()))
                self._forest(below, left, members, forest, links)
                break
            core -= weight
        for leaf, parents in self.counter.leaf_parents():
            rank, which = divmod(rank, len(parents))
            links.append(((leaf,), (parents[which],)))
        return self._named(links)

    def _forest(
        self,
        state: State,
        items: Parts,
        parent: Members,
        rank: int,
        links: list[tuple[Members, Members]],
    ) -> None:
        if not any(items):
            return
        for split in self.counter.splits(state):
            if rank < split.count:
                self._split(split, items, parent, rank, links)
                return
            rank -= split.count

    def _split(
        self,
        split: Split,
        items: Parts,
        parent: Members,
        rank: int,
        links: list[tuple[Members, Members]],
    ) -> None:
        rank, rest = divmod(rank, split.rests)
        rank, trees = divmod(rank, split.multisets)
        for tree in multiset(trees, split.trees, split.copies):
            taken, items, rank = self._divide(split, items, rank)
            members, left = self._pick(split.unit, taken, rank)
            links.append((members, parent))
            self._forest(split.below, left, members, tree, links)
        self._forest(split.rest, items, parent, rest, links)

    def _divide(self, split: Split, items: Parts, rank: int) -> tuple[Parts, Parts, int]:
        taken: list[Members] = []
        left: list[Members] = []
        first = True
        for c, part in enumerate(items):
            n = split.content[c]
            if not self.counter.labelled[c]:
                chosen = part[:n]
            else:
                fixed = part[:1] if first else ()
                pool = part[len(fixed) :]
                rank, which = divmod(rank, comb(len(pool), n - len(fixed)))
                numbers = combination(which, len(pool), n - len(fixed))
                chosen = fixed + tuple(pool[i] for i in numbers)
                first = first and not part
            taken.append(chosen)
            left.append(tuple(item for item in part if item not in chosen))
        return tuple(taken), tuple(left), rank

    def _pick(self, number: int, items: Parts, rank: int) -> tuple[Members, Parts]:
        members: list[int] = []
        left: list[Members] = []
        for c, n in enumerate(self.problem.units[number].content):
            part = items[c]
            if n and self.counter.labelled[c]:
                rank, which = divmod(rank, comb(len(part), n))
                chosen = tuple(part[i] for i in combination(which, len(part), n))
            else:
                chosen = part[:n]
            members += chosen
            left.append(tuple(item for item in part if item not in chosen))
        return tuple(members), tuple(left)

    def _named(self, links: list[tuple[Members, Members]]) -> Graph:
        return {
            unit_name(self.problem, members): unit_name(self.problem, parent) if parent else None
            for members, parent in links
        }


def sample(counter: GraphCounter, size: int, seed: int) -> Iterator[Graph]:
    """`size` different graphs, each such set equally likely; all when there are fewer."""
    total = counter.total()
    unranker = Unranker(counter)
    if size >= total:
        ranks: list[int] = list(range(total))
    elif total < 1 << 62:
        ranks = random.Random(seed).sample(range(total), size)
    else:  # beyond what sample() takes; a repeated draw is next to impossible, and redrawn
        generator, seen = random.Random(seed), dict[int, None]()
        while len(seen) < size:
            seen[generator.randrange(total)] = None
        ranks = list(seen)
    for rank in ranks:
        yield unranker.graph(rank)
