# SPDX-License-Identifier: Apache-2.0
"""Deploy each point of a study, prove its path, and run its workloads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headrace.collect.watch import Watch, watching
from headrace.ground.appliances.deploy import Deployed
from headrace.ground.appliances.images import build_all
from headrace.ground.appliances.load import has_netperf, run_load
from headrace.ground.appliances.study import Expanded, Point, swept_text, workload_problem
from headrace.ground.appliances.verify import verify
from headrace.host.ledger import Ledger
from headrace.host.state import RunState
from headrace.host.stopwatch import Stopwatch
from headrace.measure.appliance_trial import Observed, audit, observe, record
from headrace.record.bundle import BundleWriter
from headrace.record.rows import Result
from headrace.record.verdict import Finding
from headrace.spec.appliance import AnyWorkload, RequestWorkload

Say = Callable[[str], None]


@dataclass(frozen=True)
class Row:
    """A result with the point that it belongs to, for the report."""

    point: Point
    result: Result


@dataclass
class Runner:
    """Runs a study; each finished trial is in the bundle before the next begins."""

    expanded: Expanded
    writer: BundleWriter
    state: RunState
    say: Say
    rows: list[Row] = field(default_factory=list)
    watch: Stopwatch = field(default_factory=Stopwatch)
    trials: int = 0
    layers: list[tuple[str, Path]] = field(default_factory=list)  # what was watched, and where

    def all(self) -> list[Row]:
        with self.watch.phase("building images"):
            ledger = Ledger(self.state.path)
            try:
                build_all(self.expanded.entries, self.say, ledger)
            finally:
                ledger.undo()
        points = self.expanded.points
        begin = time.monotonic()
        for number, point in enumerate(points):
            left = ""
            if number:
                each = (time.monotonic() - begin) / number
                left = f", about {each * (len(points) - number) / 60:.0f} min left"
            self.say(f"[{number + 1}/{len(points)}{left}] {point.network}: {point.name}")
            self._point(point)
        return self.rows

    def _point(self, point: Point) -> None:
        with Deployed(
            point.layout,
            point.supplies,
            point.network,
            self.state,
            self.watch,
            self.say,
            self.expanded.study.deployment.pf,
        ) as deployed:
            with self.watch.phase("verifying"):
                findings = verify(deployed, point.workloads)
            with self._watching(deployed, point) as watch:
                self._workloads(deployed, point, findings, watch)

    @contextmanager
    def _watching(self, deployed: Deployed, point: Point) -> Iterator[Watch]:
        """Each deployment's samples are in a folder of their own."""
        collect = self.expanded.study.collect
        folder = self.writer.path / "samples" / f"{len(self.layers) + 1:03}"
        with ExitStack() as stack:
            with self.watch.phase("collectors"):
                watch = stack.enter_context(
                    watching(collect, deployed.targets(), folder, each_trial=True)
                )
            try:
                yield watch
            finally:
                with self.watch.phase("collectors"):
                    stack.close()
        if collect.layers:
            swept = swept_text(point.swept)
            self.layers.append((f"{point.network}: {point.name}{swept}", folder))

    def _workloads(
        self, deployed: Deployed, point: Point, findings: list[Finding], watch: Watch
    ) -> None:
        for workload in point.workloads:
            problem = workload_problem(point, workload)
            if isinstance(workload, RequestWorkload) and not problem and not has_netperf(deployed):
                problem = "the clients' image has no netperf"
            if problem is not None:
                self.say(f"  {workload.text}: skipped: {problem}")
                continue
            with self.watch.phase("measuring"):
                self._workload(deployed, point, workload, findings, watch)

    def _workload(
        self,
        deployed: Deployed,
        point: Point,
        workload: AnyWorkload,
        verified: list[Finding],
        watch: Watch,
    ) -> None:
        """Warmed up once; then each repetition begins where the one before it ended."""
        if workload.warmup:
            run_load(deployed, workload, workload.warmup, seed=10_000 + self.trials)
        seen: Observed | None = None
        for repetition in range(1, self.expanded.study.repetitions + 1):
            self.trials += 1
            before = seen.after if seen else None
            seen = observe(deployed, workload, self.trials, before, watch)
            found = audit(deployed, workload, verified, seen)
            trial = record(point, workload, self.trials, repetition, seen, found)
            self.writer.trial(trial)
            fields = trial.model_dump(
                exclude={"trial", "phase", "started_at", "intended_duration_s"}
            )
            result = Result(**fields, goal=trial.phase, trial=trial.trial)
            self.writer.result(result)
            self.rows.append(Row(point, result))
            self.say(f"  {workload.text}: {_said(result)}")


def _said(result: Result) -> str:
    application = result.application
    assert application is not None
    rate = f"{application.gbps:.3f} Gbit/s"
    if application.requests:
        return f"{application.requests_per_s:.0f} requests/s, {rate}"
    if result.intended:
        lost = f"{result.received_pps:.0f} packets/s, {result.loss_ratio:.2%} lost"
        latency = result.latency_ns
        if latency is None:
            return lost
        return f"{lost}, p50 {latency.p50 / 1000:.0f} µs, p99 {latency.p99 / 1000:.0f} µs"
    return rate
