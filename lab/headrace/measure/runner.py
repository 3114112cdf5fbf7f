# SPDX-License-Identifier: Apache-2.0
"""A run: every experiment of a study, deployed, warmed up, verified, measured, written down."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from headrace.collect.base import Process, Targets
from headrace.collect.watch import targets_of, watching
from headrace.engine.engine import Engine, EngineRefused
from headrace.engine.plan import Path, paths
from headrace.engine.traffic import refusal
from headrace.ground.hosted.hosted import HostedEngine
from headrace.ground.hosted.layout import Hosted
from headrace.ground.hosted.limits import with_limits
from headrace.host.memory import Memory
from headrace.host.state import RunState, dpdk_prefix, telemetry_sockets
from headrace.measure import environment as machine
from headrace.measure import trial as trials
from headrace.measure.anatomy import anatomy
from headrace.measure.audit import DISTURBED, unrefused
from headrace.measure.emulated import as_emulated
from headrace.measure.floor import Floor, calibrate
from headrace.measure.outcome import Limits, Outcome
from headrace.measure.prepare import Prepared
from headrace.measure.progress import Progress, between, duration, rate
from headrace.measure.results import UNINTENDED, result, searched
from headrace.measure.verify import verify_path
from headrace.record.bundle import BundleWriter
from headrace.record.environment import Environment
from headrace.record.identity import Phase
from headrace.record.rows import Measurement, Result, Trial
from headrace.spec.collect import Collect
from headrace.spec.document import Document

# A trial that the tester or the machine disturbed says nothing about the chain and is done again;
# at most so often per search, as on a machine where it always happens that would never end.
_RETRIES = 6


@dataclass
class Run:
    """What the experiments of one run share."""

    doc: Document
    binary: FilePath
    state: RunState
    memory: Memory
    bundle: BundleWriter
    progress: Progress
    results: list[Result] = field(default_factory=list)
    environment: Environment | None = None
    floors: dict[str, Floor] = field(default_factory=dict)
    trials: int = 0

    def all(self, prepared: list[Prepared], repetitions: int) -> None:
        """Repetitions outside, experiments inside: what is compared is interleaved, so that a
        machine that slows down does so for all alike."""
        for repetition in range(1, repetitions + 1):
            for one in prepared:
                label = f"{one.experiment.chain}, {one.experiment.execution.name}, "
                label += one.experiment.workload_name
                if repetitions > 1:
                    label += f", repetition {repetition}"
                self.progress.experiment(label)
                try:
                    self._experiment(one, repetition)
                except EngineRefused as error:
                    raise refusal(error.place, error.problem, one.experiment, self.doc) from None
                self.progress.finished()
        if self.environment is not None:
            self.environment = machine.with_noise_after(self.environment)
            self.bundle.environment(self.environment)

    def _experiment(self, one: Prepared, repetition: int) -> None:
        floor = self._floor(one)
        plan = one.with_memory(self.engine_memory())
        with one.deploy(self.binary, plan, self.state) as engine:
            self._note_environment(engine)
            if isinstance(engine, HostedEngine):
                for note in engine.notes:
                    self.progress.say(note)
            verify_path(engine, one.experiment, paths(one.experiment), plan)
            with self._samples(one.experiment.study.collect, engine):
                _Measuring(self, one, engine, plan, floor, repetition).all()

    def engine_memory(self) -> dict[str, Any]:
        return {"hugepages": self.memory.hugepages, "file_prefix": dpdk_prefix(self.state.path)}

    def _floor(self, one: Prepared) -> Floor:
        """Once per kind of traffic: the direct loop does not know the chain."""
        plan = one.with_memory(self.engine_memory(), direct=True)
        key = repr((plan["links"], plan["segments"]))
        if key not in self.floors:
            self.progress.status("calibrating the tester")
            found = calibrate(self.binary, plan, self.state, one.experiment)
            self.floors[key] = found
            self.bundle.sample(f"calibration-{len(self.floors)}.json", found.as_json())
            self.progress.say(
                f"  tester alone (source straight into sink): {rate(found.max_pps)}, {found.text()}"
            )
        return self.floors[key]

    @contextmanager
    def _samples(self, wanted: Collect, engine: Engine) -> Iterator[None]:
        """What the layers say meanwhile: in samples/ itself when there is one experiment only."""
        if not wanted.layers:
            yield
            return
        folder = self.bundle.path / "samples"
        if self.progress.total > 1:
            folder /= f"{self.progress.done + 1:03}"
        own = Process(name="engine", pid=engine.pid)
        telemetry = telemetry_sockets(self.state.path)
        targets = Targets(processes=(own,), telemetry=telemetry)
        if isinstance(engine, HostedEngine):
            vnfs = targets_of(engine.pids) if engine.grouped else Targets()
            processes = (own, *vnfs.processes)
            targets = vnfs.model_copy(
                update={"processes": processes, "telemetry": telemetry, "ovs": engine.ovs}
            )
        with watching(wanted, targets, folder):
            yield

    def _note_environment(self, engine: Engine) -> None:
        if self.environment is None:
            info = engine.request("info")
            self.environment = machine.collect(info, self.memory.note, engine.shielded)
            self.bundle.environment(self.environment)


class _Measuring:
    """The trials of one deployed experiment in one repetition."""

    def __init__(
        self,
        run: Run,
        one: Prepared,
        engine: Engine,
        plan: dict[str, Any],
        floor: Floor,
        repetition: int,
    ) -> None:
        self._run, self._engine, self._floor = run, engine, floor
        self._repetition = repetition
        self._hosted = one.hosted
        self._study = one.experiment.study
        self._measure = self._study.measure
        self._context = trials.Context(
            chain=one.experiment.chain,
            execution=one.experiment.execution.name,
            workload=one.experiment.workload_name,
            frame_bytes_mean=one.experiment.frame.mean_bytes,
            plan=plan,
            ways=paths(one.experiment),
            segments=one.segments(),
            labels=_labels(run.memory, one, engine),
            calibration=floor.calibration,
            drain_s=self._measure.drain,
            policy=one.policy,
        )
        self._made: dict[int, list[Trial]] = {}
        self._retries = _RETRIES

    def all(self) -> None:
        limits = self._limits()
        if self._study.warmup:
            self._run.progress.status("warming up")
            # A quarter of what the tester can: every flow is seen, and no queue is left full.
            self._trial(limits.max_load / 4, self._study.warmup, "warm-up")
        if self._measure.max:
            self._maximum()
        for load in self._measure.loads:
            self._fixed(load)
        if self._measure.search:
            self._search(limits)

    def _limits(self) -> Limits:
        """The tester's own maximum bounds the search: above it nothing can be learnt."""
        highest = self._measure.max_load or self._floor.max_pps / len(self._context.ways)
        return Limits(
            min(self._measure.min_load, highest / 2), highest, self._measure.search_timeout
        )

    def _trial(self, load_pps: float, seconds: float, phase: Phase) -> list[Trial]:
        context, run = self._context, self._run
        reading = trials.run(self._engine, context.ways, load_pps, seconds, context.drain_s)
        run.trials += 1
        made = trials.records(context, reading, run.trials, phase, self._repetition)
        if self._hosted is not None:
            made = [
                _with_anatomy(one, reading, self._hosted, context.ways, self._floor) for one in made
            ]
            made = [with_limits(one, self._hosted, len(context.ways)) for one in made]
        if isinstance(self._engine, HostedEngine) and self._engine.emulated:
            made = [as_emulated(one, self._engine.emulated) for one in made]
        for one in made:
            run.bundle.trial(one)
        self._made[run.trials] = made
        return made

    def _keep(self, results: list[Result]) -> None:
        for one in results:
            self._run.bundle.result(one)
            self._run.results.append(one)

    def _maximum(self) -> None:
        self._run.progress.status("maximum rate")
        made = self._trial(0, self._measure.trial, "max")
        self._keep([result(t, "max", audit=unrefused(t.audit, t.lost, t.sent)) for t in made])
        self._run.progress.say(
            f"  max: {rate(made[-1].throughput_pps)} of {rate(made[-1].sent_pps)}"
            + _by_policy(made[-1])
        )

    def _fixed(self, load: float) -> None:
        self._run.progress.status(f"at {rate(load)}")
        made = self._trial(load, self._measure.trial, "fixed")
        self._keep([result(t, "fixed") for t in made])
        self._run.progress.say(
            f"  at {rate(load)}{self._each_way()}: {rate(made[-1].throughput_pps)}, "
            f"loss {made[-1].loss_ratio:.3%}" + _by_policy(made[-1])
        )

    def _each_way(self) -> str:
        return " each way, in sum" if len(self._context.ways) > 1 else ""

    def _search(self, limits: Limits) -> None:
        began, first = time.monotonic(), self._run.trials
        self._retries = _RETRIES
        from headrace.measure.search import search  # its library takes half a second to load

        found = search(
            self._measure.search,
            limits,
            self._outcome,
            lambda bounds: self._run.progress.bounds(bounds, self._run.trials - first),
        )
        seconds, count = time.monotonic() - began, self._run.trials - first
        for goal in found:
            if goal.sample is None:
                continue
            made = self._made[goal.sample.outcome.trial]
            self._keep(searched(made, goal, limits, count, seconds))
            verdict = self._run.results[-1].audit.verdict
            self._run.progress.say(
                f"  {goal.goal.name} (at most {goal.goal.loss_ratio * 100:.10g} % lost): "
                f"{between(goal.lower_pps, goal.upper_pps)}"
                + ("" if verdict == "ok" else f" [yellow]{verdict}[/yellow]")
                + _by_policy(self._run.results[-1])
            )
        self._run.progress.say(f"  {count} trials in {duration(seconds)}")

    def _outcome(self, load_pps: float, seconds: float) -> Outcome:
        total = self._trial(load_pps, seconds, "search")[-1]
        while _disturbed(total) and self._retries > 0:
            self._retries -= 1
            total = self._trial(load_pps, seconds, "search")[-1]
        return Outcome(total.trial, total.intended, total.sent, total.lost, _disturbed(total))


