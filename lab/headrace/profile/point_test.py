# SPDX-License-Identifier: Apache-2.0
"""A chain is warm when it has seen its flows, however long that takes it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.profile import point
from headrace.record.counters import Counters, ReplicaReading


@pytest.mark.parametrize(
    ("flows", "pps", "packets"),
    [(1_000, 3e6, 4_000), (1_000_000, 0.5e6, 4_000_000), (10_000_000, 0.1e6, 0)],
)
def test_packets_are_counted_not_seconds(flows: int, pps: float, packets: int) -> None:
    """At 0.5 Mpps the old warm-up of a million flows ended after 0.67 million packets."""
    done = 0.0

    def trial(seconds: float, phase: str) -> Any:
        nonlocal done
        before = int(done * pps)
        done += seconds
        first = ReplicaReading(segment="chain", index=0, cpu=0, packets_in=int(done * pps) - before)
        assert phase == "warm-up"
        counters = Counters(tsc_hz=1, replicas=(first,))
        return SimpleNamespace(counters=counters, duration_s=seconds)

    one = SimpleNamespace(
        experiment=SimpleNamespace(flows=flows),
        placement=SimpleNamespace(segments=(SimpleNamespace(name="chain"),)),
    )
    up: Any = SimpleNamespace(one=one, trial=trial)
    point.warm_up(up)
    assert done * pps >= packets * (1 - 1e-9) and done <= 20 + 1e-9
