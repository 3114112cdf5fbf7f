# SPDX-License-Identifier: Apache-2.0
"""A run of a chain as its pricing wants it: each lcore's part of each stage, medians of trials."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from headrace.engine.describe import Description
from headrace.engine.plan_compiler import GENERATOR, ways_of
from headrace.layout.layout import SOURCE, Edge, Layout
from headrace.profile.point import PointSample
from headrace.profile.pricing import PricedPart, Taken
from headrace.record.counters import NfReading, ReplicaReading
from headrace.spec.study import Experiment


def run(samples: Sequence[PointSample], layout: Layout, names: Sequence[str]) -> Taken:
    """The engine's segments come in the order of the plan: source, the chain's, sink."""
    stages: dict[str, list[list[PricedPart]]] = {}
    for sample in samples:
        packets = _generated(sample)
        by_segment: dict[str, list[PricedPart]] = {}
        for replica in sample.replicas:
            by_segment.setdefault(replica.segment, []).append(_part(replica, packets, names))
        for segment, parts in by_segment.items():
            stages.setdefault(segment, []).append(parts)
    return Taken(
        layout,
        tuple(
            tuple(_middle([parts[i] for parts in several]) for i in range(len(several[0])))
            for several in stages.values()
        ),
        median(s.sent_pps for s in samples),
    )


def _generated(sample: PointSample) -> int:
    """Packets of the source."""
    return max(1, sum(r.packets_in for r in sample.replicas if r.segment == GENERATOR))


def _part(replica: ReplicaReading, packets: int, names: Sequence[str]) -> PricedPart:
    """Sampled parts come out as more than all that was counted where bursts are of one packet:
    half of what a turn takes is then the timing. They are shares of what was counted."""
    got, share = max(1, replica.packets_in), replica.sampled_share
    sampled = max(1, replica.io_packets) / share
    rx, tx = replica.rx_cycles / sampled, replica.tx_cycles / sampled
    nfs = {
        names.index(name): nf.cycles / nf.cycles_packets * share
        for name, nf in replica.nfs.items()
        if nf.cycles_packets
    }
    own = (
        sum(
            nfs[names.index(name)] * nf.packets_in
            for name, nf in replica.nfs.items()
            if nf.cycles_packets
        )
        / got
    )
    return PricedPart(
        cpu=replica.cpu,
        packets=replica.packets_in / packets,
        rx=rx,
        tx=tx,
        loop=max(0.0, replica.ops_cycles / got - rx - tx - own),
        burst=replica.packets_in / max(1, replica.polls - replica.idle_polls),
        own=own,
        nfs=nfs,
    )


def _middle(parts: Sequence[PricedPart]) -> PricedPart:
    def over(key: str) -> float:
        return median(float(getattr(part, key)) for part in parts)

    return PricedPart(
        cpu=parts[0].cpu,
        **{key: over(key) for key in ("packets", "rx", "tx", "loop", "burst", "own")},
        nfs={
            i: median(part.nfs[i] for part in parts if i in part.nfs)
            for i in sorted({i for part in parts for i in part.nfs})
        },
    )


def edges(
    samples: Sequence[PointSample], experiment: Experiment, description: Description
) -> tuple[Edge, ...]:
    """Where packets went, by the functions' counters of their edges."""
    order = {node.name: i for i, node in enumerate(experiment.nodes)}
    ways = ways_of(experiment, description)
    shares: dict[tuple[int, int], list[float]] = {}
    for sample in samples:
        counted: dict[tuple[int, int], int] = {}
        for replica in sample.replicas:
            for name, nf in replica.nfs.items():
                to = ways.targets(name, "forward")
                for target, packets in _sent(nf, to, description.edges(nf.type)).items():
                    way = order[name], order.get(target, len(order))
                    counted[way] = counted.get(way, 0) + packets
        for way, packets in counted.items():
            shares.setdefault(way, []).append(packets / _generated(sample))
    ratios = {way: sum(each) / len(samples) for way, each in shares.items()}
    return (
        Edge(SOURCE, 0, 1.0),
        *(Edge(*way, share) for way, share in sorted(ratios.items()) if share > 0),
    )


def _sent(nf: NfReading, to: dict[str, str], edges: Sequence[str]) -> dict[str, int]:
    """Packets by where they went; edges that nobody has led elsewhere go where the first does."""
    sent: dict[str, int] = {}
    for edge, packets in nf.out.items():
        target = to.get(edge, to[edges[0]])
        if target != "drop":
            sent[target] = sent.get(target, 0) + packets
    return sent
