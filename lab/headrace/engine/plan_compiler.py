# SPDX-License-Identifier: Apache-2.0
"""Compile an experiment into the engine's plan (docs/design/contracts.md)."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass, replace

from headrace.engine.buffers import buffers
from headrace.engine.describe import Description, check_params, with_absolute_files
from headrace.engine.place import PlacedSegment, Placement
from headrace.engine.plan_document import (
    Params,
    Plan,
    PlanEngine,
    PlanFunction,
    PlanInput,
    PlanLink,
    PlanParallel,
    PlanSegment,
    Steer,
    Targets,
    ring,
)
from headrace.engine.traffic import source_params
from headrace.engine.ways import Direction, Ways
from headrace.errors import BadInput, unknown
from headrace.host.server import sysfs
from headrace.spec.document import Document
from headrace.spec.forms import THIRD_PARTY
from headrace.spec.study import Experiment
from headrace.spec.vm import APPLIANCE
from headrace.spec.workload import Pcap

GENERATOR, SINK = "generator", "sink"
_MBUFS_MIN = 16384
_SMALL_FRAME = 512
_DATA_BYTES_MAX = 65407  # of an mbuf, beside its headroom
_MOVING = 4096  # of each writer's links (engine/core/loop/elastic.h)
_SLOTS = 1024  # of functions side by side; copies of packets have as many
# 4 ms at 16 Mpps; only small frames come that fast.
_WIRE_SHARED = 65536
_WIRE_FULL = 4096  # a NIC's longest queue
_ISOLATED = pathlib.Path("/sys/devices/system/cpu/isolated")


@dataclass(frozen=True)
class Path:
    """Names of what one direction's traffic meets, in order. A wire and a back are rings."""

    direction: Direction

    @property
    def source(self) -> str:
        return f"gen-{self.direction}"

    @property
    def wire(self) -> str:
        return f"wire-{self.direction}"

    @property
    def back(self) -> str:
        return f"back-{self.direction}"

    @property
    def sink(self) -> str:
        return f"sink-{self.direction}"

    def ends(self, params: Params) -> dict[str, PlanLink]:
        """The source with these parameters, and its sink: of a capture that is sent both ways, each
        sink has to know whose packets come to it."""
        return {
            self.source: PlanLink(type="source", params=params),
            self.sink: PlanLink(type="sink", params={"sources": [self.source]}),
        }


def paths(experiment: Experiment) -> tuple[Path, ...]:
    direction = experiment.workload.direction
    if direction == "both":
        return Path("forward"), Path("reverse")
    return (Path(direction),)


def check_nodes(experiment: Experiment, doc: Document, description: Description) -> None:
    """Every function exists, its parameters are right, its edges are its own."""
    try:
        _check_nodes(experiment, doc, description)
    except BadInput as error:
        if not experiment.point:
            raise
        point = ", ".join(f"{path}: {value}" for path, value in experiment.point)
        raise BadInput(f"{error} (at this point of the sweep: {point})") from None


def _check_names(experiment: Experiment, doc: Document, description: Description) -> None:
    """Names are checked before parameters: third-party VNFs have names of headrace's functions,
    too."""
    machines = experiment.hosting.kind == "vm"
    for node, at in zip(experiment.nodes, experiment.node_paths, strict=True):
        if node.nf not in description.nfs:
            none = f"there is no function {node.nf!r}"
            if experiment.hosting.kind == "container":
                none += f" of headrace's own; {THIRD_PARTY}"
            named = sorted(set(description.nfs) - ({APPLIANCE} if not machines else set()))
            raise doc.error(at, unknown(node.nf, named, none))


def _check_nodes(experiment: Experiment, doc: Document, description: Description) -> None:
    _check_names(experiment, doc, description)
    machines = experiment.hosting.kind == "vm"
    for node, at in zip(experiment.nodes, experiment.node_paths, strict=True):
        if node.nf == APPLIANCE and not machines:
            raise doc.error(
                at, "an image of your own is a virtual machine; allowed with `hosting: vm`"
            )
        check_params(description.nfs[node.nf]["params"], node.params, doc, at)
        edges = description.edges(node.nf)
        for edge in node.to:
            if edge not in edges:
                raise doc.error(
                    (*at[:-1], "to", edge),
                    f"{node.nf} has no edge {edge!r}; allowed: {', '.join(edges)}",
                )
    inline = experiment.hosting.kind == "inline"
    if inline and any(way.direction == "reverse" for way in paths(experiment)):
        _check_way_back(experiment, doc, description)


def _check_way_back(experiment: Experiment, doc: Document, description: Description) -> None:
    """Reverse traffic enters where forward traffic comes out."""
    if experiment.nodes and not ways_of(experiment, description).main:
        ends = [n.name for n in experiment.nodes if "drop" in n.to.values()]
        raise doc.error(
            ("workload", "direction"),
            f"reverse traffic enters where forward traffic comes out, and no edge that it takes in "
            f"chain {experiment.chain} leads out (to drop leads one of: {', '.join(ends)}); "
            "allowed: forward, or a function with an edge to `out`",
            value=experiment.workload.direction,
        )


