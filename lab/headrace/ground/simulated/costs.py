# SPDX-License-Identifier: Apache-2.0
"""A placed chain on a described server as a layout with costs, and what bounds it beside lcores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from headrace.engine.place import Placement
from headrace.ground.simulated.entries import entries
from headrace.layout.layout import Hop, Layout, NfCost, Problem, StageShare, Traffic, parts
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
from headrace.spec.described import DescribedFunction, DescribedServer
from headrace.spec.document import Document
from headrace.spec.study import Experiment
from headrace.spec.workload import Packets

OUTSIDE = -1  # the lcore of a tester that is another machine


@dataclass(frozen=True)
class PricedLayout:
    """`uneven`: by segment, how much more than an equal share its busiest replica gets. `caps`:
    packets/s that something else than an lcore lets through, by what it is."""

    problem: Problem
    layout: Layout
    uneven: tuple[float, ...]
    caps: Mapping[str, float] = field(default_factory=dict)
    owners: tuple[tuple[str, ...], ...] = ()  # segment of each part of each stage; (): one each

    @cached_property
    def stages(self) -> list[list[StageShare]]:
        return parts(self.problem, self.layout)

    def busiest(self) -> dict[int, float]:
        """Cycles of each lcore for a packet of the source, the busiest replica's where flows are
        spread unevenly."""
        return dict(self._busiest)

    @cached_property
    def _busiest(self) -> dict[int, float]:
        cycles: dict[int, float] = {}
        for i, stage in enumerate(self.stages):
            more = self.uneven[i - 1] if 0 < i <= len(self.uneven) else 1.0
            for part in stage:
                cycles[part.cpu] = cycles.get(part.cpu, 0.0) + part.cycles * more
        cycles.pop(OUTSIDE, None)
        return cycles

    def capacity(self) -> tuple[float, str]:
        """Packets/s at which the first resource has nothing left, and which it is."""
        cycles = self.busiest()
        worst = max(cycles, key=lambda cpu: cycles[cpu])
        limits = {f"lcore {worst}": self.problem.tsc_hz * self.problem.kept / cycles[worst]}
        limits |= self.caps
        name = min(limits, key=lambda one: limits[one])
        return limits[name], name

    def received_pps(self, sent: float) -> float:
        return min(sent, self.capacity()[0])

    def source_pps(self) -> float:
        """What the tester makes at most: by its ports, or by its lcore beside what else that does,
        which is no more than what the narrowest of the others lets through."""
        [source] = self.stages[0]
        if source.cpu == OUTSIDE:
            return self.caps["port"]
        hz, cycles = self.problem.tsc_hz, self.busiest()
        alone = cycles.pop(source.cpu)
        rest = min((hz * self.problem.kept / one for one in cycles.values()), default=hz / alone)
        return max(hz / alone, (hz - rest * (alone - source.cycles)) / source.cycles)


def priced(
    home: DescribedServer,
    server: DescribedServer,
    experiment: Experiment,
    placement: Placement,
    count: Mapping[str, int],
    corner: float = 0.0,
) -> PricedLayout:
    """`home`: where functions' costs were measured. `count`: entries of each function's state.
    `corner`: -1 with all costs at their least."""
    outside = server.tester == "outside"
    layout = Layout(
        tuple(len(s.nodes) for s in placement.segments),
        tuple(s.cpus for s in placement.segments),
    )
    sets = list(_sets(experiment, home, placement, count))

    used = sorted({cpu for s in placement.segments for cpu in s.cpus})
    slower = beside_busy(server, {*used, *(() if outside else (placement.generator,))}, corner)

    fresh = set(placement.segments[0].nodes) if placement.segments else set()

    def nfs(cpu: int) -> tuple[NfCost, ...]:
        return tuple(
            _cost(
                node,
                scaled(home, server, cost, cpu, sets, corner, experiment.frame.mean_bytes),
                slower.get(cpu, 1.0),
                node.name in fresh,
            )
            for node, cost in with_costs_of(experiment, home)
        )

    problem = Problem(
        nfs(used[0]) if used else (),
        traffic_costs(home, server, experiment, placement, corner)
        if not outside
        else _from_outside(),
        tuple(used),
        server.clock_mhz.value * 1e6,
        special={cpu: nfs(cpu) for cpu in used},
    )
    even = experiment.study.deployment.steer == "even"
    uneven = tuple(len(on) * busiest_share(experiment.flows, len(on), even) for on in layout.lcores)
    return PricedLayout(problem, layout, uneven, _caps(server, experiment, corner))


def counted(home: DescribedServer, experiment: Experiment, doc: Document) -> dict[str, int]:
    """Entries of each function's state. Reads the files that the spec names."""
    return {
        node.name: entries(cost.entries, node, experiment, doc)
        for node, cost in with_costs_of(experiment, home)
    }


