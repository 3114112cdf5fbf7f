# SPDX-License-Identifier: Apache-2.0
"""What interruptions of lcores do to latency.

A kernel's ticks and a host's interrupts take an lcore some hundred times a second, for longer than
most packets are under way: where they take 2 % of the time, they are the 99th percentile, whatever
the layout. While an lcore is away packets queue: whoever came at the beginning waits for all of it,
whoever came at its end for the work that piled up meanwhile, which takes as long again as the
lcores are busy anyhow. In the mean the delay falls evenly from the whole interruption to nothing,
over 1 / (1 - utilisation) times as many packets as came within it. All of them leave each segment
with the burst that they are in, which is a full one where as many wait: that is beyond the delay.

The source's lcore is late itself. When it is back, the source makes CREDIT packets at once and the
others at 8/7 of its rate, lest the chain be charged with a burst that only a generator makes
(engine/link/due.h): while it makes up for what it is late by, 8 times as much comes late.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

CREDIT = 64  # packets that the source makes back to back
_CATCHING_UP = 8
_STEPS = 60  # of a bisection: to far less than a cycle


@dataclass(frozen=True)
class Gap:
    """Interruptions of an lcore of about one length."""

    per_cycle: float
    cycles: float
    behind: float = 0.0  # what the bursts take in which packets leave that waited for its end
    credit: float | None = None  # of the source's lcore: cycles in which CREDIT packets are due


def delayed(gaps: Iterable[Gap], spare: float, beyond: float) -> float:
    """The share of packets that interruptions delay by more than so many cycles. `spare`: the share
    of its time in which the busiest lcore of their way has nothing to do."""
    return sum(gap.per_cycle * _longer(gap, spare, beyond) for gap in gaps)


def _longer(gap: Gap, spare: float, beyond: float) -> float:
    """In how many cycles packets come that one interruption delays by more than so many."""
    queued = min(gap.cycles, max(0.0, gap.cycles + gap.behind - beyond))
    if gap.credit is None or gap.cycles <= gap.credit:
        return queued / spare
    later = gap.cycles - gap.credit  # by so much is the first one that is not made at once
    caught_up = min(gap.credit, queued) + _CATCHING_UP * max(0.0, later - beyond)
    return max(queued / spare, caught_up)


def quantile(latencies: Sequence[float], gaps: Sequence[Gap], spare: float, share: float) -> float:
    """What so many have at most, of sorted latencies without interruptions, with these: few packets
    meet two of them."""
    middle = latencies[(len(latencies) - 1) // 2]

    def later(than: float) -> float:
        undisturbed = 1 - bisect_right(latencies, than) / len(latencies)
        return undisturbed + delayed(gaps, spare, max(0.0, than - middle))

    longest = max((gap.cycles + gap.behind for gap in gaps), default=0.0)
    low, high = 0.0, latencies[-1] + longest
    for _ in range(_STEPS):
        at = (low + high) / 2
        low, high = (at, high) if later(at) > 1 - share else (low, at)
    return high
