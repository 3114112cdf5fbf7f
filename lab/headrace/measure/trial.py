# SPDX-License-Identifier: Apache-2.0
"""One trial: start the sources at one instant, wait, drain, read; and its record."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.engine.engine import Engine
from headrace.engine.plan import Path
from headrace.host.scheduling import kept_waiting, snapshot
from headrace.measure import counters as count
from headrace.measure.accounts import (
    Books,
    Settled,
    Way,
    books,
    settle,
    waiting,
    without_consumed,
)
from headrace.measure.audit import audit
from headrace.measure.clocks import of_vnfs, of_workers
from headrace.record.bundle import now
from headrace.record.counters import Counters
from headrace.record.facts import Facts
from headrace.record.figures import L1_OVERHEAD_BYTES, LatencyFloor
from headrace.record.identity import Direction, Phase
from headrace.record.latency import latency, merge, pdv
from headrace.record.rows import Trial
from headrace.record.segments import Segment

Json = dict[str, Any]

BELOW_FLOOR = "below-floor"  # the latency is below the tester's own: so that is no floor

_POLL_S = 0.02
# A source that cannot keep up stretches its trial; longer than this, and it is stopped.
_STRETCH_LIMIT = 1.5
_STRETCH_SLACK_S = 5.0
_BURST_MAX = 64  # engine/core/nf.h
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
    calibration: LatencyFloor | None
    drain_s: float
    # node: drop reasons that are no loss
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
    engine: Engine, ways: Sequence[Wires], load_pps: float, duration_s: float, drain_s: float
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
        after = _when_empty(engine)
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
    """Counters once nothing of a trial is on its way any more: a slow function takes longer for a
    full ring than any drain time, and a burst inside it would count as out, but not as in."""
    deadline = time.monotonic() + _EMPTY_S
    before = engine.request("read")
    while time.monotonic() < deadline:
        time.sleep(_EMPTY_POLL_S)
        after = engine.request("read")
        if not waiting(after) and _taken(after) == _taken(before):
            return after
        before = after
    return before


def _taken(read: Json) -> list[int]:
    """How many packets each replica has taken in."""
    return [int(replica["in"]) for each in read["segments"].values() for replica in each]


def _wait_done(engine: Engine, ways: Sequence[Wires], deadline: float) -> Json | None:
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


def flow(reading: Reading, way: Wires) -> Flow:
    """Sources and sinks count from the trial's start, so these are plain readings.

    A packet counts as received once, and only if it is one that the source sent: what a function
    makes itself (a copy, an ICMP error) and what comes twice would otherwise hide a loss.
    """
    source, sink = reading.after["links"][way.source], reading.after["links"][way.sink]
    intended_ns = int(source["intended_duration_ns"])
    return Flow(
        intended=int(source["intended"]),
        sent=int(source["sent"]),
        sent_bytes=int(source["sent_bytes"]),
        unsent=int(source["unsent"]),
        received=int(sink["own"]["packets"]),
        within=int(sink["within"]["own_packets"]),
        within_bytes=int(sink["within"]["own_bytes"]),
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
    found = books(reading.before, reading.after)
    parts: list[tuple[Path, ...]] = [(way,) for way in context.ways]
    if len(parts) > 1:
        parts.append(context.ways)
    return [_record(context, reading, counters, found, ways, number, phase, repetition)
            for ways in parts]  # fmt: skip


def _record(
    context: Context,
    reading: Reading,
    counters: Counters,
    found: Books,
    ways: tuple[Path, ...],
    number: int,
    phase: Phase,
    repetition: int,
) -> Trial:
    flows = [flow(reading, way) for way in ways]
    sources = [reading.after["links"][way.source] for way in ways]
    sinks = [reading.after["links"][way.sink] for way in ways]
    seconds, intended_s = max(f.duration_s for f in flows), max(f.intended_s for f in flows)
    within = sum(f.within for f in flows)
    bits = sum(f.within_bytes for f in flows) * 8
    sent, received = sum(f.sent for f in flows), sum(f.received for f in flows)
    intended = sum(f.intended for f in flows)
    settled = settled_of(found, reading, ways, len(context.ways))
    owners = [way.direction for way in ways] if len(context.ways) > 1 else ["forward", "reverse"]
    policy_dropped = found.by_policy(owners, context.policy)
    lost = sent - received - policy_dropped
    facts = known(
        reading, ways, counters, settled, lost,
        wire=context.plan["links"].get(context.ways[0].wire),
        backs={way.back for way in context.ways},
    )  # fmt: skip
    sent_bytes = sum(f.sent_bytes for f in flows)
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
        throughput_pps=within / intended_s,
        throughput_gbps_l1=(bits + within * L1_OVERHEAD_BYTES * 8) / intended_s / 1e9,
        throughput_gbps_l2=bits / intended_s / 1e9,
        offered_pps=intended / seconds,
        sent_pps=sent / seconds,
        received_pps=received / seconds,
        loss_ratio=max(0, lost) / sent if sent else 0.0,
        latency_ns=delay,
        pdv_ns=pdv(delay),
        ipdv_ns_mean=_ipdv(sinks),
        nf_cycles=count.nf_cycles(counters),
        utilisation=count.utilisation(counters),
        drops=without_consumed(settled.dropped),
        located=count.located(counters),
        accounts=settled.accounts,
        created=settled.created,
        audit=audit(facts),
        duration_s=seconds,
        frame_bytes_mean=sent_bytes / sent if sent else context.frame_bytes_mean,
        intended=intended,
        sent=sent,
        received=received,
        lost=max(0, lost),
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
        labels=context.labels,
        trial=number,
        phase=phase,
        started_at=reading.started_at,
        intended_duration_s=reading.duration_s,
    )
    if made.below_floor:
        return made.model_copy(update={"labels": (*context.labels, BELOW_FLOOR)})
    return made


def settled_of(found: Books, reading: Reading, ways: Sequence[Wires], among: int) -> Settled:
    links = reading.after["links"]
    return settle(found, [Way(w.direction, links[w.source], links[w.sink]) for w in ways], among)


def known(
    reading: Reading,
    ways: Sequence[Wires],
    counters: Counters,
    settled: Settled,
    lost: int,
    wire: Json | None,
    backs: Collection[str],
) -> Facts:
    """What the engine says of a trial, for the audit. `wire`: the plan's first ring; `backs`: the
    rings between the chain and its sinks."""
    sources = [reading.after["links"][way.source] for way in ways]
    flows = [flow(reading, way) for way in ways]
    paced = reading.load_pps > 0
    return Facts(
        sent=sum(f.sent for f in flows),
        received=sum(f.received for f in flows),
        lost=lost,
        asked=sum(f.intended for f in flows) if paced else None,
        intended_s=max(f.intended_s for f in flows),
        took_s=max(int(source["duration_ns"]) for source in sources) / 1e9,
        behind_s=max(int(source["behind_max_ns"]) for source in sources) / 1e9,
        room_s=wire["params"]["size"] / reading.load_pps if wire and paced else None,
        sink_full=sum(ring.full for name, ring in counters.rings.items() if name in backs),
        undecided=sum(int(reading.after["links"][way.sink].get("undecided", 0)) for way in ways),
        clocks=[
            *of_workers(counters.workers, counters.tsc_hz, reading.waited_ns, reading.watched_s,
                        reading.read_s),
            *of_vnfs(reading.before, reading.after, reading.read_s),
        ],
        accounts=settled.accounts,
        created=settled.created,
        # Where packets still waited when it was read, each function may have a burst in it.
        inside=_BURST_MAX * len(counters.replicas) if waiting(reading.after) else 0,
        amiss=count.amiss(counters),
    )  # fmt: skip


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
