# SPDX-License-Identifier: Apache-2.0
"""An elastic segment of a running engine under a load that changes: looked at in each 10 ms, and
given other lcores and buckets meanwhile (docs/design/elastic.md)."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.engine.accounts import Books, books, without_consumed
from headrace.engine.clocks import of_workers
from headrace.engine.control import ControlError
from headrace.engine.counters import difference
from headrace.engine.counts import EngineCounts, ReplicaCounts, WorkerCounts
from headrace.engine.link_counts import RingCounts
from headrace.engine.plan_compiler import Path
from headrace.engine.plan_document import Plan
from headrace.engine.reading import when_empty
from headrace.engine.running import RunningEngine
from headrace.engine.sliced import SlicesReply
from headrace.errors import HeadraceError
from headrace.ground.operable import (
    Assignment,
    Foresight,
    Integers,
    Numbers,
    PlantTelemetry,
    Totals,
)
from headrace.host.scheduling import Snapshot, kept_waiting
from headrace.record.facts import Facts

SLICE_HZ = 100  # of the sink's delays (engine/link/sink.h)
WINDOW_S = 1 / SLICE_HZ
_BEHIND_S = 0.001  # a window's end: a packet of the next one has come then, and has closed it
_CLOSED_S = 0.004  # is waited for such a packet at most
_FIRST_S = 1.0  # and for the first one
_COUNTED_S = 0.1  # whose packets by bucket are told
_ENDLESS = 1 << 53  # packets: the rate changes, and the time is what ends
LEAST_PPS = 1.0  # the engine has no pause between two packets that is longer
Policy = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class ElasticEngine:
    """The one elastic segment of an engine's plan. `cpus`: those that it may have, by lcore."""

    engine: RunningEngine
    plan: Plan
    way: Path
    cpus: tuple[int, ...]
    policy: Policy  # function: drop reasons that are what it was told to do
    say: Callable[[str], None]
    _at: list[int] = field(default_factory=list)  # the lcore of each replica

    @property
    def segment(self) -> str:
        return next(one.name for one in self.plan.segments if one.elastic)

    @property
    def at(self) -> tuple[int, ...]:
        return tuple(self._at)

    def steered(self) -> tuple[Integers, Integers]:
        """The lcore that has each bucket, and how many packets each had."""
        reply = self.engine.request("buckets", segment=self.segment)
        owners = np.array([self._at[one] for one in reply["owners"]], dtype=np.int64)
        return owners, np.array(reply["packets"], dtype=np.int64)

    def use(self, lcores: tuple[int, ...]) -> int:
        """Has so many replicas, on these lcores; what stays stays where it is. Returns how many
        buckets of those that rest from now on, or for those that begin, moved."""
        kept = [one if one in lcores else None for one in self._at[: len(lcores)]]
        kept += [None] * (len(lcores) - len(kept))
        others = iter([one for one in lcores if one not in kept])
        wanted = [next(others) if one is None else one for one in kept]
        if wanted == self._at:
            return 0
        cpus = tuple(self.cpus[one] for one in wanted)
        segments = tuple(
            one.model_copy(update={"cpus": cpus}) if one.elastic else one
            for one in self.plan.segments
        )
        plan = self.plan.having(segments=segments)
        reply = self.engine.request("plan", plan=plan.as_json())
        self._at[:] = wanted
        return sum(one["buckets"] for one in reply.get("moves", ()))

    def move(self, wanted: Integers) -> int:
        """Buckets to the lcores that are to have them: how many moved."""
        owners, _ = self.steered()
        moved = 0
        for replica, lcore in enumerate(self._at):
            buckets = np.flatnonzero((wanted == lcore) & (owners != lcore))
            if not buckets.size:
                continue
            self.engine.request(
                "move", segment=self.segment, buckets=[int(b) for b in buckets], to=replica
            )
            moved += int(buckets.size)
        return moved

    def lost(self, grown: Books) -> tuple[dict[str, int], int]:
        """Packets by place and reason, but for those that were dropped as was asked, which are the
        second."""
        drops = without_consumed(grown.dropped(("forward",)))
        asked = {f"{name}/{reason}" for name, reasons in self.policy.items() for reason in reasons}
        left = {place: n for place, n in drops.items() if place not in asked}
        return left, grown.by_policy(("forward",), self.policy)


