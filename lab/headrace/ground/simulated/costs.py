# SPDX-License-Identifier: Apache-2.0
"""A placed chain on a described server as a layout with costs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.engine.place import Placement
from headrace.ground.simulated.entries import entries, ranks
from headrace.ground.simulated.priced_layout import NIC_RATE, OUTSIDE, PORT, PricedLayout
from headrace.layout.layout import SOURCE, Edge, Hop, Layout, NfCost, Problem, Traffic
from headrace.layout.predicted_latency import BURST
from headrace.model.scaled import (
    SHORTEST,
    ScaledFunction,
    WorkingSet,
    at,
    busiest_share,
    hand_over,
    scaled,
)
from headrace.record.figures import L1_OVERHEAD_BYTES
from headrace.spec.chain import Node
from headrace.spec.described import DescribedFunction, DescribedServer, Sourced
from headrace.spec.document import Document
from headrace.spec.study import Experiment
from headrace.spec.workload import Packets

# Functions of the engine for which it classifies no packets (`wants_headers`).
HEADERLESS = frozenset({"delay", "l2fwd", "null"})


def priced(
    home: DescribedServer,
    server: DescribedServer,
    experiment: Experiment,
    placement: Placement,
    count: Mapping[str, int],
    corner: float = 0.0,
    edges: tuple[Edge, ...] = (),
    resteers: Collection[str] = (),
) -> PricedLayout:
    """`home`: where functions' costs were measured. `placement`: its segments in the order in which
    packets meet them. `count`: entries of each function's state. `corner`: -1 with all costs at
    their least. `edges`: none, if all packets go through all functions. `resteers`: the functions
    behind which a flow has another one of as many replicas."""
    outside = server.tester == "outside"
    layout = Layout(
        tuple(len(s.nodes) for s in placement.segments),
        tuple(s.cpus for s in placement.segments),
    )
    sets = list(_sets(experiment, home, placement, count))

    used = layout.used
    slower = beside_busy(server, {*used, *(() if outside else (placement.generator,))}, corner)

    places = _places(placement, reading_headers(experiment), edges, resteers)
    costs = {node.name: (node, cost) for node, cost in with_costs_of(experiment, home)}
    order = [name for s in placement.segments for name in s.nodes]

    def nfs(cpu: int) -> tuple[NfCost, ...]:
        frame = experiment.frame.mean_bytes
        return tuple(
            _cost(
                node,
                scaled(
                    home, server, cost, cpu, sets, corner, frame,
                    _remote(server, cpu, places[node.name].before),
                    _remote(server, cpu, places[node.name].behind),
                    ranks(experiment),
                ),
                slower.get(cpu, 1.0),
                places[node.name],
                cpu,
            )
            for node, cost in (costs[name] for name in order)
        )  # fmt: skip

    problem = Problem(
        nfs(used[0]) if used else (),
        traffic_costs(home, server, experiment, placement, layout.lcores, corner, resteers)
        if not outside
        else _from_outside(),
        used,
        server.clock_mhz.value * 1e6,
        edges=edges,
        special={cpu: nfs(cpu) for cpu in used},
    )
    return PricedLayout(
        problem, layout, _uneven(experiment, layout), _caps(server, experiment, corner),
        order=tuple(s.name for s in placement.segments),
    )  # fmt: skip


def _uneven(experiment: Experiment, layout: Layout) -> tuple[float, ...]:
    even, popular = experiment.study.deployment.steer == "even", ranks(experiment)
    return tuple(
        len(on) * busiest_share(experiment.flows, len(on), even, popular) for on in layout.lcores
    )


def backwards(placement: Placement) -> Placement:
    """The same as reverse traffic meets it."""
    segments = tuple(replace(s, nodes=s.nodes[::-1]) for s in placement.segments[::-1])
    return replace(placement, segments=segments)


@dataclass(frozen=True)
class _FunctionPlace:
    """Lcores that a function's segment gets packets from, is on, and gives them to. `fresh`: they
    come unclassified. `resteers`: behind it a flow has another one of as many replicas; `alike`:
    its packets come from none such."""

    before: tuple[int, ...]
    own: tuple[int, ...]
    behind: tuple[int, ...]
    fresh: bool
    resteers: bool
    alike: bool

    def near(self, cpu: int) -> float:
        """The share of this lcore's packets that come from itself."""
        if self.before == self.own and len(self.own) > 1 and self.alike:
            return 1.0
        return 1 / len(self.before) if cpu in self.before else 0.0


