# SPDX-License-Identifier: Apache-2.0
"""A trial's share of the engine's counters: the difference of two reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.record.counters import (
    Counters,
    FastpathReading,
    Located,
    NfReading,
    OutputReading,
    PortReading,
    ReplicaReading,
    RingReading,
    Turns,
    WorkerReading,
)

Json = dict[str, Any]

FASTPATH = "fast path"  # beside the functions in tables of cycles; no function can be named so


@dataclass(frozen=True)
class Sending:
    """The counters while the sources still sent: what came later is no part of the load."""

    at: Json  # a reading between the first packet and the last
    unsent_cycles: int  # from the reading before the trial to the first packet


def difference(
    before: Json,
    after: Json,
    plan: Json,
    waited_ns: Mapping[int, int] | None = None,
    sending: Sending | None = None,
) -> Counters:
    return Counters(
        tsc_hz=int(after["tsc_hz"]),
        workers=tuple(
            workers(before.get("workers", {}), after.get("workers", {}), waited_ns or {}, sending)
        ),
        replicas=tuple(_replicas(before.get("segments", {}), after.get("segments", {}), sending)),
        rings=_rings(before["links"], after["links"], plan),
        ports=_ports(before["links"], after["links"]),
    )


def _grown(before: Json, after: Json, key: str) -> int:
    return max(0, int(after.get(key, 0)) - int(before.get(key, 0)))


def _grown_each(before: Json, after: Json, keep_zero: bool = True) -> dict[str, int]:
    grown = {key: _grown(before, after, key) for key in after}
    return grown if keep_zero else {key: value for key, value in grown.items() if value}


def _sent_within(sending: Sending | None, cpu: str, was: Json, now: Json) -> dict[str, int]:
    """A worker's cycles of the time of sending, in which it was, before the first packet, idle."""
    if own := now.get("sending"):  # the engine itself looked
        return {f"sending_{key}": int(own[key]) for key in own}
    at = sending.at["workers"].get(cpu) if sending else None
    if sending is None or at is None:
        return {}
    ref = _grown(was, at, "ref_cycles") - sending.unsent_cycles
    if ref <= 0:
        return {}
    return {"sending_ref_cycles": ref, "sending_ops_cycles": _grown(was, at, "ops_cycles")}


def _sent_ops(was: Json, now: Json, at: Json | None) -> int | None:
    """A replica's busy cycles of the time of sending."""
    if own := now.get("sending"):
        return int(own["ops_cycles"])
    return None if at is None else _grown(was, at, "ops_cycles")


def workers(
    before: Json, after: Json, waited_ns: Mapping[int, int], sending: Sending | None = None
) -> list[WorkerReading]:
    return [
        WorkerReading(
            cpu=int(cpu),
            ref_cycles=_grown(before.get(cpu, {}), now, "ref_cycles"),
            ops_cycles=_grown(before.get(cpu, {}), now, "ops_cycles"),
            segments=tuple(now.get("segments", ())),
            pace=_quotient("cycles", "additions", before.get(cpu, {}), now),
            width=_width(before.get(cpu, {}), now),
            pauses_cycles=_paused(before.get(cpu, {}), now, "pauses_cycles"),
            standstill_cycles=_paused(before.get(cpu, {}), now, "standstill_cycles"),
            waited_ns=waited_ns.get(int(cpu)),
            **_sent_within(sending, cpu, before.get(cpu, {}), now),
        )
        for cpu, now in after.items()
    ]


def _paused(before: Json, now: Json, key: str) -> int:
    return _grown(before.get("pace", {}), now.get("pace", {}), key)


def _quotient(above: str, below: str, before: Json, after: Json) -> float | None:
    was, now = before.get("pace", {}), after.get("pace", {})
    count = _grown(was, now, below)
    return _grown(was, now, above) / count if count else None


def _width(before: Json, after: Json) -> float | None:
    """How many of four chains of additions went on at once."""
    ratio = _quotient("cycles", "wide_cycles", before, after)
    return None if ratio is None else 4 * ratio


