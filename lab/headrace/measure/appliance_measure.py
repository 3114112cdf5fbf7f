# SPDX-License-Identifier: Apache-2.0
"""Deploy each point of a study of VNFs, prove its path, and run its workloads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headrace.collect.watch import Watch, watching
from headrace.ground.contract import Checked, Deployed, Offer, Point, Site
from headrace.measure.audit import audit
from headrace.measure.results import result
from headrace.record.bundle import BundleWriter, now
from headrace.record.figures import Figures
from headrace.record.rows import Result, Trial


@dataclass
class Runner:
    """Runs a study; each finished trial is in the bundle before the next begins."""

    checked: Checked
    repetitions: int
    writer: BundleWriter
    site: Site
    results: list[Result] = field(default_factory=list)
    trials: int = 0
    layers: list[tuple[str, Path]] = field(default_factory=list)  # what was watched, and where

    def all(self) -> None:
        for number, point in enumerate(self.checked.points, 1):
            place = f"[{number}/{len(self.checked.points)}]"
            self.site.say(f"{place} {point.execution}: {point.chain}")
            for note in point.notes:
                self.site.say(f"  {note}")
            with point.deploy(self.site) as deployed:
                with self.site.stopwatch.phase("verifying"):
                    deployed.verify()
                with self._watching(point, deployed) as watch:
                    for offer in point.offers:
                        with self.site.stopwatch.phase("measuring"):
                            self._offer(point, deployed, offer, watch)

    @contextmanager
    def _watching(self, point: Point, deployed: Deployed) -> Iterator[Watch]:
        """Each deployment's samples are in a folder of their own."""
        folder = self.writer.path / "samples" / f"{len(self.layers) + 1:03}"
        wanted = point.study.collect
        with watching(wanted, deployed.parts(), folder, each_trial=True) as watch:
            yield watch
        if wanted.layers:
            self.layers.append((f"{point.execution}: {point.chain}", folder))

    def _offer(self, point: Point, deployed: Deployed, offer: Offer, watch: Watch) -> None:
        """Warmed up once; then each repetition begins where the one before it ended."""
        lacking = deployed.lacks(offer)
        if lacking is not None:
            self.site.say(f"  {offer.workload}: skipped: {lacking}")
            return
        if offer.warmup_s:
            deployed.start(offer, 0, offer.warmup_s)
            deployed.wait()
            deployed.read()
        for repetition in range(1, self.repetitions + 1):
            self._trial(point, deployed, offer, watch, repetition)

    def _trial(
        self, point: Point, deployed: Deployed, offer: Offer, watch: Watch, repetition: int
    ) -> None:
        assert offer.measure is not None
        self.trials += 1
        loads, seconds = offer.measure.loads, offer.measure.trial
        with watch.trial(self.trials):
            started_at = now()
            deployed.start(offer, loads[0] if loads else 0, seconds)
            deployed.wait()
        for seen in deployed.read():
            trial = Trial(
                **{name: getattr(seen.figures, name) for name in Figures.model_fields},
                chain=point.chain,
                execution=point.execution,
                workload=offer.workload,
                direction=seen.direction,
                repetition=repetition,
                audit=audit(seen.facts),
                trial=self.trials,
                phase="fixed" if loads else "max",
                started_at=started_at,
                intended_duration_s=seconds,
            )
            self.writer.trial(trial)
            one = result(trial, trial.phase)
            self.writer.result(one)
            self.results.append(one)
            self.site.say(f"  {offer.workload}: {_words(one)}")


def _words(result: Result) -> str:
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
