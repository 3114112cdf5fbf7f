# SPDX-License-Identifier: Apache-2.0
"""OPS over what functions of other cycles make of it, by windows that are known."""

from __future__ import annotations

import pytest

from perf.busy import Window, over_others

pytestmark = pytest.mark.parallel
SPAN, PACKETS, REST = 100_000_000, 20_000, 1_200


def windows(cycles: int, printed: float = 1.0) -> list[Window]:
    """Three, of a function of so many cycles; `printed`: OPS over what it was."""
    ops = int(printed * PACKETS * (cycles + REST))
    return [Window(SPAN, PACKETS, PACKETS, ops)] * 3


@pytest.mark.parametrize("printed", [0.8, 1.0, 1.1])
def test_the_rest_of_a_packet_is_known_by_others(printed: float) -> None:
    others = {each: windows(each) for each in (350, 650, 850)}
    over = over_others(windows(500, printed), 500, others)
    assert over is not None and over.median == pytest.approx(printed, rel=1e-4)


def test_a_full_lcore_tells_nothing() -> None:
    """3,500 cycles and the rest are 94 % of it; 3,000 are 84 %."""
    assert over_others(windows(500), 500, {3500: windows(3500)}) is None
    assert over_others(windows(3500), 3500, {500: windows(500)}) is None
    assert over_others(windows(500), 500, {3000: windows(3000)}) is not None