def _replicas(before: Json, after: Json, sending: Sending | None) -> list[ReplicaReading]:
    readings = []
    for segment, replicas in after.items():
        earlier = before.get(segment, [])
        meanwhile = sending.at["segments"].get(segment, []) if sending else []
        for index, now in enumerate(replicas):
            was = earlier[index] if index < len(earlier) else {}
            at = meanwhile[index] if index < len(meanwhile) else None
            readings.append(_replica(segment, index, was, now, at))
            readings += _sides(segment, index, was, now)
    return readings


def _replica(segment: str, index: int, was: Json, now: Json, at: Json | None) -> ReplicaReading:
    io_was, io_now = was.get("io", {}), now.get("io", {})
    nfs_was = was.get("nfs", {})
    located = _located(segment, was.get("located", {}), now.get("located", {}), now)
    inputs_was, outputs_was = was.get("inputs", {}), was.get("outputs", {})
    return ReplicaReading(
        segment=segment,
        index=index,
        cpu=int(now["cpu"]),
        packets_in=_grown(was, now, "in"),
        packets_out=_grown(was, now, "out"),
        polls=_grown(was, now, "polls"),
        idle_polls=_grown(was, now, "idle_polls"),
        ops_cycles=_grown(was, now, "ops_cycles"),
        sending_ops_cycles=_sent_ops(was, now, at),
        burst=now.get("burst"),
        turns=Turns(**_grown_each(was.get("turns", {}), now.get("turns", {}))),
        rx_cycles=_grown(io_was, io_now, "rx_cycles"),
        tx_cycles=_grown(io_was, io_now, "tx_cycles"),
        io_packets=_grown(io_was, io_now, "packets"),
        inputs={
            link: _grown(inputs_was.get(link, {}), reading, "packets")
            for link, reading in now.get("inputs", {}).items()
        },
        outputs={
            link: OutputReading(
                packets=_grown(outputs_was.get(link, {}), reading, "packets"),
                full=_grown(outputs_was.get(link, {}), reading, "full"),
            )
            for link, reading in now.get("outputs", {}).items()
        },
        nfs={
            name: _nf(nfs_was.get(name, {}), nf)
            for name, nf in now.get("nfs", {}).items()
            if name not in _beside(now)
        },
        located=located,
        fastpath=_fastpath(was.get("fastpath", {}), now.get("fastpath")),
    )


def side_name(segment: str, nf: str) -> str:
    """A function beside others of a segment has its own lcore, and is shown as if a segment."""
    return f"{segment}:{nf}"


def _beside(replica: Json) -> Json:
    sides: Json = replica.get("parallel", {}).get("sides", {})
    return sides


def _sides(segment: str, index: int, was: Json, now: Json) -> list[ReplicaReading]:
    readings = []
    for name, side in _beside(now).items():
        earlier = _beside(was).get(name, {})
        nf = _nf(was.get("nfs", {}).get(name, {}), now["nfs"][name])
        readings.append(
            ReplicaReading(
                segment=side_name(segment, name),
                index=index,
                cpu=int(side["cpu"]),
                packets_in=nf.packets_in,
                packets_out=sum(nf.out.values()),
                polls=_grown(earlier, side, "polls"),
                idle_polls=_grown(earlier, side, "idle_polls"),
                ops_cycles=_grown(earlier, side, "ops_cycles"),
                nfs={name: nf},
            )
        )
    return readings


def _fastpath(was: Json, now: Json | None) -> FastpathReading | None:
    if now is None:
        return None
    return FastpathReading(**{key: _grown(was, now, key) for key in FastpathReading.model_fields})


def _located(segment: str, was: Json, now: Json, replica: Json) -> tuple[Located, ...]:
    """The inputs' samples are the first function's; the others have their own."""
    # The tester's segments, which have no functions, locate nothing.
    if not now or not replica.get("nfs"):
        return ()
    inputs = list(now["inputs"].values())
    before = was.get("inputs", {})
    behind = now.get("nfs", {})
    first = next((name for name in replica.get("nfs", {}) if name not in behind), segment)
    parts = [_sampled(before.get(link, {}), one) for link, one in now["inputs"].items()]
    made = [_as_located(first, segment, False, parts)] if inputs else []
    for name, one in behind.items():
        earlier = was.get("nfs", {}).get(name, {})
        made.append(_as_located(name, segment, True, [_sampled(earlier, one)]))
    return tuple(made)