@dataclass
class SinkWindows:
    """Delays of the sink's packets in windows of 10 ms, on the grid that its first packet began."""

    of: ElasticEngine
    tsc_hz: int
    anchor: int | None = None
    seen: int = 0  # windows that are over

    @property
    def _step(self) -> int:
        """TSC cycles, as the engine has it."""
        return self.tsc_hz // SLICE_HZ

    def ends_at(self) -> int:
        """TSC of the end of the next one."""
        assert self.anchor is not None
        return self.anchor + (self.seen + 1) * self._step

    def begin(self, since: int) -> bool:
        """Waits for the first packet; whether one came."""
        deadline = time.monotonic() + _FIRST_S
        while time.monotonic() < deadline:
            time.sleep(WINDOW_S)
            if rows := self._rows(since):
                self.anchor = rows[0][0]
                return True
        return False

    def p99_s(self, until: int, came: int) -> float:
        """The largest of those windows that are over and that nobody has asked for yet; one that is
        over since a moment only may not be closed, and is the next look's. Where packets were due
        and none came for all of that time, they take longer than it."""
        assert self.anchor is not None
        first = self.anchor + self.seen * self._step
        over = int(until - _BEHIND_S * self.tsc_hz) - self.anchor
        due = max(1, over // self._step - self.seen)
        rows, deadline = self._rows(first), time.monotonic() + _CLOSED_S
        while not rows and came and time.monotonic() < deadline:
            time.sleep(_BEHIND_S)
            rows = self._rows(first)
        last = first + due * self._step
        inside = [one[4] for one in rows if one[0] < last]
        self.seen += due
        if inside:
            return max(inside) * 1e-9
        return due * WINDOW_S if came else 0.0

    def _rows(self, since: int) -> list[tuple[int, ...]]:
        """Slices that began since then: begin, end, packets, p50, p99, the largest, in ns."""
        reply = SlicesReply.model_validate(self.of.engine.request("slices", since=since, most=1))
        queues = reply.delays[self.of.way.sink].queues
        return sorted(row for queue in queues for row in queue)


@dataclass
class EnginePlant:
    """`future`: from the moment in which it is made."""

    of: ElasticEngine
    future: Foresight
    core_seconds: float = 0.0
    _shield: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _before: EngineCounts = field(init=False)
    _first: EngineCounts = field(init=False)
    _scheduled: Snapshot = field(init=False)  # with `_first`
    _windows: SinkWindows = field(init=False)
    _owners: Integers = field(init=False)
    # By the second, packets of each bucket so far.
    _packets: deque[tuple[float, Integers]] = field(init=False)
    _rate: float = field(init=False)  # that the source has
    _read_at: float = field(init=False)  # by this side's clock, of `_before`
    _first_at: float = field(init=False)  # the same of `_first`
    _start_tsc: int = field(init=False)
    _charged: float = field(init=False)  # lcores, since the last look
    _ended: bool = False

    def __post_init__(self) -> None:
        of = self.of
        self._shield.enter_context(of.engine.measuring())
        self._owners, packets = of.steered()
        self._packets = deque([(0.0, packets)])
        self._charged = self._has()
        self._first = self._before = when_empty(of.engine)
        self._scheduled = of.engine.scheduled()
        self._first_at = self._read_at = time.monotonic()
        self._windows = SinkWindows(of, self._before.tsc_hz)
        self._rate = self._next_rate(0.0, self._first)
        self._start()

    def _start(self) -> None:
        self.began(int(self.of.engine.request("start", sources=self.source)["start_tsc"]))

    @property
    def source(self) -> dict[str, dict[str, float]]:
        """What the source is told, by its name."""
        told = {"rate_pps": self._rate, "duration_s": self.seconds, "packets": _ENDLESS}
        return {self.of.way.source: told}

    def began(self, start_tsc: int) -> None:
        """Waits until the first packet has come. `start_tsc`: when the source was started."""
        self._start_tsc = start_tsc
        if not self._windows.begin(start_tsc):
            segment = self.of.segment
            raise HeadraceError(f"{segment}: no packet came within {_FIRST_S:g} s of the start")

    @property
    def seconds(self) -> float:
        return float(self.future.seconds[-1])

    def _due(self, at_s: float) -> float:
        """The load of the window that begins then."""
        return max(LEAST_PPS, self.future.mean(at_s, at_s + WINDOW_S))

    def _next_rate(self, at_s: float, now: EngineCounts) -> float:
        """What the source is to send in that window."""
        return self._due(at_s)

    @property
    def ended(self) -> bool:
        return self._ended

    @property
    def assignment(self) -> Assignment:
        return Assignment(tuple(sorted(self.of.at)), self._owners)

    def read(self) -> PlantTelemetry:
        of, before = self.of, self._before
        hz = before.tsc_hz
        target = self._windows.ends_at() + _BEHIND_S * hz
        # By the reading before: what was asked meanwhile took time, too.
        time.sleep(max(0.0, (target - self._now(before)) / hz))
        now = of.engine.read()
        self._read_at = time.monotonic()
        at_s = (now.tsc - self._start_tsc) / hz
        self._ended = at_s >= self.seconds - WINDOW_S / 2
        if self._ended:
            self._stop()
        elif (rate := self._next_rate(at_s, now)) != self._rate:
            self._rate = rate
            of.engine.request("set", link=of.way.source, rate_pps=rate)
        self._before = now
        self._owners, packets = of.steered()
        self._packets.append((at_s, packets))
        return self._telemetry(before, now)

    def _stop(self) -> None:
        self.of.engine.request("stop")

    def _begun(self, before: EngineCounts) -> float:
        """Seconds from the start to a reading, or to the start for the one before it."""
        return 0.0 if before is self._first else (before.tsc - self._start_tsc) / before.tsc_hz

    def _now(self, before: EngineCounts) -> float:
        return before.tsc + (time.monotonic() - self._read_at) * before.tsc_hz

    def _telemetry(self, before: EngineCounts, now: EngineCounts) -> PlantTelemetry:
        of, begin_s = self.of, self._begun(before)
        seconds = (now.tsc - self._start_tsc) / now.tsc_hz - begin_s
        since = 0 if before is self._first else before.source(of.way.source).sent
        offered = now.source(of.way.source).sent - since
        lost, by_policy = of.lost(books(before, now))
        dropped = sum(lost.values())
        self.core_seconds += self._charged * seconds
        self._charged = self._has()
        return PlantTelemetry(
            begin_s=begin_s,
            seconds=seconds,
            offered=offered,
            dropped=dropped,
            p99_s=self._windows.p99_s(now.tsc, offered - dropped - by_policy),
            moving=0,  # `act` returns when nothing is
            settled=True,
            **self._lcores(before, now, seconds),
        )

    def _has(self) -> float:
        """Lcores that it has at this moment."""
        return len(self.of.at)

    def _lcores(self, before: EngineCounts, now: EngineCounts, seconds: float) -> dict[str, Any]:
        of, most = self.of, len(self.of.cpus)
        steered = self._packets[-1][1] - self._packets[-2][1]
        came = np.bincount(self._owners, weights=steered, minlength=most).astype(np.int64)
        done, queued = np.zeros(most, np.int64), np.zeros(most, np.int64)
        busy, burst, on = np.zeros(most), np.ones(most), np.zeros(most, bool)
        waits = now.links[of.way.wire]
        assert isinstance(waits, RingCounts), of.way.wire
        for replica, lcore in enumerate(of.at):
            was, has = (read.segments[of.segment][replica] for read in (before, now))
            done[lcore] = has.packets_in - was.packets_in
            queued[lcore] = waits.used_each[replica]
            worked = self._worked(before.workers[has.cpu], now.workers[has.cpu], was, has)
            busy[lcore] = worked / now.tsc_hz / seconds
            burst[lcore] = max(1.0, done[lcore] / max(1, _full_polls(was, has)))
            on[lcore] = True
        work = {"done": done, "busy": busy, "burst": burst}
        return {"came": came, "queued": queued, "on": on, **work}

    def _worked(
        self, worker_was: WorkerCounts, worker: WorkerCounts, was: ReplicaCounts, has: ReplicaCounts
    ) -> float:
        """Cycles in which an lcore could not have taken more packets: it worked, or the kernel or a
        hypervisor had its CPU."""
        return taken(worker_was, worker)

    def packets(self) -> Numbers:
        now, last = self._packets[-1]
        while len(self._packets) > 2 and now - self._packets[1][0] >= _COUNTED_S:
            self._packets.popleft()
        grown: Numbers = (last - self._packets[0][1]).astype(np.float64)
        return grown

    def act(self, wanted: Assignment) -> int:
        """What the engine could not do is said, and seen at the next look: buckets stay."""
        self._charged, moved = max(self._has(), len(wanted.lcores)), 0
        try:
            moved += self.of.use(wanted.lcores)
            moved += self.of.move(wanted.owners)
        except ControlError as error:
            self.of.say(f"  a step was not made, or not all of it: {error}")
        self._owners, _ = self.of.steered()
        return moved

    def totals(self) -> Totals:
        of = self.of
        waited = kept_waiting(self._scheduled, of.engine.scheduled(), self._first.workers)
        last = when_empty(of.engine)
        took_s = time.monotonic() - self._first_at
        self._shield.close()
        source, sink = last.source(of.way.source), last.sink(of.way.sink)
        grown = books(self._first, last)
        drops, by_policy = of.lost(grown)
        counters = difference(self._first, last, of.plan, waited)
        asked = round(self.future.mean(0.0, self.seconds) * self.seconds)
        facts = Facts(
            sent=source.sent, received=sink.own.packets, lost=sum(drops.values()), asked=asked,
            intended_s=self.seconds, took_s=source.duration_ns / 1e9,
            behind_s=source.behind_max_ns / 1e9, undecided=sink.undecided,
            clocks=of_workers(counters.workers, counters.tsc_hz, waited, took_s, took_s),
        )  # fmt: skip
        return Totals(
            offered=source.sent, done=sink.own.packets, dropped=sum(drops.values()),
            queued=grown.waiting + grown.held_of(("forward",)),
            unsent=max(0, asked - source.sent), drops=drops, by_policy=by_policy, facts=facts,
        )  # fmt: skip


def taken(was: WorkerCounts, now: WorkerCounts) -> int:
    """Cycles that an lcore was neither idle nor asleep."""
    idle = now.idle_cycles - was.idle_cycles + now.sleep_cycles - was.sleep_cycles
    return now.ref_cycles - was.ref_cycles - idle


def _full_polls(was: ReplicaCounts, now: ReplicaCounts) -> int:
    """Polls that found packets."""
    return (now.polls - was.polls) - (now.idle_polls - was.idle_polls)
