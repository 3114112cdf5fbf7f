# SPDX-License-Identifier: Apache-2.0
"""Latency and its variation out of the sink's histogram.

numpy and the histogram's library are loaded with the first histogram: a command that measures
nothing starts without them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.record.figures import LatencyNs, PdvNs
from headrace.record.frozen import Record

if TYPE_CHECKING:
    import numpy as np
    from hdrh.histogram import HdrHistogram
    from numpy.typing import NDArray


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
    from hdrh.histogram import HdrHistogram

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


def recorded(histogram: HdrHistogram) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Buckets that have packets, the smallest values first: each one's highest value, ns, and its
    packets. The library's own iterator does this in Python, bucket by bucket, empty ones too."""
    import numpy as np

    counts = np.ctypeslib.as_array(histogram.counts).astype(np.int64)
    index = np.flatnonzero(counts)
    half, shift = histogram.sub_bucket_half_count, histogram.sub_bucket_half_count_magnitude
    # Those of the first bucket's lower half are as fine as its upper one's.
    bucket = np.maximum((index >> shift) - 1, 0)
    inside = np.where(index < half, index, (index & (half - 1)) + half)
    fine = bucket + histogram.unit_magnitude
    return ((inside + 1) << fine) - 1, counts[index]


def percentiles(histogram: HdrHistogram, quantiles: Sequence[float]) -> list[float]:
    """The value, ns, that this share of the packets does not exceed, as the library rounds it."""
    return _percentiles(*recorded(histogram), quantiles)


def _percentiles(
    values: NDArray[np.int64], counts: NDArray[np.int64], quantiles: Sequence[float]
) -> list[float]:
    import numpy as np

    reached = np.cumsum(counts)
    wanted = np.maximum((np.asarray(quantiles) * reached[-1] + 0.5).astype(np.int64), 1)
    return [float(value) for value in values[np.searchsorted(reached, wanted)]]


def latency(one: Histogram) -> LatencyNs | None:
    """Percentiles from the histogram; mean and extremes as the sink counted them, exactly."""
    histogram = decode(one.hdr)
    if histogram is None:
        return None
    low, high = float(one.min_ns), float(one.max_ns)

    quantiles = percentiles(histogram, (0.5, 0.9, 0.99, 0.999))
    # A bucket's value is its upper end, which may lie beyond the largest value seen.
    p50, p90, p99, p999 = (min(max(value, low), high) for value in quantiles)
    return LatencyNs(mean=one.mean_ns, min=low, p50=p50, p90=p90, p99=p99, p999=p999, max=high)


def pdv(latencies: LatencyNs | None) -> PdvNs | None:
    """RFC 5481 section 4.2: each packet's delay less the smallest one."""
    if latencies is None:
        return None
    return PdvNs(p50=latencies.p50 - latencies.min, p99=latencies.p99 - latencies.min)


def pdv_of_ways(several: Sequence[Histogram]) -> PdvNs | None:
    """Takes several directions together: each is a stream of its own, and its delays are held
    against its own smallest one. What the ways differ by all the time is no variation."""
    known = [(decode(one.hdr), one) for one in several]
    streams = [(histogram, one) for histogram, one in known if histogram is not None]
    if len(streams) < 2:
        return pdv(latency(streams[0][1])) if streams else None
    import numpy as np

    values, counts = [], []
    for histogram, one in streams:
        delays, packets = recorded(histogram)
        # A bucket's value is its upper end, which may lie beyond the largest value seen.
        values.append(np.clip(delays, one.min_ns, one.max_ns) - one.min_ns)
        counts.append(packets)
    variation, order = np.concatenate(values), np.argsort(np.concatenate(values))
    p50, p99 = _percentiles(variation[order], np.concatenate(counts)[order], (0.5, 0.99))
    return PdvNs(p50=p50, p99=p99)
