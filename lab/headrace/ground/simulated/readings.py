# SPDX-License-Identifier: Apache-2.0
"""What an engine would count in a trial on a described server, and what its parts can carry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.ground.simulated.priced_layout import OUTSIDE, PricedLayout
from headrace.layout.layout import StageShare
from headrace.layout.predicted_latency import BURST
from headrace.record.counters import Counters, NfReading, ReplicaReading, WorkerReading
from headrace.record.estimates import PredictedPart
from headrace.record.segments import Limit, Segment
from headrace.spec.study import Experiment


@dataclass(frozen=True)
class AskedLoad:
    """A trial. `seconds`: that its packets are sent for; `wanted_pps`: 0 is as fast as possible."""

    wanted_pps: float
    seconds: float


@dataclass(frozen=True)
class Expected:
    """One direction. `carried_pps`: what no full ring turned away, of which functions drop some.
    `delays`: ns, of packets; none where the load is too high for any to be told. `least` and
    `most`: packets/s that are carried with all costs at their most, and at their least."""

    priced: PricedLayout
    sent_pps: float
    carried_pps: float
    least: float
    most: float
    delays: NDArray[np.float64] | None
    narrowest: str
    limits: tuple[Limit, ...] = ()  # that are no lcore's
    waits: bool = False  # what is between the chain's segments waits instead of losing packets

    @property
    def received_pps(self) -> float:
        return self.carried_pps * self.priced.problem.delivered


def counted_of(
    ways: Sequence[Expected],
    segments: Sequence[Segment],
    experiment: Experiment,
    load: AskedLoad,
) -> Counters:
    """Busy cycles of each lcore, each segment's replicas and functions, of all directions."""
    hz = ways[0].priced.problem.tsc_hz
    ref = round(hz * load.seconds)
    readings: dict[tuple[str, int], ReplicaReading] = {}
    for way in ways:
        for one in _replicas(way, segments, experiment, load):
            before = readings.get((one.segment, one.index))
            readings[one.segment, one.index] = one if before is None else _together(before, one)
    replicas = tuple(readings.values())
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
    return Counters(tsc_hz=round(hz), workers=workers, replicas=replicas)


def _named_parts(
    priced: PricedLayout, segments: Sequence[Segment]
) -> Iterator[tuple[int, int, StageShare, str]]:
    """Stage, number there, and segment of all that an engine's lcore works on."""
    inner = priced.order or tuple(one.name for one in segments[1:-1])
    names = (segments[0].name, *inner, segments[-1].name)
    for i, stage in enumerate(priced.stages):
        end = i in (0, len(priced.stages) - 1)
        for index, part in enumerate(stage):
            if priced.owners:
                name = names[0 if not i else -1] if end else priced.owners[i][index]
            else:
                name = names[i]
            if part.cpu != OUTSIDE and name:
                yield i, index, part, name


def parts_of_model(
    priced: PricedLayout, segments: Sequence[Segment], ways: int = 1
) -> Iterator[PredictedPart]:
    """A segment that packets meet several times pays for each; `ways`: directions that the load is
    the sum of."""
    lcores, busiest = priced.lcores_pps(), priced.busiest()
    there: dict[str, list[tuple[StageShare, float, float]]] = {}
    for one in filter(None, (priced, priced.other)):
        for i, _, part, name in _named_parts(one, segments):
            packets = part.packets if i else 1.0
            there.setdefault(name, []).append((part, packets, one.more_on(i)))
    for name, several in there.items():
        cpu = min((part.cpu for part, _, _ in several), key=lambda one: lcores[one])
        own = sum(part.cycles * more for part, _, more in several if part.cpu == cpu)
        packets = sum(packets for _, packets, _ in several)
        yield PredictedPart(
            name=name,
            cycles_per_packet=sum(part.cycles for part, _, _ in several) / packets,
            share_of_lcore=own / busiest[cpu],
            pps=lcores[cpu] * ways,
        )


def _flows(way: Expected) -> list[float]:
    """Packets/s of the source that each stage has its part of. A ring that drops keeps what its
    segment has no time for; in front of it all that was sent is worked on. Of VNFs and of two
    directions nothing is told apart."""
    priced, sent, carried = way.priced, way.sent_pps, way.carried_pps
    if priced.owners or priced.other or way.waits:
        return [sent, *[carried] * (len(priced.stages) - 1)]
    flows = [sent]
    for most in priced.stages_pps()[1:]:
        flows.append(min(flows[-1], most))
    return flows


def _replicas(
    way: Expected, segments: Sequence[Segment], experiment: Experiment, load: AskedLoad
) -> Iterator[ReplicaReading]:
    priced = way.priced
    kinds = {node.name: node.nf for node in experiment.nodes} | {"nic": "veb"}
    named = {one.name: one for one in segments}
    flows = _flows(way)
    # As fast as possible, and where more is sent than is carried, polls find full bursts.
    asked = [flow if load.wanted_pps and flow < most else 0.0
             for flow, most in zip(flows, priced.stages_pps(), strict=True)]  # fmt: skip
    each = {pps: (priced.each_at(pps), priced.bursts_at(pps)) for pps in set(asked)}
    for i, index, part, name in _named_parts(priced, segments):
        cycles, burst = (one[i][index] for one in each[asked[i]])
        packets = flows[i] * (part.packets if i else 1.0) * load.seconds
        here = PartTrial(part.cpu, 0 if priced.owners else index, packets, cycles, burst)
        yield _replica(priced, named[name], kinds, here)


def _together(one: ReplicaReading, other: ReplicaReading) -> ReplicaReading:
    """A segment that packets go through more than once, or both ways."""
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


@dataclass(frozen=True)
class PartTrial:
    """A replica in a trial: packets that it got, each of so many cycles, in polls of a burst."""

    cpu: int
    index: int
    packets: float
    each: float
    burst: float


def _replica(
    priced: PricedLayout, segment: Segment, kinds: dict[str, str], here: PartTrial
) -> ReplicaReading:
    """What is neither the functions' nor what handing over costs is the loop's."""
    costs = {nf.name: nf for nf in priced.problem.on(here.cpu)}
    visits = priced.visits_in(segment.nfs)
    nfs, own = {}, 0.0
    for name in segment.nfs:
        gets = here.packets * visits[name]
        nfs[name] = NfReading(
            type=kinds[name], packets_in=round(gets), out={"out": round(gets)},
            batches=int(gets / here.burst), cycles=int(costs[name].work.same * gets),
            cycles_packets=round(gets),
        )  # fmt: skip
        own += costs[name].work.same * visits[name]
    loop = sum(costs[name].loop for name in segment.nfs[:1])
    sending = costs[segment.nfs[-1]].tx.same if segment.nfs else 0.0
    taking = max(0.0, here.each - own - loop - sending)
    busy, packets = int(here.each * here.packets), round(here.packets)
    return ReplicaReading(
        segment=segment.name,
        index=here.index,
        cpu=here.cpu,
        packets_in=packets,
        packets_out=packets,
        polls=int(here.packets / here.burst) + 1,
        ops_cycles=busy,
        sending_ops_cycles=busy,
        burst=BURST,
        rx_cycles=int(taking * here.packets),
        tx_cycles=int(sending * here.packets),
        io_packets=packets,
        nfs=nfs,
    )
