# SPDX-License-Identifier: Apache-2.0
"""Calibration of the tester: source straight into sink. Its latency is the floor of every latency
that is measured, its rate the highest that can be asked for."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path as FilePath
from typing import Any

from headrace.measure.latency import latency
from headrace.measure.progress import time
from headrace.measure.trial import flow, identified_by, run
from headrace.record import Calibration, LatencyNs
from headrace.spec.study import Experiment
from headrace.testbed.engine import Engine
from headrace.testbed.plan import paths
from headrace.testbed.state import RunState

_TRIAL_S = 0.5
_DRAIN_S = 0.05
# Far enough below the maximum that nothing queues.
_FLOOR_SHARE = 0.1


@dataclass(frozen=True)
class Floor:
    max_pps: float  # all directions together
    floor: LatencyNs | None
    clock: dict[str, Any]

    @property
    def calibration(self) -> Calibration | None:
        if self.floor is None:
            return None
        return Calibration(
            floor_ns=self.floor.p50,
            floor_p99_ns=self.floor.p99,
            clock_read_cycles=self.clock.get("read_cost_cycles"),
            clock_error_ppm=self.clock.get("tsc_error_ppm"),
        )

    def text(self) -> str:
        if self.floor is None:
            return "no latency (unstamped)"
        return f"latency floor {time(self.floor.p50)} (p99 {time(self.floor.p99)})"

    def as_json(self) -> str:
        floor = None if self.floor is None else self.floor.model_dump()
        return json.dumps({**asdict(self), "floor": floor}, indent=2) + "\n"


def calibrate(
    binary: FilePath, plan: dict[str, Any], state: RunState, experiment: Experiment
) -> Floor:
    ways, own = paths(experiment), identified_by(experiment.study.workload)
    with Engine(binary, plan, state) as engine:
        clock = engine.request("info").get("clock", {})
        fast = run(engine, ways, 0, _TRIAL_S, _DRAIN_S)
        flows = [flow(fast, way, own) for way in ways]
        most = sum(f.received / f.duration_s for f in flows)
        slow = run(engine, ways, most * _FLOOR_SHARE / len(ways), _TRIAL_S, _DRAIN_S)
    # The worse of the directions: a floor must not promise more than it can hold.
    readings = [latency(slow.after["links"][way.sink].get("latency") or {}) for way in ways]
    floors = [reading for reading in readings if reading is not None]
    return Floor(most, max(floors, key=lambda f: f.p50) if floors else None, clock)
