# SPDX-License-Identifier: Apache-2.0
"""The ground of chains inside one engine: each point placed and compiled, then deployed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headrace.collect.collector import Targets, WatchedProcess
from headrace.engine.counters import side_name
from headrace.engine.describe import Description
from headrace.engine.engine import Engine, EngineRefused
from headrace.engine.figures import UNINTENDED, Context, observations
from headrace.engine.look import EngineLook
from headrace.engine.partitions import Partition, PartitionTurns, with_partitions
from headrace.engine.place import PlacedSegment, Placement, place
from headrace.engine.plan_compiler import (
    GENERATOR,
    SINK,
    compile_plan,
    direct_plan,
    paths,
    with_short_wire,
)
from headrace.engine.plan_document import Plan, PlanClass, PlanEngine, PlanLocate
from headrace.engine.reading import Reading, StartedLoad
from headrace.engine.resolved_chain import ResolvedChain
from headrace.engine.running import RunningEngine
from headrace.engine.sliced import slices_of
from headrace.engine.traffic import refusal
from headrace.engine.verify import verify_path
from headrace.ground.contract import (
    About,
    AboutEngine,
    Looking,
    Offer,
    Site,
    TrialsOnly,
    resolved_of,
)
from headrace.ground.engine_check import PlanCheck
from headrace.ground.floor import Floor, Floors
from headrace.host import store
from headrace.host.programs import find_engine
from headrace.host.state import telemetry_sockets
from headrace.record.facts import Observation
from headrace.record.resolved import ResolvedExperiment
from headrace.record.segments import Segment
from headrace.record.verdict import Finding
from headrace.spec.document import Document
from headrace.spec.measure import ASKED, Measure
from headrace.spec.study import Experiment, Study
from headrace.spec.workload import Pcap

if TYPE_CHECKING:
    from headrace.ground.elastic_plant import ElasticEngine
    from headrace.ground.operable import Operable


@dataclass(frozen=True)
class EnginePoint:
    """An experiment, placed and compiled. The engine's memory is decided when the run begins."""

    experiment: Experiment
    doc: Document
    description: Description
    placement: Placement
    plan: Plan
    direct: Plan
    policy: Mapping[str, frozenset[str]]  # node: the drop reasons that are what it was told to do
    remarks: tuple[str, ...] = ()  # what is right, but rarely meant
    floors: Floors = field(default_factory=Floors)  # shared by all points of a study
    lasts_s: float | None = None  # a load that changes
    partitions: tuple[Partition, ...] = ()  # that its engine goes to in each trial; its own first
    at_limit: Plan | None = None  # what is deployed to be driven to its limit; None: `plan`

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
    def cpus(self) -> frozenset[int]:
        return frozenset(self.placement.cpus)

    @property
    def offers(self) -> tuple[Offer, ...]:
        one = self.experiment
        measure = self._own_measure()
        return (Offer(one.workload_name, one.workload, measure, lasts_s=self.lasts_s),)

    def _own_measure(self) -> Measure | None:
        """A capture in its own timing is sent at its own rate, unless another is asked for."""
        workload, asked = self.experiment.workload, self.doc.data.get("measure") or {}
        own = isinstance(workload, Pcap) and workload.timing == "capture"
        if not own or any(asked.get(key) for key in ASKED):
            return None
        loads = (self.experiment.captured_pps,)
        return self.study.measure.model_copy(update={"search": (), "loads": loads})

    @property
    def runs(self) -> tuple[str, ...]:
        return (str(self.description.engine), *map(str, self.description.functions))

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.placement.notes, *self.remarks)

    @property
    def labels(self) -> tuple[str, ...]:
        """What a reader must know before comparing a figure of it with another."""
        labels = []
        if any(s.role == "chain" and s.shares_cpu_with for s in self.segments):
            labels.append("shared-lcore")
        if self.placement.generator == self.placement.sink:
            labels.append("one-traffic-lcore")
        if self.policy:
            labels.append(UNINTENDED)
        return tuple(labels)

    def resolved(self) -> ResolvedExperiment:
        own = resolved_of(self, self.study).model_dump()
        return ResolvedChain(**own, notes=self.placement.notes, plan=self.plan)

    def with_memory(self, engine: PlanEngine, direct: bool = False) -> Plan:
        plan = self.direct if direct else self.plan
        return plan.having(engine=plan.engine.having(**engine.model_dump(exclude_none=True)))

    def hosting_of(self, segment: str) -> str:
        return "inline"

    @property
    def hosted_mb(self) -> int:
        """What VNFs apart have of hugepages."""
        return 0

    @property
    def switch_mb(self) -> int:
        """What a switch beside the engine has of the memory that is provided."""
        return 0

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Segments as the record shows them; those that share an lcore say with whom."""
        placed = [
            (GENERATOR, self.placement.making, (), "generator"),
            *(part for s in self.placement.segments for part in _parts(s)),
            (SINK, self.placement.measuring, (), "sink"),
        ]
        return tuple(
            Segment.model_validate(
                {
                    "name": name,
                    "cpus": cpus,
                    "nfs": nodes,
                    "role": role,
                    "hosting": self.hosting_of(name),
                    "shares_cpu_with": tuple(
                        other
                        for other, theirs, *_ in placed
                        if other != name and set(theirs) & set(cpus)
                    ),
                }
            )
            for name, cpus, nodes, role in placed
        )

    @contextlib.contextmanager
    def deploy(self, site: Site) -> Iterator[DeployedEngine]:
        try:
            floor = self.floor(site)
            full = self.at_limit if site.at_limit else None
            point = self if full is None else replace(self, plan=full)
            with point.started(point.with_memory(site.engine), floor, site) as up:
                yield up
        except EngineRefused as error:
            raise refusal(error.place, error.problem, self.experiment, self.doc) from None

    def floor(self, site: Site) -> Floor | None:
        """What the tester alone makes."""
        direct = self.with_memory(site.engine, True)
        return self.floors.of(self.experiment, direct, site, lambda plan: self.alone(plan, site))

    @contextlib.contextmanager
    def alone(self, plan: Plan, site: Site) -> Iterator[RunningEngine]:
        """An engine with nothing but the tester."""
        with Engine(find_engine(), plan, site.state) as engine:
            yield engine

    @contextlib.contextmanager
    def started(self, plan: Plan, floor: Floor | None, site: Site) -> Iterator[DeployedEngine]:
        with site.stopwatch.phase("deploying"):
            engine = Engine(self.description.engine, plan, site.state)
        with engine:
            yield DeployedEngine(self, site, engine, plan, floor)


def _parts(placed: PlacedSegment) -> list[tuple[str, tuple[int, ...], tuple[str, ...], str]]:
    """A segment, and what runs beside it on lcores of its own: as if it were a segment, too."""
    beside = dict(zip(placed.parallel[1:], placed.beside, strict=True))
    own = tuple(name for name in placed.nodes if name not in beside)
    return [
        (placed.name, placed.cpus, own, "chain"),
        *((side_name(placed.name, nf), cpus, (nf,), "chain") for nf, cpus in beside.items()),
    ]


class DeployedEngine(TrialsOnly):
    """A point whose packets one engine makes, carries and measures."""

    def __init__(
        self,
        point: EnginePoint,
        site: Site,
        engine: RunningEngine,
        plan: Plan,
        floor: Floor | None,
    ) -> None:
        self.point, self.site, self.engine, self.plan, self.floor = point, site, engine, plan, floor
        self.ways = paths(point.experiment)
        self._run: StartedLoad | None = None
        self._turns: PartitionTurns | None = None
        if point.partitions:
            every_s = point.experiment.execution.every
            self._turns = PartitionTurns(engine, plan, point.partitions, every_s)
        self._calibration = store.calibration() if plan.engine.locate else None
        self.context = Context(
            frame_bytes_mean=point.experiment.frame.mean_bytes,
            plan=plan,
            ways=self.ways,
            segments=point.segments,
            labels=tuple(self.labels),
            calibration=None if floor is None else floor.calibration,
            policy=point.policy,
        )

    @property
    def notes(self) -> Sequence[str]:
        return ()

    @property
    def labels(self) -> Sequence[str]:
        labels = [] if self.hugepages else ["no-huge"]
        labels += self.point.labels
        if not self.engine.shielded:
            labels.append("unshielded")
        return (*labels, *self.point.placement.notes)

    @property
    def hugepages(self) -> bool:
        return bool(self.site.engine.hugepages)

    def about(self) -> About:
        return AboutEngine(self.engine.info(), self.engine.shielded)

    def parts(self) -> Targets:
        if self.engine.pid is None:
            return Targets()
        return Targets(
            processes=(WatchedProcess(name="engine", pid=self.engine.pid),),
            telemetry=telemetry_sockets(self.site.state.path),
        )

    def verify(self) -> Sequence[Finding]:
        verify_path(self.engine, self.point.experiment, self.ways, self.plan, self.point.policy)
        return ()

    def most_pps(self, offer: Offer) -> float | None:
        return None if self.floor is None else self.floor.max_pps / len(self.ways)

    def lacks(self, offer: Offer) -> str | None:
        return None

    def start(self, offer: Offer, load_pps: float, seconds: float) -> None:
        drain_s = self.point.study.measure.drain
        self._run = StartedLoad(self.engine, self.ways, load_pps, seconds, drain_s)

    def wait(self) -> None:
        assert self._run is not None, "nothing was started"
        if self._turns is not None:
            self._turns.take(self._run.began, self._run.duration_s)
        self._run.wait()

    def read(self) -> Sequence[Observation]:
        assert self._run is not None, "nothing was started"
        reading, self._run = self._run.read(), None
        if self._turns is not None:  # slices are of segments that were there all the time
            reading = replace(reading, slices=())
        return [
            self.seen(self._changed(self._located(one)), reading)
            for one in observations(self.context, reading)
        ]

    def _changed(self, observation: Observation) -> Observation:
        """Adds the partitions that the chain went to."""
        if self._turns is None:
            return observation
        figures = observation.figures.model_copy(update={"partitions": tuple(self._turns.made)})
        return replace(observation, figures=figures)

    def _located(self, observation: Observation) -> Observation:
        """Adds the shares of places that most likely gave what was located, by the calibration."""
        figures, calibration = observation.figures, self._calibration
        if not figures.located or calibration is None:
            return observation
        from headrace.model.locate import not_from_memory  # numpy

        located = tuple(
            one.model_copy(update={"corrected": not_from_memory(one.classes, calibration.locate)})
            for one in figures.located
        )
        return replace(observation, figures=figures.model_copy(update={"located": located}))

    def seen(self, observation: Observation, reading: Reading) -> Observation:
        """Adds what else this ground knows of it."""
        return observation

    def looking(self) -> Looking | None:
        return EngineLook(self.engine, self.ways, self.plan)

    def elastic(self) -> ElasticEngine:
        """Is its one elastic segment, which has its lcores as it was deployed."""
        # numpy: not for a start
        from headrace.ground.elastic_engine import check_tells_each
        from headrace.ground.elastic_plant import ElasticEngine

        point = self.point
        [segment], most = point.placement.segments, point.experiment.execution.elastic
        elastic = ElasticEngine(
            self.engine, self.plan, self.ways[0], point.placement.room[:most], point.policy,
            self.site.say, list(range(len(segment.cpus))),  # these are the first of its lcores
        )  # fmt: skip
        check_tells_each(elastic, point.description.engine)
        return elastic

    def operable(self) -> Operable | None:
        from headrace.ground.elastic_engine import operable_of

        return operable_of(self.elastic(), self.point.experiment, self.point.doc, self.labels)

    def left_alone(self, seconds: float) -> float | None:
        with self.engine.measuring():
            since = self.engine.read().tsc
            time.sleep(seconds)
            until = self.engine.read().tsc
        from headrace.model.undisturbed import left_alone  # numpy: not for a start

        return left_alone(slices_of(self.engine, since, until))


def inline_point(
    experiment: Experiment,
    check: PlanCheck,
    available: list[int],
    floors: Floors,
    adapt: Callable[[Plan], Plan] = lambda plan: plan,
) -> EnginePoint:
    """`adapt` may change the chain's plan."""
    doc, description = check.doc, check.description
    placement = place(experiment, doc, available)
    lasts_s = None
    if experiment.study.measure.operate is not None:
        from headrace.ground.load_curve import load_of  # numpy
        from headrace.ground.operated_check import check_operated_engine

        check_operated_engine(experiment, doc, placement)
        lasts_s = float(load_of(experiment, doc).seconds[-1])
    engine = engine_of(experiment)

    def compiled(one: Experiment) -> Plan:
        return adapt(compile_plan(one, place(one, doc, available), description, doc, engine))

    plan, partitions = with_partitions(experiment, compiled)
    short = with_short_wire(experiment, placement)
    direct = direct_plan(experiment, placement, description, doc, engine)
    check.check(plan, experiment)
    return EnginePoint(
        experiment, doc, description, placement, plan, direct,
        policy_drops(experiment, description), floors=floors, lasts_s=lasts_s,
        partitions=partitions, at_limit=None if short is None else compiled(short),
    )  # fmt: skip


def engine_of(experiment: Experiment) -> PlanEngine:
    """The plan's `engine`, as far as the spec decides it."""
    deployment = experiment.study.deployment
    locate = None
    if deployment.locate and experiment.hosting.kind == "inline":
        locate = locating(deployment.locate)
    return PlanEngine(memory_mb=deployment.memory_mb, locate=locate)


def locating(every: int) -> PlanLocate:
    """Takes the limits of this server's calibration; without one only times can be told."""
    calibration = store.calibration()
    if calibration is None:
        return PlanLocate(every=every)
    classes = (
        PlanClass(name=one.name, below_cycles=one.below_cycles)
        for one in calibration.locate.classes
    )
    return PlanLocate(every=every, classes=tuple(classes))


def policy_drops(experiment: Experiment, description: Description) -> dict[str, frozenset[str]]:
    """What the functions say of their own drop reasons; nothing where every loss counts."""
    if experiment.study.measure.losses == "all":
        return {}
    return {
        node.name: frozenset(description.nfs[node.nf].get("policy_drops", ()))
        for node in experiment.nodes
    }
