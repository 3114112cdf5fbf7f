# SPDX-License-Identifier: Apache-2.0
"""Chains of headrace's own functions on a cluster: the tester and each segment a pod, joined by
memif or vhost-user on one node; the tester perhaps on another one, by devices that pods are
given."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from headrace.collect.collector import Targets
from headrace.collect.elsewhere import Elsewhere
from headrace.engine.describe import describe
from headrace.engine.engine import EngineRefused
from headrace.engine.place import PlacedSegment, Placement
from headrace.engine.plan_compiler import check_nodes, compile_plan, direct_plan, paths
from headrace.engine.plan_document import Plan
from headrace.engine.reading import Reading
from headrace.engine.running import RunningEngine
from headrace.engine.traffic import refusal
from headrace.errors import BadInput, bad_value
from headrace.ground import catalogue
from headrace.ground.contract import AboutCluster, Checked, Site
from headrace.ground.engine_check import PlanCheck, input_files
from headrace.ground.floor import Floor, Floors
from headrace.ground.inline import DeployedEngine, EnginePoint, engine_of, policy_drops
from headrace.ground.kubernetes.agents import agents_on
from headrace.ground.kubernetes.cut import SIDES, TESTER, PlanCut, Wire, cut, on_cpus, pod_of
from headrace.ground.kubernetes.engine_manifests import (
    EnginePods,
    engine_manifests,
    folder_of,
)
from headrace.ground.kubernetes.engine_pods import PodEngine, PodEngines
from headrace.ground.kubernetes.engine_start import GIVEN, OWN, plan_key
from headrace.ground.kubernetes.manifests import Manifest, file_key
from headrace.ground.kubernetes.nodes import ClusterNodes, in_registry
from headrace.ground.kubernetes.own_refusals import refuse, refuse_devices, without_pages
from headrace.ground.kubernetes.places import note
from headrace.ground.kubernetes.pods import namespace_of
from headrace.ground.kubernetes.waiting import make, wait_ready
from headrace.ground.wired.ground import with_ports
from headrace.ground.wired.there import LCORES
from headrace.host.cluster_owned import Sweep, owned
from headrace.host.ledger import Ledger
from headrace.host.programs import find_engine
from headrace.record.facts import Observation
from headrace.spec.collect import Collect
from headrace.spec.document import Document
from headrace.spec.kubernetes import Kubernetes
from headrace.spec.study import Experiment, Study, expand

_READY_S = 180.0


@dataclass(frozen=True, kw_only=True)
class EnginePodsPoint(EnginePoint):
    """An experiment whose tester and segments are pods. Its lcores are numbers until the pods have
    theirs."""

    cut: PlanCut
    given: Kubernetes
    nodes: ClusterNodes
    number: int
    files: Mapping[str, Path] = field(default_factory=dict)

    @property
    def execution(self) -> str:
        return f"pods {self.experiment.execution.name}"

    @property
    def cpus(self) -> frozenset[int]:
        """None of this machine's."""
        return frozenset()

    @property
    def study(self) -> Study:
        if self.given.agent is not None:
            return self.experiment.study
        return self.experiment.study.model_copy(update={"collect": Collect(layers=())})

    @property
    def runs(self) -> tuple[str, ...]:
        return (self._image,)

    @property
    def labels(self) -> tuple[str, ...]:
        return (*super().labels, "hosting-pod", *(f"port-{kind}" for kind in self.cut.kinds))

    def hosting_of(self, segment: str) -> str:
        return "inline" if pod_of(segment) not in self.cut.plans else "pod"

    @property
    def _image(self) -> str:
        return in_registry(catalogue.find("headrace").image, self.given.registry)

    @property
    def apart(self) -> bool:
        """Whether the tester and the chain are joined by the nodes' devices."""
        return self.given.network is not None

    def _nodes(self) -> dict[str, str]:
        """The node of each pod."""
        own = self.given.place.get(TESTER)
        chain = self.nodes.of(self.number, own if self.apart else None)
        return self._at(chain, chain if own is None else self.nodes.has(own))

    def _named_nodes(self) -> dict[str, str]:
        """As far as the study names nodes: no cluster is asked."""
        nodes, own = self.given.nodes, self.given.place.get(TESTER)
        chain = nodes[self.number % len(nodes)] if nodes else None
        if self.apart and chain is None:
            raise BadInput(
                "network host-device: the devices are a node's own; allowed: with "
                "ground.kubernetes.nodes, or --node"
            )
        if (somewhere := chain or own) is None:
            return {}
        return self._at(somewhere, own or somewhere)

    def _at(self, chain: str, tester: str) -> dict[str, str]:
        if tester != chain and not self.apart:
            raise bad_value(
                "ground.kubernetes.place", tester,
                allowed=f"{chain}, where the chain is, unless network host-device joins both",
            )  # fmt: skip
        return {**dict.fromkeys(self.cut.plans, chain), TESTER: tester}

    def _how(self, namespace: str, nodes: Mapping[str, str]) -> EnginePods:
        deployment = self.experiment.study.deployment
        exclusive = dict.fromkeys(self.cut.plans, self.given.cpus)
        exclusive |= {name: n for name, n in self.given.pod_cpus.items() if name in exclusive}
        return EnginePods(
            namespace=namespace,
            image=self._image,
            nodes=nodes,
            cpus=exclusive,
            memory_mb=deployment.memory_mb,
            hugepages=deployment.hugepages is True,
            privileged=self.given.privileged,
            devices=self.given.devices,
            selector=self.given.node_selector,
        )

    def exported(self, namespace: str) -> tuple[Manifest, ...]:
        """Pods that start their engines themselves, for who applies them without a lab."""
        places = {local: f"{GIVEN}/{key}" for local, key in self._keys().items()}
        files = {key: Path(local).read_bytes() for local, key in self._keys().items()}
        for pod, plan in self.cut.plans.items():
            [_] = {cpu for segment in plan.segments for cpu in segment.cpus}  # which a pod sets
            text = self._settled(plan, places).model_dump_json(exclude_none=True, indent=1)
            files[plan_key(pod)] = f"{text}\n".encode()
        how = self._how(namespace, self._named_nodes())
        return engine_manifests(self.cut, replace(how, files=files))

    @contextlib.contextmanager
    def deploy(self, site: Site) -> Iterator[DeployedPods]:
        ledger = Ledger(site.state.path)
        try:
            try:
                engines = self._pods(site, ledger)
                ready = self._on(engines)
                floor = self.floors.of(
                    self.experiment, ready.direct, site,
                    lambda plan: PodEngines({TESTER: engines[TESTER]}, {TESTER: plan}, ()),
                )  # fmt: skip
                with site.stopwatch.phase("starting engines"):
                    running = PodEngines(engines, ready.cut.plans, ready.cut.wires)
                tester = engines[TESTER]
                reading = agents_on(
                    tester.cluster, tester.namespace, self.given.agent, self.study.collect,
                    site.stopwatch,
                )  # fmt: skip
                with running, reading as elsewhere:
                    yield DeployedPods(ready, site, running, ready.cut.together, floor, elsewhere)
                    note(site.bundle, f"{self.execution}, {self.chain}", running.places())
            except EngineRefused as error:
                raise refusal(error.place, error.problem, self.experiment, self.doc) from None
        finally:
            with site.stopwatch.phase("removing"):
                ledger.undo()

    def _pods(self, site: Site, ledger: Ledger) -> dict[str, PodEngine]:
        """Up, with the files that their functions read."""
        cluster, nodes = self.nodes.cluster, self._nodes()
        how = self._how(namespace_of(self.study.name), nodes)
        every = tuple(sorted(set(nodes.values())))
        with site.stopwatch.phase("waiting for pods"):
            sweep = Sweep(nodes=every, image=how.image, folder=folder_of(how.namespace))
            line = owned(cluster, how.namespace, sweep, agents=self.given.agent is not None)
            ledger.note("cluster", line)
            make(cluster, engine_manifests(self.cut, how))
            where = wait_ready(cluster, how.namespace, len(self.cut.plans), _READY_S)
        engines = {
            pod: PodEngine(
                cluster, how.namespace, pod, where[pod],
                0 if where[pod] == where[TESTER] else LCORES,
            )
            for pod in self.cut.plans
        }  # fmt: skip
        for local, inside in self._places().items():
            data = Path(local).read_bytes()
            for one in engines.values():
                one.put(data, inside)
        return engines

    def _places(self) -> dict[str, str]:
        """Where a file of this machine's is in a pod."""
        return {local: f"{OWN}/{key}" for local, key in self._keys().items()}

    def _keys(self) -> dict[str, str]:
        """What pods call files of this machine's."""
        every = sorted({str(file) for file in self.files.values()})
        return {local: file_key(i, Path(local)) for i, local in enumerate(every)}

    def _on(self, engines: Mapping[str, PodEngine]) -> EnginePodsPoint:
        """With the lcores that the pods have, and their files."""
        taken: dict[int, int] = {}
        used: set[int] = set()
        notes = []
        for pod, plan in self.cut.plans.items():
            allowed = engines[pod].cpus()
            wanted = sorted({cpu for segment in plan.segments for cpu in segment.cpus})
            for cpu in wanted:
                free = [one for one in allowed if one not in used]
                taken[cpu] = (free or allowed)[-1]
                if not free:
                    notes.append(f"pod {pod} shares lcore {taken[cpu]}")
                used.add(taken[cpu])
        placement = Placement(
            taken[self.placement.generator],
            taken[self.placement.sink],
            tuple(
                replace(one, cpus=tuple(taken[cpu] for cpu in one.cpus))
                for one in self.placement.segments
            ),
            (*self.placement.notes, *notes),
        )
        places = self._places()
        settled = {
            pod: on_cpus(self._settled(plan, places), taken) for pod, plan in self.cut.plans.items()
        }
        return replace(
            self,
            placement=placement,
            cut=replace(self.cut, plans=settled),
            direct=on_cpus(self._settled(self.direct, places), taken),
        )

    def _settled(self, plan: Plan, places: Mapping[str, str]) -> Plan:
        """With a pod's memory, and the files where they are there."""
        deployment = self.experiment.study.deployment
        memory = {
            "hugepages": deployment.hugepages is True,
            "memory_mb": deployment.memory_mb,
            "file_prefix": "headrace",
        }
        plan = plan.having(engine=plan.engine.having(**memory))
        for local, inside in places.items():
            plan = plan.placed(local, inside)
        return plan


