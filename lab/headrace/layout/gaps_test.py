# SPDX-License-Identifier: Apache-2.0
"""Interruptions in closed form against an lcore that is interrupted packet by packet."""

from __future__ import annotations

import pytest

from headrace.layout.gaps import Gap, delayed, quantile

CYCLES, PACKETS = 200.0, 400_000


def interrupted(gap: Gap, load: float) -> list[float]:
    """What packets at even distances wait for an lcore that takes them one by one, and is away at
    other even distances; sorted."""
    apart, free, away = CYCLES / load, 0.0, 0.4 / gap.per_cycle
    waits = []
    for i in range(PACKETS):
        came = i * apart
        at = max(came, free)
        if away <= at:
            at = max(at, away + gap.cycles)
            away += 1 / gap.per_cycle
        waits.append(at - came)
        free = at + CYCLES
    return sorted(waits)


@pytest.mark.parametrize("load", [0.1, 0.5, 0.8])
def test_shares_and_quantiles(load: float) -> None:
    cycles = 20_000.0
    gap = Gap(0.02 / cycles * (1 - load), cycles)
    waits = interrupted(gap, load)
    for beyond in (0.1, 0.5, 0.8):
        later = sum(one > beyond * cycles for one in waits) / PACKETS
        assert delayed([gap], 1 - load, beyond * cycles) == pytest.approx(later, rel=0.1)
    for share in (0.985, 0.995):
        expected = waits[round(share * PACKETS)]
        assert quantile([0.0], [gap], 1 - load, share) == pytest.approx(expected, rel=0.1)


def test_without_interruptions_it_is_the_packets_own() -> None:
    latencies = [float(i) for i in range(1, 101)]
    assert quantile(latencies, [], 0.5, 0.5) == pytest.approx(50)
    assert quantile(latencies, [], 0.5, 0.99) == pytest.approx(99)


def test_all_that_waited_leave_with_their_bursts() -> None:
    gap = Gap(0.03 / 10_000, 10_000, behind=5_000)
    # 3 % of the packets come within one: the last 1 % of all waited two thirds of it, and 5,000.
    assert quantile([100.0], [gap], 1.0, 0.99) == pytest.approx(100 + 20_000 / 3 + 5_000, rel=1e-3)
    assert delayed([gap], 1.0, 4_999) == pytest.approx(0.03)


@pytest.mark.parametrize("away", [40.0, 150.0, 400.0])
def test_the_source_catches_up_at_its_own_pace(away: float) -> None:
    """By the schedule of engine/link/due.h, in packets: 64 at once, then 8 in the time of 7. The
    lcore does nothing else; it is away for so long every 10,000 packets."""
    every, waits = 10_000.0, []
    back, soft, clock = 0.0, 0.0, 0.0
    for i in range(200_000):
        if i % every == 0:
            back = i + away
        clock = max(clock, float(i), back)
        soft = max(soft, clock - 64 * 7 / 8)  # what was not used is worth 64 packets at most
        clock = max(clock, soft)
        soft += 7 / 8
        waits.append(clock - i)
    gap = Gap(1 / every, away, credit=64.0)
    for beyond in (5.0, 0.3 * away, 0.7 * away):
        later = sum(one > beyond for one in waits) / len(waits)
        assert delayed([gap], 1.0, beyond) == pytest.approx(later, rel=0.05, abs=2 / every)
