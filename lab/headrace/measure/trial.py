# SPDX-License-Identifier: Apache-2.0
"""One trial: start the sources at one instant, wait, drain, read; and its record."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.bundle import now
from headrace.measure import counters as count
from headrace.measure.audit import audit
from headrace.measure.latency import latency, merge, pdv
from headrace.measure.results import UNINTENDED
from headrace.record import Calibration, Counters, Phase, Segment, Trial, gbps
from headrace.spec.workload import Workload
from headrace.testbed.engine import Engine
from headrace.testbed.plan import Path
from headrace.testbed.scheduling import kept_waiting, snapshot

Json = dict[str, Any]

BELOW_FLOOR = "below-floor"  # the latency is below the tester's own: so that is no floor

_POLL_S = 0.02
# A source that cannot keep up stretches its trial; longer than this, and it is stopped.
_STRETCH_LIMIT = 1.5
_STRETCH_SLACK_S = 5.0
_EMPTY_S = 2.0
_EMPTY_POLL_S = 0.005


@dataclass(frozen=True)
class Context:
    """What all trials of one deployed experiment have in common."""

    chain: str
    execution: str
    workload: str
    frame_bytes_mean: float
    plan: Json
    ways: tuple[Path, ...]
    segments: tuple[Segment, ...]
    labels: tuple[str, ...]
    calibration: Calibration | None
    identified_by: str  # key of the sink's count of packets that are known to be the source's
    drain_s: float
    # node: drop reasons that are no loss. Functions count both directions together, so that with
    # traffic both ways it is taken off the loss of their sum only.
    policy: dict[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Reading:
    """What the engine said before and after."""

    load_pps: float  # per direction; 0: as fast as possible
    duration_s: float
    started_at: str
    before: Json
    after: Json
    waited_ns: dict[int, int]  # lcore -> how long the machine kept its poller from running
    # Both are longer than the trial, by the wait for a late source and for the last packets:
    watched_s: float  # that `waited_ns` is of
    read_s: float  # from `before` to `after`
    vnfs_waited_ns: dict[int, int] = field(default_factory=dict)  # of CPUs with one VNF each
    sending: count.Sending | None = None  # None: nothing was read while packets were sent


def run(
    engine: Engine, ways: Sequence[Path], load_pps: float, duration_s: float, drain_s: float
) -> Reading:
    """Nothing wakes up on this side during the trial: on a small machine it would cost packets."""
    sources = {way.source: {"rate_pps": load_pps, "duration_s": duration_s} for way in ways}
    before, read_at = _when_empty(engine), time.monotonic()
    vnfs = tuple(engine.pids.values())
    with engine.measuring():
        vnfs_as = snapshot(*vnfs)
        began_as, watched_at = snapshot(engine.pid), time.monotonic()
        started_at = now()
        start_tsc = int(engine.request("start", sources=sources)["start_tsc"])
        began = time.monotonic()
        time.sleep(duration_s)
        at = _wait_done(engine, ways, began + duration_s * _STRETCH_LIMIT + _STRETCH_SLACK_S)
        waited = kept_waiting(began_as, snapshot(engine.pid), map(int, before.get("workers", {})))
        watched_s = time.monotonic() - watched_at
        vnfs_waited = kept_waiting(vnfs_as, snapshot(*vnfs), _alone(before)) if vnfs else {}
        time.sleep(drain_s)
        after = engine.request("read")
        read_s = time.monotonic() - read_at
    sending = None if at is None else count.Sending(at, start_tsc - int(before["tsc"]))
    return Reading(
        load_pps, duration_s, started_at, before, after, waited, watched_s, read_s, vnfs_waited,
        sending,
    )  # fmt: skip


def _alone(read: Json) -> list[int]:
    """CPUs with one segment only: VNFs that share one wait for each other as they are meant to."""
    return [int(cpu) for cpu, worker in read["workers"].items() if len(worker["segments"]) == 1]


def _when_empty(engine: Engine) -> Json:
    """Counters once nothing of an earlier trial is on its way: a slow function takes longer for a
    full ring than any drain time, and a burst inside it would count as out, but not as in."""
    deadline = time.monotonic() + _EMPTY_S
    before = engine.request("read")
    while time.monotonic() < deadline:
        time.sleep(_EMPTY_POLL_S)
        after = engine.request("read")
        if not _waiting(after) and _taken(after) == _taken(before):
            return after
        before = after
    return before


def _waiting(read: Json) -> int:
    return sum(int(link.get("used", 0)) for link in read["links"].values())


def _taken(read: Json) -> list[int]:
    """How many packets each replica has taken in."""
    return [int(replica["in"]) for each in read["segments"].values() for replica in each]


def _wait_done(engine: Engine, ways: Sequence[Path], deadline: float) -> Json | None:
    """The last reading that was taken while all sources still sent, if there was any. Sources start
    some hundredths of a second after they are told: the first look mostly comes before their end.
    """
    last = None
    while True:
        read = engine.request("read")
        states = [read["links"][way.source]["state"] for way in ways]
        if all(state == "running" for state in states):
            last = read
        if all(state == "done" for state in states):
            return last
        if time.monotonic() > deadline:
            engine.request("stop")
            return last
        time.sleep(_POLL_S)


@dataclass(frozen=True)
class Flow:
    """One direction's traffic in a trial, in packets."""

    intended: int
    sent: int
    sent_bytes: int
    unsent: int
    received: int
    within: int  # of them those that came while the trial went on; the others waited somewhere
    duplicated: int
    duration_s: float
    intended_s: float

    @property
    def lost(self) -> int:
        return max(0, self.sent - self.received)

    @property
    def loss_ratio(self) -> float:
        return self.lost / self.sent if self.sent else 0.0


