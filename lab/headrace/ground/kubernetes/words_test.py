# SPDX-License-Identifier: Apache-2.0
"""Pods whose programs say what no kernel says: one line that names the pod, soon."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence

import pytest

from headrace.errors import HeadraceError
from headrace.ground.appliances.addressing import ContainerLayout, ContainerNode, NodeInterface
from headrace.ground.kubernetes.engine_pods import PodEngine
from headrace.ground.kubernetes.places import place_in
from headrace.ground.kubernetes.pods import PodGraph
from headrace.ground.kubernetes.threads import PodThreads
from headrace.host.cluster import Cluster

LONG = "9" * 5000  # Python reads no number of so many digits
POD = {"metadata": {"name": "nat"}, "spec": {"nodeName": "node1", "containers": [{"name": "vnf"}]}}


class Saying(Cluster):
    """Whatever it is asked."""

    def __init__(self, text: str) -> None:
        self.text = text

    def execute(
        self, namespace: str, pod: str, container: str, command: Sequence[str], *,
        given: bytes | None = None, timeout_s: float = 120.0,
    ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        return subprocess.CompletedProcess(list(command), 0, self.text, "")


class Telling(PodThreads):
    def __init__(self, text: str) -> None:
        self.text = text

    def read(self) -> str:
        return self.text


INTERFACE = NodeInterface("up", 0, "10.0.0.1", "net1")
LAYOUT = ContainerLayout(
    "nat", 1, (ContainerNode("nat", "nat", "nat", "routed", (INTERFACE,)),), "10.0.0.1"
)


def graph(text: str) -> PodGraph:
    pods = PodGraph.__new__(PodGraph)
    pods.cluster, pods.namespace = Saying(text), "n"
    pods.layout, pods.nodes = LAYOUT, {"nat": "node1"}
    return pods


@pytest.mark.parametrize(
    "text",
    [
        f"cpus 0-{10**12}",  # all of whose numbers would fill the memory
        "cpus 1-x",
        f"cpus {LONG}",
        "node 0 ,,,",
        f"node {LONG} 0",
        "device 0000:00:01.0 none",
        f"nr_periods {LONG}",
    ],
)
def test_a_place_that_no_kernel_gives(text: str) -> None:
    begun = time.monotonic()
    with pytest.raises(HeadraceError, match=r"^pod nat: its place is not as a kernel says it: "):
        place_in(text, POD, "vnf", polls=False)
    assert time.monotonic() - begun < 1


def test_other_words_of_a_place_are_none() -> None:
    place = place_in(f"\n\ncpus\nx {LONG}\nnode 1\ncpus 0-3", POD, "vnf", polls=False)
    assert place.cpus == (0, 1, 2, 3)


@pytest.mark.parametrize(
    "text", [f"{LONG}\n", f"9{'0' * 400}\n", "5\ncpu 1 x 3", "5\ncpux 1 2 3 4 5 6 7 8 9"]
)
def test_a_charge_that_no_kernel_gives(text: str) -> None:
    with pytest.raises(HeadraceError, match=r"^pod nat: (its CPU time|/proc/stat) is not as"):
        graph(text).charge()


@pytest.mark.parametrize("text", ["net1: 5 5 5 5 5 5 5 5 x 5", f"net1: 5 {LONG} 5 5 5 5 5 5 5 5"])
def test_counts_that_no_kernel_gives(text: str) -> None:
    with pytest.raises(HeadraceError, match=r"^pod nat: /proc/net/dev is not as"):
        graph(text).interface_counts()


@pytest.mark.parametrize("text", ["7 0 x y", f"7 {LONG} 1 1", "cpux 1 2 3 4 5 6 7 8 9"])
def test_threads_that_no_kernel_has(text: str) -> None:
    engine = PodEngine(Saying(text), "n", "vnf1", "node1")
    engine.threads = Telling(text)
    with pytest.raises(HeadraceError, match=r"^pod vnf1: what its threads ran is not as"):
        engine.scheduled(0)


@pytest.mark.parametrize("text", ["", f"0-{10**12}", "a,b"])
def test_cpus_that_no_kernel_has(text: str) -> None:
    with pytest.raises(HeadraceError, match=r"^pod vnf1: the list of its CPUs is not as"):
        PodEngine(Saying(text), "n", "vnf1", "node1").cpus()
