# SPDX-License-Identifier: Apache-2.0
"""Events of an lcore's PMU per packet, under load."""

from __future__ import annotations

import time
from collections.abc import Callable

from headrace.profile import point as points
from headrace.profile.point import RunningPoint

Count = Callable[[], dict[str, float]]

_SETTLE_S, _COUNT_S = 0.3, 0.6
# The load outlasts the counting on a machine that makes this process wait, and is ended then.
_LOAD_S = 8.0


def per_packet(up: RunningPoint, count: Count, rate_pps: float = 0.0) -> dict[str, float]:
    """Counts in the middle of a load, as before and after it the lcore polls for nothing. They are
    of the whole lcore: ring, loop and polls that find nothing are among them. What came in the same
    time divides them, so that it does not matter whether all that was sent came."""
    with points.loaded(up, _LOAD_S, rate_pps):
        time.sleep(_SETTLE_S)
        began, before = time.monotonic(), count()
        first = points.packets(up)
        time.sleep(_COUNT_S)
        ended, after = time.monotonic(), count()
        last = points.packets(up)
    # Rates, not counts: beside busy pollers this process may wait long between two readings.
    packets_per_s = (last.packets - first.packets) / max(1e-9, last.seconds - first.seconds)
    return {
        name: (after[name] - before[name]) / (ended - began) / max(1.0, packets_per_s)
        for name in after
    }
