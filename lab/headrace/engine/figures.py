# SPDX-License-Identifier: Apache-2.0
"""From an engine's readings to figures, and to the facts that the audit judges them by."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.engine import counters as count
from headrace.engine.accounts import (
    Books,
    Settled,
    Way,
    books,
    settle,
    waiting,
    without_consumed,
)
from headrace.engine.clocks import of_vnfs, of_workers, shared_by_vnfs
from headrace.engine.link_counts import SinkCounts
from headrace.engine.plan_compiler import Path
from headrace.engine.plan_document import Plan, PlanLink
from headrace.engine.reading import Reading, WayTraffic, Wires, flow
from headrace.record.counters import Counters
from headrace.record.facts import Facts, Observation
from headrace.record.figures import L1_OVERHEAD_BYTES, Figures, LatencyFloor
from headrace.record.latency import latency, merged, pdv_of_ways
from headrace.record.segments import Segment
from headrace.record.slices import Sliced

BELOW_FLOOR = "below-floor"  # the latency is below the tester's own: so that is no floor
UNINTENDED = "unintended-losses-only"  # what functions were told to drop is no loss
_BURST_MAX = 64  # engine/core/nf.h


@dataclass(frozen=True)
class Context:
    """What all trials of one deployed chain have in common."""

    frame_bytes_mean: float
    plan: Plan
    ways: tuple[Path, ...]
    segments: tuple[Segment, ...] = ()
    labels: tuple[str, ...] = ()
    calibration: LatencyFloor | None = None
    # node: drop reasons that are no loss
    policy: Mapping[str, frozenset[str]] = field(default_factory=dict)


def observations(context: Context, reading: Reading) -> list[Observation]:
    """One per direction, and their sum when there are two."""
    waited = {
        cpu: max(ns, reading.vnfs_waited_ns.get(cpu, 0)) for cpu, ns in reading.waited_ns.items()
    }
    counters = count.difference(
        reading.before, reading.after, context.plan, waited, reading.sending
    )
    grown = books(reading.before, reading.after)
    parts: list[tuple[Path, ...]] = [(way,) for way in context.ways]
    if len(parts) > 1:
        parts.append(context.ways)
    return [_observation(context, reading, counters, grown, ways) for ways in parts]


def _observation(
    context: Context, reading: Reading, counters: Counters, grown: Books, ways: tuple[Path, ...]
) -> Observation:
    from headrace.model import undisturbed  # numpy: who measures nothing starts without it

    total = _Total.of([flow(reading, way) for way in ways])
    settled = settled_of(grown, reading, ways, len(context.ways))
    owners = [way.direction for way in ways] if len(context.ways) > 1 else ["forward", "reverse"]
    policy_dropped = grown.by_policy(owners, context.policy)
    policy_dropped += _by_device(counters, owners, context.policy)
    lost = total.sent - total.received - policy_dropped
    facts = facts_of(
        reading, ways, counters, settled, lost,
        wire=context.plan.links.get(context.ways[0].wire),
        backs={way.back for way in context.ways},
    )  # fmt: skip
    sinks = [reading.after.sink(way.sink) for way in ways]
    sliced = Sliced(reading.load_pps, context.segments, counters, reading.slices)
    figures = Figures(
        load_pps=reading.load_pps * len(ways) or total.intended / total.seconds,
        **_rates(total),
        loss_ratio=max(0, lost) / total.sent if total.sent else 0.0,
        **_times(sinks),
        nf_cycles=count.nf_cycles(counters),
        utilisation=count.utilisation(counters),
        drops=without_consumed(settled.dropped),
        located=count.located(counters),
        accounts=settled.accounts,
        created=settled.created,
        duration_s=total.seconds,
        frame_bytes_mean=(
            total.sent_bytes / total.sent if total.sent else context.frame_bytes_mean
        ),
        intended=total.intended,
        sent=total.sent,
        received=total.received,
        lost=max(0, lost),
        policy_dropped=policy_dropped,
        **_seen_by(sinks),
        flows=_flows(reading, ways),
        calibration=context.calibration,
        segments=context.segments,
        capacity=undisturbed.capacity([[sliced]]),
        counters=counters,
        labels=context.labels,
    )
    if figures.below_floor:
        figures = figures.model_copy(update={"labels": (*context.labels, BELOW_FLOOR)})
    return Observation(ways[0].direction if len(ways) == 1 else "both", figures, facts, sliced)


def _by_device(
    counters: Counters, owners: Iterable[str], policy: Mapping[str, frozenset[str]]
) -> int:
    """Packets that another engine, which has the chain, dropped as it was told to."""
    return sum(
        counters.dut.get(f"{owner}/{name}/{reason}", 0)
        for owner in owners
        for name, reasons in policy.items()
        for reason in reasons
    )


@dataclass(frozen=True)
class _Total:
    """The traffic of one direction or of both."""

    intended: int
    sent: int
    sent_bytes: int
    received: int
    within: int
    within_bytes: int
    seconds: float
    intended_s: float

    @staticmethod
    def of(flows: Sequence[WayTraffic]) -> _Total:
        return _Total(
            intended=sum(f.intended for f in flows),
            sent=sum(f.sent for f in flows),
            sent_bytes=sum(f.sent_bytes for f in flows),
            received=sum(f.received for f in flows),
            within=sum(f.within for f in flows),
            within_bytes=sum(f.within_bytes for f in flows),
            seconds=max(f.duration_s for f in flows),
            intended_s=max(f.intended_s for f in flows),
        )


def _rates(total: _Total) -> dict[str, float]:
    bits = total.within_bytes * 8
    return {
        "throughput_pps": total.within / total.intended_s,
        "throughput_gbps_l1": (bits + total.within * L1_OVERHEAD_BYTES * 8)
        / total.intended_s
        / 1e9,
        "throughput_gbps_l2": bits / total.intended_s / 1e9,
        "offered_pps": total.intended / total.seconds,
        "sent_pps": total.sent / total.seconds,
        "received_pps": total.received / total.seconds,
    }


def _times(sinks: list[SinkCounts]) -> dict[str, Any]:
    combined = merged([sink.latency for sink in sinks])
    delay = latency(combined)
    return {
        "latency_ns": delay,
        "pdv_ns": pdv_of_ways([sink.latency for sink in sinks]),
        "ipdv_ns_mean": _ipdv(sinks),
        "latency_hdr": combined.hdr if delay is not None else None,
    }


def _seen_by(sinks: list[SinkCounts]) -> dict[str, int]:
    return {
        "reordered": sum(sink.reordered for sink in sinks),
        "duplicated": sum(sink.duplicated for sink in sinks),
        "unstamped": sum(sink.unknown for sink in sinks),
        "late": sum(sink.late for sink in sinks),
    }


def _flows(reading: Reading, ways: Sequence[Path]) -> int:
    return sum(reading.after.source(way.source).flows for way in ways)


def settled_of(books: Books, reading: Reading, ways: Sequence[Wires], among: int) -> Settled:
    after = reading.after
    ends = [Way(way.direction, after.source(way.source), after.sink(way.sink)) for way in ways]
    return settle(books, ends, among)


def facts_of(
    reading: Reading,
    ways: Sequence[Wires],
    counters: Counters,
    settled: Settled,
    lost: int,
    wire: PlanLink | None,
    backs: Collection[str],
) -> Facts:
    """What the engine says of a trial, for the audit. `wire`: the plan's first ring; `backs`: the
    rings between the chain and its sinks."""
    sources = [reading.after.source(way.source) for way in ways]
    flows = [flow(reading, way) for way in ways]
    paced = reading.load_pps > 0
    return Facts(
        sent=sum(f.sent for f in flows),
        received=sum(f.received for f in flows),
        lost=lost,
        asked=sum(f.intended for f in flows) if paced else None,
        intended_s=max(f.intended_s for f in flows),
        took_s=max(source.duration_ns for source in sources) / 1e9,
        behind_s=max(source.behind_max_ns for source in sources) / 1e9,
        room_s=wire.params["size"] / reading.load_pps if wire and paced else None,
        sink_full=sum(ring.full for name, ring in counters.rings.items() if name in backs),
        undecided=sum(reading.after.sink(way.sink).undecided for way in ways),
        clocks=[
            *of_workers(counters.workers, counters.tsc_hz, reading.waited_ns, reading.watched_s,
                        reading.read_s, shared_by_vnfs(reading.after)),
            *of_vnfs(reading.before, reading.after, reading.read_s),
        ],
        accounts=settled.accounts,
        created=settled.created,
        # Where packets still waited when it was read, each function may have a burst in it.
        inside=_BURST_MAX * len(counters.replicas) if waiting(reading.after) else 0,
        amiss=count.amiss(counters),
    )  # fmt: skip


def _ipdv(sinks: list[SinkCounts]) -> float | None:
    total = sum(sink.ipdv_count for sink in sinks)
    return sum(sink.ipdv_ns_mean * sink.ipdv_count for sink in sinks) / total if total else None
