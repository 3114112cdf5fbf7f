# SPDX-License-Identifier: Apache-2.0
"""The way back from what a run made in a cluster, in its order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from headrace.host import cluster_owned
from headrace.host.cluster_owned import AGENTS, Sweep, owned, remove


class Remembering:
    """A cluster whose DaemonSets make their pods again, as a controller does."""

    kubeconfig, context = "/k", None

    def __init__(self, *way: object) -> None:
        self.calls: list[str] = []
        self.set_up, self.swept = True, False
        self.there: str | None = "Active"
        self.allowed = True

    def phase(self, name: str) -> str | None:
        return self.there

    def may(self, verb: str, resource: str, group: str) -> bool:
        assert (verb, resource, group) == ("create", "namespaces", "")
        return self.allowed

    def make_namespace(self, body: Mapping[str, Any]) -> None:
        assert body["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
        self.calls.append(f"made {body['metadata']['name']}")
        self.there, self.set_up = "Active", False

    def delete_daemon_set(self, namespace: str, name: str) -> None:
        assert name == AGENTS
        self.set_up = False

    def delete_pods(self, namespace: str) -> None:
        self.calls.append("pods")

    def create(self, body: Mapping[str, Any]) -> None:
        assert self.there == "Active"
        self.swept = True

    def pods(self, namespace: str) -> list[dict[str, Any]]:
        agent = {"spec": {"nodeName": "node1"}, "status": {"phase": "Running"}}
        done = {"spec": {"nodeName": "node1"}, "status": {"phase": "Succeeded"}}
        return [*([agent] if self.set_up else []), *([done] if self.swept else [])]

    def delete_namespace(self, name: str) -> bool:
        self.calls.append("namespace")
        gone, self.there = self.there is not None, None
        return gone


def test_agents_are_not_made_again_while_nodes_are_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep waits until its own pods are all that is there."""
    cluster = Remembering()
    monkeypatch.setattr(cluster_owned, "Cluster", lambda *way: cluster)
    monkeypatch.setattr(cluster_owned, "_SWEPT_S", 0.5)
    sweep = Sweep(nodes=("node1",), image="i", folder="/run/x")
    assert remove(owned(cluster, "n", sweep, agents=True))  # type: ignore[arg-type]
    assert cluster.calls == ["pods", "namespace"]
    assert not cluster.set_up


@pytest.mark.parametrize("phase", [None, "Terminating"])
def test_what_a_deleted_namespace_did_not_own_is_swept(
    phase: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody deleted it: folders and bridges of nodes are still there, and are not its."""
    cluster = Remembering()
    cluster.there = phase
    monkeypatch.setattr(cluster_owned, "Cluster", lambda *way: cluster)
    sweep = Sweep(nodes=("node1",), image="i", folder="/run/x")
    assert remove(owned(cluster, "n", sweep, agents=True))  # type: ignore[arg-type]
    assert cluster.calls == ["namespace", "made n", "pods", "namespace"]
    assert cluster.swept


def test_a_namespace_that_could_not_be_made_has_left_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Remembering()
    cluster.there, cluster.allowed = None, False
    monkeypatch.setattr(cluster_owned, "Cluster", lambda *way: cluster)
    sweep = Sweep(nodes=("node1",), image="i", folder="/run/x")
    assert not remove(owned(cluster, "n", sweep))  # type: ignore[arg-type]
    assert cluster.calls == []
