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

    def has_namespace(self, name: str) -> bool:
        return True

    def delete_daemon_set(self, namespace: str, name: str) -> None:
        assert name == AGENTS
        self.set_up = False

    def delete_pods(self, namespace: str) -> None:
        self.calls.append("pods")

    def create(self, body: Mapping[str, Any]) -> None:
        self.swept = True

    def pods(self, namespace: str) -> list[dict[str, Any]]:
        agent = {"spec": {"nodeName": "node1"}, "status": {"phase": "Running"}}
        done = {"spec": {"nodeName": "node1"}, "status": {"phase": "Succeeded"}}
        return [*([agent] if self.set_up else []), *([done] if self.swept else [])]

    def delete_namespace(self, name: str) -> bool:
        self.calls.append("namespace")
        return True


def test_agents_are_not_made_again_while_nodes_are_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep waits until its own pods are all that is there."""
    cluster = Remembering()
    monkeypatch.setattr(cluster_owned, "Cluster", lambda *way: cluster)
    monkeypatch.setattr(cluster_owned, "_SWEPT_S", 0.5)
    sweep = Sweep(nodes=("node1",), image="i", folder="/run/x")
    assert remove(owned(cluster, "n", sweep, agents=True))  # type: ignore[arg-type]
    assert cluster.calls == ["pods", "namespace"]
    assert not cluster.set_up
