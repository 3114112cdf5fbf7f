# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from headrace.ground.kubernetes.nodes import in_registry
from headrace.ground.kubernetes.pods import device_counts, namespace_of, node_times
from headrace.ground.kubernetes.waiting import ended, hopeless
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


def test_a_namespace_is_a_label_of_its_own() -> None:
    first, second = namespace_of("My_Study of 2026"), namespace_of("My_Study of 2026")
    assert first.startswith("headrace-my-study-of-2026-")
    assert first != second
    assert len(namespace_of("x" * 100)) <= 63  # RFC 1123


def test_images_are_a_registrys_where_one_is_given() -> None:
    image = "localhost/headrace/nat:0123"
    assert in_registry(image, None) == image
    assert in_registry(image, "registry.example/lab/") == "registry.example/lab/headrace/nat:0123"
