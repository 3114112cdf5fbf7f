# SPDX-License-Identifier: Apache-2.0
"""What handing a packet to another core costs in a chain, in turn with the ring alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from headrace.profile import chain
from headrace.profile import point as points
from headrace.profile.calibrate import ring
from headrace.profile.point import Bench, PointSample
from headrace.profile.rounds import full_load
from headrace.spec.calibration import RingCost
from headrace.spec.document import Document
from headrace.spec.study import Experiment

_RING_ROUNDS = 5


@dataclass(frozen=True)
class HandOver:
    """Cycles per packet of both sides together; `ring` at the bursts that the chain had."""

    chain: float
    ring: float
    sent: float  # packets at once, where it is given to the other core
    received: float  # and where it is taken there


def measure(
    bench: Bench, doc: Document, experiment: Experiment, lcores: Sequence[int], rounds: int
) -> list[HandOver]:
    """What handing over costs the only function of this experiment. In a chain it is sending,
    receiving, and what the function pays more for a packet that it is the first on its core to
    touch."""
    near, far = chain.near_and_far(bench, doc, experiment, lcores)
    found = []
    for _ in range(rounds):
        alone = ring((lcores[0], lcores[-1]), _RING_ROUNDS)
        samples: list[list[PointSample]] = []
        for one in (near, far):
            with points.running(bench, one, "apart", wait=True) as up:
                points.warm_up(up)
                samples.append(full_load(up, bench.repetitions))
        found.append(hand_over(alone, *samples))
    return found


def hand_over(
    alone: Sequence[RingCost], near: Sequence[PointSample], far: Sequence[PointSample]
) -> HandOver:
    """`near`: sends to the other core; `far`: receives from it."""

    def middle(samples: Sequence[PointSample], part: str) -> float:
        return median(float(getattr(s, part)) for s in samples)

    work = [median(sum(s.nfs.values()) for s in samples) for samples in (near, far)]
    sent, received = middle(near, "burst"), middle(far, "burst")
    return HandOver(
        chain=middle(near, "tx") + middle(far, "rx") + max(0.0, work[1] - work[0]),
        ring=at(alone, "enqueue", sent) + at(alone, "dequeue", received),
        sent=sent,
        received=received,
    )


def at(alone: Sequence[RingCost], side: str, burst: float) -> float:
    """With descriptor and header touched; between two bursts along the logarithm."""
    known = sorted((r.burst, float(getattr(r, side).median)) for r in alone if r.touched)
    return float(
        np.interp(math.log(max(1.0, burst)), [math.log(b) for b, _ in known], [c for _, c in known])
    )
