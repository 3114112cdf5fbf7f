# SPDX-License-Identifier: Apache-2.0
"""What would be seen of a trial on a described server: figures and counters, out of costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.ground.simulated.costs import OUTSIDE, PricedLayout
from headrace.record.counters import Counters, NfReading, ReplicaReading, WorkerReading
from headrace.record.estimates import Predicted, Span
from headrace.record.facts import Facts, Observation
from headrace.record.figures import Figures, LatencyNs, gbps
from headrace.record.latency import pdv
from headrace.record.segments import Segment
from headrace.spec.study import Experiment

_QUANTILES = (0.5, 0.9, 0.99, 0.999)


@dataclass(frozen=True)
class AskedLoad:
    """A trial. `seconds`: that its packets are sent for; `wanted_pps`: 0 is as fast as possible."""

    wanted_pps: float
    seconds: float


@dataclass(frozen=True)
class Expected:
    """`delays`: ns, of packets; none where the load is too high for any to be told. `least` and
    `most`: packets/s that are carried with all costs at their most, and at their least."""

    priced: PricedLayout
    sent_pps: float
    received_pps: float
    least: float
    most: float
    delays: NDArray[np.float64] | None
    narrowest: str


def latency_of(delays: NDArray[np.float64] | None) -> LatencyNs | None:
    if delays is None or not len(delays):
        return None
    p50, p90, p99, p999 = (float(one) for one in np.quantile(delays, _QUANTILES))
    return LatencyNs(
        mean=float(delays.mean()), min=float(delays.min()), p50=p50, p90=p90, p99=p99, p999=p999,
        max=float(delays.max()),
    )  # fmt: skip


def observation(
    experiment: Experiment,
    segments: tuple[Segment, ...],
    load: AskedLoad,
    expected: Expected,
    labels: tuple[str, ...],
    server: str,
) -> Observation:
    sent = round(expected.sent_pps * load.seconds)
    received = round(expected.received_pps * load.seconds)
    frame = experiment.frame.mean_bytes
    delay = latency_of(expected.delays)
    wanted = load.wanted_pps or expected.sent_pps
    figures = Figures(
        load_pps=wanted,
        throughput_pps=received / load.seconds,
        throughput_gbps_l1=gbps(received / load.seconds, frame, layer=1),
        throughput_gbps_l2=gbps(received / load.seconds, frame),
        offered_pps=wanted,
        sent_pps=sent / load.seconds,
        received_pps=received / load.seconds,
        loss_ratio=(sent - received) / sent if sent else 0.0,
        latency_ns=delay,
        pdv_ns=pdv(delay),
        ground="predicted",
        duration_s=load.seconds,
        frame_bytes_mean=frame,
        intended=round(wanted * load.seconds),
        sent=sent,
        received=received,
        lost=sent - received,
        drops={_lost_at(expected): sent - received} if sent > received else {},
        flows=experiment.flows,
        segments=segments,
        labels=labels,
        predicted=Predicted(
            server=server,
            carried_pps=Span(low=expected.least, high=expected.most),
            narrowest=expected.narrowest,
        ),
        **_counted(expected.priced, segments, experiment, load, sent, received),
    )
    asked = round(load.wanted_pps * load.seconds) if load.wanted_pps else None
    facts = Facts(
        sent=sent, received=received, lost=sent - received, asked=asked,
        intended_s=load.seconds, took_s=load.seconds,
    )  # fmt: skip
    return Observation("forward", figures, facts)


def _lost_at(expected: Expected) -> str:
    return "nic/full" if expected.priced.owners else "wire-forward/full"


def _counted(
    priced: PricedLayout,
    segments: Sequence[Segment],
    experiment: Experiment,
    load: AskedLoad,
    sent: int,
    received: int,
) -> dict[str, object]:
    """Busy cycles of each lcore, each segment's replicas and functions: behind the first ring what
    is carried, not what is offered, is worked on."""
    hz = priced.problem.tsc_hz
    ref = round(hz * load.seconds)
    carried = received / load.seconds if load.wanted_pps else 0.0
    replicas = list(_replicas(priced, segments, experiment, sent, received, carried))
    busy: dict[int, int] = {}
    for one in replicas:
        busy[one.cpu] = busy.get(one.cpu, 0) + one.ops_cycles
    workers = tuple(
        WorkerReading(
            cpu=cpu, ref_cycles=ref, ops_cycles=ops,
            sending_ref_cycles=ref, sending_ops_cycles=ops,
            segments=tuple(dict.fromkeys(r.segment for r in replicas if r.cpu == cpu)),
        )
        for cpu, ops in sorted(busy.items())
    )  # fmt: skip
    nf_cycles = {
        name: cycles
        for r in replicas
        for name, nf in r.nfs.items()
        if (cycles := nf.cycles_per_packet) is not None
    }
    return {
        "counters": Counters(tsc_hz=round(hz), workers=workers, replicas=tuple(replicas)),
        "utilisation": {str(one.cpu): one.utilisation for one in workers},
        "nf_cycles": nf_cycles,
    }


def _replicas(
    priced: PricedLayout,
    segments: Sequence[Segment],
    experiment: Experiment,
    sent: int,
    received: int,
    load_pps: float,
) -> list[ReplicaReading]:
    kinds = {node.name: node.nf for node in experiment.nodes} | {"nic": "veb"}
    named = {one.name: one for one in segments}
    readings: dict[tuple[str, int], ReplicaReading] = {}
    owners = priced.owners or tuple((one.name,) * len(one.cpus) for one in segments)
    each = priced.each_at(load_pps)
    for i, stage in enumerate(priced.stages):
        first, last = i == 0, i == len(priced.stages) - 1
        ends = segments[0 if first else -1].name
        for index, part in enumerate(stage):
            name = ends if first or last else owners[i][index]
            if part.cpu == OUTSIDE or not name:
                continue
            packets = round((sent if first else received) / len(stage))
            one = _replica(priced, named[name], kinds, part.cpu, index, packets, each[i][index])
            if priced.owners:
                one = one.model_copy(update={"index": 0})
            before = readings.get((name, one.index))
            readings[name, one.index] = one if before is None else _together(before, one)
    return list(readings.values())


def _together(one: ReplicaReading, other: ReplicaReading) -> ReplicaReading:
    """A segment that packets go through more than once."""
    summed = ("packets_in", "packets_out", "polls", "ops_cycles", "sending_ops_cycles", "rx_cycles",
              "tx_cycles", "io_packets")  # fmt: skip
    nfs = {
        name: nf.model_copy(
            update={key: getattr(nf, key) + getattr(other.nfs[name], key)
                    for key in ("packets_in", "batches", "cycles", "cycles_packets")}
        )
        for name, nf in one.nfs.items()
    }  # fmt: skip
    update = {key: getattr(one, key) + getattr(other, key) for key in summed}
    return one.model_copy(update={**update, "nfs": nfs})


def _replica(
    priced: PricedLayout,
    segment: Segment,
    kinds: dict[str, str],
    cpu: int,
    index: int,
    packets: int,
    each: float,
) -> ReplicaReading:
    """`each`: cycles of a packet that it gets. What is neither the functions' nor what handing over
    costs is the loop's."""
    costs = {nf.name: nf for nf in priced.problem.on(cpu)}
    nfs = {
        name: NfReading(
            type=kinds[name], packets_in=packets, out={"out": packets}, batches=packets // 32,
            cycles=round(costs[name].work.same * packets), cycles_packets=packets,
        )
        for name in segment.nfs
    }  # fmt: skip
    own = sum(costs[name].work.same for name in segment.nfs)
    loop = sum(costs[name].loop for name in segment.nfs[:1])
    sending = costs[segment.nfs[-1]].tx.same if segment.nfs else 0.0
    taking = max(0.0, each - own - loop - sending)
    return ReplicaReading(
        segment=segment.name,
        index=index,
        cpu=cpu,
        packets_in=packets,
        packets_out=packets,
        polls=packets // 32 + 1,
        ops_cycles=round(each * packets),
        sending_ops_cycles=round(each * packets),
        burst=32,
        rx_cycles=round(taking * packets),
        tx_cycles=round(sending * packets),
        io_packets=packets,
        nfs=nfs,
    )