def identified_by(workload: Workload) -> str:
    """Stamps tell the source's packets from others; a replayed capture's are known by digest."""
    if workload.pcap is not None:
        return "matched"
    return "stamped" if workload.stamp else "received"


def flow(reading: Reading, way: Path, own_count: str) -> Flow:
    """Sources and sinks count from the trial's start, so these are plain readings.

    A packet counts as received once, and only if it is one that the source sent: what a function
    makes itself (an ICMP error) and what comes twice would otherwise hide a loss.
    """
    source, sink = reading.after["links"][way.source], reading.after["links"][way.sink]
    within = sink.get("within", sink)
    intended_ns = int(source["intended_duration_ns"])
    return Flow(
        intended=int(source["intended"]),
        sent=int(source["sent"]),
        sent_bytes=int(source["sent_bytes"]),
        unsent=int(source["unsent"]),
        received=max(0, int(sink[own_count]) - int(sink["duplicated"])),
        within=max(0, int(within[own_count]) - int(within["duplicated"])),
        duplicated=int(sink["duplicated"]),
        # A source's last packet leaves an interval before the trial's end; at 1 packet/s, a second.
        duration_s=max(int(source["duration_ns"]), intended_ns) / 1e9 or reading.duration_s,
        intended_s=intended_ns / 1e9 or reading.duration_s,
    )


def records(
    context: Context, reading: Reading, number: int, phase: Phase, repetition: int
) -> list[Trial]:
    """One record per direction, and their sum when there are two."""
    waited = {
        cpu: max(ns, reading.vnfs_waited_ns.get(cpu, 0)) for cpu, ns in reading.waited_ns.items()
    }
    counters = count.difference(
        reading.before, reading.after, context.plan, waited, reading.sending
    )
    made = [
        _record(context, reading, counters, (way,), number, phase, repetition)
        for way in context.ways
    ]
    if len(context.ways) > 1:
        made.append(_record(context, reading, counters, context.ways, number, phase, repetition))
    return made