def _sampled(was: Json, now: Json) -> Json:
    samples = _grown(was, now, "samples")
    cycles = now["mean_cycles"] * now["samples"]
    cycles -= was.get("mean_cycles", 0.0) * was.get("samples", 0)
    return {
        "samples": samples,
        "disturbed": _grown(was, now, "disturbed"),
        "classes": _grown_each(was.get("classes", {}), now.get("classes", {})),
        "cycles": cycles,
    }


def _as_located(place: str, segment: str, behind_first: bool, parts: list[Json]) -> Located:
    samples = sum(p["samples"] for p in parts)
    classes: dict[str, int] = {}
    for part in parts:
        for name, n in part["classes"].items():
            classes[name] = classes.get(name, 0) + n
    near = sum(n for name, n in classes.items() if "memory" not in name)
    return Located(
        place=place,
        segment=segment,
        behind_first=behind_first,
        samples=samples,
        disturbed=sum(p["disturbed"] for p in parts),
        classes=classes,
        index=near / samples if classes and samples else None,
        mean_cycles=sum(p["cycles"] for p in parts) / samples if samples else None,
    )


def located(counters: Counters) -> tuple[Located, ...]:
    """Replicas of a segment together."""
    found: dict[tuple[str, str, bool], list[Json]] = {}
    for replica in counters.replicas:
        for one in replica.located:
            part = {
                "samples": one.samples,
                "disturbed": one.disturbed,
                "classes": one.classes,
                "cycles": (one.mean_cycles or 0.0) * one.samples,
            }
            found.setdefault((one.place, one.segment, one.behind_first), []).append(part)
    return tuple(_as_located(*key, parts) for key, parts in found.items())


def _nf(was: Json, now: Json) -> NfReading:
    return NfReading(
        type=now["type"],
        packets_in=_grown(was, now, "in"),
        created=_grown(was, now, "created"),
        out=_grown_each(was.get("out", {}), now.get("out", {})),
        dropped=_grown_each(was.get("dropped", {}), now.get("dropped", {}), keep_zero=False),
        consumed=_grown(was, now, "consumed"),
        aborted=_grown(was, now, "aborted"),
        held_change=int(now.get("held", 0)) - int(was.get("held", 0)),
        batches=_grown(was, now, "batches"),
        cycles=_grown(was, now, "cycles"),
        cycles_packets=_grown(was, now, "cycles_packets"),
        counters=_grown_each(was.get("counters", {}), now.get("counters", {}), keep_zero=False),
    )


def _rings(before: Json, after: Json, plan: Json) -> dict[str, RingReading]:
    rings = {}
    for name, now in after.items():
        if now.get("type") == "ring":
            params = plan["links"].get(name, {}).get("params", {})
            rings[name] = RingReading(
                size=int(now.get("size", 0)),
                full=_grown(before.get(name, {}), now, "full"),
                used=int(now.get("used", 0)),
                on_full=params.get("on_full", "drop"),
            )
    return rings


_LOST = ("rx_missed", "rx_errors", "rx_no_mbuf", "tx_errors")


def _ports(before: Json, after: Json) -> dict[str, PortReading]:
    """What a NIC lost is in no function's counters."""
    found = {}
    for name, now in after.items():
        if now.get("type") != "port":
            continue
        was = before.get(name, {})
        own = {key: _grown(was, now, key) for key in ("rx_packets", "tx_packets", *_LOST)}
        device = now.get("device")
        if device is not None:
            for key in ("rx", "tx"):
                own[f"device_{key}"] = _grown(was.get("device", {}), device, f"{key}_packets")
        found[name] = PortReading(**own)
    return found


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
    found: dict[str, int] = {}
    for replica in counters.replicas:
        for name, nf in replica.nfs.items():
            found[name] = found.get(name, 0) + nf.missing
    return found