def ways_of(experiment: Experiment, description: Description) -> Ways:
    edges = {node.name: description.edges(node.nf) for node in experiment.nodes}
    return Ways(experiment.nodes, edges)


def compile_plan(
    experiment: Experiment,
    placement: Placement,
    description: Description,
    doc: Document,
    engine: PlanEngine,
) -> Plan:
    """The whole plan: source -> wire -> the chain's segments -> back -> sink, per direction."""
    ways = paths(experiment)
    deployment = experiment.study.deployment
    cut = _Cut(experiment, placement, description)
    links: dict[str, PlanLink] = {}
    for way in ways:
        links |= way.ends(source_params(experiment, way.direction, doc, description))
        # The wire is a NIC's receive queue: when the chain does not keep up, it drops.
        links[way.wire] = ring(wire_size(experiment, placement), deployment.wire_on_full)
        links[way.back] = ring(deployment.ring.size, deployment.ring.on_full)
    segments = [
        _generator(ways, placement),
        *(cut.segment(s, ways, deployment.burst, deployment.steer) for s in placement.segments),
        _sink(ways, placement),
    ]
    for name in cut.rings:
        links[name] = ring(deployment.ring.size, deployment.ring.on_full)
    nfs = {
        node.name: PlanFunction(
            type=node.nf,
            params=with_absolute_files(description.nfs[node.nf]["params"], node.params, doc),
        )
        for node in experiment.nodes
    }
    held = _held(links, segments) + _waiting(segments)
    held += sum(
        _SLOTS * (1 + len(s.parallel)) * len(s.cpus) for s in placement.segments if s.parallel
    )
    if placement.spare:
        engine = engine.having(spare_cpus=placement.spare)
    engine = engine.having(
        **buffers(experiment, held + _MBUFS_MIN - 1), mbuf_data_bytes=data_bytes(experiment)
    )
    return Plan(
        engine=engine, functions=tuple(map(str, description.functions)) or None,
        links=links, nfs=nfs, segments=tuple(segments),
    )  # fmt: skip


def _held(links: dict[str, PlanLink], segments: list[PlanSegment]) -> int:
    """Packets that lie in rings when all are full: each of a segment's replicas has its own."""
    readers = {entry.link: _most(segment) for segment in segments for entry in segment.inputs}
    return sum(
        link.params["size"] * readers.get(name, 1)
        for name, link in links.items()
        if link.type == "ring"
    )


def _most(segment: PlanSegment) -> int:
    return segment.elastic or len(segment.cpus)


def _waiting(segments: list[PlanSegment]) -> int:
    """Packets that may wait with who writes into an elastic segment, while their buckets move."""
    elastic = [f"link:{entry.link}" for one in segments if one.elastic for entry in one.inputs]
    places = 0
    for one in segments:
        ways = [edges for node in (one.nodes or {}).values() for edges in node.values()]
        targets = {entry.to for entry in one.inputs} | {to for way in ways for to in way.values()}
        places += _most(one) * sum(link in targets for link in elastic)
    return _MOVING * places


def direct_plan(
    experiment: Experiment,
    placement: Placement,
    description: Description,
    doc: Document,
    engine: PlanEngine,
) -> Plan:
    """Source straight into sink: what the tester itself adds to a latency, and how fast it is."""
    ways = paths(experiment)
    links: dict[str, PlanLink] = {}
    for way in ways:
        links |= way.ends(source_params(experiment, way.direction, doc, description))
    inputs = tuple(_input(way.source, f"link:{way.sink}", way.direction) for way in ways)
    engine = engine.having(mbufs=_MBUFS_MIN - 1, mbuf_data_bytes=data_bytes(experiment))
    tester = PlanSegment(name=GENERATOR, cpus=placement.making, inputs=inputs)
    return Plan(engine=engine, links=links, nfs={}, segments=(tester,))


def isolated_cpus() -> frozenset[int]:
    """CPUs that the kernel schedules nothing else on (isolcpus)."""
    return frozenset(sysfs.cpu_list(sysfs.text(_ISOLATED)))


def wire_size(experiment: Experiment, placement: Placement) -> int:
    """Packets that wait in front of the chain.

    Where lcores are isolated that is a NIC's queue, as long as other rings. Elsewhere the kernel
    takes a poller's CPU for a scheduler tick (4 ms at 250 Hz) every now and then, whatever its
    priority; a short queue would make a search for the lossless rate measure that: queue over tick.
    A long one keeps those packets, and their wait shows in the latency, where it belongs. Each of
    several replicas has one, for its part of them.
    """
    deployment = experiment.study.deployment
    if deployment.wire != "auto":
        return deployment.wire
    if set(placement.cpus) <= isolated_cpus():
        return deployment.ring.size
    small = max(experiment.frame.sizes) <= _SMALL_FRAME and not isinstance(
        experiment.workload, Pcap
    )
    whole = _WIRE_SHARED if small else _WIRE_SHARED // 4
    replicas = placement.segments[0].most if placement.segments else 1
    return max(deployment.ring.size, whole >> (replicas - 1).bit_length())