def _record(
    context: Context,
    reading: Reading,
    counters: Counters,
    ways: tuple[Path, ...],
    number: int,
    phase: Phase,
    repetition: int,
) -> Trial:
    flows = [flow(reading, way, context.identified_by) for way in ways]
    sources = [reading.after["links"][way.source] for way in ways]
    sinks = [reading.after["links"][way.sink] for way in ways]
    seconds = max(f.duration_s for f in flows)
    throughput = sum(f.within for f in flows) / max(f.intended_s for f in flows)
    sent, received = sum(f.sent for f in flows), sum(f.received for f in flows)
    intended, lost = sum(f.intended for f in flows), sum(f.lost for f in flows)
    # Functions do not count their drops by direction: of one direction alone every loss counts.
    told = context.policy if len(ways) == len(context.ways) else {}
    policy_dropped = count.dropped_by_policy(counters, told)
    lost = max(0, lost - policy_dropped)
    labels = tuple(one for one in context.labels if told or one != UNINTENDED)
    sent_bytes = sum(f.sent_bytes for f in flows)
    frame = sent_bytes / sent if sent else context.frame_bytes_mean
    readings = [_latency_reading(sink) for sink in sinks]
    combined = readings[0] if len(readings) == 1 else _merged(readings)
    delay = latency(combined)
    made = Trial(
        chain=context.chain,
        direction=ways[0].direction if len(ways) == 1 else "both",
        repetition=repetition,
        execution=context.execution,
        workload=context.workload,
        load_pps=reading.load_pps * len(ways) or intended / seconds,
        throughput_pps=throughput,
        throughput_gbps_l1=gbps(throughput, frame, layer=1),
        throughput_gbps_l2=gbps(throughput, frame, layer=2),
        offered_pps=intended / seconds,
        sent_pps=sent / seconds,
        received_pps=received / seconds,
        loss_ratio=min(1.0, lost / sent) if sent else 0.0,
        latency_ns=delay,
        pdv_ns=pdv(delay),
        ipdv_ns_mean=_ipdv(sinks),
        nf_cycles=count.nf_cycles(counters),
        utilisation=count.utilisation(counters),
        drops=count.drops(counters),
        located=count.located(counters),
        audit=audit(reading, ways, flows, counters, context, lost),
        duration_s=seconds,
        frame_bytes_mean=frame,
        intended=intended,
        sent=sent,
        received=received,
        lost=lost,
        policy_dropped=policy_dropped,
        reordered=sum(int(sink["reordered"]) for sink in sinks),
        duplicated=sum(f.duplicated for f in flows),
        unstamped=sum(int(sink.get("unknown", 0)) for sink in sinks),
        late=sum(int(sink.get("late", 0)) for sink in sinks),
        flows=sum(
            int(source.get("flows", sink["flows"]))
            for source, sink in zip(sources, sinks, strict=True)
        ),
        latency_hdr=combined.get("hdr") if delay is not None else None,
        calibration=context.calibration,
        segments=context.segments,
        counters=counters,
        labels=labels,
        trial=number,
        phase=phase,
        started_at=reading.started_at,
        intended_duration_s=reading.duration_s,
    )
    if made.below_floor:
        return made.model_copy(update={"labels": (*labels, BELOW_FLOOR)})
    return made


def _latency_reading(sink: Json) -> Json:
    found: Json = sink.get("latency") or {}
    return found


def _merged(readings: list[Json]) -> Json:
    """The directions' packets together: a mean of means would weigh a quiet direction too much."""
    some = [reading for reading in readings if reading.get("count")]
    if not some:
        return {}
    total = sum(reading["count"] for reading in some)
    return {
        "hdr": merge([reading["hdr"] for reading in some]),
        "count": total,
        "min_ns": min(reading["min_ns"] for reading in some),
        "max_ns": max(reading["max_ns"] for reading in some),
        "mean_ns": sum(reading["mean_ns"] * reading["count"] for reading in some) / total,
    }


def _ipdv(sinks: list[Json]) -> float | None:
    total = sum(int(sink.get("ipdv_count", 0)) for sink in sinks)
    if not total:
        return None
    weighted = (float(s["ipdv_ns_mean"]) * int(s["ipdv_count"]) for s in sinks if s["ipdv_count"])
    return sum(weighted) / total
