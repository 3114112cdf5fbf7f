# SPDX-License-Identifier: Apache-2.0
"""A trial's share of the engine's counters: the difference of two reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.engine.counts import (
    EngineCounts,
    FunctionCounts,
    LocatedCounts,
    PaceCounts,
    ReplicaCounts,
    WorkerCounts,
)
from headrace.engine.link_counts import LinkCounts, PortCounts, RingCounts, ShmCounts
from headrace.engine.plan_document import Plan
from headrace.record.counters import (
    Counters,
    FastpathReading,
    Located,
    NfReading,
    OffloadReading,
    OutputReading,
    PortReading,
    ReplicaReading,
    RingReading,
    Turns,
    WorkerReading,
)

SPEED_UNKNOWN = (1 << 32) - 1  # rte_ethdev.h: RTE_ETH_SPEED_NUM_UNKNOWN
FASTPATH = "fast path"  # beside the functions in tables of cycles; no function can be named so


@dataclass(frozen=True)
class Sending:
    """The counters while the sources still sent: what came later is no part of the load."""

    at: EngineCounts  # a reading between the first packet and the last
    unsent_cycles: int  # from the reading before the trial to the first packet


def difference(
    before: EngineCounts,
    after: EngineCounts,
    plan: Plan | None,  # None: how its rings are told to work is not asked
    waited_ns: Mapping[int, int] | None = None,
    sending: Sending | None = None,
) -> Counters:
    grown = after.since(before)
    within = None
    if sending is not None:
        within = Sending(sending.at.since(before), sending.unsent_cycles)
    return Counters(
        tsc_hz=after.tsc_hz,
        workers=tuple(workers(grown.workers, waited_ns or {}, within)),
        replicas=tuple(_replicas(grown, within)),
        rings=_rings(grown.links, plan),
        ports={
            name: _port(link) for name, link in grown.links.items() if isinstance(link, PortCounts)
        },
        dut=grown.dut,
        offload={
            name: OffloadReading(**link.offload.model_dump())
            for name, link in grown.links.items()
            if isinstance(link, ShmCounts) and link.offload is not None
        },
    )


def workers(
    grown: Mapping[int, WorkerCounts],
    waited_ns: Mapping[int, int],
    within: Sending | None = None,
) -> list[WorkerReading]:
    return [
        WorkerReading(
            cpu=cpu,
            ref_cycles=one.ref_cycles,
            ops_cycles=one.ops_cycles,
            segments=one.segments,
            pace=_quotient(one.pace.cycles, one.pace.additions),
            width=_width(one.pace),
            gaps=one.gaps,
            pauses_cycles=one.pace.pauses_cycles,
            standstill_cycles=one.pace.standstill_cycles,
            waited_ns=waited_ns.get(cpu),
            **_sent_within(within, cpu, one),
        )
        for cpu, one in grown.items()
    ]


def _sent_within(within: Sending | None, cpu: int, one: WorkerCounts) -> dict[str, int]:
    """A worker's cycles of the time of sending, in which it was, before the first packet, idle."""
    if one.sending is not None:  # the engine itself looked
        return {f"sending_{key}": value for key, value in one.sending}
    at = within.at.workers.get(cpu) if within else None
    if within is None or at is None or at.ref_cycles <= within.unsent_cycles:
        return {}
    return {
        "sending_ref_cycles": at.ref_cycles - within.unsent_cycles,
        "sending_ops_cycles": at.ops_cycles,
    }


def _sent_ops(one: ReplicaCounts, at: ReplicaCounts | None) -> int | None:
    """A replica's busy cycles of the time of sending."""
    if one.sending is not None:
        return one.sending.ops_cycles
    return None if at is None else at.ops_cycles


def _quotient(above: int, below: int) -> float | None:
    return above / below if below else None


def _width(pace: PaceCounts) -> float | None:
    """How many of four chains of additions went on at once."""
    ratio = _quotient(pace.cycles, pace.wide_cycles)
    return None if ratio is None else 4 * ratio


def _replicas(grown: EngineCounts, within: Sending | None) -> list[ReplicaReading]:
    readings = []
    for segment, replicas in grown.segments.items():
        meanwhile = within.at.segments.get(segment, ()) if within else ()
        for index, one in enumerate(replicas):
            at = meanwhile[index] if index < len(meanwhile) else None
            readings.append(_replica(segment, index, one, at))
            readings += _sides(segment, index, one)
    return readings


def _replica(
    segment: str, index: int, one: ReplicaCounts, at: ReplicaCounts | None
) -> ReplicaReading:
    """`at`: its share when the sources still sent."""
    return ReplicaReading(
        segment=segment,
        index=index,
        cpu=one.cpu,
        packets_in=one.packets_in,
        packets_out=one.out,
        polls=one.polls,
        idle_polls=one.idle_polls,
        ops_cycles=one.ops_cycles,
        sending_ops_cycles=_sent_ops(one, at),
        burst=one.burst,
        turns=Turns(**dict(one.turns)),
        rx_cycles=one.io.rx_cycles,
        headers_cycles=one.io.headers_cycles,
        tx_cycles=one.io.tx_cycles,
        io_packets=one.io.packets,
        inputs={link: inlet.packets for link, inlet in one.inputs.items()},
        outputs={
            link: OutputReading(packets=outlet.packets, full=outlet.full)
            for link, outlet in one.outputs.items()
        },
        nfs={name: _nf(nf) for name, nf in one.nfs.items() if name not in one.sides},
        located=_located(segment, one),
        fastpath=(
            FastpathReading(**one.fastpath.model_dump(exclude={"flows", "told"}))
            if one.fastpath
            else None
        ),
    )


