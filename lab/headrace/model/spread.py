# SPDX-License-Identifier: Apache-2.0
"""How sure a median is."""

from __future__ import annotations

from math import comb


def median_interval(count: int, confidence: float = 0.95) -> tuple[int, int]:
    """Indices into `count` sorted values between which the median lies with this confidence.

    Whatever the distribution, how many of the values are below its median is binomial with 1/2.
    Of too few values: the extremes.
    """
    tail, below, low = (1 - confidence) / 2, 0.0, 0
    for i in range(count // 2):
        below += comb(count, i) / 2**count
        if below > tail:
            break
        low = i
    return low, max(low, count - 1 - low)
