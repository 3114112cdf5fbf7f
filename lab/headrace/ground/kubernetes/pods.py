# SPDX-License-Identifier: Apache-2.0
"""A layout put on a cluster: its objects, pods until they are ready, commands inside of them."""

from __future__ import annotations

import re
import secrets
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headrace.collect.collector import Targets
from headrace.errors import HeadraceError
from headrace.ground.appliances.addressing import ContainerLayout, ContainerNode
from headrace.ground.appliances.graph import ApplianceGraph, ChargeReading, Supply
from headrace.ground.kubernetes.manifests import CONTAINER, PodNetwork, bridge_tag, manifests
from headrace.ground.kubernetes.places import PLACE, place_in
from headrace.ground.kubernetes.waiting import (
    TOLD_S,
    ended_within,
    killed,
    make,
    wait_ready,
)
from headrace.ground.kubernetes.words import told_by
from headrace.host.cluster import Cluster
from headrace.host.cluster_owned import Sweep, owned
from headrace.host.ledger import Ledger
from headrace.host.plumbing import InterfaceCount
from headrace.host.state import RunState
from headrace.host.stopwatch import Stopwatch
from headrace.record.pods import PodPlace

_PULL_S = 120.0  # for images, beside what a VNF may take to be healthy
_NAME_MOST = 40
_TICK_NS = 10_000_000  # USER_HZ of /proc is 100 on all of Linux' processors
# Its control group's CPU time (v1 in ns, v2 in us), and its node's.
_CHARGE = (
    "sh", "-c",
    "cat /sys/fs/cgroup/cpuacct/cpuacct.usage 2>/dev/null || "
    "sed -n 's/^usage_usec \\(.*\\)/\\1000/p' /sys/fs/cgroup/cpu.stat; cat /proc/stat",
)  # fmt: skip


def namespace_of(study: str) -> str:
    """A name of its own for each deployment (RFC 1123 label)."""
    plain = re.sub(r"[^a-z0-9]+", "-", study.lower()).strip("-")[:_NAME_MOST]
    return f"headrace-{plain}-{secrets.token_hex(3)}"