class DeployedPods(DeployedEngine):
    """The engines of all pods are one engine to whoever asks them."""

    point: EnginePodsPoint

    def __init__(
        self,
        point: EnginePodsPoint,
        site: Site,
        engine: RunningEngine,
        plan: Plan,
        floor: Floor | None,
        elsewhere: Elsewhere | None,
    ) -> None:
        super().__init__(point, site, engine, plan, floor)
        self._elsewhere = elsewhere

    def elsewhere(self) -> Elsewhere | None:
        return self._elsewhere

    def about(self) -> AboutCluster:
        return self.point.nodes.about(self.engine.info())

    @property
    def hugepages(self) -> bool:
        return self.point.study.deployment.hugepages is True

    def parts(self) -> Targets:
        return Targets()

    @property
    def notes(self) -> Sequence[str]:
        engine = self.engine
        assert isinstance(engine, PodEngines)
        by_node: dict[str, list[str]] = {}
        for name, one in engine.engines.items():
            by_node.setdefault(one.node, []).append(name)
        apart = [one.node for one in engine.engines.values() if one.first]
        own = (f"lcores from {LCORES} on are {node}'s" for node in dict.fromkeys(apart))
        return (*(f"{node}: {', '.join(pods)}" for node, pods in by_node.items()), *own)

    def seen(self, observation: Observation, reading: Reading) -> Observation:
        """Its ports are memory that the chain's pods share, and are to empty; or devices, and what
        these did not take never reached the chain."""
        kept_by: Literal["tester", "chain"] = "tester" if self.point.apart else "chain"
        return with_ports(observation, *self._ends(observation), kept_by)

    def _ends(self, observation: Observation) -> tuple[set[str], set[str]]:
        """The tester's ports by which these directions leave it and come back."""
        ways = [way for way in self.ways if observation.direction in (way.direction, "both")]
        wires: dict[str, list[Wire]] = {}
        for wire in self.point.cut.wires:
            wires.setdefault(wire.ring, []).append(wire)
        out = {wire.out for way in ways for wire in wires[way.wire]}
        return out, {wire.end for way in ways for wire in wires[way.back]}


