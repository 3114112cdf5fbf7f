# SPDX-License-Identifier: Apache-2.0
"""A policy and a deployment: an interval, a decision, the next interval; and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.ground.operable import Operable, Plant, PlantTelemetry, Totals
from headrace.layout.predicted_latency import BURST
from headrace.measure.operate.headrace import HeadracePolicy
from headrace.measure.operate.metron import MetronPolicy
from headrace.measure.operate.oracle import OraclePolicy
from headrace.measure.operate.policy import PlantSituation, Policy, Sizing, WantedStep
from headrace.measure.operate.rsspp import RssppPolicy
from headrace.measure.operate.static import StaticPolicy
from headrace.record.operate import CoursePoint, Decision, Operated, OperateLog, SharedLcores
from headrace.spec.operate import Operate, PolicyName, Slo

COURSE_POINTS = 1200  # of a run, at most
_WAITING = 0.02  # of an interval's packets
SAID_EVERY_S = 300.0  # of the load's time


def policy_of(name: PolicyName, operable: Operable, asked: Operate) -> Policy:
    sizing = Sizing(operable.model, asked.slo)
    future = operable.future
    first = float(future.pps[0])
    makers: dict[PolicyName, Callable[[], Policy]] = {
        "headrace": lambda: HeadracePolicy(sizing, first, asked.interval),
        "oracle": lambda: OraclePolicy(sizing, future, asked.interval),
        "static": lambda: StaticPolicy(sizing, future),
        "rsspp": lambda: RssppPolicy(sizing, first, asked.interval),
        "metron": lambda: MetronPolicy(sizing, first, asked.interval),
    }
    return makers[name]()


@dataclass(frozen=True)
class OperateRun:
    """What came of a policy."""

    log: OperateLog
    totals: Totals
    operable: Operable


def operate(
    operable: Operable, asked: Operate, name: PolicyName, repetition: int,
    say: Callable[[str], None],
) -> OperateRun:  # fmt: skip
    policy = policy_of(name, operable, asked)
    plant = operable.plant(policy.begin(), repetition)
    tally = Tally(asked.slo, float(operable.future.seconds[-1]), asked.interval)
    told = 0.0
    while not plant.ended:
        seen = plant.read()
        tally.interval(seen)
        now = plant.assignment
        wanted = policy.decide(PlantSituation(seen, now, plant.packets))
        if wanted is not None and not plant.ended:
            moved = plant.act(wanted.assignment)
            if wanted.goes_on:
                tally.goes_on(moved)
            else:
                tally.step(seen, len(now.lcores), moved, wanted)
        if seen.begin_s - told >= SAID_EVERY_S:
            told = seen.begin_s
            say(f"  {name}: {told:.0f} s, {seen.lcores} lcores, {tally.broken} windows broken")
    return run_of(tally, plant, policy.learned, name, operable, asked)


def run_of(
    tally: Tally, plant: Plant, learned: float | None, name: str, operable: Operable,
    asked: Operate, shared: SharedLcores | None = None,
) -> OperateRun:  # fmt: skip
    totals = plant.totals()
    operated = Operated(
        policy=name,
        slo_p99_ns=asked.slo.p99 * 1e9,
        slo_loss=asked.slo.loss,
        seconds=tally.seconds,
        windows=tally.windows,
        broken=tally.broken,
        broken_p99=tally.broken_p99,
        broken_loss=tally.broken_loss,
        longest_broken_s=tally.longest_broken_s,
        kept=1 - tally.broken / tally.windows if tally.windows else None,
        core_seconds=plant.core_seconds,
        mean_lcores=plant.core_seconds / tally.seconds,
        most_lcores=tally.most,
        steps=len(tally.decisions),
        moves=sum(one.moved for one in tally.decisions),
        queued=totals.queued,
        learned=learned,
        shared=shared,
        unkeepable=Sizing(operable.model, asked.slo).unkeepable(operable.future),
    )
    log = OperateLog(
        operated=operated, decisions=tuple(tally.decisions), course=tuple(tally.course())
    )
    return OperateRun(log, totals, operable)


def _drained(seen: PlantTelemetry) -> bool:
    """Nothing waits that came before it, beyond what always does."""
    return int(seen.queued.max()) <= _WAITING * int(seen.came.max()) + BURST


@dataclass
class Tally:
    """What is counted of a run. A step is settled in the first interval without moves, and without
    packets that wait since before; what came of it is seen in the one behind that."""

    slo: Slo
    planned_s: float
    interval_s: float
    seconds: float = 0.0
    windows: int = 0
    broken: int = 0
    broken_p99: int = 0
    broken_loss: int = 0
    broken_held: int = 0
    longest_broken_s: float = 0.0
    most: int = 0
    decisions: list[Decision] = field(default_factory=list)
    _points: list[CoursePoint] = field(default_factory=list)
    _stretch: list[tuple[PlantTelemetry, int]] = field(default_factory=list)
    _broken_s: float = 0.0
    _open: bool = False  # nobody knows yet what came of the last step
    _settled: bool = False

    def interval(self, seen: PlantTelemetry) -> None:
        self.seconds += seen.seconds
        self.most = max(self.most, seen.lcores)
        late = seen.p99_s > self.slo.p99
        lossy = seen.dropped > self.slo.loss * seen.offered
        held = seen.held_back > self.slo.loss * seen.offered
        broken = late or lossy or held
        # A plant that was changed meanwhile is looked at later: that is several windows.
        windows = max(1, round(seen.seconds / self.interval_s)) if seen.offered else 0
        if windows:
            self.windows += windows
            self.broken_p99 += windows * late
            self.broken_loss += windows * lossy
            self.broken_held += windows * held
            self.broken += windows * broken
            self._broken_s = self._broken_s + seen.seconds if broken else 0.0
            self.longest_broken_s = max(self.longest_broken_s, self._broken_s)
        self._stretch.append((seen, windows * broken))
        if sum(one.seconds for one, _ in self._stretch) >= self.planned_s / COURSE_POINTS:
            self._close()
        if self._open and seen.settled and _drained(seen):
            self._came(seen)

    def _came(self, seen: PlantTelemetry) -> None:
        last = self.decisions[-1]
        if not self._settled:
            self._settled = True
            after = seen.begin_s + seen.seconds - last.at_s
            self.decisions[-1] = last.model_copy(update={"settled_s": after})
            return
        self._open = False
        came = {"came_busy": seen.busiest, "came_p99_ns": seen.p99_s * 1e9}
        self.decisions[-1] = last.model_copy(update=came)

    def step(self, seen: PlantTelemetry, before: int, moved: int, wanted: WantedStep) -> None:
        self._open, self._settled = True, False
        self.decisions.append(
            Decision(
                at_s=seen.begin_s + seen.seconds,
                lcores_before=before,
                lcores_after=wanted.lcores or len(wanted.assignment.lcores),
                moved=moved,
                why=wanted.why,
                expected_busy=wanted.busy,
                expected_p99_ns=None if wanted.p99_s is None else wanted.p99_s * 1e9,
            )
        )

    def goes_on(self, moved: int) -> None:
        """A further part of the last step."""
        self._open, self._settled = True, False
        last = self.decisions[-1]
        self.decisions[-1] = last.model_copy(update={"moved": last.moved + moved})

    def course(self) -> list[CoursePoint]:
        if self._stretch:
            self._close()
        return self._points

    def _close(self) -> None:
        seen = [one for one, _ in self._stretch]
        seconds = sum(one.seconds for one in seen)
        self._points.append(
            CoursePoint(
                at_s=seen[0].begin_s,
                offered_pps=sum(one.offered for one in seen) / seconds,
                lcores=sum(one.had * one.seconds for one in seen) / seconds,
                busiest=max(one.busiest for one in seen),
                p99_ns=max(one.p99_s for one in seen) * 1e9,
                lost=sum(one.dropped for one in seen),
                held_back=sum(one.held_back for one in seen),
                broken=sum(broken for _, broken in self._stretch),
            )
        )
        self._stretch = []
