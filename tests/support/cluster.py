# SPDX-License-Identifier: Apache-2.0
"""A cluster of this machine's own (scripts/cluster.sh), once for all tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import lab_image

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "cluster.sh"
OURS = "app.kubernetes.io/managed-by=headrace"
NODES = ("node1", "node2")
HUGEPAGES = "640"  # of 2 MB: two engines have 256 each
Kubectl = Callable[..., str]
Right = tuple[str, str, str]  # of the API server: group, resource, verb


def documented_role() -> dict[str, Any]:
    """The one that docs/kubernetes.md shows."""
    text = (lab_image.REPO / "docs" / "kubernetes.md").read_text()
    [block] = [one for one in text.split("```") if one.startswith("yaml\napiVersion: rbac.")]
    role: dict[str, Any] = yaml.safe_load(block.removeprefix("yaml\n"))
    return role


def documented_rights() -> set[Right]:
    return {
        (group, resource, verb)
        for rule in documented_role()["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@dataclass(frozen=True)
class Packets:
    sent: int
    received: int


@dataclass(frozen=True)
class OwnCluster:
    """Commands are run in the first node's network, where the API server is."""

    home: Path

    def run(self, *command: object, timeout_s: float = 180) -> subprocess.CompletedProcess[str]:
        every = [str(SCRIPT), "run", *map(str, command)]
        return subprocess.run(every, capture_output=True, text=True, timeout=timeout_s, check=False)

    def kubectl(self, *arguments: object) -> str:
        done = self.run("kubectl", *arguments)
        assert done.returncode == 0, f"kubectl {arguments}: {done.stderr}"
        return done.stdout

    def headrace(
        self, *arguments: object, timeout_s: float = 300
    ) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "headrace", *arguments, timeout_s=timeout_s)

    def begin(self, *arguments: object, log: Path) -> subprocess.Popen[bytes]:
        """A run that goes on; what it says is in `log`."""
        command = [str(SCRIPT), "run", sys.executable, "-m", "headrace", *map(str, arguments)]
        with log.open("wb") as file:
            return subprocess.Popen(command, stdout=file, stderr=file)

    def on_node(self, node: str, *command: str) -> str:
        """A command in a node's namespaces, as its root."""
        pid = (self.home / "state" / f"{node}.pid").read_text().strip()
        every = ["nsenter", "-t", pid, "-m", "-n", "-p", "-u", "--", *command]
        return subprocess.run(every, capture_output=True, text=True, check=False).stdout

    def wire(self, name: str) -> None:
        """A pair of veths, an end of it on each node by the same name."""
        first, second = ((self.home / "state" / f"{n}.pid").read_text().strip() for n in NODES)
        there = ["peer", "name", name, "netns", f"/proc/{second}/ns/net"]
        command = ["nsenter", "-t", first, "-n", "ip", "link", "add", name, "type", "veth", *there]
        subprocess.run(command, check=True)

    def packets(self, node: str, device: str) -> Packets:
        """What a node's kernel counted at a device."""
        [link] = json.loads(self.on_node(node, "ip", "-json", "-stats", "link", "show", device))
        counted = link["stats64"]
        return Packets(counted["tx"]["packets"], counted["rx"]["packets"])

    def left(self) -> dict[str, list[str]]:
        """What a run left in the cluster and on its nodes."""
        there = {"cluster": self.kubectl("get", "namespaces", "-l", OURS, "-o", "name").split()}
        for node in NODES:
            links = self.on_node(node, "ip", "-brief", "link").split("\n")
            bridges = [line.split()[0] for line in links if line.startswith("hr")]
            folders = self.on_node(node, "sh", "-c", "ls -d /run/headrace-* 2>/dev/null").split()
            there[node] = [*bridges, *folders]
        return {place: things for place, things in there.items() if things}

    def load(self, *images: str) -> None:
        subprocess.run([SCRIPT, "load", *images], check=True, timeout=400)


@pytest.fixture(scope="session")
def cluster() -> Iterator[OwnCluster]:
    home = Path(os.environ.get("HEADRACE_CLUSTER") or Path.home() / ".cache/headrace/kubernetes")
    if not list(home.glob("bin-*/pause")):
        pytest.skip("no Kubernetes is built here: scripts/cluster.sh build")
    try:
        reserved = {"CLUSTER_HUGEPAGES": HUGEPAGES, **os.environ}
        subprocess.run([SCRIPT, "up"], check=True, timeout=400, env=reserved)
        yield OwnCluster(home)
    finally:
        subprocess.run([SCRIPT, "down"], check=True, timeout=300)


@pytest.fixture(scope="session")
def kubectl(cluster: OwnCluster) -> Kubectl:
    return cluster.kubectl


@pytest.fixture(scope="session")
def images(cluster: OwnCluster) -> None:
    """Those of the catalogue that these tests deploy, on both nodes."""
    from headrace.ground import catalogue

    names = ("traffic", "nat", "ip-firewall", "l7-cache", "l4-lb", "ids", "headrace")
    cluster.load(*(catalogue.find(name).image for name in names))


@pytest.fixture(scope="session")
def own_image(cluster: OwnCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One with this checkout's lab, on both nodes: once for all that start commands in pods."""
    from headrace.ground import catalogue

    try:
        name = lab_image.build(catalogue.find("headrace").image, tmp_path_factory.mktemp("image"))
        cluster.load(name)
        yield name
    finally:
        lab_image.remove()


@pytest.fixture
def own_state(
    cluster: OwnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """`clean` is to see the runs of these tests only; what one leaves is not the next one's."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield
    if cluster.left():
        cluster.headrace("clean")
        cluster.kubectl("delete", "namespaces", "-l", OURS, "--timeout=60s")
