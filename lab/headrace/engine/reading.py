# SPDX-License-Identifier: Apache-2.0
"""What an engine read around one load: start the sources at one instant, wait, drain, read."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headrace.engine.accounts import waiting
from headrace.engine.counters import Sending
from headrace.engine.counts import EngineCounts
from headrace.engine.running import RunningEngine
from headrace.engine.sliced import slices_of
from headrace.host.scheduling import kept_waiting
from headrace.record.identity import Direction
from headrace.record.slices import ReplicaSlices

_POLL_S = 0.02
_LOOK_S = 0.04
# A source that cannot keep up stretches its trial; longer than this, and it is stopped.
_STRETCH_LIMIT = 1.5
_STRETCH_SLACK_S = 5.0
_EMPTY_S = 2.0
_EMPTY_POLL_S = 0.005


class Wires(Protocol):
    """Names of one direction's source and sink."""

    @property
    def direction(self) -> Direction: ...
    @property
    def source(self) -> str: ...
    @property
    def sink(self) -> str: ...


@dataclass(frozen=True)
class Reading:
    """What the engine said before and after."""

    load_pps: float  # per direction; 0: as fast as possible
    duration_s: float
    before: EngineCounts
    after: EngineCounts
    waited_ns: dict[int, int]  # lcore -> how long the machine kept its poller from running
    # Both are longer than the trial, by the wait for a late source and for the last packets:
    watched_s: float  # that `waited_ns` is of
    read_s: float  # from `before` to `after`
    vnfs_waited_ns: dict[int, int] = field(default_factory=dict)  # of CPUs with one VNF each
    sending: Sending | None = None  # None: nothing was read while packets were sent
    slices: tuple[ReplicaSlices, ...] = ()  # of the time of sending


class StartedLoad:
    """A load that was started: `wait`, then `read`. Nothing wakes up on this side meanwhile: on a
    small machine one look takes a poller's CPU for half a millisecond."""

    def __init__(
        self,
        engine: RunningEngine,
        ways: Sequence[Wires],
        load_pps: float,
        duration_s: float,
        drain_s: float,
    ) -> None:
        self._engine, self._ways = engine, ways
        self._load_pps, self._duration_s, self._drain_s = load_pps, duration_s, drain_s
        self._before, self._read_at = when_empty(engine), time.monotonic()
        with contextlib.ExitStack() as shield:
            shield.enter_context(engine.measuring())
            self._vnfs_as = engine.scheduled_beside()
            self._began_as, self._watched_at = engine.scheduled(), time.monotonic()
            self._start_tsc = _start(engine, ways, load_pps, duration_s)
            until = (self._start_tsc - self._before.tsc) / self._before.tsc_hz
            self._began = self._read_at + until
            self._shield = shield.pop_all()

    @property
    def began(self) -> float:
        """When the sources do, by the monotonic clock."""
        return self._began

    @property
    def duration_s(self) -> float:
        return self._duration_s

    def wait(self) -> None:
        """Waits for the sources' end, and for the last packets to come."""
        before, limit = self._before, self._duration_s * _STRETCH_LIMIT + _STRETCH_SLACK_S
        with self._shield:
            # Engines of VNFs do not know when sources send: one look is for them, before the end.
            early = _LOOK_S if self._vnfs_as else 0.0
            time.sleep(max(0.0, self._began + self._duration_s - early - time.monotonic()))
            at = _wait_done(self._engine, self._ways, self._began + limit)
            now = self._engine.scheduled()
            self._waited = kept_waiting(self._began_as, now, before.workers)
            self._watched_s = time.monotonic() - self._watched_at
            self._vnfs_waited = {}
            if self._vnfs_as and (meanwhile := self._engine.scheduled_beside()):
                self._vnfs_waited = kept_waiting(self._vnfs_as, meanwhile, _alone(before))
            time.sleep(self._drain_s)
            self._after = when_empty(self._engine)
            self._read_s = time.monotonic() - self._read_at
        until = self._start_tsc + round(self._duration_s * before.tsc_hz)
        self._slices = slices_of(self._engine, self._start_tsc, until)
        self._sending = None if at is None else Sending(at, self._start_tsc - before.tsc)

    def read(self) -> Reading:
        return Reading(
            self._load_pps, self._duration_s, self._before, self._after, self._waited,
            self._watched_s, self._read_s, self._vnfs_waited, self._sending, self._slices,
        )  # fmt: skip