class PodChains:
    """The points of a study of headrace's own functions."""

    def __init__(self, given: Kubernetes, nodes: ClusterNodes) -> None:
        self._given, self._nodes = given, nodes

    def check(self, doc: Document) -> Checked:
        description = describe(find_engine())
        check, floors = PlanCheck(doc, description), Floors()
        points: list[EnginePodsPoint] = []
        left_out: list[str] = []
        lacking = self._nodes.lacking()
        for experiment in expand(doc):
            refuse(experiment, doc, self._given)
            if lacking is None and (why := without_pages(experiment, self._nodes)) is not None:
                left_out.append(why)
                continue
            check_nodes(experiment, doc, description)
            files = input_files([experiment], doc, description)
            points.append(self._point(experiment, check, floors, len(points), files))
        if not points:
            raise BadInput(f"{doc.place}: {left_out[0]}")
        inputs = {name: file for point in points for name, file in point.files.items()}
        return Checked(
            points,
            inputs,
            None,
            # What agents read is told of each trial, for which a point's are together.
            interleaved=self._given.agent is None,
            notes=[
                "lcores that are named before the pods run stand for those that they will have",
                *(f"left out: {why}" for why in dict.fromkeys(left_out)),
            ],
            lacking=lacking,
        )

    def _point(
        self,
        experiment: Experiment,
        check: PlanCheck,
        floors: Floors,
        number: int,
        files: Mapping[str, Path],
    ) -> EnginePodsPoint:
        doc, description = check.doc, check.description
        placement, engine = _placed(experiment), engine_of(experiment)
        whole = compile_plan(experiment, placement, description, doc, engine)
        parts = cut(whole, self._given.link, _sides(experiment, self._given))
        if (asked := experiment.study.deployment.mbufs) is not None:
            parts = parts.with_buffers(asked)
        refuse_devices(parts, experiment, doc, self._given)
        for plan in parts.plans.values():
            check.check(plan, experiment)
        return EnginePodsPoint(
            experiment, doc, description, placement, parts.together,
            direct_plan(experiment, placement, description, doc, engine),
            policy_drops(experiment, description), floors=floors,
            cut=parts, given=self._given, nodes=self._nodes, number=number, files=files,
        )  # fmt: skip


def _sides(experiment: Experiment, given: Kubernetes) -> dict[str, str]:
    """By which side of the chain each ring from and to the tester goes, where that is apart."""
    if given.network is None:
        return {}
    there, back = SIDES
    sides: dict[str, str] = {}
    for way in paths(experiment):
        ends = (there, back) if way.direction == "forward" else (back, there)
        sides |= dict(zip((way.wire, way.back), ends, strict=True))
    return sides


def _placed(experiment: Experiment) -> Placement:
    """Each part has an lcore of its own, by a number that stands for one."""
    names = tuple(node.name for node in experiment.nodes)
    groups = experiment.execution.segments or (names,)
    if experiment.execution.model == "pipeline" and names:
        groups = tuple((name,) for name in names)
    segments = tuple(
        PlacedSegment(f"vnf{i}", tuple(group), (i,)) for i, group in enumerate(groups, 1)
    )
    return Placement(0, 0, segments, ())
