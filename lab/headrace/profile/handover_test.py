# SPDX-License-Identifier: Apache-2.0
"""A chain's hand-over beside the ring's, at the bursts that the chain had."""

from __future__ import annotations

import pytest

from headrace.profile.handover import at, hand_over
from headrace.profile.point import PointSample
from headrace.spec.calibration import Figure, RingCost


def figure(value: float) -> Figure:
    return Figure(median=value, min=value, max=value)


def ring(burst: int, enqueue: float, touched: bool = True) -> RingCost:
    return RingCost(
        burst=burst,
        touched=touched,
        enqueue=figure(enqueue),
        dequeue=figure(2 * enqueue),
        total=figure(0),
        same_core=figure(0),
    )


def sample(nf: float, rx: float, tx: float, burst: float) -> PointSample:
    return PointSample(
        nfs={"nf": nf},
        rx=rx,
        tx=tx,
        loop=0,
        source=0,
        source_tx=0,
        sink=0,
        throughput_pps=1e6,
        packets=1,
        passed=1,
        burst=burst,
    )


RINGS = [ring(32, 20), ring(1, 100), ring(8, 40), ring(8, 7, touched=False)]


def test_between_two_bursts() -> None:
    assert at(RINGS, "enqueue", 32) == 20
    assert at(RINGS, "dequeue", 1) == 200
    assert at(RINGS, "enqueue", 16) == pytest.approx(30)
    assert at(RINGS, "enqueue", 0) == 100 and at(RINGS, "enqueue", 64) == 20


def test_both_sides_and_the_first_touch() -> None:
    near = [sample(30, 9, 20, 32), sample(32, 9, 22, 32), sample(90, 9, 90, 32)]
    far = [sample(50, 40, 9, 8)]
    found = hand_over(RINGS, near, far)
    assert found.chain == 22 + 40 + (50 - 32)
    assert found.ring == 20 + 80
    # A function that is faster on packets from elsewhere: noise, and no gain.
    assert hand_over(RINGS, near, [sample(1, 40, 9, 8)]).chain == 22 + 40
