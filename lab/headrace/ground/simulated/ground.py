# SPDX-License-Identifier: Apache-2.0
"""The ground of described servers: nothing is deployed, what a trial would find is computed.

Throughput is by the busiest resource (costs.py); what packets wait for is followed burst by burst
(layout/events.py), or summed in closed form where the study asks for that (`engine: analytic`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

from headrace.engine.describe import Description, describe
from headrace.engine.place import Placement, Topology, place
from headrace.engine.plan_compiler import GENERATOR, SINK, check_nodes
from headrace.engine.resteering import resteering
from headrace.ground.computed import Computed, about_server
from headrace.ground.contract import AboutServer, Checked, Offer, Site, resolved_of
from headrace.ground.dry import TriedChains
from headrace.ground.engine_check import input_files
from headrace.ground.hosted.arrangement import Arrangement, arrange, placement_of
from headrace.ground.hosted.cpus import Cpu
from headrace.ground.hosted.parts import NIC, topology
from headrace.ground.shared_points import with_shared
from headrace.ground.simulated.branches import Shares, edges_of
from headrace.ground.simulated.costs import backwards, counted, priced
from headrace.ground.simulated.elastic import AskedChain, SimulatedOperable, operable_of
from headrace.ground.simulated.elastic_model import cycles_of
from headrace.ground.simulated.limits_reached import limits_of
from headrace.ground.simulated.priced_hosted import priced_hosted, spread
from headrace.ground.simulated.priced_layout import PricedLayout
from headrace.ground.simulated.queueing import delays_ns
from headrace.ground.simulated.readings import AskedLoad, Expected
from headrace.ground.simulated.refuse import check_covered, check_operated
from headrace.ground.simulated.shared import SimulatedShared
from headrace.ground.simulated.simulated_trial import SimulatedTrial, observations
from headrace.host.programs import find_engine
from headrace.host.store import server_files
from headrace.layout.layout import Edge
from headrace.record.facts import Observation
from headrace.record.identity import Direction
from headrace.record.resolved import ResolvedSimulation
from headrace.record.segments import Segment
from headrace.spec.collect import Collect
from headrace.spec.described import DescribedServer
from headrace.spec.document import Document
from headrace.spec.server_file import with_costs
from headrace.spec.study import Experiment, Study, expand, ground_of


def _with_spare(placement: Placement) -> Placement:
    """The one segment on all lcores that a policy may give it, as an operated chain has them."""
    [segment] = placement.segments
    cpus = (*segment.cpus, *placement.spare)[: segment.elastic]
    return replace(placement, segments=(replace(segment, cpus=cpus, elastic=None),), spare=())


def _on_all(placement: Placement, one: Experiment, doc: Document) -> Placement:
    """Each segment on all lcores, which chains share."""
    chain = one.study.deployment.lcores.chain
    if chain is None:
        raise doc.error(
            ("deployment", "lcores"),
            "cannot operate: lcores that several chains share are told; allowed: "
            "`{traffic: [0], chain: [1, 2, 3]}`",
        )
    segments = tuple(replace(each, cpus=tuple(chain), elastic=None) for each in placement.segments)
    return replace(placement, segments=segments, spare=(), notes=())


def cpu_of(server: DescribedServer, number: int) -> Cpu:
    """A described server has one NUMA node to a socket."""
    socket = server.socket_of(number)
    return Cpu(number, (socket, server.core_of(number)), socket)


@dataclass(frozen=True)
class SimulatedGround:
    """A study on the server of one file."""

    server: DescribedServer
    home: DescribedServer  # that functions' costs were measured on
    engine: str
    tried: TriedChains = field(default_factory=TriedChains, compare=False)

    @classmethod
    def of(cls, file: Path, engine: str, doc: Document) -> SimulatedGround:
        """`file`: the server's description, that the study `doc` names."""
        server, home = with_costs(file, doc)
        return cls(server, home, engine)

    def check(self, doc: Document) -> Checked:
        description = describe(find_engine())
        experiments = list(expand(doc))
        asked = ground_of(doc)
        simulated = None if asked is None else asked.simulated
        shares = {} if simulated is None else simulated.shares
        each = [
            replace(
                self._point(one, doc, description, shares),
                remarks=self.tried.notes(one, doc, description),
            )
            for one in experiments
        ]
        points = list(with_shared(each, SimulatedShared.of))
        assert asked is not None
        files = {**input_files(experiments, doc, description), **server_files(doc, asked.server)}
        return Checked(points, files, 0.0, notes=(self._note(),), computed=points)

    def _point(
        self, one: Experiment, doc: Document, description: Description, shares: Shares
    ) -> SimulatedPoint:
        check_covered(one, doc, self.home, self.server)
        check_nodes(one, doc, description)
        if one.hosting.kind != "inline":
            return self.hosted_point(one, doc)
        point = self.inline_point(one, doc)
        placement = point.placement
        if one.study.measure.operate is not None:
            check_operated(one, doc, placement, self.home, self.server)
            shared = one.study.measure.operate.chains
            placement = _on_all(placement, one, doc) if shared else _with_spare(placement)
        edges = edges_of(one, doc, description, shares)
        absent = shares.keys() - {node.name for node in one.nodes}
        if absent:
            note = f"shares of {', '.join(sorted(absent))}: this chain has no such function"
            placement = replace(placement, notes=(*placement.notes, note))
        resteers = resteering(one, description)
        return replace(point, placement=placement, edges=edges, resteers=resteers)

    def inline_point(self, one: Experiment, doc: Document) -> SimulatedPoint:
        """Functions in the engine of the traffic, which check_covered has let pass."""
        topology = Topology(self._threads, self.server.socket_of)
        placement = place(one, doc, list(self.server.cpus), topology)
        sockets = {self.server.socket_of(cpu) for cpu in placement.cpus}
        if len(sockets) > 1 and self.server.remote_cycles is None:
            raise doc.error(
                ("deployment", "lcores"),
                f"cannot predict: lcores on sockets {sorted(sockets)}; covered: one socket's, or a "
                "server with `remote_cycles`",
            )
        return SimulatedPoint(_undisturbed(one), doc, self, placement)

    def hosted_point(self, one: Experiment, doc: Document) -> SimulatedPoint:
        """VNFs hosted apart, which check_covered has let pass."""
        server = self.server

        cpus = sorted(server.cpus, key=server.socket_of)
        bare = arrange(one, doc, cpus, partial(cpu_of, server))
        if one.hosting.placement == "random":
            bare = spread(bare)
        vnfs = [vnf for chain in bare.chains for vnf in chain]
        sockets = {server.socket_of(cpu) for cpu in (*bare.traffic, *(v.lcores[0] for v in vnfs))}
        if len(sockets) > 1 and server.remote_cycles is None:
            raise doc.error(
                ("deployment", "hosting"),
                f"cannot predict: VNFs and traffic on sockets {sorted(sockets)}; covered: one "
                "socket's, or a server with `remote_cycles`",
            )
        network = one.study.deployment.network
        placement = placement_of(vnfs, bare.traffic, (), network)
        return SimulatedPoint(_undisturbed(one), doc, self, placement, bare)

    def _threads(self, cpu: int) -> list[int]:
        return list(self.server.threads_of(self.server.core_of(cpu)))

    def _note(self) -> str:
        whose = "" if self.home is self.server else f", functions' costs from {self.home.name}"
        return f"predicted for {self.server.name}, {self.server.about or 'described'}{whose}"


