# SPDX-License-Identifier: Apache-2.0
"""Packets of buckets on lcores that come and go: none is lost without being counted, and they wait
as long as queueing theory says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.layout.buckets import (
    ONE_STAGE,
    TICK_S,
    BucketCounts,
    BucketedLcores,
    BucketLoad,
    StagedWork,
)
from headrace.layout.queue import wait_s


def lcores(
    buckets: int = 16, begin: int = 1, most: int = 4, room: int = 4096, moving_s: float = 50e-6,
    start_s: float = 1e-3, work: StagedWork = ONE_STAGE,
) -> BucketedLcores:  # fmt: skip
    load = BucketLoad(np.full(buckets, 1 / buckets), np.full(buckets, moving_s))
    return BucketedLcores(load, most, range(begin), room, start_s, seed=1, work=work)


def let(of: BucketedLcores, pps: float, serves: float, seconds: float = 0.01) -> BucketCounts:
    return of.let(np.full(round(seconds / TICK_S), pps), serves)


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 4_000_000),
            st.sets(st.integers(0, 3), min_size=1),
            st.integers(0, 2**32 - 1),
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 500),
)
def test_packets_are_conserved_whatever_is_moved(
    steps: list[tuple[int, set[int], int]], room: int
) -> None:
    """Changes come before the last ones are through, rings are too small, lcores go and return."""
    here = lcores(room=room)
    for pps, used, seed in steps:
        let(here, pps, 1e6)
        offered, done, dropped, _ = here.total
        assert offered == done + dropped + here.queued
        owners = np.random.default_rng(seed).choice(sorted(used), 16)
        here.change(sorted(used), owners)
    let(here, 0, 1e6, 0.2)
    offered, done, dropped, _ = here.total
    assert here.queued == 0 and offered == done + dropped
    assert set(here.owners) <= set(here.used)


@pytest.mark.parametrize("load", [0.9, 0.95, 0.98])
def test_packets_wait_as_long_as_an_m_d_1_queue_says(load: float) -> None:
    """The mean is Pollaczek's and Khinchine's, load / 2 (1 - load) services. Ticks are shorter than
    the time in which such a queue changes; services last 10 us here."""
    here, serves = lcores(buckets=1, most=1), 1e5
    queued = [let(here, load * serves, serves, 0.05).queued[0] for _ in range(2000)]
    expected = load / (2 * (1 - load)) * load  # Little: packets that wait
    assert np.mean(queued) == pytest.approx(expected, rel=0.2)


def test_the_tail_of_a_wait_is_an_m_d_1_queues() -> None:
    """The wait of 1 in 100, beside packets that are followed one by one (Lindley's recursion)."""
    draw = np.random.default_rng(7)
    gaps, wait, waits = draw.exponential(1 / 0.95, 400_000), 0.0, []
    for gap in gaps:
        waits.append(wait)
        wait = max(0.0, wait + 1 - gap)
    assert wait_s(0.95, 1.0, 0.01) == pytest.approx(float(np.quantile(waits, 0.99)), rel=0.1)
    assert wait_s(0.005, 1.0, 0.01) == 0


def test_an_overload_loses_what_is_over() -> None:
    """3 Mpps onto 2: when the ring is full a third is lost."""
    here = lcores()
    let(here, 3e6, 2e6, 0.1)
    seen = let(here, 3e6, 2e6, 1.0)
    assert seen.dropped / seen.offered == pytest.approx(1 / 3, rel=0.01)
    assert seen.queued[0] == 4096 and seen.waited_s(0.99) == pytest.approx(4096 / 2e6, rel=0.1)


def test_a_new_lcore_works_when_it_has_begun_and_has_its_buckets() -> None:
    """1 ms to begin, and eight buckets of 50 us each; until then all is the first one's."""
    here = lcores(begin=1)
    let(here, 1e5, 1e6)
    assert here.change([0, 1], np.arange(16) % 2) == 8
    first = let(here, 1e5, 1e6, 1e-3)
    assert first.came[1] == 0 and first.pending == 8 and here.lcores == 2
    second = let(here, 1e5, 1e6, 5e-4)
    assert second.pending == 0 and second.moving_s[:2] == pytest.approx([4e-4, 4e-4])
    after = let(here, 1e5, 1e6, 1.0)
    assert after.came[1] == pytest.approx(after.came[0], rel=0.05)
    assert here.core_seconds == pytest.approx(0.01 + 2 * 1.0015)


def test_packets_of_a_bucket_on_its_way_wait_for_it() -> None:
    """One bucket whose move takes 5 ms: its packets wait for all that is left of it."""
    here = lcores(buckets=1, begin=1, moving_s=5e-3)
    here.change([0, 1], np.array([1]))
    let(here, 1e5, 1e6, 1e-3)
    assert here.queued == 0
    let(here, 1e5, 1e6, 4e-3)
    assert here.queued == pytest.approx(400, rel=0.2)
    seen = let(here, 1e5, 1e6, 2e-3)
    assert here.queued < 10 and seen.waited_s(0.99) >= 3e-3


def test_an_lcore_leaves_when_its_buckets_and_packets_have() -> None:
    here = lcores(begin=2)
    let(here, 1e6, 1e6)
    here.change([0], np.zeros(16, np.int64))
    assert here.used == (0,) and here.lcores == 2
    let(here, 1e6, 1e6)
    assert here.lcores == 1 and here.core_seconds == pytest.approx(2 * 0.01 + 0.01, rel=0.1)


# A quarter of a packet's cost is the first stage's: an lcore that does 1 Mpps through both does 4
# Mpps of the first alone, and 1.33 of the second.
SLOW_BEHIND = StagedWork((0.25, 0.75), ring=1024)


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        (0.9e6, 0.9e6),  # nothing is over
        # The first stage takes 0.3 of the time for 1.2 Mpps, the second has 0.7 of it.
        (1.2e6, 0.7e6 / 0.75),
        # Each has the half: 2 Mpps of the first, of which the second does 0.667.
        (5e6, 0.5e6 / 0.75),
    ],
)
def test_work_on_packets_that_are_dropped_behind_it_is_wasted(load: float, expected: float) -> None:
    """By hand, without backpressure. What is done and what is wasted add up to all of the time."""
    here = lcores(begin=1, work=SLOW_BEHIND)
    let(here, load, 1e6, 0.5)
    before = here.wasted_s
    seen = let(here, load, 1e6, 1.0)
    assert seen.done[0] == pytest.approx(expected, rel=0.01)
    wasted = here.wasted_s - before
    assert wasted == pytest.approx(max(0.0, 1 - expected / 1e6) if load > 1e6 else 0.0, abs=0.01)
    assert seen.dropped > 0 or load < 1e6
    offered, done, dropped, _ = here.total
    assert here.held_back == 0 and offered == done + dropped + here.queued


