# SPDX-License-Identifier: Apache-2.0
"""How many multisets of trees hold given numbers of interchangeable instances.

With T(k) trees of content k, forests have the generating function prod_k (1 - x^k)^-T(k). Its
logarithmic derivative in one class c gives (Flajolet & Sedgewick, Analytic Combinatorics, I.2.2)

    n_c F(n) = sum over k and copies m of  k_c T(k) F(n - m k)

which needs no order among the trees: as many steps as pairs of contents, where taking the trees in
falling order needs a table over the last one taken, too. What the parent's caps still allow goes
along, as each copy takes the same from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from operator import mul, sub

Numbers = tuple[int, ...]


@dataclass
class Forests:
    """Counts forests below one kind of parent, with what its ancestors gave."""

    trees: Callable[[int, Numbers], int]  # with this unit as root and this content
    units: tuple[tuple[int, Numbers], ...]  # who may be a root, and what one takes from each cap
    spend: Callable[[int], None]
    _known: dict[tuple[Numbers, Numbers], int] = field(default_factory=dict)
    _weights: dict[Numbers, tuple[tuple[Numbers, int], ...]] = field(default_factory=dict)

    def count(self, content: Numbers, caps: Numbers) -> int:
        if not any(content):
            return 1
        most = sum(content)  # of roots: a cap above it does not bind
        key = content, tuple(min(cap, most) for cap in caps)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._counted(*key)
        return known

    def _counted(self, content: Numbers, caps: Numbers) -> int:
        total = steps = 0
        for part in _parts(content):
            steps += 1
            weights = self._weights.get(part)
            if weights is None:
                weights = self._weights[part] = self._weighed(part)
            for takes, weight in weights:
                left = tuple(map(sub, caps, takes))
                if not left or min(left) >= 0:
                    total += weight * self.count(tuple(map(sub, content, part)), left)
        self.spend(steps)
        return total // next(filter(None, content))

    def _weighed(self, part: Numbers) -> tuple[tuple[Numbers, int], ...]:
        """k_c T(k) of all m k that are this part, by what they take from the caps."""
        weights: dict[Numbers, int] = {}
        for copies in range(1, max(part) + 1):
            if any(n % copies for n in part):
                continue
            one = tuple(n // copies for n in part)
            for unit, cap in self.units:
                trees = self.trees(unit, one)
                if trees:
                    takes = tuple(map(mul, cap, (copies,) * len(cap)))
                    of_class = next(filter(None, one))
                    weights[takes] = weights.get(takes, 0) + of_class * trees
        return tuple(weights.items())


def _parts(content: Numbers) -> Iterator[Numbers]:
    """All parts of a content that hold one of the first class that there is."""
    first = next(c for c, n in enumerate(content) if n)
    return product(*(range(1 if c == first else 0, n + 1) for c, n in enumerate(content)))
