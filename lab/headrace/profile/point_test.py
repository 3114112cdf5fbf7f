# SPDX-License-Identifier: Apache-2.0
"""A chain is warm when it has seen its flows, however long that takes it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.engine import reading as trials
from headrace.profile import point


@pytest.mark.parametrize(
    ("flows", "pps", "packets"),
    [(1_000, 3e6, 4_000), (1_000_000, 0.5e6, 4_000_000), (10_000_000, 0.1e6, 0)],
)
def test_packets_are_counted_not_seconds(
    monkeypatch: pytest.MonkeyPatch, flows: int, pps: float, packets: int
) -> None:
    """At 0.5 Mpps the old warm-up of a million flows ended after 0.67 million packets."""
    done = 0.0

    def trial(engine: Any, ways: Any, load: float, seconds: float, drain: float) -> None:
        nonlocal done
        done += seconds

    monkeypatch.setattr(trials, "run", trial)
    monkeypatch.setattr(point, "paths", lambda experiment: ())
    monkeypatch.setattr(point, "packets", lambda e, one: point.Count(int(done * pps), done))
    workload = SimpleNamespace(flows=SimpleNamespace(count=flows))
    one: Any = SimpleNamespace(experiment=SimpleNamespace(study=SimpleNamespace(workload=workload)))
    engine: Any = SimpleNamespace()
    point.warm_up(engine, one)
    assert done * pps >= packets * (1 - 1e-9) and done <= 20 + 1e-9