@pytest.mark.parametrize("load", [1.2e6, 5e6])
def test_a_source_that_is_held_back_wastes_nothing(load: float) -> None:
    """With backpressure an overloaded lcore does what it can through both stages, and who was let
    in waits for no more than was told: 200 us are 200 packets."""
    here = lcores(begin=1, work=StagedWork((0.25, 0.75), ring=1024, held_s=200e-6))
    let(here, load, 1e6, 0.5)
    seen = let(here, load, 1e6, 1.0)
    assert seen.done[0] == pytest.approx(1e6, rel=0.005)
    assert here.wasted_s == 0 and seen.dropped == 0
    assert seen.held_back == pytest.approx(load - 1e6, rel=0.01)
    assert 150e-6 < seen.waited_s(0.99) < 320e-6
    offered, done, dropped, _ = here.total
    assert here.held_back > 0 and offered == done + dropped + here.held_back + here.queued


def test_a_source_is_held_back_before_a_ring_is_full() -> None:
    """27 Mpps in 500 us would be 13,500 packets: of a ring of 4096 it is the half."""
    here = lcores(begin=1, work=StagedWork((0.3, 0.3, 0.4), held_s=500e-6))
    for _ in range(100):
        seen = let(here, 120e6, 27e6)
        assert seen.queued[0] <= 2048 + 27e6 * TICK_S
    assert seen.dropped == 0 and here.lost_behind == 0 and seen.held_back > 0
    assert seen.done[0] == pytest.approx(27e6 * 0.01, rel=0.02)


def test_a_part_of_an_lcore_does_that_part_of_the_work() -> None:
    here = lcores(begin=2)
    here.parts = np.array([1.0, 0.5, 1.0, 1.0])
    let(here, 4e6, 1e6, 0.5)
    seen = let(here, 4e6, 1e6, 1.0)
    assert list(seen.done[:2]) == pytest.approx([1e6, 0.5e6], rel=0.01)
    assert here.core_seconds == pytest.approx(1.5 * 1.5)
