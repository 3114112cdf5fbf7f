# SPDX-License-Identifier: Apache-2.0
"""What sources of chains that share lcores may send: by hand."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from headrace.engine.together import EngineTogether
from headrace.ground.operable import Integers, Numbers
from headrace.ground.shared_plant import SendingLimit, SharedEnginePlant, SharedStart

# A whole lcore works on a million packets/s: 10,000 in a window of 10 ms. What waits may take 2 ms.
LIMIT = SendingLimit(carried_pps=1e6, held_s=2e-3, room=8192)


def numbers(*each: float) -> Numbers:
    return np.array(each, dtype=np.float64)


def packets(*each: int) -> Integers:
    return np.array(each, dtype=np.int64)


@pytest.mark.parametrize(
    ("parts", "shares", "queued", "pps"),
    [
        # 10,000 and 2,000 that may wait.
        ((1.0, 0.0), (1.0, 0.0), (0, 0), 1.2e6),
        # Half of an lcore: both are half.
        ((0.5, 0.0), (1.0, 0.0), (0, 0), 0.6e6),
        # What waits already has that much less room; twice of what may wait is nothing at 14,000.
        ((1.0, 0.0), (1.0, 0.0), (1500, 0), 1.05e6),
        ((1.0, 0.0), (1.0, 0.0), (14_000, 0), 0.0),
        # Two lcores, the second with three quarters of the packets: it has room for 12,000 of them.
        ((1.0, 1.0), (0.25, 0.75), (0, 0), 1.6e6),
        # The first has a queue, and is what limits: (12,000 - 11,000) / 0.25.
        ((1.0, 1.0), (0.25, 0.75), (11_000, 0), 0.4e6),
        # No bucket is on the second one: what it has makes no difference.
        ((1.0, 0.0), (1.0, 0.0), (0, 9000), 1.2e6),
    ],
)
def test_no_lcore_gets_more_than_it_works_on_and_what_may_wait(
    parts: tuple[float, ...], shares: tuple[float, ...], queued: tuple[int, ...], pps: float
) -> None:
    assert LIMIT.pps(numbers(*parts), numbers(*shares), packets(*queued)) == pytest.approx(pps)


def test_what_may_wait_is_for_all_of_the_time_until_the_next_look() -> None:
    """2,000 packets in 100 ms instead of 10: less a second, though the lcore works on as many."""
    rate = LIMIT.pps(numbers(1.0), numbers(1.0), packets(0), until_s=0.1)
    assert rate == pytest.approx(1.02e6)


def test_half_of_a_ring_is_the_most_that_waits() -> None:
    """2 ms are 2,000 packets; a ring of 1024 has room for 512 of them."""
    short = SendingLimit(carried_pps=1e6, held_s=2e-3, room=1024)
    assert short.pps(numbers(1.0), numbers(1.0), packets(0)) == pytest.approx(1.0512e6)


class StartedTogether:
    """An engine that was asked to start."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.engine = self

    def start(self, sources: dict[str, Any]) -> int:
        self.asked.append(sources)
        return 42

    def request(self, cmd: str) -> None:
        self.asked.append(cmd)


class WaitingPlant:
    def __init__(self, source: str) -> None:
        self.source = source
        self.starts: list[int] = []

    def began(self, start_tsc: int) -> None:
        self.starts.append(start_tsc)


def test_all_sources_begin_at_one_instant_and_once() -> None:
    """Chains are looked at one after the other, and end so: the first look starts all, and the
    first one's end stops all."""
    whole = StartedTogether()
    start = SharedStart(cast(EngineTogether, whole))
    plants = {name: WaitingPlant(name) for name in ("edge", "core")}
    for chain, plant in plants.items():
        start.add(chain, cast(SharedEnginePlant, plant))
    for _ in plants:
        start.begin()
    for _ in plants:
        start.stop()
    assert whole.asked == [{"edge": "edge", "core": "core"}, "stop"]
    assert all(plant.starts == [42] for plant in plants.values())
