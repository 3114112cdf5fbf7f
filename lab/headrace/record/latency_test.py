# SPDX-License-Identifier: Apache-2.0
"""Reading a histogram at once, against the library's own iterator, bucket by bucket."""

from __future__ import annotations

from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.record.latency import (
    Histogram,
    decode,
    latency,
    merged,
    pdv,
    pdv_of_ways,
    percentiles,
    recorded,
)

TIMES = st.lists(st.integers(1, 3_000_000_000), min_size=1, max_size=60)


def taken(times: list[int]) -> HdrHistogram:
    histogram = HdrHistogram(1, 3_600_000_000_000, 3)
    for time in times:
        histogram.record_value(time)
    again = decode(histogram.encode().decode())
    assert again is not None
    return again


@settings(max_examples=20, deadline=None)
@given(TIMES)
def test_buckets_are_the_librarys(times: list[int]) -> None:
    histogram = taken(times)
    values, counts = recorded(histogram)
    assert list(zip(values.tolist(), counts.tolist(), strict=True)) == [
        (step.value_iterated_to, step.count_added_in_this_iter_step)
        for step in histogram.get_recorded_iterator()
    ]


@settings(max_examples=20, deadline=None)
@given(TIMES, st.lists(st.floats(0.001, 1), min_size=1, max_size=9))
def test_percentiles_are_the_librarys(times: list[int], quantiles: list[float]) -> None:
    histogram = taken(times)
    assert percentiles(histogram, quantiles) == [
        histogram.get_value_at_percentile(100 * q) for q in quantiles
    ]


def stream(times: list[int]) -> Histogram:
    return Histogram(
        hdr=taken(times).encode().decode(), count=len(times), min_ns=min(times), max_ns=max(times),
        mean_ns=sum(times) / len(times),
    )  # fmt: skip


def test_a_longer_way_back_is_no_variation() -> None:
    """Two microseconds there and fifty back, each always the same: RFC 5481's smallest delay is a
    stream's own."""
    there, back = stream([2000] * 100), stream([50_000] * 100)
    both = pdv_of_ways([there, back])
    assert both is not None and (both.p50, both.p99) == (0, 0)
    together = pdv(latency(merged([there, back])))
    assert together is not None and together.p99 > 40_000  # what the sum of both said


@settings(max_examples=20, deadline=None)
@given(TIMES, TIMES)
def test_variation_of_two_ways_is_within_that_of_each(one: list[int], other: list[int]) -> None:
    each = [pdv_of_ways([stream(times)]) for times in (one, other)]
    both = pdv_of_ways([stream(one), stream(other)])
    assert both is not None and None not in each
    assert each[0] == pdv(latency(stream(one)))
    low, high = sorted(p.p99 for p in each if p is not None)
    assert low <= both.p99 <= high
