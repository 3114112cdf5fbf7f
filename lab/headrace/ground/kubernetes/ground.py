# SPDX-License-Identifier: Apache-2.0
"""The ground of a Kubernetes cluster: a study's deployments as pods, one deployment at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import starmap

from headrace.collect.elsewhere import Elsewhere
from headrace.errors import BadInput, bad_value
from headrace.ground.appliances.expanded import expand_study
from headrace.ground.appliances.ground import AppliancePoint, Running, inputs
from headrace.ground.contract import AboutCluster, Checked, Site
from headrace.ground.kubernetes.agents import agents_on
from headrace.ground.kubernetes.manifests import (
    ATTACHMENTS,
    PodNetwork,
    bridge_tag,
    manifests,
)
from headrace.ground.kubernetes.nodes import ClusterNodes, in_registry
from headrace.ground.kubernetes.own_chains import PodChains
from headrace.ground.kubernetes.places import note
from headrace.ground.kubernetes.pods import PodGraph, namespace_of
from headrace.spec.collect import Collect
from headrace.spec.document import Document
from headrace.spec.forms import hosting_kind
from headrace.spec.kubernetes import Kubernetes
from headrace.spec.study import Study

_NOT_SAMPLED = (
    "layers are not sampled in pods, as ground.kubernetes.agent names no image of headrace: what "
    "each used is its control group's CPU time"
)
# A stranger's bundle would choose among the user's clusters, or bring images or rights there.
_TRUSTED = ("context", "registry", "agent", "privileged")


class KubernetesGround:
    """Third-party VNFs, each container a pod; headrace's own functions, each segment one."""

    def __init__(self, given: Kubernetes) -> None:
        self._given = given

    def check(self, doc: Document) -> Checked:
        given = self._given
        for key in _TRUSTED:
            if value := getattr(given, key):
                doc.check_trusted(("ground", "kubernetes", key), str(value))
        nodes = ClusterNodes(given)
        if hosting_kind(doc.data) != "appliances":
            return PodChains(given, nodes).check(doc)
        return self._appliances(doc, given, nodes)

    def _appliances(self, doc: Document, given: Kubernetes, nodes: ClusterNodes) -> Checked:
        expanded = expand_study(doc)
        points: list[PodPoint] = []
        left_out: dict[str, list[str]] = {}
        for point in expanded.points:
            try:
                network = _network(point.network, given)
                supplies = {
                    name: one if one.opaque
                    else replace(one, image=in_registry(one.image, given.registry))
                    for name, one in point.supplies.items()
                }  # fmt: skip
                manifests("check", point.layout, supplies, network)
            except BadInput as why:
                left_out.setdefault(str(why), []).append(point.name)
                continue
            own = replace(point, supplies=supplies)
            points.append(PodPoint(doc, expanded, own, network, nodes, len(points), given.agent))
        if not any(point.offers for point in points):
            raise BadInput(f"{doc.place}: no point of it can be pods: {next(iter(left_out))}")
        return Checked(
            points=[point for point in points if point.offers],
            inputs=inputs(doc, expanded.study),
            seconds=None,
            interleaved=False,
            notes=[
                *([] if given.agent else [_NOT_SAMPLED]),
                *starmap(_left_out, left_out.items()),
            ],
            lacking=nodes.lacking(),
        )


def _left_out(why: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - 1} others" if len(names) > 1 else ""
    return f"left out: {names[0]}{more}: {why}"


def _network(study: str, given: Kubernetes) -> PodNetwork:
    kind = ATTACHMENTS.get(given.network or study)
    if kind is None:
        allowed = f"on Kubernetes: {', '.join(ATTACHMENTS)}"
        raise bad_value("deployment.hosting.network", study, allowed=allowed)
    if (kind == "macvlan" and given.master is None) or (kind == "sriov" and given.resource is None):
        key = "master" if kind == "macvlan" else "resource"
        raise bad_value(f"ground.kubernetes.{key}", allowed=f"a name, as the network is {kind}")
    place = dict(given.place)
    if kind == "bridge" and place:
        place = {"": next(iter(place.values()))}
    return PodNetwork(
        kind, given.master or "", given.resource or "", given.claim or "", place, given.devices
    )


@dataclass(frozen=True)
class PodPoint(AppliancePoint):
    """One deployment, on its node where its network is a node's own."""

    network: PodNetwork = field(default_factory=lambda: PodNetwork("bridge"))
    nodes: ClusterNodes = field(default_factory=lambda: ClusterNodes(Kubernetes()))
    number: int = 0
    agent: str | None = None  # the image of headrace that reads layers

    @property
    def execution(self) -> str:
        return f"pods {self.network.kind}"

    @property
    def study(self) -> Study:
        """The study without layers where no agent reads them: nothing of it runs on the lab's own
        machine."""
        if self.agent is not None:
            return super().study
        return super().study.model_copy(update={"collect": Collect(layers=())})

    @contextmanager
    def deploy(self, site: Site) -> Iterator[RunningPods]:
        network = self.network
        if network.kind == "bridge" and not network.nodes:
            network = replace(network, nodes={"": self.nodes.of(self.number)})
        point, namespace = self.point, namespace_of(self.study.name)
        graph = PodGraph(
            self.nodes.cluster, namespace, point.layout, point.supplies, network, site.state,
            site.stopwatch, agents=self.agent is not None,
        )  # fmt: skip
        tag = bridge_tag(namespace) if network.kind == "bridge" else None
        with ThreadPoolExecutor(1) as pool, graph as deployed:
            reading = agents_on(
                deployed.cluster, namespace, self.agent, self.study.collect, site.stopwatch, tag
            )
            with reading as elsewhere:
                yield RunningPods(deployed, self, pool, elsewhere)
            note(site.bundle, f"{self.execution}, {self.chain}", deployed.places())


class RunningPods(Running):
    """Pods that are up, under their loads."""

    def __init__(
        self,
        deployed: PodGraph,
        point: PodPoint,
        pool: ThreadPoolExecutor,
        elsewhere: Elsewhere | None,
    ) -> None:
        super().__init__(deployed, point.point.workloads, pool)
        self._pods, self._nodes, self._elsewhere = deployed, point.nodes, elsewhere

    def elsewhere(self) -> Elsewhere | None:
        return self._elsewhere

    @property
    def notes(self) -> Sequence[str]:
        by_node: dict[str, list[str]] = {}
        for pod, node in sorted(self._pods.nodes.items()):
            by_node.setdefault(node, []).append(pod)
        return [f"{node}: {', '.join(pods)}" for node, pods in sorted(by_node.items())]

    def about(self) -> AboutCluster:
        return self._nodes.about()
