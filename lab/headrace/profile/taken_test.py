# SPDX-License-Identifier: Apache-2.0
"""Parts of a stage, out of what an engine counted and sampled."""

from __future__ import annotations

import pytest

from headrace.layout.layout import Layout
from headrace.profile.point import PointSample
from headrace.profile.taken import run
from headrace.record.counters import NfReading, ReplicaReading


def sample(counted: int) -> PointSample:
    """1000 packets, each sampled at 300 cycles to receive, 260 in its function, 240 to send."""
    nf = NfReading(type="l2fwd", packets_in=1000, cycles=26_000, cycles_packets=100)
    replica = ReplicaReading(
        segment="a", index=0, cpu=1, packets_in=1000, polls=1000, ops_cycles=counted * 1000,
        rx_cycles=30_000, tx_cycles=24_000, io_packets=100, nfs={"a": nf},
    )  # fmt: skip
    return PointSample({}, 0, 0, 0, 0, 0, 0, 1e6, 1000, 1.0, replicas=(replica,))


def test_parts_are_never_more_than_what_was_counted() -> None:
    """Bursts of one packet: timing the parts of a poll took as long again as the poll."""
    [[part]] = run([sample(400)], Layout((1,), ((1,),)), ["a"]).stages
    assert part.cycles == pytest.approx(400)
    assert (part.rx, part.own, part.tx, part.loop) == pytest.approx((150, 130, 120, 0))


def test_what_no_part_accounts_for_is_the_loop() -> None:
    [[part]] = run([sample(900)], Layout((1,), ((1,),)), ["a"]).stages
    assert (part.rx, part.own, part.tx, part.loop) == pytest.approx((300, 260, 240, 100))
