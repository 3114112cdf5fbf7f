# SPDX-License-Identifier: Apache-2.0
"""The tester by itself: source straight into sink. Its latency is the floor of every latency
that is measured, its rate the highest that can be asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from headrace.engine.counts import ClockInfo
from headrace.engine.plan_compiler import Path, paths
from headrace.engine.plan_document import Plan
from headrace.engine.reading import Reading, flow, run
from headrace.engine.running import RunningEngine
from headrace.ground.contract import Site
from headrace.record.bundle import write_whole
from headrace.record.figures import LatencyFloor, LatencyNs
from headrace.record.latency import latency
from headrace.record.text import rate, time
from headrace.spec.measure import Measure
from headrace.spec.study import Experiment

# At most: a study whose own trials are shorter has the tester looked at for no longer than these.
_TRIAL_S = 0.5
_DRAIN_S = 0.05
# Far enough below the maximum that nothing queues. Where other work takes the loop's CPU it may be
# too much all the same: what the loop does not carry whole is tried again at a tenth of the load.
_FLOOR_SHARE = 0.1
_FLOOR_TRIAL_S = 0.2
_FLOOR_TRIALS, _FLOOR_TRIES = 3, 6
_FLOOR_PACKETS = 100  # at least, in a trial


@dataclass(frozen=True)
class Floor:
    max_pps: float  # all directions together
    latency: LatencyNs | None
    clock: ClockInfo

    @property
    def p50(self) -> float:
        assert self.latency is not None
        return self.latency.p50

    @property
    def calibration(self) -> LatencyFloor | None:
        if self.latency is None:
            return None
        return LatencyFloor(
            floor_ns=self.latency.p50,
            floor_p99_ns=self.latency.p99,
            clock_read_cycles=self.clock.read_cost_cycles,
            clock_error_ppm=self.clock.tsc_error_ppm,
        )

    def text(self) -> str:
        if self.latency is None:
            return "no latency (unstamped)"
        return f"latency floor {time(self.latency.p50)} (p99 {time(self.latency.p99)})"

    def as_json(self) -> str:
        floor = None if self.latency is None else self.latency.model_dump()
        shown = {"max_pps": self.max_pps, "floor": floor, "clock": self.clock.model_dump()}
        return json.dumps(shown, indent=2) + "\n"


@dataclass(frozen=True)
class Loop:
    """One trial of the direct loop. Carried: all was sent in time, and all of it came."""

    carried: bool
    latency: LatencyNs | None


def trials_s(measure: Measure) -> tuple[float, float]:
    """How long the tester runs as fast as it can, and each trial of its floor."""
    own = [goal.final_trial for goal in measure.search]
    if measure.max or measure.loads:
        own.append(measure.trial)
    longest = max(own, default=_TRIAL_S)
    return min(_TRIAL_S, longest), min(_FLOOR_TRIAL_S, longest)


def least(trial: Callable[[float], Loop], load_pps: float, trial_s: float) -> LatencyNs | None:
    """The floor is what the tester adds when nothing disturbs it: the best of some short trials."""
    loops: list[Loop] = []
    for _ in range(_FLOOR_TRIES):
        loops.append(trial(load_pps))
        if sum(one.carried for one in loops) >= _FLOOR_TRIALS:
            break
        if not loops[-1].carried:
            load_pps = max(load_pps / 10, min(load_pps, _FLOOR_PACKETS / trial_s))
    whole = [one for one in loops if one.carried] or loops
    latencies = [one.latency for one in whole if one.latency is not None]
    return min(latencies, key=lambda one: one.p50, default=None)


def _loop(reading: Reading, ways: Sequence[Path]) -> Loop:
    flows = [flow(reading, way) for way in ways]
    carried = all(
        not f.unsent and not f.lost and f.duration_s < f.intended_s + _DRAIN_S for f in flows
    )
    # The worse of the directions: a floor must not promise more than it can hold.
    latencies = [latency(reading.after.sink(way.sink).latency) for way in ways]
    return Loop(carried, max((one for one in latencies if one), key=lambda f: f.p50, default=None))


Start = Callable[[Plan], AbstractContextManager[RunningEngine]]


def calibrate(start: Start, plan: Plan, experiment: Experiment) -> Floor:
    ways, (fast_s, floor_s) = paths(experiment), trials_s(experiment.study.measure)
    with start(plan) as engine:
        clock = engine.info().clock
        fast = run(engine, ways, 0, fast_s, _DRAIN_S)
        flows = [flow(fast, way) for way in ways]
        most = sum(f.received / f.duration_s for f in flows)
        floor = least(
            lambda load: _loop(run(engine, ways, load, floor_s, _DRAIN_S), ways),
            most * _FLOOR_SHARE / len(ways) or _FLOOR_PACKETS / floor_s,
            floor_s,
        )
    return Floor(most, floor, clock)


@dataclass
class Floors:
    """They are found once per kind of traffic: the direct loop does not know the chain."""

    by_traffic: dict[str, Floor] = field(default_factory=dict)
    wanted: bool = True  # False: nothing is compared with the tester, and none is calibrated

    def of(self, experiment: Experiment, direct: Plan, site: Site, start: Start) -> Floor | None:
        """`direct`: the plan of source straight into sink. `start`: an engine where the tester's
        is."""
        if not self.wanted:
            return None
        key = repr((direct.links, direct.segments))
        if key not in self.by_traffic:
            site.status("calibrating the tester")
            with site.stopwatch.phase("calibrating"):
                floor = self.by_traffic[key] = calibrate(start, direct, experiment)
            if site.bundle is not None:
                name = f"calibration-{len(self.by_traffic)}.json"
                write_whole(site.bundle / "samples" / name, floor.as_json())
            site.say(
                f"  tester alone (source straight into sink): {rate(floor.max_pps)}, {floor.text()}"
            )
        return self.by_traffic[key]