class PodGraph(ApplianceGraph):
    """A chain whose containers are pods. Used as a context: leaving it removes all that was made,
    in the cluster and on its nodes."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        layout: ContainerLayout,
        supplies: Mapping[str, Supply],
        network: PodNetwork,
        state: RunState,
        watch: Stopwatch,
        *,
        agents: bool = False,
    ) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.layout, self.supplies, self.state = layout, supplies, state
        self.network, self.agents = network, agents
        self.ledger = Ledger(state.path)
        self.watch = watch
        self.nodes: dict[str, str] = {}  # pod: its node
        self.cpus = 0

    def _undo(self) -> None:
        self.ledger.undo()

    def _make(self) -> None:
        with self.watch.phase("making objects"):
            objects = manifests(self.namespace, self.layout, self.supplies, self.network)
            line = owned(self.cluster, self.namespace, self._sweep(), agents=self.agents)
            self.ledger.note("cluster", line)
            make(self.cluster, objects)
        healthy = max(supply.definition.health_timeout_s for supply in self.supplies.values())
        with self.watch.phase("waiting for pods"):
            count = len(self.layout.containers)
            self.nodes = wait_ready(self.cluster, self.namespace, count, healthy + _PULL_S)
        sizes = {n["metadata"]["name"]: n["status"]["capacity"] for n in self.cluster.nodes()}
        self.cpus = sum(int(sizes[node]["cpu"]) for node in set(self.nodes.values()))

    def _sweep(self) -> Sweep | None:
        if self.network.kind != "bridge":
            return None
        image = self.supplies[self.layout.client.vnf].image
        nodes = tuple(sorted(set(self.network.nodes.values())))
        return Sweep(nodes=nodes, image=image, tag=bridge_tag(self.namespace))

    # asking ------------------------------------------------------------------------------

    def inside(
        self, node: ContainerNode, *command: str, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        return self._execute(node.name, command, timeout_s=timeout_s)

    def _execute(
        self,
        pod: str,
        command: Sequence[str],
        *,
        given: bytes | None = None,
        timeout_s: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """A pod that ended says more than the command that could not be run in it."""
        try:
            done = self.cluster.execute(
                self.namespace, pod, CONTAINER, command, given=given, timeout_s=timeout_s
            )
        except HeadraceError:
            self._all_there()
            raise
        if killed(done.returncode):
            self._all_there()
        return done

    def _all_there(self) -> None:
        why = ended_within(self.cluster, self.namespace, self.nodes, TOLD_S)
        if why is not None:
            raise HeadraceError(why)

    def give(self, file: Path, target: str) -> None:
        data = file.read_bytes()
        command = ("sh", "-c", f"head -c {len(data)} > '{target}'")
        self._said("copy", self._execute(self.layout.client.name, command, given=data))

    def _each(self, command: Sequence[str]) -> dict[str, str]:
        """What a command says in each container that has it."""
        nodes = self.layout.containers
        with ThreadPoolExecutor(len(nodes)) as pool:
            every = pool.map(lambda node: self._execute(node.name, command), nodes)
            return {
                n.name: done.stdout for n, done in zip(nodes, every, strict=True)
                if not done.returncode
            }  # fmt: skip

    def interface_counts(self) -> dict[str, dict[str, InterfaceCount]]:
        """The chain's own interfaces: the cluster's network is in each pod, too."""
        wanted = {
            node.name: {node.mirror} | {one.device for one in node.interfaces}
            for node in self.layout.containers
        }
        texts = self._each(("cat", "/proc/net/dev"))
        counts = {}
        for name, devices in wanted.items():
            with told_by(name, "/proc/net/dev"):
                every = device_counts(texts.get(name, ""))
            counts[name] = {device: c for device, c in every.items() if device in devices}
        return counts

    def charge(self) -> ChargeReading:
        texts, at_s = self._each(_CHARGE), time.monotonic()
        groups: dict[str, float] = {}
        of_nodes: dict[str, tuple[str, str]] = {}
        for name, text in texts.items():
            first, _, rest = text.partition("\n")
            if first.isdigit():
                with told_by(name, "its CPU time"):
                    groups[name] = int(first) / 1e9
                of_nodes[self.nodes[name]] = name, rest
        stolen: dict[str, int] = {}
        busy = 0.0
        for node, (name, text) in sorted(of_nodes.items()):
            with told_by(name, "/proc/stat"):
                seconds, own = node_times(text)
            busy += seconds
            stolen |= {f"{node}'s CPU {cpu}": ns for cpu, ns in own.items()}
        return ChargeReading(at_s, groups, busy, stolen)

    def places(self) -> dict[str, PodPlace]:
        """Where each pod is, and what it got there."""
        texts = self._each(PLACE)
        pods = {pod["metadata"]["name"]: pod for pod in self.cluster.pods(self.namespace)}
        return {
            name: place_in(text, pods[name], CONTAINER, polls=False)
            for name, text in texts.items()
            if name in pods
        }

    def targets(self) -> Targets:
        return Targets()


def device_counts(text: str) -> dict[str, InterfaceCount]:
    """/proc/net/dev (proc(5)): bytes and packets received, then those sent."""
    counts = {}
    for line in text.splitlines():
        name, colon, rest = line.partition(":")
        fields = rest.split()
        if colon and len(fields) >= 10 and fields[0].isdigit():
            rx_bytes, rx, tx_bytes, tx = (int(fields[i]) for i in (0, 1, 8, 9))
            counts[name.strip()] = InterfaceCount(rx, tx, rx_bytes, tx_bytes)
    return counts


def node_times(text: str) -> tuple[float, dict[int, int]]:
    """/proc/stat (proc(5)), which is the node's in each of its pods: seconds of all processes, and
    by CPU the ns that a hypervisor took."""
    busy_s, stolen = 0.0, {}
    for line in text.splitlines():
        name, *fields = line.split() or [""]
        if name == "cpu" and len(fields) > 2:
            busy_s = sum(map(int, fields[:3])) * _TICK_NS / 1e9
        elif name.startswith("cpu") and len(fields) > 7:
            stolen[int(name[3:])] = int(fields[7]) * _TICK_NS
    return busy_s, stolen
