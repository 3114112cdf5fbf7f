# SPDX-License-Identifier: Apache-2.0
"""Costs at given bursts, against a poll whose cost is known at every burst."""

from __future__ import annotations

import pytest

from headrace.layout.layout import Layout
from headrace.profile.bursts import at_burst
from headrace.profile.pricing import PricedPart, Taken


def poll(burst: float) -> float:
    """1,000 cycles for a packet alone, no more for up to 4, and 60 for each beyond."""
    return 1_000 + 60 * max(0.0, burst - 4)


def part(burst: float) -> PricedPart:
    each = poll(burst) / burst
    return PricedPart(
        cpu=1,
        packets=1.0,
        rx=0.3 * each,
        tx=0.1 * each,
        loop=0.1 * each,
        burst=burst,
        own=0.5 * each,
        nfs={0: 0.2 * each, 1: 0.3 * each},
    )


def run(*bursts: float) -> Taken:
    return Taken(Layout((2,), ((1,),)), tuple((part(burst),) for burst in bursts), 1e6)


@pytest.mark.parametrize("burst", [1, 4, 12, 32])
def test_costs_at_a_burst_that_was_not_seen(burst: int) -> None:
    """Stages whose polls found 1.2 packets or 3 when there was little to do."""
    priced = at_burst([run(1.2, 3.0), run(4.0, 4.0), run(32.0, 32.0)], burst)
    for [one] in priced.stages:
        assert one.cycles * burst == pytest.approx(poll(burst))
        assert one.rx * burst == pytest.approx(0.3 * poll(burst))
        assert one.nfs[1] * burst == pytest.approx(0.3 * poll(burst))
        assert one.burst == burst


def test_two_loads_with_one_burst_are_one_point() -> None:
    """A line through 1.00 and 1.02 packets would say anything of 32."""
    priced = at_burst([run(1.0), run(1.02), run(32.0)], 32)
    assert priced.stages[0][0].cycles * 32 == pytest.approx(poll(32))
    one = at_burst([run(8.0), run(8.0)], 1)
    assert one.stages[0][0].cycles == pytest.approx(poll(8) / 8)