def _undisturbed(one: Experiment) -> Experiment:
    """Nothing is to be warmed up, compared in turn or sampled where nothing runs; nor repeated, but
    where packets are drawn at random for each repetition anew."""
    study = one.study
    return replace(
        one,
        study=study.model_copy(
            update={
                "warmup": 0.0,
                "repetitions": 1 if study.measure.operate is None else study.repetitions,
                "collect": Collect(layers=()),
                "measure": study.measure.model_copy(update={"pairs": 0}),
            }
        ),
    )


@dataclass(frozen=True)
class SimulatedPoint:
    experiment: Experiment
    doc: Document
    ground: SimulatedGround
    placement: Placement
    bare: Arrangement | None = None  # of hosted chains
    cpus: frozenset[int] = frozenset()  # of this machine
    edges: tuple[Edge, ...] = ()  # none: all packets go through all functions
    remarks: tuple[str, ...] = ()  # what is right, but rarely meant
    # Functions behind which a flow has another one of as many replicas.
    resteers: frozenset[str] = frozenset()

    @property
    def chain(self) -> str:
        return self.experiment.chain

    @property
    def execution(self) -> str:
        return self.experiment.execution.name

    @property
    def study(self) -> Study:
        return self.experiment.study

    @property
    def offers(self) -> tuple[Offer, ...]:
        return (Offer(self.experiment.workload_name, self.experiment.workload),)

    @property
    def runs(self) -> tuple[str, ...]:
        """It only asks an engine what its functions are, and what it would refuse of them."""
        return ()

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.placement.notes, *self.remarks)

    @property
    def vnfs(self) -> frozenset[str]:
        """Names of those in processes of their own."""
        chains = () if self.bare is None else self.bare.chains
        return frozenset(one.name for chain in chains for one in chain)

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        here = self.placement
        ends = self.ground.server.tester == "inside"
        return (
            Segment(name=GENERATOR, cpus=(here.generator,) if ends else (), role="generator"),
            *(
                Segment(name=s.name, cpus=s.cpus, nfs=s.nodes, hosting=self._hosting(s.name))
                for s in here.segments
            ),
            Segment(name=SINK, cpus=(here.sink,) if ends else (), role="sink"),
        )

    def _hosting(self, segment: str) -> str:
        return "inline" if segment == NIC else self.experiment.hosting.kind

    def resolved(self) -> ResolvedSimulation:
        own = resolved_of(self, self.study).model_dump()
        return ResolvedSimulation(**own, server=self.ground.server.model_dump(mode="json"))

    @cached_property
    def _counted(self) -> Mapping[str, int]:
        return counted(self.ground.home, self.experiment, self.doc)

    def priced(self, corner: float = 0.0, ground: SimulatedGround | None = None) -> PricedLayout:
        """`ground`: of the same server with other figures."""
        ground = ground or self.ground
        home, server = ground.home, ground.server
        if self.bare is not None:
            return priced_hosted(
                home, server, self.experiment, self.bare, self.placement, self._counted, corner
            )
        direction = self.experiment.workload.direction
        there, back = (
            priced(
                home, server, self.experiment, way, self._counted, corner, self.edges, self.resteers
            )
            for way in (self.placement, backwards(self.placement))
        )
        if direction == "both":
            return replace(there, other=back)
        return there if direction == "forward" else back

    def alone(self, taken: float = 0.0) -> PricedLayout:
        """The chain on one of its lcores, all segments of it: the first on the socket where it is
        dearest. `taken`: the share of the last-level cache that others hold."""
        segments = self.placement.segments
        home, server = self.ground.home, self.ground.server.without_cache(taken)
        firsts = {server.socket_of(cpu): cpu for cpu in reversed(segments[0].cpus)}
        ways = [
            replace(self.placement, segments=tuple(replace(one, cpus=(cpu,)) for one in segments))
            for cpu in firsts.values()
        ]
        each = [
            priced(home, server, self.experiment, one, self._counted, resteers=self.resteers)
            for one in ways
        ]
        return max(each, key=lambda one: sum(cycles_of(one)))

    @contextlib.contextmanager
    def deploy(self, site: Site) -> Iterator[SimulatedDeployed]:
        yield SimulatedDeployed(self)


