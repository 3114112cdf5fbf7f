# SPDX-License-Identifier: Apache-2.0
"""ACL -> NAT -> firewall -> LB -> monitor with a million flows of IMIX at 80 % of what it carries,
while replicas come and go, buckets move and functions change segments: what that adds to p99.9.

The load is of the narrowest of what changes lead to: where it is more than that, all of it waits
for ever, and so does a change. On two CPUs the second replica is on the lcore of source and sink,
and the control thread takes time of both: p99.9 has what source and sink wait for their lcore, with
changes and without, and the difference is what changes add to that, not to a chain on lcores of its
own.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from hdrh.histogram import HdrHistogram

from headrace.host.cpu_time import shield
from headrace.record.latency import decode
from perf.engine import host
from perf.nfs import BenchError
from perf.stats import Sample
from support.changing import (
    BEGUN,
    BUCKETS,
    LONG_MS,
    MANY,
    PIPELINE,
    RTC,
    Changes,
    Parts,
    counters,
    large,
    plan_of,
)
from support.engine import Engine

PART, TURNS, CHANGES = 0.8, 10, 100  # changes of a turn
CAPACITY_S, HALVES = 1.0, 40
STOP_S, STOPS, EVERY_S = 0.03, 10, 0.4  # the engine is stopped for so long, so often
MEMORY_MB = 4096
ALONE = "one replica"
_RARE = 0.001  # packets that p99.9 leaves out


@dataclass
class MovesSeen:
    """`known`: p99.9 with stops of known lengths, over what these make of it by hand."""

    carried_pps: dict[str, float] = field(default_factory=dict)  # by arrangement
    changed_us: list[float] = field(default_factory=list)  # p99.9 of each turn
    still_us: list[float] = field(default_factory=list)
    whole_us: dict[str, float] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)  # of changes, by kind
    halves_ms: list[float] = field(default_factory=list)
    asked_ms: list[float] = field(default_factory=list)  # the same by this side's clock
    waited: list[float] = field(default_factory=list)  # over packets that came for these meanwhile
    known: float = 0.0
    packets: int = 0
    harmed: Counter[str] = field(default_factory=Counter)  # lost, reordered, duplicated, begun anew

    @property
    def load_pps(self) -> float:
        return PART * min(self.carried_pps.values())


def seen(binary: Path, folder: Path, cpus: list[int]) -> MovesSeen:
    ends, first, *more = cpus
    replicas = [first, more[0] if more else ends]
    plan = large(plan_of([ends, first], RTC, [[first]], 2))
    plan["engine"] = host(MEMORY_MB, hugepages=False, spare_cpus=[replicas[1]])
    with Engine(binary, plan, folder, patience=4) as engine:
        shield(engine.process.pid)
        changes = Changes(
            engine, plan, [ends, first], 2, random.Random(1), RTC, of=large, on=replicas
        )
        run = _Run(engine, changes, replicas, MovesSeen())
        run.carried()
        run.turns()
        run.halves()
        run.stopped()
        return run.seen


@dataclass
class _Run:
    engine: Engine
    changes: Changes
    replicas: list[int]
    seen: MovesSeen

    @contextmanager
    def _traffic(self, pps: float) -> Iterator[list[dict[str, Any]]]:
        """Yields where the last reading will be."""
        last: list[dict[str, Any]] = []
        sources = {"gen": {"rate_pps": pps, "duration_s": 3600}}
        self.engine.call("start", sources=sources)
        yield last
        self.engine.call("stop")
        self.engine.wait_for(self._is_done, "the end", seconds=60)
        last.append(self.engine.settle(self._sent()))
        self._judge(last[0])

    def _is_done(self) -> bool:
        return bool(self.engine.read()["links"]["gen"]["state"] == "done")

    def _sent(self) -> int:
        return int(self.engine.read()["links"]["gen"]["sent"])

    def _judge(self, reading: dict[str, Any]) -> None:
        sink, sent = reading["links"]["meas"], reading["links"]["gen"]["sent"]
        self.seen.packets += sent
        self.seen.harmed["not received"] += sent - sink["received"]
        for one in ("lost", "reordered", "duplicated"):
            self.seen.harmed[one] += sink[one]
        for name, counter in BEGUN.items():
            self.seen.harmed[f"begun anew in {name}"] = counters(reading, name, counter) - MANY

    def carried(self) -> None:
        """What comes through at most, once every flow has its sessions; rings wait, so that the
        source makes no more than that. Changes have to wait for none of it: there is no room."""
        with self._traffic(0):
            self.engine.wait_for(
                lambda: self.engine.read()["links"]["meas"]["received"] > MANY, "flows", 120
            )
        for name, (parts, on) in self._arrangements().items():
            self.changes.to(parts, on)
            with self._traffic(0):
                time.sleep(CAPACITY_S / 2)
                before = self.engine.read()
                time.sleep(CAPACITY_S)
                self.seen.carried_pps[name] = _rate(before, self.engine.read())

    def _arrangements(self) -> dict[str, tuple[Parts, list[list[int]]]]:
        """Among them those that carry least: all segments on one lcore, be it that of the ends."""
        first, second = self.replicas
        each = len(PIPELINE)
        return {
            ALONE: (RTC, [[first]]),
            "two replicas": (RTC, [self.replicas]),
            "pipeline, one lcore": (PIPELINE, [[first]] * each),
            "pipeline, the other lcore": (PIPELINE, [[second]] * each),
            "pipeline, two replicas each": (PIPELINE, [self.replicas] * each),
        }

    def turns(self) -> None:
        """Changes, and as long a time without, in turn."""
        both: dict[str, HdrHistogram] = {}
        for _ in range(TURNS):
            with self._traffic(self.seen.load_pps) as changed:
                began = time.monotonic()
                for _ in range(CHANGES):
                    self.changes.one()
                took = time.monotonic() - began
            self.changes.to(RTC, [self.replicas])
            with self._traffic(self.seen.load_pps) as still:
                time.sleep(took)
            for name, reading, us in (
                ("with changes", changed[0], self.seen.changed_us),
                ("without", still[0], self.seen.still_us),
            ):
                delays = _delays(reading)
                us.append(_p999_us(delays))
                if name in both:
                    both[name].add(delays)
                else:
                    both[name] = delays
        self.seen.whole_us = {name: _p999_us(one) for name, one in both.items()}
        self.seen.counts = self.changes.changes

    def halves(self) -> None:
        """Half of all flows to the other replica, and back."""
        self.changes.to(RTC, [self.replicas])
        pps = self.seen.load_pps
        segment, some = "-".join(RTC[0]), list(range(BUCKETS // 2))
        with self._traffic(pps):
            time.sleep(EVERY_S)
            for turn in range(HALVES + 1):
                began = time.monotonic()
                told = self.engine.call(
                    "move", segment=segment, buckets=some, to=turn % 2, within_ms=LONG_MS
                )
                asked_s = time.monotonic() - began
                if not turn:  # to where the others begin
                    continue
                if told["buckets"] != len(some):
                    raise BenchError(f"{told['buckets']} buckets moved, not {len(some)}")
                self.seen.halves_ms.append(told["took_ns"] / 1e6)
                self.seen.asked_ms.append(asked_s * 1e3)
                self.seen.waited.append(told["waited"] / (pps / 2 * told["took_ns"] * 1e-9))
                time.sleep(0.02)

    def stopped(self) -> None:
        """Whether p99.9 is what it has to be, where the engine is stopped for known times."""
        self.changes.to(RTC, [self.replicas[:1]])
        pps, lengths = self.seen.load_pps, []
        with self._traffic(pps) as last:
            began = time.monotonic()
            for _ in range(STOPS):
                time.sleep(EVERY_S)
                stop = time.monotonic()
                self.engine.process.send_signal(signal.SIGSTOP)
                time.sleep(STOP_S)
                self.engine.process.send_signal(signal.SIGCONT)
                lengths.append(time.monotonic() - stop)
            time.sleep(EVERY_S)
            took = time.monotonic() - began
        told = by_hand_s(lengths, pps / self.seen.carried_pps[ALONE], took)
        self.seen.known = _p999_us(_delays(last[0])) / (told * 1e6)


def by_hand_s(stops: list[float], load: float, seconds: float) -> float:
    """p99.9 of what comes evenly to a server that stands still so long, each time with nothing
    waiting: who comes t after a stop's beginning waits its length less (1 - load) t."""
    low, high = 0.0, max(stops)
    for _ in range(50):
        middle = (low + high) / 2
        longer = sum(max(0.0, one - middle) for one in stops) / (1 - load)
        low, high = (middle, high) if longer > _RARE * seconds else (low, middle)
    return high