def _unclassified(placement: Placement, reading: Collection[str]) -> list[bool]:
    """Whether each segment's packets come so, in their order. A segment with a function that reads
    headers classifies what it gets, and who steers to several replicas what it sends."""
    unknown, each = True, []
    for segment in placement.segments:
        unknown = unknown and len(segment.cpus) == 1
        each.append(unknown)
        unknown = unknown and not set(segment.nodes) & set(reading)
    return each


def _places(
    placement: Placement,
    reading: Collection[str],
    edges: Sequence[Edge] = (),
    resteers: Collection[str] = (),
) -> dict[str, _FunctionPlace]:
    """Without edges each segment has its packets of the one before, and gives them to the next.
    `reading`: functions that read headers."""
    fresh = _unclassified(placement, reading)
    mixing = {i for i, s in enumerate(placement.segments, 1) if set(s.nodes) & set(resteers)}
    ways = [(placement.generator,), *(s.cpus for s in placement.segments), (placement.sink,)]
    order = [(i, name) for i, s in enumerate(placement.segments, 1) for name in s.nodes]
    stage = {SOURCE: 0, len(order): len(ways) - 1} | {n: i for n, (i, _) in enumerate(order)}
    joined = {(stage[e.origin], stage[e.target]) for e in edges if e.share}
    joined = joined or {(i, i + 1) for i in range(len(ways) - 1)}

    def lcores(numbers: Iterable[int], otherwise: int) -> tuple[int, ...]:
        """Each once, in their order."""
        cpus = [cpu for i in sorted(numbers) for cpu in ways[i]]
        return tuple(dict.fromkeys(cpus)) or ways[otherwise]

    return {
        name: _FunctionPlace(
            lcores((a for a, b in joined if b == i != a), i - 1),
            ways[i],
            lcores((b for a, b in joined if a == i != b), i + 1),
            fresh[i - 1],
            name in resteers,
            mixing.isdisjoint(a for a, b in joined if b == i),
        )
        for i, name in order
    }


def _remote(server: DescribedServer, cpu: int, others: Sequence[int]) -> float:
    """The share of those packets that other lcores hand to this one that is another socket's."""
    far = [server.socket_of(one) != server.socket_of(cpu) for one in others if one != cpu]
    return sum(far) / len(far) if far else 0.0


def counted(home: DescribedServer, experiment: Experiment, doc: Document) -> dict[str, int]:
    """Entries of each function's state. Reads the files that the spec names."""
    return {
        node.name: entries(cost.entries, node, experiment, doc)
        for node, cost in with_costs_of(experiment, home)
    }


def reading_headers(experiment: Experiment) -> frozenset[str]:
    """The nodes whose packets have to be classified."""
    return frozenset(node.name for node in experiment.nodes if node.nf not in HEADERLESS)


def at_random(experiment: Experiment) -> bool:
    """Whether flows are drawn for each packet instead of sent in turn."""
    workload = experiment.workload
    return isinstance(workload, Packets) and workload.flows.order != "round-robin"


def with_costs_of(
    experiment: Experiment, home: DescribedServer
) -> Iterator[tuple[Node, DescribedFunction]]:
    for node in experiment.nodes:
        yield node, home.cost_of(node.nf, node.params)


def _sets(
    experiment: Experiment,
    home: DescribedServer,
    placement: Placement,
    count: Mapping[str, int],
) -> Iterator[WorkingSet]:
    where = {name: s.cpus for s in placement.segments for name in s.nodes}
    for node, cost in with_costs_of(experiment, home):
        size = at(cost.bytes_per_entry, 0.0) * count[node.name]
        on = where[node.name]
        for cpu in on:
            if cost.entries == "flows":
                yield WorkingSet(cpu, size / len(on), ranks=ranks(experiment))
            else:
                yield WorkingSet(cpu, size, node.name)


def beside_busy(server: DescribedServer, busy: set[int], corner: float) -> dict[int, float]:
    """How much longer all takes on a thread whose core has another busy one."""
    if server.thread_speed is None:
        return {}
    cores = [server.core_of(cpu) for cpu in busy]
    longer = 1 / server.thread_speed.at(-corner)
    return {cpu: longer for cpu in busy if cores.count(server.core_of(cpu)) > 1}


