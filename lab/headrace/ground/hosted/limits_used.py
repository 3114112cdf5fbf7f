# SPDX-License-Identifier: Apache-2.0
"""What a trial of a hosted chain took of the limits that are no CPU's: its NIC's, its licences'."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.ground.hosted.arranged import Hosted
from headrace.ground.hosted.host import rate_cap_gbps
from headrace.ground.hosted.parts import NIC
from headrace.record.counters import NfReading, ReplicaReading
from headrace.record.figures import L1_OVERHEAD_BYTES, Figures
from headrace.record.identity import Direction
from headrace.record.segments import Limit

# The NIC's counters of each way, and what it calls frames that were lost for it.
_SWITCH = (("to-host-bytes", "from-host-bytes"), ("capacity",))
_UPLINK = (("uplink-in-bytes", "uplink-out-bytes"), ("uplink-in", "uplink-out"))


def limits(figures: Figures, direction: Direction, hosted: Hosted, wires: int) -> tuple[Limit, ...]:
    """Empty where none are set, where nothing was measured, and for one direction of two, as both
    use them."""
    if wires > 1 and direction != "both":
        return ()
    replicas = figures.counters.replicas if figures.counters else ()
    nic = next((r for r in replicas if NIC in r.nfs), None)
    if nic is None or not figures.received or not figures.duration_s:
        return ()
    return tuple(_limits(figures, hosted, wires, nic))


def _limits(figures: Figures, hosted: Hosted, wires: int, nic: ReplicaReading) -> Iterator[Limit]:
    hosting, reading = hosted.hosting, nic.nfs[NIC]
    if hosting.switch_gbps is not None:
        yield _shared(figures, reading, "switch", hosting.switch_gbps, 1)
    if hosting.uplink_gbps is not None:
        yield _shared(figures, reading, "uplink", hosting.uplink_gbps, wires)
    caps = [
        (inputs * _bits(figures) / (cap * 1e9 * figures.duration_s), inputs, vnf.name, cap)
        for vnf in hosted.vnfs
        if (cap := rate_cap_gbps(vnf, hosting)) is not None
        for inputs in [max(nic.inputs.get(face.link, 0) for face in vnf.faces)]
    ]
    if caps:
        asked, inputs, name, cap = max(caps)
        yield Limit(
            kind="rate-cap",
            place=name,
            gbps=cap,
            used=asked * _during(figures),
            crossings=inputs / figures.received,
            dropped=reading.dropped.get("in-rate-limit", 0),
        )


def _shared(figures: Figures, nic: NfReading, kind: str, gbps: float, wires: int) -> Limit:
    ways, reasons = _SWITCH if kind == "switch" else _UPLINK
    most = max(nic.counters.get(way, 0) for way in ways)
    return Limit.model_validate(
        {
            "kind": kind,
            "place": NIC,
            "gbps": gbps,
            "used": most * 8 * _during(figures) / (gbps * 1e9 * wires * figures.duration_s),
            "crossings": most * 8 / _bits(figures) / figures.received,
            "dropped": sum(nic.dropped.get(reason, 0) for reason in reasons),
        }
    )


def _bits(figures: Figures) -> float:
    return ((figures.frame_bytes_mean or 0.0) + L1_OVERHEAD_BYTES) * 8


def _during(figures: Figures) -> float:
    """Counters are read when the last packet has arrived: the share that did in the duration."""
    return figures.throughput_pps / figures.received_pps if figures.received_pps else 1.0