def run(
    engine: RunningEngine, ways: Sequence[Wires], load_pps: float, duration_s: float, drain_s: float
) -> Reading:
    one = StartedLoad(engine, ways, load_pps, duration_s, drain_s)
    one.wait()
    return one.read()


@contextlib.contextmanager
def sending(
    engine: RunningEngine, ways: Sequence[Wires], load_pps: float, seconds: float
) -> Iterator[None]:
    """Each source at this rate meanwhile (0: as fast as possible), and nothing is read: for what
    looks at the chain while it works. It ends with the seconds, or when this is left."""
    _start(engine, ways, load_pps, seconds)
    try:
        yield
    finally:
        engine.request("stop")


def _start(engine: RunningEngine, ways: Sequence[Wires], load_pps: float, seconds: float) -> int:
    """When the sources begin, by the engine's clock."""
    sources = {way.source: {"rate_pps": load_pps, "duration_s": seconds} for way in ways}
    return int(engine.request("start", sources=sources)["start_tsc"])


def _alone(read: EngineCounts) -> list[int]:
    """CPUs with one segment only: VNFs that share one wait for each other as they are meant to."""
    return [cpu for cpu, worker in read.workers.items() if len(worker.segments) == 1]


def when_empty(engine: RunningEngine) -> EngineCounts:
    """Counters once nothing of a trial is on its way any more: a slow function takes longer for a
    full ring than any drain time, and a burst inside it would count as out, but not as in."""
    deadline = time.monotonic() + _EMPTY_S
    before = engine.read()
    while time.monotonic() < deadline:
        time.sleep(_EMPTY_POLL_S)
        after = engine.read()
        if not waiting(after) and _taken(after) == _taken(before):
            return after
        before = after
    return before


def _taken(read: EngineCounts) -> list[int]:
    """How many packets each replica has taken in."""
    return [replica.packets_in for replica in read.replicas]


def _wait_done(
    engine: RunningEngine, ways: Sequence[Wires], deadline: float
) -> EngineCounts | None:
    """The last reading that was taken while all sources still sent, if there was any."""
    last = None
    while True:
        read = engine.read()
        states = [read.source(way.source).state for way in ways]
        if all(state == "running" for state in states):
            last = read
        if all(state == "done" for state in states):
            return last
        if time.monotonic() > deadline:
            engine.request("stop")
            return last
        time.sleep(_POLL_S)


@dataclass(frozen=True)
class WayTraffic:
    """One direction's traffic in a trial, in packets."""

    intended: int
    sent: int
    sent_bytes: int
    unsent: int
    received: int
    within: int  # of them those that came while the trial went on; the others waited somewhere
    within_bytes: int  # with FCS
    duplicated: int
    duration_s: float
    intended_s: float

    @property
    def lost(self) -> int:
        """Below zero where more came than was sent, which the audit says."""
        return self.sent - self.received

    @property
    def loss_ratio(self) -> float:
        return max(0, self.lost) / self.sent if self.sent else 0.0


def flow(reading: Reading, way: Wires) -> WayTraffic:
    """Sources and sinks count from the trial's start, so these are plain readings.

    A packet counts as received once, and only if it is one that the source sent: what a function
    makes itself (a copy, an ICMP error) and what comes twice would otherwise hide a loss.
    """
    source, sink = reading.after.source(way.source), reading.after.sink(way.sink)
    intended_ns = source.intended_duration_ns
    return WayTraffic(
        intended=source.intended,
        sent=source.sent,
        sent_bytes=source.sent_bytes,
        unsent=source.unsent,
        received=sink.own.packets,
        within=sink.within.own_packets,
        within_bytes=sink.within.own_bytes,
        duplicated=sink.duplicated,
        # A source's last packet leaves an interval before the trial's end; at 1 packet/s, a second.
        duration_s=max(source.duration_ns, intended_ns) / 1e9 or reading.duration_s,
        intended_s=intended_ns / 1e9 or reading.duration_s,
    )