def _by_policy(made: Measurement) -> str:
    """What neither the loss nor the throughput has is said beside them."""
    if not made.policy_dropped:
        return ""
    return f", {made.policy_dropped / max(made.sent, 1):.3%} dropped by policy"


def _disturbed(made: Trial) -> bool:
    """Lost for the machine's sake, as far as one can tell: what a limit that the spec gives turned
    away was lost for that, whatever else went on."""
    if made.lost <= 2 * sum(limit.dropped for limit in made.limits):
        return False
    return made.lost > 0 and any(f.check in DISTURBED and not f.ok for f in made.audit.findings)


def _with_anatomy(
    made: Trial,
    reading: trials.Reading,
    hosted: Hosted,
    ways: tuple[Path, ...],
    floor: Floor,
) -> Trial:
    if made.latency_ns is None or floor.floor is None or not hosted.hosting.times:
        return made
    if made.below_floor:
        return made  # its label says so; the generator's part would be made up
    found = anatomy(
        reading.before,
        reading.after,
        hosted.vnfs,
        [way for way in ways if made.direction in (way.direction, "both")],
        made.latency_ns.mean,
        floor.floor.p50,
    )
    return made.model_copy(update={"anatomy": found})


def _labels(memory: Memory, one: Prepared, engine: Engine) -> tuple[str, ...]:
    """What a reader must know before comparing the figure with another."""
    labels = [] if memory.hugepages else ["no-huge"]
    if any(s.role == "chain" and s.shares_cpu_with for s in one.segments()):
        labels.append("shared-lcore")
    if one.placement.generator == one.placement.sink:
        labels.append("one-traffic-lcore")
    if not engine.shielded:
        labels.append("unshielded")
    if one.policy:
        labels.append(UNINTENDED)
    if one.hosted is not None:
        labels += [f"hosting-{one.hosted.hosting.kind}", one.hosted.topology]
        labels.append(f"wait-{one.hosted.hosting.wait}")
    if isinstance(engine, HostedEngine):
        labels += engine.labels
    return (*labels, *one.placement.notes)