def _rate(before: dict[str, Any], after: dict[str, Any]) -> float:
    came = after["links"]["meas"]["received"] - before["links"]["meas"]["received"]
    return float(came / (after["tsc"] - before["tsc"]) * after["tsc_hz"])


def _delays(reading: dict[str, Any]) -> HdrHistogram:
    delays = decode(reading["links"]["meas"]["latency"]["hdr"])
    if delays is None:
        raise BenchError("the sink has no delays")
    return delays


def _p999_us(delays: HdrHistogram) -> float:
    return float(delays.get_value_at_percentile(99.9)) / 1e3


def rows(one: MovesSeen, row: Callable[[str, Sample, str, float | None], None]) -> list[str]:
    """The rows of the bench, and what is to be said of them."""
    for name, pps in one.carried_pps.items():
        row(f"carried, {name}", Sample((pps / 1e3,)), "kpps", None)
    row("p99.9 with changes", Sample(tuple(one.changed_us)), "us", None)
    row("p99.9 without", Sample(tuple(one.still_us)), "us", None)
    more = tuple(a - b for a, b in zip(one.changed_us, one.still_us, strict=True))
    row("p99.9 more with changes", Sample(more), "us", 100.0)
    row("half of the flows moved", Sample(tuple(one.halves_ms)), "ms", 50.0)
    row("the same, asked to answered", Sample(tuple(one.asked_ms)), "ms", None)
    row("packets that waited / that came for them", Sample(tuple(one.waited)), "x", None)
    row("p99.9 with known stops / by hand", Sample((one.known,)), "x", None)
    kinds = ", ".join(f"{n} of {kind}" for kind, n in sorted(one.counts.items()))
    harm = ", ".join(f"{n} {what}" for what, n in one.harmed.items())
    whole = ", ".join(f"{us:.0f} {name}" for name, us in one.whole_us.items())
    return [
        f"{TURNS * CHANGES} changes at {one.load_pps / 1e3:.4g} kpps of IMIX, {MANY} flows. What "
        f"moved for these, and between turns: {kinds}",
        f"{one.packets} packets: {harm}",
        f"p99.9 of all turns together, us: {whole}; the longest move of a half took "
        f"{max(one.halves_ms):.2f} ms, the median {median(one.halves_ms):.2f}",
        "Source and sink share an lcore; on two CPUs a replica and the control thread have it, "
        "too: both figures have what they wait for it.",
    ]
