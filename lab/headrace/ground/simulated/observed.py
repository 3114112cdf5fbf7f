# SPDX-License-Identifier: Apache-2.0
"""What would be seen of a trial on a described server: figures and counters, out of costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.ground.simulated.costs import OUTSIDE, PricedLayout
from headrace.layout.latency import BURST
from headrace.layout.layout import StageShare
from headrace.record.counters import Counters, NfReading, ReplicaReading, WorkerReading
from headrace.record.estimates import Predicted, PredictedPart, Span
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
    waits: bool = False  # what is between the chain's segments waits instead of losing packets


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
            parts=tuple(_parts(expected.priced, segments)),
        ),
        **_counted(expected, segments, experiment, load),
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
    expected: Expected, segments: Sequence[Segment], experiment: Experiment, load: AskedLoad
) -> dict[str, object]:
    """Busy cycles of each lcore, each segment's replicas and functions."""
    hz = expected.priced.problem.tsc_hz
    ref = round(hz * load.seconds)
    replicas = list(_replicas(expected, segments, experiment, load))
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


def _named_parts(
    priced: PricedLayout, segments: Sequence[Segment]
) -> Iterator[tuple[int, int, StageShare, str]]:
    """Stage, number there, and segment of all that an engine's lcore works on."""
    owners = priced.owners or tuple((one.name,) * len(one.cpus) for one in segments)
    for i, stage in enumerate(priced.stages):
        first, last = i == 0, i == len(priced.stages) - 1
        ends = segments[0 if first else -1].name
        for index, part in enumerate(stage):
            name = ends if first or last else owners[i][index]
            if part.cpu != OUTSIDE and name:
                yield i, index, part, name


def _parts(priced: PricedLayout, segments: Sequence[Segment]) -> Iterator[PredictedPart]:
    """A segment that packets meet several times pays for each."""
    lcores, busiest = priced.lcores_pps(), priced.busiest()
    there: dict[str, list[tuple[StageShare, float, float]]] = {}
    for i, _, part, name in _named_parts(priced, segments):
        packets = part.packets if i else 1.0
        there.setdefault(name, []).append((part, packets, priced.more_on(i)))
    for name, several in there.items():
        cpu = min((part.cpu for part, _, _ in several), key=lambda one: lcores[one])
        own = sum(part.cycles * more for part, _, more in several if part.cpu == cpu)
        yield PredictedPart(
            name=name,
            cycles_per_packet=sum(part.cycles for part, _, _ in several)
            / sum(packets for _, packets, _ in several),
            share_of_lcore=own / busiest[cpu],
            pps=lcores[cpu],
        )


def _flows(expected: Expected) -> list[float]:
    """Packets/s that each stage gets. A ring that drops keeps what its segment has no time for; in
    front of it all that was sent is worked on. Of VNFs nothing is told apart."""
    priced, sent, received = expected.priced, expected.sent_pps, expected.received_pps
    if priced.owners or expected.waits:
        return [sent, *[received] * (len(priced.stages) - 1)]
    flows = [sent]
    for most in priced.stages_pps()[1:]:
        flows.append(min(flows[-1], most))
    return flows


def _replicas(
    expected: Expected, segments: Sequence[Segment], experiment: Experiment, load: AskedLoad
) -> list[ReplicaReading]:
    priced = expected.priced
    kinds = {node.name: node.nf for node in experiment.nodes} | {"nic": "veb"}
    named = {one.name: one for one in segments}
    readings: dict[tuple[str, int], ReplicaReading] = {}
    flows = _flows(expected)
    # As fast as possible, and where more is sent than is carried, polls find full bursts.
    asked = [flow if load.wanted_pps and flow < most else 0.0
             for flow, most in zip(flows, priced.stages_pps(), strict=True)]  # fmt: skip
    each = {pps: (priced.each_at(pps), priced.bursts_at(pps)) for pps in set(asked)}
    for i, index, part, name in _named_parts(priced, segments):
        cycles, burst = (one[i][index] for one in each[asked[i]])
        pps = flows[i] / len(priced.stages[i])
        one = _replica(
            priced, named[name], kinds, part.cpu, index, pps * load.seconds, cycles, burst
        )
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
    expected: float,
    each: float,
    burst: float,
) -> ReplicaReading:
    """`expected`: packets, of which each takes `each` cycles in polls that find `burst`. What is
    neither the functions' nor what handing over costs is the loop's."""
    packets = round(expected)
    costs = {nf.name: nf for nf in priced.problem.on(cpu)}
    nfs = {
        name: NfReading(
            type=kinds[name], packets_in=packets, out={"out": packets},
            batches=int(packets / burst),
            cycles=int(costs[name].work.same * expected), cycles_packets=packets,
        )
        for name in segment.nfs
    }  # fmt: skip
    own = sum(costs[name].work.same for name in segment.nfs)
    loop = sum(costs[name].loop for name in segment.nfs[:1])
    sending = costs[segment.nfs[-1]].tx.same if segment.nfs else 0.0
    taking = max(0.0, each - own - loop - sending)
    busy = int(each * expected)
    return ReplicaReading(
        segment=segment.name,
        index=index,
        cpu=cpu,
        packets_in=packets,
        packets_out=packets,
        polls=int(packets / burst) + 1,
        ops_cycles=busy,
        sending_ops_cycles=busy,
        burst=BURST,
        rx_cycles=int(taking * expected),
        tx_cycles=int(sending * expected),
        io_packets=packets,
        nfs=nfs,
    )