def with_short_wire(experiment: Experiment, placement: Placement) -> Experiment | None:
    """The same with a wire as short as a NIC's queue, for trials in which it is full all the time.

    What comes out of a long one was written millions of cycles ago: where it is then, in the last
    level's cache or in memory, the neighbours on that cache decide, and a packet costs up to a
    quarter more. None: its wire is no longer, or the spec says how long it is."""
    study = experiment.study
    if study.deployment.wire != "auto" or wire_size(experiment, placement) <= _WIRE_FULL:
        return None
    deployment = study.deployment.model_copy(update={"wire": _WIRE_FULL})
    return replace(experiment, study=study.model_copy(update={"deployment": deployment}))


def data_bytes(experiment: Experiment) -> int:
    """Room for the largest frame, and 128 bytes that functions may add, beside DPDK's headroom."""
    if isinstance(experiment.workload, Pcap):
        return min(max(2048, -(-experiment.captured_bytes // 64) * 64) + 128, _DATA_BYTES_MAX)
    largest = max(experiment.frame.sizes)
    if largest <= _SMALL_FRAME:
        return 640
    return 2176 if largest <= 2048 else 9216 + 128


def _input(link: str, to: str, direction: Direction) -> PlanInput:
    return PlanInput(link=link, to=to, direction=direction)


def _generator(ways: tuple[Path, ...], placement: Placement) -> PlanSegment:
    inputs = tuple(_input(way.source, f"link:{way.wire}", way.direction) for way in ways)
    return PlanSegment(name=GENERATOR, cpus=(placement.generator,), inputs=inputs)


def _sink(ways: tuple[Path, ...], placement: Placement) -> PlanSegment:
    inputs = tuple(_input(way.back, f"link:{way.sink}", way.direction) for way in ways)
    return PlanSegment(name=SINK, cpus=(placement.sink,), inputs=inputs)


class _Cut:
    """The chain cut into segments: who reaches whom directly, and who through a ring.

    A ring is named after the function and direction that it leads to: all who send there share it.
    """

    def __init__(
        self, experiment: Experiment, placement: Placement, description: Description
    ) -> None:
        self._order = [node.name for node in experiment.nodes]
        self._home = {name: seg.name for seg in placement.segments for name in seg.nodes}
        self._ways = ways_of(experiment, description)
        self._fastpath = experiment.execution.fastpath_flows
        self.rings: dict[str, tuple[str, Direction]] = {}
        for way in paths(experiment):
            for name in self._order:
                for target in self._ways.targets(name, way.direction).values():
                    self._note_ring(name, target, way)

    def _note_ring(self, name: str, target: str, way: Path) -> None:
        if target in self._home and self._home[target] != self._home[name]:
            self.rings[_ring_name(target, way.direction)] = (target, way.direction)

    def segment(
        self,
        segment: PlacedSegment,
        ways: tuple[Path, ...],
        burst: int,
        steer: Steer,
    ) -> PlanSegment:
        beside = None
        if segment.parallel:
            cpus = tuple(cpu for cpus in segment.beside for cpu in cpus)
            beside = PlanParallel(nodes=segment.parallel, cpus=cpus)
        return PlanSegment(
            name=segment.name,
            cpus=segment.cpus,
            burst=burst,
            steer=steer,
            elastic=segment.elastic,
            inputs=tuple(entry for way in ways for entry in self._inputs(segment, way)),
            fastpath=self._fastpath or None,
            parallel=beside,
            nodes={name: self._edges(name, ways) for name in segment.nodes} or None,
        )

    def _inputs(self, segment: PlacedSegment, way: Path) -> list[PlanInput]:
        inputs = []
        if not self._order:
            return [_input(way.wire, f"link:{way.back}", way.direction)]
        # Forward traffic that ends in the chain enters it all the same.
        first = next(iter(self._ways.meets(way.direction)), self._order[0])
        if first in segment.nodes:
            inputs.append(_input(way.wire, first, way.direction))
        for name, (target, direction) in self.rings.items():
            if direction == way.direction and target in segment.nodes:
                inputs.append(_input(name, target, direction))
        return inputs

    def _edges(self, name: str, ways: tuple[Path, ...]) -> dict[Direction, Targets]:
        directions: dict[Direction, Targets] = {
            way.direction: self._resolved(name, way) for way in ways
        }
        # The engine wants `forward` always; a chain driven only in reverse has no other way.
        return {"forward": directions.get("forward", directions[ways[0].direction]), **directions}

    def _resolved(self, name: str, way: Path) -> Targets:
        resolved = {}
        for edge, target in self._ways.targets(name, way.direction).items():
            if target == "out":
                resolved[edge] = f"link:{way.back}"
            elif target in self._home and self._home[target] != self._home[name]:
                resolved[edge] = f"link:{_ring_name(target, way.direction)}"
            else:
                resolved[edge] = target
        return resolved


def _ring_name(target: str, direction: Direction) -> str:
    return f"to-{target[:24]}" + ("-r" if direction == "reverse" else "")
