# SPDX-License-Identifier: Apache-2.0
"""Latency and its variation out of the sink's histogram."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from hdrh.histogram import HdrHistogram

from headrace.record.figures import LatencyNs, PdvNs
from headrace.record.frozen import Record


class Histogram(Record):
    """A sink's: latency in nanoseconds; mean and extremes are exact."""

    hdr: str | None = None  # HdrHistogram V2, compressed, base64; None: nothing in it
    count: int = 0
    min_ns: int = 0
    mean_ns: float = 0.0
    max_ns: int = 0
    saturated: int = 0  # beyond the largest bucket


def merged(several: Sequence[Histogram]) -> Histogram:
    """The directions' packets together: a mean of means would weigh a quiet direction too much."""
    some = [one for one in several if one.count]
    if len(several) == 1 or not some:
        return several[0]
    count = sum(one.count for one in some)
    return Histogram(
        hdr=merge([one.hdr for one in some if one.hdr]),
        count=count,
        min_ns=min(one.min_ns for one in some),
        mean_ns=sum(one.mean_ns * one.count for one in some) / count,
        max_ns=max(one.max_ns for one in some),
        saturated=sum(one.saturated for one in some),
    )


def decode(encoded: str | None) -> HdrHistogram | None:
    """None when there is no histogram or nothing in it."""
    if not encoded:
        return None
    try:
        base64.b64decode(encoded, validate=True)
        histogram = HdrHistogram.decode(encoded)
    except (binascii.Error, ValueError, TypeError):
        return None
    return histogram if histogram is not None and histogram.get_total_count() > 0 else None


def merge(encoded: list[str]) -> str | None:
    """Several directions' packets in one histogram."""
    histograms = [h for h in map(decode, encoded) if h is not None]
    if not histograms:
        return None
    first = histograms[0]
    for other in histograms[1:]:
        first.add(other)
    return str(first.encode().decode())


def latency(one: Histogram) -> LatencyNs | None:
    """Percentiles from the histogram; mean and extremes as the sink counted them, exactly."""
    histogram = decode(one.hdr)
    if histogram is None:
        return None
    low, high = float(one.min_ns), float(one.max_ns)

    def at(percentile: float) -> float:
        # A bucket's value is its upper end, which may lie beyond the largest value seen.
        return min(max(float(histogram.get_value_at_percentile(percentile)), low), high)

    return LatencyNs(
        mean=one.mean_ns,
        min=low,
        p50=at(50),
        p90=at(90),
        p99=at(99),
        p999=at(99.9),
        max=high,
    )


def pdv(found: LatencyNs | None) -> PdvNs | None:
    """RFC 5481 section 4.2: each packet's delay less the smallest one."""
    if found is None:
        return None
    return PdvNs(p50=found.p50 - found.min, p99=found.p99 - found.min)
