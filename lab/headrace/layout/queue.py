# SPDX-License-Identifier: Apache-2.0
"""How long packets that come at random wait in front of one lcore (M/D/1)."""

from __future__ import annotations

import math

_ROUNDS = 60


def wait_s(load: float, service_s: float, tail: float) -> float:
    """The time that no more than this share of the packets waits longer than. `load`: the part of
    the time that the lcore works, below 1. Waits beyond a few services fall off exponentially, with
    the rate x / service where load (e^x - 1) = x (Asmussen, Applied Probability and Queues, 2003,
    chapter XIII, for services of one length)."""
    if load <= tail:
        return 0.0
    x = _decay(load)
    share = (1 - load) / (load * math.exp(x) - 1)
    return max(0.0, math.log(share / tail) / x) * service_s


def _decay(load: float) -> float:
    """Bisection: the root lies between 0 and where the exponential has won."""
    low, high = 1e-12, 2.0
    while load * math.expm1(high) < high:
        high *= 2
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        if load * math.expm1(middle) < middle:
            low = middle
        else:
            high = middle
    return (low + high) / 2