def _cost(
    node: Node, one: ScaledFunction, longer: float, place: _FunctionPlace, cpu: int
) -> NfCost:
    """Replicas have parts of each burst: what a poll costs once is divided by fewer packets."""
    near, far = (one.rx, one.far) if place.fresh else (one.rx_known, one.known_far)
    work = (one.base + one.wait) * longer
    parts = (len(place.own) - 1) / BURST
    same = place.near(cpu)
    return NfCost(
        name=node.name,
        rx=Hop(
            near * longer,
            (near + far) * longer,
            ((near + parts * one.poll_near) * longer, (near + far + parts * one.poll) * longer),
        ),
        work=Hop(work, work),
        tx=Hop(one.tx * longer, (one.tx + one.over) * longer),
        loop=one.loop * longer,
        poll=(same * one.poll_near + (1 - same) * one.poll) * longer,
        resteers=place.resteers,
    )


def traffic_costs(
    home: DescribedServer,
    server: DescribedServer,
    experiment: Experiment,
    placement: Placement,
    between: Sequence[tuple[int, ...]],
    corner: float,
    resteers: Collection[str] = (),
) -> Traffic:
    """`between`: the lcores of each segment that has the source's buffers, in a packet's order;
    links to VNFs copy, and theirs are the host's alone. `resteers`: as of priced."""
    costs = home.traffic
    assert costs is not None  # refuse.py
    generator, measure = placement.generator, placement.sink
    last = between[-1] if between else (generator,)
    frame = experiment.frame.mean_bytes
    longer = max(0.0, frame - SHORTEST) / 1024

    def over(figure: Sourced | None, here: int, others: Sequence[int]) -> float:
        return hand_over(home, server, at(figure, corner), _remote(server, here, others))

    source = (costs.source_random or costs.source) if at_random(experiment) else costs.source
    each = source.at(corner) + longer * at(costs.source_kib, corner)
    stamp = measure != generator and frame > SHORTEST
    if measure != generator:
        each += over(costs.source_away, generator, (measure,))
        if between and generator in between[0] and frame <= SHORTEST:
            each += over(costs.source_spill, generator, (measure,)) / len(between[0])
        each += longer * over(costs.source_far_kib, generator, (measure,))
    else:
        mixing = [i for i, s in enumerate(placement.segments) if set(s.nodes) & set(resteers)]
        left = _left(generator, between, mixing)
        each += left * over(costs.source_back, generator, last)
        each += left * longer * over(costs.source_far_kib, generator, last)
    each += over(costs.stamp_line, generator, (measure,)) if stamp else 0.0
    sink = costs.sink.at(corner)
    sink += over(costs.stamp_line, measure, (generator,)) if stamp else 0.0
    far = over(costs.hand_over, measure, last)
    steer = at(costs.steer, corner)
    steered = each + steer
    return Traffic(
        source=Hop(each, each, (steered, steered)),
        sink=Hop(sink, sink + far),
        generator=generator,
        measure=measure,
        # The source classifies what it steers; behind a segment packets are classified.
        steer=max(0.0, steer - _classifying(experiment, home, corner)),
        idle=costs.idle.at(corner),
        poll=at(costs.poll, corner),
    )


def _classifying(experiment: Experiment, home: DescribedServer, corner: float) -> float:
    costs = [cost for _, cost in with_costs_of(experiment, home) if cost.rx_known is not None]
    return max((c.rx.at(corner) - at(c.rx_known, corner) for c in costs), default=0.0)


def _left(
    generator: int, between: Sequence[tuple[int, ...]], mixing: Collection[int] = ()
) -> float:
    """The share of packets that are on another lcore than the source's meanwhile."""
    stays = 1.0
    for i, on in enumerate(between):
        if i and on == between[i - 1] and i - 1 not in mixing:
            continue  # a flow's hash takes it to the same one of as many replicas
        stays *= 1 / len(on) if generator in on else 0.0
    return 1 - stays


def _from_outside() -> Traffic:
    return Traffic(Hop(0.0, 0.0), Hop(0.0, 0.0), OUTSIDE, OUTSIDE)


def _caps(server: DescribedServer, experiment: Experiment, corner: float) -> dict[str, float]:
    """Traffic of a tester inside passes no port."""
    if server.tester == "inside":
        return {}
    bits = (experiment.frame.mean_bytes + L1_OVERHEAD_BYTES) * 8
    caps = {PORT: sum(port.gbps.value * 1e9 / bits for port in server.ports)}
    mpps = [port.mpps.at(-corner) * 1e6 for port in server.ports if port.mpps is not None]
    if mpps:
        caps[NIC_RATE] = sum(mpps)
    return caps