@dataclass
class SimulatedDeployed(Computed):
    """What would be up."""

    point: SimulatedPoint
    _load: AskedLoad | None = None

    @cached_property
    def _corners(self) -> Mapping[float, PricedLayout]:
        return {corner: self.point.priced(corner) for corner in (-1.0, 0.0, 1.0)}

    @property
    def labels(self) -> tuple[str, ...]:
        point = self.point
        own: tuple[str, ...] = ()
        if point.bare is not None:
            hosting = point.experiment.hosting
            named = topology(len(point.bare.chains[0]))
            own = f"hosting-{hosting.kind}", named, f"wait-{hosting.wait}"
        return (f"simulated:{point.ground.server.name}", *point.placement.notes, *own)

    def about(self) -> AboutServer:
        return about_server(self.point.ground.server)

    def most_pps(self, offer: Offer) -> float | None:
        return self._corners[0.0].source_pps()

    def operable(self) -> SimulatedOperable:
        point, most = self.point, self._corners[0.0].source_pps()
        server, engine = point.ground.server, point.ground.engine
        chain = AskedChain(point.experiment, point.doc, server, engine, point.placement)
        asked, alone = point.experiment.study.measure.operate, point.alone()
        assert asked is not None  # the session asks for it
        slower = tuple(
            (at, alone.capacity()[0] / point.alone(taken).capacity()[0])
            for at, taken in asked.neighbour
        )
        return operable_of(chain, alone, slower, most, self.labels)

    def start(self, offer: Offer, load_pps: float, seconds: float) -> None:
        self._load = AskedLoad(load_pps, seconds)

    def read(self) -> Sequence[Observation]:
        assert self._load is not None, "nothing was started"
        load, self._load = self._load, None
        point = self.point
        trial = SimulatedTrial(
            point.experiment, point.segments, load, self.labels, point.ground.server.name
        )
        direction = point.experiment.workload.direction
        here = self._corners[0.0]
        if here.other is None:
            return observations(trial, {direction: self._expected(load, here)})
        back = replace(here.other, other=replace(here, other=None))
        ways: dict[Direction, PricedLayout] = {"forward": here, "reverse": back}
        return observations(trial, {name: self._expected(load, one) for name, one in ways.items()})

    def _expected(self, load: AskedLoad, here: PricedLayout) -> Expected:
        """What is expected of one direction; the other one has as many packets."""
        experiment, server = self.point.experiment, self.point.ground.server
        most = here.source_pps()
        capacity, narrowest = here.capacity()
        sent = min(load.wanted_pps or most, most)
        if self._waits():
            sent = min(sent, capacity)
        bounds = [self._corners[corner].capacity()[0] for corner in (1.0, -1.0)]
        carried = here.received_pps(sent)
        engine = self.point.ground.engine
        delays = delays_ns(here, sent, capacity, experiment, server, engine) if carried else None
        return Expected(
            here,
            sent,
            carried,
            min(bounds),
            max(bounds),
            delays,
            narrowest,
            limits_of(here, experiment, server, sent, carried, load.seconds),
            self.point.study.deployment.ring.on_full == "wait",
        )

    def _waits(self) -> bool:
        """Whether the source is held back instead of losing packets: by a ring that waits, or by
        an lcore that makes packets in turn with working on them."""
        placement, deployment = self.point.placement, self.point.study.deployment
        used = {cpu for segment in placement.segments for cpu in segment.cpus}
        inside = self.point.ground.server.tester == "inside" and self.point.bare is None
        return inside and (deployment.wire_on_full == "wait" or placement.generator in used)