def side_name(segment: str, nf: str) -> str:
    """A function beside others of a segment has its own lcore, and is shown as if a segment."""
    return f"{segment}:{nf}"


def _sides(segment: str, index: int, one: ReplicaCounts) -> list[ReplicaReading]:
    readings = []
    for name, side in one.sides.items():
        nf = _nf(one.nfs[name])
        readings.append(
            ReplicaReading(
                segment=side_name(segment, name),
                index=index,
                cpu=side.cpu,
                packets_in=nf.packets_in,
                packets_out=sum(nf.out.values()),
                polls=side.polls,
                idle_polls=side.idle_polls,
                ops_cycles=side.ops_cycles,
                nfs={name: nf},
            )
        )
    return readings


def _located(segment: str, one: ReplicaCounts) -> tuple[Located, ...]:
    """The inputs' samples are the first function's; the others have their own."""
    # The tester's segments, which have no functions, locate nothing.
    if one.located is None or not one.nfs:
        return ()
    inputs, behind = tuple(one.located.inputs.values()), one.located.nfs
    first = next((name for name in one.nfs if name not in behind), segment)
    places = [_together(first, segment, False, inputs)] if inputs else []
    places += [_together(name, segment, True, (part,)) for name, part in behind.items()]
    return tuple(places)


def _together(
    place: str, segment: str, behind_first: bool, parts: Sequence[LocatedCounts | Located]
) -> Located:
    samples = sum(part.samples for part in parts)
    classes: dict[str, int] = {}
    for part in parts:
        for name, n in part.classes.items():
            classes[name] = classes.get(name, 0) + n
    near = sum(n for name, n in classes.items() if "memory" not in name)
    cycles = sum((part.mean_cycles or 0.0) * part.samples for part in parts)
    return Located(
        place=place,
        segment=segment,
        behind_first=behind_first,
        samples=samples,
        disturbed=sum(part.disturbed for part in parts),
        classes=classes,
        index=near / samples if classes and samples else None,
        mean_cycles=cycles / samples if samples else None,
    )


def located(counters: Counters) -> tuple[Located, ...]:
    """Replicas of a segment together."""
    places: dict[tuple[str, str, bool], list[Located]] = {}
    for replica in counters.replicas:
        for one in replica.located:
            places.setdefault((one.place, one.segment, one.behind_first), []).append(one)
    return tuple(_together(*key, parts) for key, parts in places.items())


def _nf(one: FunctionCounts) -> NfReading:
    return NfReading(
        type=one.type,
        packets_in=one.packets_in,
        created=one.created,
        out=one.out,
        dropped=_some(one.dropped),
        consumed=one.consumed,
        aborted=one.aborted,
        held_change=one.held,
        batches=one.batches,
        cycles=one.cycles,
        cycles_packets=one.cycles_packets,
        counters=_some(one.counters),
    )


def _some(counts: Mapping[str, int]) -> dict[str, int]:
    return {key: value for key, value in counts.items() if value}


def _rings(links: Mapping[str, LinkCounts], plan: Plan | None) -> dict[str, RingReading]:
    rings = {}
    for name, link in links.items():
        if isinstance(link, RingCounts):
            params = plan.links[name].params if plan and name in plan.links else {}
            rings[name] = RingReading(
                size=link.size,
                full=link.full,
                used=link.used,
                on_full=params.get("on_full", "drop"),
            )
    return rings


def _port(link: PortCounts) -> PortReading:
    """What a NIC lost is in no function's counters."""
    return PortReading(
        rx_packets=link.rx_packets,
        tx_packets=link.tx_packets,
        rx_missed=link.rx_missed,
        rx_errors=link.rx_errors,
        tx_errors=link.tx_errors,
        tx_capped=link.tx_capped,
        rx_no_mbuf=link.rx_no_mbuf,
        device_rx=None if link.device is None else link.device.rx_packets,
        device_tx=None if link.device is None else link.device.tx_packets,
        up=link.up,
        speed_mbps=link.speed_mbps if 0 < link.speed_mbps < SPEED_UNKNOWN else None,
        flow_control=link.flow_control,
    )


def nf_cycles(counters: Counters) -> dict[str, float]:
    """Cycles per packet of each function, over all its replicas, and of the fast path.

    Where there is one, a function's are per packet that counts as its own, seen or spared: so they
    add up with the fast path's to what a packet costs.
    """
    cycles: dict[str, float] = {}
    packets: dict[str, int] = {}
    for replica in counters.replicas:
        share = replica.sampled_share
        for name, nf in replica.nfs.items():
            cycles[name] = cycles.get(name, 0.0) + nf.cycles * share
            packets[name] = packets.get(name, 0) + nf.cycles_packets
        if fast := replica.fastpath:
            cycles[FASTPATH] = cycles.get(FASTPATH, 0.0) + fast.cycles * share
            packets[FASTPATH] = packets.get(FASTPATH, 0) + fast.cycles_packets
    return {name: cycles[name] / packets[name] for name in cycles if packets[name]}


def utilisation(counters: Counters) -> dict[str, float]:
    """OPS / REF of each lcore while packets were sent (Sieber et al. 2017, algorithm 1)."""
    return {str(worker.cpu): worker.utilisation for worker in counters.workers}


def amiss(counters: Counters) -> dict[str, int]:
    """Packets by which each function's own counters do not add up; the tester's has none."""
    missing: dict[str, int] = {}
    for replica in counters.replicas:
        for name, nf in replica.nfs.items():
            missing[name] = missing.get(name, 0) + nf.missing
    return missing
