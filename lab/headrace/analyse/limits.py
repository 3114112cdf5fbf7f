# SPDX-License-Identifier: Apache-2.0
"""A limit that holds a chain back and is no CPU: which, and what it rests on."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from headrace.analyse import units
from headrace.analyse.capacity import Part, carried_pps
from headrace.analyse.units import count, percent, pps
from headrace.record.rows import Measurement
from headrace.record.segments import Limit

FULL = 0.9  # of a limit in a trial whose frames it lost: what lacks went with them
REACHED = 0.97  # of a limit that has lost nothing yet
_NAMES = {
    "switch": "switch capacity of the NIC",
    "uplink": "uplink of the NIC",
    "rate-cap": "rate cap of {}",
    "port": "ports of {}",
    "nic-rate": "packet rate of the NICs of {}",
}
_CROSSED = {
    "switch": "A packet of this chain goes between NIC and host {}×, each way",
    "uplink": "A packet of this chain goes by the wire {}×, each way",
    "rate-cap": "Each packet that arrives is sent {}× by {}",
    "port": "Each packet comes in by them, and is counted {}×",
    "nic-rate": "Each packet comes in by them, and is counted {}×",
}


def limit_of(at: Measurement, above: Sequence[Measurement]) -> Limit | None:
    """The limit in whose queues most was lost while it was full, or that nothing more fits
    through; None where other parts of the chain lost more."""
    lossy = [one for trial in (*above, at) for one in trial.limits if one.used >= FULL]
    most = max(lossy, key=lambda one: one.dropped, default=None)
    if most is not None and most.dropped and most.dropped >= _lost_elsewhere(above):
        return most  # a real NIC's licence has what it costs lost where it would be sent
    return max(
        (one for one in at.limits if one.used >= REACHED), key=lambda one: one.used, default=None
    )


def in_result(limit: Limit, at: Measurement) -> Limit:
    """The same limit as this measurement used it: a trial above used and lost more."""
    return next((o for o in at.limits if (o.kind, o.place) == (limit.kind, limit.place)), limit)


def _lost_elsewhere(above: Sequence[Measurement]) -> int:
    """They were lost in front of the chain's parts, which were too slow."""
    counters = [one.counters for one in above if one.counters is not None]
    rings = [ring.full for one in counters for ring in one.rings.values()]
    links = [out.full for one in counters for r in one.replicas for out in r.outputs.values()]
    return max([*rings, *links], default=0)


def name_of(limit: Limit) -> str:
    return f"{_NAMES[limit.kind].format(limit.place)}, {limit.gbps:.4g} Gbit/s"


def headline(limit: Limit) -> str:
    name = name_of(limit)
    return f"{name[0].upper()}{name[1:]}, reached."


def reasons(
    limit: Limit,
    at: Measurement,
    repetitions: Sequence[Measurement],
    above: Sequence[Measurement],
    parts: Sequence[Part],
) -> list[str]:
    """`at`: the repetitions together."""
    return [
        *_of_use(limit, at),
        *_of_loss(limit, above),
        *_of_waiting(repetitions),
        *_of_waiting(above),
        *_of_cycles(at, parts),
    ]


def _of_use(limit: Limit, at: Measurement) -> list[str]:
    here = in_result(limit, at)
    crossed = _CROSSED[limit.kind].format(f"{here.crossings:.2g}", limit.place)
    return [
        f"At {pps(carried_pps(at))} frames take {percent(here.used)} of it (layer 1).",
        f"{crossed}.",
    ]


def _of_loss(limit: Limit, above: Sequence[Measurement]) -> list[str]:
    return [
        f"{too_much(one, above)} {count(lost.dropped)} frames were too many for it "
        f"({percent(lost.dropped / (one.sent or 1), 2)} of those sent)."
        for one in above
        for lost in one.limits
        if (lost.kind, lost.place) == (limit.kind, limit.place) and lost.dropped
    ]


def too_much(one: Measurement, of: Sequence[Measurement]) -> str:
    """How a sentence on a trial begins whose load was too high; `of` all such."""
    which = f"In repetition {one.repetition} at" if len(of) > 1 else "At"
    return f"{which} {pps(one.load_pps)}, which the chain did not carry,"


def _of_waiting(repetitions: Sequence[Measurement]) -> list[str]:
    """The median of the repetitions, as their loads are."""
    waits = [(one, ns) for one in repetitions if (ns := _waited_ns(one)) is not None]
    if not waits:
        return []
    load = statistics.median(one.load_pps or one.sent_pps for one, _ in waits)
    waited = statistics.median(ns for _, ns in waits)
    return [
        f"At a load of {pps(load)} packets waited {units.ns(waited)} in the NIC's queues on "
        "average."
    ]


def _waited_ns(one: Measurement) -> float | None:
    """How long a packet that arrived waited in all queues of the NIC."""
    if one.counters is None or not one.received:
        return None
    waits = [
        nf.counters["waited-ns"]
        for r in one.counters.replicas
        for nf in r.nfs.values()
        if nf.type == "veb" and "waited-ns" in nf.counters
    ]
    return sum(waits) / one.received if waits else None


def _of_cycles(at: Measurement, parts: Sequence[Part]) -> list[str]:
    chain = [p for p in parts if p.role == "chain" and p.capacity_pps]
    part = min(chain, key=lambda p: p.capacity_pps or 0.0, default=None)
    if part is None or (part.capacity_pps or 0.0) <= 1.02 * carried_pps(at):
        return []
    return [f"By its cycles the chain could carry {pps(part.capacity_pps)} ({part.name})."]