def with_costs_of(
    experiment: Experiment, home: DescribedServer
) -> Iterator[tuple[Node, DescribedFunction]]:
    for node in experiment.nodes:
        yield node, home.functions[node.nf]


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
                yield WorkingSet(cpu, size / len(on))
            else:
                yield WorkingSet(cpu, size, node.name)


def beside_busy(server: DescribedServer, busy: set[int], corner: float) -> dict[int, float]:
    """How much longer all takes on a thread whose core has another busy one."""
    if server.thread_speed is None:
        return {}
    cores = [server.core_of(cpu) for cpu in busy]
    longer = 1 / server.thread_speed.at(-corner)
    return {cpu: longer for cpu in busy if cores.count(server.core_of(cpu)) > 1}


def _cost(node: Node, one: ScaledFunction, longer: float, fresh: bool) -> NfCost:
    """What a packet of another core costs more is the receiver's here. `fresh`: packets come to its
    segment unclassified."""
    near = one.rx if fresh else one.rx_known
    work = (one.base + one.wait) * longer
    return NfCost(
        name=node.name,
        rx=Hop(near * longer, (one.rx + one.far) * longer),
        work=Hop(work, work),
        tx=Hop(one.tx * longer, one.tx * longer),
        loop=one.loop * longer,
        poll=one.poll * longer,
    )


def traffic_costs(
    home: DescribedServer,
    server: DescribedServer,
    experiment: Experiment,
    placement: Placement,
    corner: float,
) -> Traffic:
    costs = home.traffic
    assert costs is not None  # refuse.py
    workload = experiment.workload
    at_random = isinstance(workload, Packets) and workload.flows.order == "random"
    source = (costs.source_random or costs.source) if at_random else costs.source
    longer = max(0.0, experiment.frame.mean_bytes - SHORTEST) / 1024
    each = source.at(corner) + longer * at(costs.source_kib, corner)
    steered = each + at(costs.steer, corner)
    sink, far = costs.sink.at(corner), hand_over(home, server, costs.hand_over.at(corner))
    return Traffic(
        source=Hop(each, each, (steered, steered)),
        sink=Hop(sink, sink + far),
        generator=placement.generator,
        measure=placement.sink,
        idle=costs.idle.at(corner),
    )


def _from_outside() -> Traffic:
    return Traffic(Hop(0.0, 0.0), Hop(0.0, 0.0), OUTSIDE, OUTSIDE)


def _caps(server: DescribedServer, experiment: Experiment, corner: float) -> dict[str, float]:
    """Traffic of a tester inside passes no port."""
    if server.tester == "inside":
        return {}
    bits = (experiment.frame.mean_bytes + L1_OVERHEAD_BYTES) * 8
    caps = {"port": sum(port.gbps.value * 1e9 / bits for port in server.ports)}
    mpps = [port.mpps.at(-corner) * 1e6 for port in server.ports if port.mpps is not None]
    if mpps:
        caps["NIC"] = sum(mpps)
    return caps
