# SPDX-License-Identifier: Apache-2.0
"""The cluster of a study: its nodes, and which of them takes which point."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from headrace.engine.counts import EngineInfo
from headrace.errors import HeadraceError, bad_value
from headrace.ground.contract import AboutCluster
from headrace.host.cluster import Cluster
from headrace.spec.kubernetes import Kubernetes

HUGEPAGES = "hugepages-2Mi"  # what kubelets call those of 2 MB


class ClusterNodes:
    """The cluster of a study, and which of its nodes take points. Asked when it is first needed."""

    def __init__(self, given: Kubernetes) -> None:
        self._given = given

    @cached_property
    def cluster(self) -> Cluster:
        return Cluster(self._given.context)

    @cached_property
    def ready(self) -> dict[str, dict[str, object]]:
        """Facts of the nodes that take pods."""
        return {
            node["metadata"]["name"]: node["status"]["nodeInfo"] | node["status"]["capacity"]
            for node in self._taking
        }

    @cached_property
    def _taking(self) -> list[dict[str, Any]]:
        return [
            node
            for node in self.cluster.nodes()
            if not node["spec"].get("unschedulable")
            and _is_ready(node)
            and self._given.node_selector.items() <= node["metadata"].get("labels", {}).items()
        ]

    @property
    def cpus(self) -> int:
        """Whole ones that nodes have for pods, in all; at least one."""
        return max(1, sum(int(cores(str(n["status"]["allocatable"]["cpu"]))) for n in self._taking))

    def of(self, number: int, apart: str | None = None) -> str:
        """The node of a point, in turn; `apart`: one that takes none unless it is named."""
        nodes = self._given.nodes or tuple(sorted(set(self.ready) - {apart}))
        if unknown := [node for node in nodes if node not in self.ready]:
            allowed = ", ".join(sorted(self.ready)) or "none is ready"
            raise bad_value("ground.kubernetes.nodes", unknown[0], allowed=allowed)
        if not nodes:
            beside = "" if apart is None else f" beside {apart}"
            labels = ", ".join(
                f"{key}: {value}" for key, value in self._given.node_selector.items()
            )
            having = f" with the labels {{{labels}}}" if labels else ""
            raise HeadraceError(
                f"Kubernetes: {self.cluster.server}: no node{having}{beside} is ready"
            )
        return nodes[number % len(nodes)]

    def has(self, node: str) -> str:
        """The node, once it is known to be ready; `place` names it."""
        if node not in self.ready:
            allowed = ", ".join(sorted(self.ready)) or "none is ready"
            raise bad_value("ground.kubernetes.place", node, allowed=allowed)
        return node

    def hugepages(self) -> list[str]:
        """Nodes that have some of 2 MB to give to pods."""
        return [
            node["metadata"]["name"]
            for node in self._taking
            if node["status"]["allocatable"].get(HUGEPAGES, "0") != "0"
        ]

    def about(self, info: EngineInfo | None = None) -> AboutCluster:
        """`info`: of the tester's engine, if there is one."""
        return AboutCluster(self.cluster.version(), self.ready, info)

    def lacking(self) -> str | None:
        """Why nothing can be deployed on it now."""
        try:
            self.of(0)
        except HeadraceError as why:
            return str(why)
        return None


class UnaskedNodes(ClusterNodes):
    """Those of whichever cluster manifests are applied to."""

    def lacking(self) -> str:
        return "no cluster is asked for manifests"


def _is_ready(node: dict[str, object]) -> bool:
    status = node["status"]
    assert isinstance(status, dict)
    return any(c["type"] == "Ready" and c["status"] == "True" for c in status["conditions"])


def cores(quantity: str) -> float:
    """CPUs as the API server has them: 2, or 1900m."""
    return int(quantity[:-1]) / 1000 if quantity.endswith("m") else float(quantity)


def in_registry(image: str, registry: str | None) -> str:
    """One of the catalogue's as nodes find it."""
    if registry is None:
        return image
    return f"{registry.rstrip('/')}/{image.removeprefix('localhost/')}"
