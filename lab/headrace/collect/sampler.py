# SPDX-License-Identifier: Apache-2.0
"""Samples collectors at a set period, in a thread of its own, and measures what that costs.

samples/LAYER.jsonl has one line per sample: `t_ns` (CLOCK_MONOTONIC) and `values`, keyed
METRIC or METRIC{PLACE}. samples/collectors.json says what each layer reads, what is absent and
why, what it cost, and how CLOCK_MONOTONIC relates to the time of day that trials carry.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Literal, TextIO

from headrace.collect.collector import Collector
from headrace.errors import bad_value
from headrace.record.bundle import write_whole
from headrace.record.sampled import Sampled, SampledLayer, SamplingCost, SamplingEpoch

PERIOD_MIN_S = 0.01


class _Group:
    def __init__(self, collector: Collector, file: TextIO) -> None:
        self.collector, self.file = collector, file
        self.samples = self.cpu_ns = self.late = 0
        self.kinds: dict[str, Literal["counter", "gauge"]] = {}

    def sample(self, late: bool) -> None:
        began = time.thread_time_ns()
        now = time.monotonic_ns()
        values = {}
        for r in self.collector.read():
            values[f"{r.metric}{{{r.place}}}" if r.place else r.metric] = r.value
            self.kinds[r.metric] = r.kind
        self.file.write(json.dumps({"t_ns": now, "values": values}) + "\n")
        self.cpu_ns += time.thread_time_ns() - began
        self.samples += 1
        self.late += late

    def cost(self, seconds: float) -> SamplingCost:
        cpu = self.cpu_ns / 1e9
        return SamplingCost(
            samples=self.samples,
            cpu_s=cpu,
            share_of_one_cpu=cpu / seconds if seconds else 0.0,
            late_samples=self.late,
        )


class Sampler:
    """Used as a context: from entering to leaving it, `folder` fills with samples."""

    def __init__(self, collectors: Sequence[Collector], folder: Path, period_s: float = 1.0):
        if not period_s >= PERIOD_MIN_S:
            raise bad_value("period", period_s, allowed=f"{PERIOD_MIN_S} s or more")
        self._folder, self._period = folder, period_s
        self._refused = {c.layer: why for c in collectors if (why := c.refusal())}
        self._collectors = [c for c in collectors if c.layer not in self._refused]
        self._groups: list[_Group] = []
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._sampled = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._files = ExitStack()
        self._failed: BaseException | None = None
        self.last_ns = 0  # when the last sample was complete

    def __enter__(self) -> Sampler:
        self._folder.mkdir(parents=True, exist_ok=True)
        for c in self._collectors:
            file = self._files.enter_context((self._folder / f"{c.layer}.jsonl").open("w"))
            self._groups.append(_Group(c, file))
        self._epoch = SamplingEpoch(time_ns=time.time_ns(), monotonic_ns=time.monotonic_ns())
        self._write()  # and again at the end; of a run that was killed, this
        self._thread.start()
        while self._thread.is_alive() and not self._sampled.wait(0.1):
            pass  # what is counted from now on grows from the first sample
        return self

    def _run(self) -> None:
        try:
            next_at = time.monotonic()
            while True:
                late = time.monotonic() > next_at + self._period
                for group in self._groups:
                    group.sample(late)
                self.last_ns = time.monotonic_ns()
                self._sampled.set()
                next_at = max(next_at + self._period, time.monotonic())
                if self._wake.wait(next_at - time.monotonic()):
                    self._wake.clear()
                    next_at = time.monotonic()
                if self._stop.is_set():
                    break
            for group in self._groups:  # so that the last counters cover the end
                group.sample(False)
        except Exception as error:  # told when the context is left
            self._failed = error

    def now(self) -> int:
        """A sample at once, so that a trial's begin and end have one each. Its time is before the
        return, and the call's (CLOCK_MONOTONIC, ns) before it."""
        at = time.monotonic_ns()
        # Two: the first to come may have begun before the call.
        for _ in range(2):
            self._sampled.clear()
            self._wake.set()
            while self._thread.is_alive() and not self._sampled.wait(0.1):
                pass
        return at

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._stop.set()
        self._wake.set()
        self._thread.join()
        self._files.close()
        self._write()
        for c in self._collectors:
            c.close()
        if self._failed is not None and kind is None:
            raise self._failed

    def costs(self) -> dict[str, SamplingCost]:
        seconds = (time.monotonic_ns() - self._epoch.monotonic_ns) / 1e9
        return {g.collector.layer: g.cost(seconds) for g in self._groups}

    def _write(self) -> None:
        costs = self.costs()
        about = Sampled(
            version=1,
            period_s=self._period,
            epoch=self._epoch,
            refused=self._refused,
            layers={
                g.collector.layer: SampledLayer(
                    metrics=dict(sorted(g.kinds.items())),
                    absent=g.collector.absent(),
                    cost=costs[g.collector.layer],
                )
                for g in self._groups
            },
        )
        write_whole(self._folder / "collectors.json", about.model_dump_json(indent=2) + "\n")
