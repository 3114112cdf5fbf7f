# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest

from headrace.model.popularity import ZipfRanks, missed


def least_recently_used(asked: list[tuple[str, int]], room: int) -> dict[str, float]:
    """Misses of each set in a cache of so many entries, by going through all that was asked for."""
    cache: OrderedDict[tuple[str, int], None] = OrderedDict()
    seen, lost = {"a": 0, "b": 0}, {"a": 0, "b": 0}
    for number, entry in enumerate(asked):
        warm = number > len(asked) // 4
        seen[entry[0]] += warm
        if entry in cache:
            cache.move_to_end(entry)
            continue
        lost[entry[0]] += warm
        cache[entry] = None
        if len(cache) > room:
            cache.popitem(last=False)
    return {name: lost[name] / max(1, seen[name]) for name in seen}


def by_rank(draw: np.random.Generator, count: int, exponent: float, many: int) -> list[int]:
    weights = np.arange(1, count + 1) ** -exponent
    return [int(i) for i in draw.choice(count, many, p=weights / weights.sum())]


@pytest.mark.parametrize("exponent", [0.6, 1.0, 1.4])
@pytest.mark.parametrize("room", [50, 400])
def test_what_a_cache_misses_is_what_going_through_a_trace_finds(
    exponent: float, room: int
) -> None:
    draw = np.random.default_rng(1)
    trace = [("a", i) for i in by_rank(draw, 2000, exponent, 120_000)]
    ranks = ZipfRanks(2000, exponent)
    expected = missed(room * 64.0, [(2000 * 64.0, ranks)], ranks)
    assert expected == pytest.approx(least_recently_used(trace, room)["a"], rel=0.04)


def test_a_set_that_is_asked_for_evenly_beside_one_by_rank() -> None:
    """Each packet asks for one entry of both, which are as many."""
    draw, ranks = np.random.default_rng(2), ZipfRanks(1000, 1.0)
    popular = by_rank(draw, 1000, 1.0, 80_000)
    trace = [one for i in popular for one in (("a", i), ("b", int(draw.integers(0, 1000))))]
    lost, sets = least_recently_used(trace, 600), [(1000.0, ranks), (1000.0, None)]
    assert missed(600.0, sets, ranks) == pytest.approx(lost["a"], rel=0.05)
    assert missed(600.0, sets, None) == pytest.approx(lost["b"], rel=0.05)


def test_entries_that_are_asked_for_alike_miss_as_ever() -> None:
    flat = ZipfRanks(100_000, 1e-9)
    assert missed(300.0, [(1000.0, flat)], flat) == pytest.approx(0.7, rel=0.01)
    assert missed(300.0, [(1000.0, None)], None) == pytest.approx(0.7)
    assert missed(1000.0, [(1000.0, flat)], flat) == 0


@pytest.mark.parametrize("count", [3000, 1_000_000])
def test_ranks_that_are_counted_together_are_all_there(count: int) -> None:
    """The first of a million by Zipf has 1 / (ln n + 0.5772), by the harmonic numbers."""
    entries, asked = ZipfRanks(count, 1.0).bins
    assert entries.sum() == pytest.approx(1) and asked.sum() == pytest.approx(1)
    assert asked[0] == pytest.approx(1 / (np.log(count) + 0.57722), rel=0.003)


def test_the_busiest_replica_has_the_most_popular_flow() -> None:
    """Three flows in turn over two replicas: the first has 1 + 1/3 of 11/6. By a hash it is one of
    eight ways to put them, each as likely, of which three in four give the first one another."""
    assert ZipfRanks(3, 1.0).of_busiest(2, even=True) == pytest.approx((1 + 1 / 3) / (11 / 6))
    ways = sorted(
        max(sum(1 / i for i in side), 11 / 6 - sum(1 / i for i in side)) / (11 / 6)
        for side in ((), (3,), (2,), (2, 3))
    )
    assert ZipfRanks(3, 1.0).of_busiest(2, even=False) == pytest.approx(ways[1])
    assert ways[1] == pytest.approx(ways[2], rel=0.2)
