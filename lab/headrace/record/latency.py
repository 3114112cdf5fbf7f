# SPDX-License-Identifier: Apache-2.0
"""Latency and its variation out of the sink's histogram."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from hdrh.histogram import HdrHistogram

from headrace.record.figures import LatencyNs, PdvNs


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


def latency(reading: dict[str, Any]) -> LatencyNs | None:
    """Percentiles from the histogram; mean and extremes as the sink counted them, exactly."""
    histogram = decode(reading.get("hdr"))
    if histogram is None:
        return None
    low, high = float(reading["min_ns"]), float(reading["max_ns"])

    def at(percentile: float) -> float:
        # A bucket's value is its upper end, which may lie beyond the largest value seen.
        return min(max(float(histogram.get_value_at_percentile(percentile)), low), high)

    return LatencyNs(
        mean=float(reading["mean_ns"]),
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
