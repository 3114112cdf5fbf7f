# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
from typing import Any

import pytest

from headrace.engine.control import ControlLost
from headrace.engine.engine import EngineDied
from headrace.errors import HeadraceError
from headrace.ground.kubernetes.cut import TESTER
from headrace.ground.kubernetes.engine_pods import PodEngine, PodEngines
from headrace.ground.kubernetes.nodes import in_registry
from headrace.ground.kubernetes.pods import PodGraph, device_counts, namespace_of, node_times
from headrace.ground.kubernetes.waiting import ended, ended_within, hopeless
from headrace.host.cluster import Cluster
from headrace.host.plumbing import InterfaceCount

# As a pod had it.
DEVICES = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo
    lo:     168       2    0    0    0     0          0         0      168       2    0    0    0
  down: 1500000    1000    0    0    0     0          0         0    80000     900    0    0    0
"""
STAT = """cpu  1000 20 300 9000 1 2 3 8 0 0
cpu0 500 10 150 4500 1 1 1 5 0 0
cpu1 500 10 150 4500 0 1 2 3 0 0
intr 12345
"""


class Silent(Cluster):
    """Without a server: it knows no logs."""

    def __init__(self) -> None:
        pass

    def logs(self, namespace: str, pod: str, container: str) -> str:
        return "its last words"


def pod(status: dict[str, Any], **metadata: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "nat", "namespace": "headrace-t", **metadata},
        "spec": {"nodeName": "node1"},
        "status": status,
    }


def container(state: dict[str, Any]) -> dict[str, Any]:
    return pod({"phase": "Running", "containerStatuses": [{"name": "vnf", "state": state}]})


def test_interfaces_count_as_proc_says() -> None:
    assert device_counts(DEVICES)["down"] == InterfaceCount(1000, 900, 1500000, 80000)


def test_a_nodes_time_is_in_each_of_its_pods() -> None:
    busy_s, stolen = node_times(STAT)
    assert busy_s == pytest.approx(13.2)  # user, nice and system, in hundredths
    assert stolen == {0: 50_000_000, 1: 30_000_000}


def test_a_pod_that_ended_says_how() -> None:
    cluster = Silent()
    assert ended(cluster, container({"running": {}})) is None
    assert ended(cluster, container({"terminated": {"reason": "OOMKilled", "exitCode": 137}})) == (
        "pod nat: its container vnf ended (OOMKilled, exit status 137): its last words"
    )
    deleted = pod({"phase": "Running"}, deletionTimestamp="2026-11-25T00:00:00Z")
    assert ended(cluster, deleted) == "pod nat: somebody deleted it"


def test_what_no_waiting_mends_is_said_at_once() -> None:
    missing = {"waiting": {"reason": "ErrImagePull", "message": "no\nsuch image"}}
    assert hopeless(container(missing), 0) == "pod nat on node1: ErrImagePull: no such image"
    creating = {"waiting": {"reason": "ContainerCreating"}}
    assert hopeless(container(creating), 0) is None
    full = pod({"conditions": [
        {"type": "PodScheduled", "status": "False", "message": "2 Insufficient cpu."},
    ]})  # fmt: skip
    assert hopeless(full, 1) is None
    assert hopeless(full, 60) == "pod nat: no node has room for it: 2 Insufficient cpu."


class Lagging(Silent):
    """A kubelet tells the API server a moment after its container ended."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def pods(self, namespace: str, chosen: str = "") -> list[dict[str, Any]]:
        self.looks -= 1
        over = {"terminated": {"reason": "Error", "exitCode": 137}}
        return [container(over if self.looks < 0 else {"running": {}})]

    def execute(self, *way: Any, **how: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(way[3], 137, "", "")


def test_a_command_that_its_containers_end_killed_says_so() -> None:
    """Not that the command failed without a word."""
    why = r"^pod nat: its container vnf ended \(Error, exit status 137\)"
    engine = PodEngine(Lagging(2), "headrace-t", "nat", "node1")
    with pytest.raises(EngineDied, match=why):
        engine.cpus()
    graph = PodGraph.__new__(PodGraph)
    graph.cluster, graph.namespace, graph.nodes = Lagging(2), "headrace-t", {"nat": "node1"}
    with pytest.raises(
        HeadraceError, match=r"^pod nat: its container vnf ended \(Error, exit status"
    ):
        graph._execute("nat", ("true",))


def test_a_stream_that_its_containers_end_cut_says_so() -> None:
    """Where the container goes before the command's status comes, its stream ends without one."""

    class Cut(Lagging):
        def execute(self, *way: Any, **how: Any) -> subprocess.CompletedProcess[str]:
            raise HeadraceError("Kubernetes: nat: the connection to the API server was lost")

    why = r"^pod nat: its container vnf ended \(Error, exit status 137\)"
    with pytest.raises(EngineDied, match=why):
        PodEngine(Cut(2), "headrace-t", "nat", "node1").cpus()


def test_the_pod_that_ended_is_named_and_not_its_neighbour_whose_connection_was_lost() -> None:
    """The tester's memif is gone before anybody knows why."""

    class Both(Lagging):
        def pods(self, namespace: str, chosen: str = "") -> list[dict[str, Any]]:
            [one] = super().pods(namespace, chosen)
            goes_on = pod({"phase": "Running"})
            goes_on["metadata"]["name"] = TESTER
            return [goes_on, one]

    engines = PodEngines.__new__(PodEngines)
    cluster = Both(2)
    engines.engines = {n: PodEngine(cluster, "n", n, "node1") for n in (TESTER, "nat")}
    gone = engines.lost(ControlLost("engine: closed the control socket"))
    assert str(gone).startswith("pod nat: its container vnf ended (Error, exit status 137)")


def test_a_pod_that_is_gone_is_named() -> None:
    gone = ended_within(Lagging(9), "n", {"nat": "node1", "ids": "node2"}, 0)
    assert gone == "pod ids on node2: somebody deleted it"


def test_a_namespace_is_a_label_of_its_own() -> None:
    first, second = namespace_of("My_Study of 2026"), namespace_of("My_Study of 2026")
    assert first.startswith("headrace-my-study-of-2026-")
    assert first != second
    assert len(namespace_of("x" * 100)) <= 63  # RFC 1123


def test_images_are_a_registrys_where_one_is_given() -> None:
    image = "localhost/headrace/nat:0123"
    assert in_registry(image, None) == image
    assert in_registry(image, "registry.example/lab/") == "registry.example/lab/headrace/nat:0123"
