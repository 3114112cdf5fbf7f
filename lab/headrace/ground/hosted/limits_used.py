# SPDX-License-Identifier: Apache-2.0
"""What a trial of a hosted chain took of the limits that are no CPU's: its NIC's, its licences'."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.ground.hosted.arranged import Hosted
from headrace.ground.hosted.licence import rate_cap_gbps
from headrace.ground.hosted.parts import NIC, Face, Vnf
from headrace.record.counters import Counters, NfReading, ReplicaReading
from headrace.record.figures import L1_OVERHEAD_BYTES, Figures
from headrace.record.identity import Direction
from headrace.record.segments import Limit
from headrace.spec.hosting import Hosting

# The NIC's counters of each way, and what it calls frames that were lost for it.
_SWITCH = (("to-host-bytes", "from-host-bytes"), ("capacity",))
_UPLINK = (("uplink-in-bytes", "uplink-out-bytes"), ("uplink-in", "uplink-out"))


def limits(figures: Figures, direction: Direction, hosted: Hosted, wires: int) -> tuple[Limit, ...]:
    """Empty where none are set, where nothing was measured, and for one direction of two, as both
    use them."""
    if wires > 1 and direction != "both":
        return ()
    counters = figures.counters
    if counters is None or not figures.received or not figures.duration_s:
        return ()
    nic = next((r for r in counters.replicas if NIC in r.nfs), None)
    shared = [] if nic is None else _limits(figures, hosted.hosting, wires, nic.nfs[NIC])
    licences = _licences(figures, hosted, counters, nic)
    return (*shared, *licences)


def _limits(figures: Figures, hosting: Hosting, wires: int, nic: NfReading) -> Iterator[Limit]:
    if hosting.switch_gbps is not None:
        yield _shared(figures, nic, "switch", hosting.switch_gbps, 1)
    if hosting.uplink_gbps is not None:
        yield _shared(figures, nic, "uplink", hosting.uplink_gbps, wires)


def _licences(
    figures: Figures, hosted: Hosted, counters: Counters, nic: ReplicaReading | None
) -> Iterator[Limit]:
    """The one of which most was wanted. Who keeps it takes what is sent and drops what is too much;
    but a real NIC takes no more, and what finds the function's queue full is lost in front of
    it."""
    caps = [
        ((sent + lost) / cap, sent, vnf.name, cap)
        for vnf in hosted.vnfs
        if (cap := rate_cap_gbps(vnf, hosted.hosting)) is not None
        for sent, lost in [max(_sent(vnf, face, counters, nic) for face in vnf.faces)]
    ]
    if caps:
        _, sent, name, cap = max(caps)
        asked = sent * _bits(figures) / (cap * 1e9 * figures.duration_s)
        yield Limit(
            kind="rate-cap",
            place=name,
            gbps=cap,
            used=asked * _during(figures),
            crossings=sent / figures.received,
            dropped=_over(hosted, counters, nic),
        )


def _sent(vnf: Vnf, face: Face, counters: Counters, nic: ReplicaReading | None) -> tuple[int, int]:
    """Packets by this interface, whatever became of them, and those that found no room in it."""
    if nic is not None:
        return nic.inputs.get(face.link, 0), 0
    port = counters.ports.get(f"{vnf.name}:{face.name}")
    return 0 if port is None else port.tx_packets, _full(vnf, face, counters)


def _full(vnf: Vnf, face: Face, counters: Counters) -> int:
    own = (r.outputs.get(face.name) for r in counters.replicas if r.segment == vnf.name)
    return sum(output.full for output in own if output is not None)


def _over(hosted: Hosted, counters: Counters, nic: ReplicaReading | None) -> int:
    """Frames that licences cost."""
    if nic is not None:
        return nic.nfs[NIC].dropped.get("in-rate-limit", 0)
    if hosted.nic is None:
        return sum(port.tx_capped for port in counters.ports.values())
    return sum(_full(vnf, face, counters) for vnf in hosted.vnfs for face in vnf.faces)


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
