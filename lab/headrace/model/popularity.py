# SPDX-License-Identifier: Apache-2.0
"""Caches and replicas where some flows have more packets than others.

A cache that replaces what was used longest ago has an entry that is asked for at rate p with
1 - exp(-p T), where T is such that all of these together fill it (Che et al. 2002, Hierarchical Web
Caching Systems, section III). Where all are asked for alike that is 1 - S/W, as model/amat.py has
it. By Zipf's law the entry of rank i is asked for with a rate of i^-s.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headrace.model.amat import miss_rate

Floats = NDArray[np.float64]
_HEAD, _BINS = 4096, 512  # ranks by themselves; those behind them together
_ROUNDS, _DRAWS = 60, 201


@dataclass(frozen=True)
class ZipfRanks:
    """`count` entries by Zipf's law."""

    count: int
    exponent: float

    @cached_property
    def bins(self) -> tuple[Floats, Floats]:
        """Ranks that are counted together: their part of the entries, and of what is asked."""
        head = np.arange(1, min(self.count, _HEAD) + 1, dtype=np.float64)
        edges, many = head, np.ones_like(head)
        if self.count > _HEAD:
            behind = np.unique(np.geomspace(_HEAD + 1, self.count + 1, _BINS).round())
            edges = np.concatenate([head, np.sqrt(behind[:-1] * (behind[1:] - 1))])
            many = np.concatenate([many, np.diff(behind)])
        asked = many * edges**-self.exponent
        return many / many.sum(), asked / asked.sum()

    def of_busiest(self, replicas: int, even: bool) -> float:
        """The share of the packets that the busiest of these replicas gets: entries in turn, or by
        a hash (the median of draws). What is behind the first ranks is spread evenly."""
        if replicas <= 1:
            return 1.0
        _, asked = self.bins
        head = asked[: min(self.count, _HEAD)]
        rest = float(1 - head.sum()) / replicas
        if even:
            return float(max(head[i::replicas].sum() for i in range(replicas))) + rest
        draw = np.random.default_rng(random.Random(1).getrandbits(32))
        most = [
            np.bincount(draw.integers(0, replicas, len(head)), head, replicas).max()
            for _ in range(_DRAWS)
        ]
        return float(np.median(most)) + rest


def missed(
    size: float,
    sets: Sequence[tuple[float, ZipfRanks | None]],
    own: ZipfRanks | None,
) -> float:
    """The chance that a cache of `size` bytes does not have an entry of a set that is asked for as
    `own` says. `sets`: bytes of all that share the cache; None: asked for evenly."""
    total = sum(bytes_ for bytes_, _ in sets)
    if total <= size or all(ranks is None for _, ranks in sets):
        return miss_rate(size, total)
    low, high = 0.0, 1.0
    while _held(sets, high) < size:
        low, high = high, 2 * high
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        low, high = (middle, high) if _held(sets, middle) < size else (low, middle)
    return _absent(own, high)


def _held(sets: Sequence[tuple[float, ZipfRanks | None]], turn: float) -> float:
    """Bytes that were asked for within a turn; one in which each entry is asked for once, in the
    mean, is 1."""
    return sum(bytes_ * (1 - _cold(ranks, turn)) for bytes_, ranks in sets)


def _cold(ranks: ZipfRanks | None, turn: float) -> float:
    """The part of the entries that were not."""
    if ranks is None:
        return float(np.exp(-turn))
    entries, asked = ranks.bins
    return float((entries * np.exp(-turn * asked / entries)).sum())


def _absent(ranks: ZipfRanks | None, turn: float) -> float:
    """The part of what is asked for that was not asked for within the turn before."""
    if ranks is None:
        return float(np.exp(-turn))
    entries, asked = ranks.bins
    return float((asked * np.exp(-turn * asked / entries)).sum())
