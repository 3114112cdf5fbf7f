# SPDX-License-Identifier: Apache-2.0
"""Reading a histogram at once, against the library's own iterator, bucket by bucket."""

from __future__ import annotations

from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.record.latency import decode, percentiles, recorded

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
