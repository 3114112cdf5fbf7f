# SPDX-License-Identifier: Apache-2.0
"""What chains of headrace's own functions cannot have on a cluster, by its place in the spec."""

from __future__ import annotations

from headrace.ground.kubernetes.cut import SIDES, TESTER, PlanCut
from headrace.ground.kubernetes.nodes import ClusterNodes
from headrace.spec.document import Document
from headrace.spec.kubernetes import Kubernetes
from headrace.spec.study import Experiment


def without_pages(experiment: Experiment, nodes: ClusterNodes) -> str | None:
    """Why pods cannot have the pages that are asked for, as the cluster is now."""
    if experiment.study.deployment.hugepages is not True or nodes.hugepages():
        return None
    return (
        "deployment.hugepages: got true; no node has pages of 2 MB for pods; allowed: false, or "
        "nodes with some (on each: sysctl vm.nr_hugepages=1024, then restart its kubelet)"
    )


def refuse_devices(
    parts: PlanCut, experiment: Experiment, doc: Document, given: Kubernetes
) -> None:
    """Each side has a device at either end, and those that are given are theirs."""
    if given.network is None:
        return
    for side, (_, name) in SIDES.items():
        pods = [pod for pod in parts.plans if name in parts.devices(pod)]
        if len(pods) > 1:
            raise doc.error(
                ("chain",) if experiment.study.chain is not None else ("chains", experiment.chain),
                f"pods {', '.join(pods)} are joined to the tester at the chain's way {side}; "
                "allowed with ground.kubernetes.network host-device: one",
            )
    needed = [f"{pod}/{device}" for pod in parts.plans for device in parts.devices(pod)]
    for problem, names in (
        ("has no device", [one for one in needed if one not in given.devices]),
        ("is no device of it", [one for one in given.devices if one not in needed]),
    ):
        if names:
            raise doc.error(
                ("ground", "kubernetes", "devices"),
                f"{names[0]} {problem}; allowed: a device for each of {', '.join(needed)}",
            )


def _refuse_places(doc: Document, given: Kubernetes) -> None:
    at = ("ground", "kubernetes")
    if given.network not in (None, "host-device"):
        raise doc.error(
            (*at, "network"),
            "a kernel's network takes packets for its own addresses only; allowed with headrace's "
            "own functions: host-device, or none",
            value=given.network,
        )
    if others := sorted(set(given.place) - {TESTER}):
        raise doc.error(
            (*at, "place", others[0]),
            f"the chain's pods are on one of ground.kubernetes.nodes; allowed: {TESTER}",
        )


def refuse(experiment: Experiment, doc: Document, given: Kubernetes) -> None:
    """What pods cannot have, by its place in the spec."""
    deployment, execution = experiment.study.deployment, experiment.execution
    on = "on Kubernetes"
    _refuse_places(doc, given)
    if experiment.study.testbed is not None:
        raise doc.error(("testbed",), f"{on} pods are joined on one node; allowed: no testbed")
    if experiment.hosting.kind not in ("inline", "container"):
        raise doc.error(
            ("deployment", "hosting"),
            f"{on} each segment is a pod; allowed: inline, container",
            value=experiment.hosting.kind,
        )
    if more := sorted(experiment.hosting.model_fields_set - {"kind"}):
        raise doc.error(
            ("deployment", "hosting", more[0]),
            f"{on} a pod's CPUs are ground.kubernetes.cpus; allowed of hosting: kind",
        )
    if deployment.network != "veb":
        raise doc.error(
            ("deployment", "network"),
            f"{on} pods are joined by memif or vhost-user; allowed: ground.kubernetes.link",
            value=deployment.network,
        )
    if given.link == "vhost-user" and deployment.hugepages is True:
        raise doc.error(
            ("deployment", "hugepages"),
            "a pod's memory on hugepages is in more files than vhost-user hands over; allowed with "
            "ground.kubernetes.link vhost-user: false",
        )
    told = deployment.lcores
    if told.traffic or told.chain or execution.lcores is not None:
        raise doc.error(
            ("deployment", "lcores"),
            f"{on} kubelets give out CPUs; allowed: ground.kubernetes.cpus",
        )
    if set(execution.replicas or ()) - {1} or execution.parallel:
        raise doc.error(
            ("deployment", "execution"), f"a pod has one lcore {on}; allowed: one replica of each"
        )
    if deployment.foreign or deployment.build or deployment.functions:
        raise doc.error(
            ("deployment",),
            f"{on} engines are the image's; allowed: headrace and its own functions",
        )
