# SPDX-License-Identifier: Apache-2.0
"""A layout put on this machine: network, containers, health, and the path proved end to end."""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from headrace.collect.collector import Held, Targets
from headrace.collect.cores import core_clock
from headrace.collect.virtual_switch import BRIDGE
from headrace.collect.watch import targets_of
from headrace.errors import HeadraceError
from headrace.ground.appliances import charged_here
from headrace.ground.appliances.addressing import TESTER, ContainerLayout, ContainerNode
from headrace.ground.appliances.fabric import Bridge, Fabric, FabricPort, Macvlan, Ovs, bridges_of
from headrace.ground.appliances.forwarding import End, Forwarding, Shifter
from headrace.ground.appliances.graph import (
    ApplianceGraph,
    ChargeReading,
    Supply,
    environment,
)
from headrace.ground.appliances.sriov import Sriov
from headrace.host import cpu_time, netlink, runtime
from headrace.host.ledger import Ledger
from headrace.host.plumbing import (
    InterfaceCount,
    adopt_namespace,
    counts,
    know,
    make_namespace,
    no_forwarding,
    no_offloads,
    set_up,
    within,
)
from headrace.host.sriov import choose_nic
from headrace.host.state import RunState
from headrace.host.stopwatch import Stopwatch
from headrace.host.tool import tool
from headrace.spec.appliance import NetworkName

_HEALTH_PERIOD_S = 0.2
_UNTIL_HEALTHY = ("sh", "-c", "until /headrace/health > /dev/null 2>&1; do sleep 0.1; done")
_EXEC_S = 60  # for a runtime to begin and end a command, on a busy machine
_STARTED_AT_ONCE = 4
# Who loads programs into the kernel needs this in the host's own user namespace.
_OF_THE_HOST = frozenset({"BPF"})
_LOOPBACK = 1  # its index in every namespace


@dataclass(frozen=True)
class ServerPart:
    """What of a chain on several servers is on this one, and the interfaces that lead on."""

    server: str
    uplinks: Mapping[int, str]  # LAN: interface


class RunningGraph(ApplianceGraph):
    """A chain of containers on this machine, or the part of it that is here."""

    def __init__(
        self,
        layout: ContainerLayout,
        supplies: Mapping[str, Supply],
        network: NetworkName,
        state: RunState,
        watch: Stopwatch | None = None,
        say: Callable[[str], None] = print,
        pf: str | None = None,
        lcore: int = 0,
        part: ServerPart | None = None,
    ) -> None:
        self.layout = layout
        self.uplinks = {} if part is None else part.uplinks
        self.nodes = [n for n in layout.nodes if part is None or n.server == part.server]
        self.containers = [node for node in layout.containers if node in self.nodes]
        self.supplies = supplies
        self.network = network
        self.ledger = Ledger(state.path)
        self.state = state
        self.say = say
        self.pf = pf
        self.tester_lcore = lcore  # of headrace's own source and sink
        self.cpus = os.cpu_count() or 1
        self.tag = f"hr{secrets.token_hex(2)}"
        self.pids: dict[str, int] = {}  # node: its container's first process
        self.switch_pids: dict[str, int] = {}  # of a switch that is not in the kernel
        self.watch = watch or Stopwatch()
        self.clock = core_clock()
        self.forwarding: dict[str, Forwarding] = {}  # of nodes whose share of the kernel is held
        self._shifter = Shifter(())
        self._users = False  # containers have user namespaces of their own

    def _undo(self) -> None:
        self._shifter.stop()
        self.clock.close()
        self.ledger.undo()

    def name(self, node: ContainerNode) -> str:
        """The name of its namespace and its container."""
        return f"{self.tag}-{node.name}"

    def _make(self) -> None:
        probe = f"{self.tag}-probe"
        self.ledger.note("container", probe)
        containers = self.containers
        with ThreadPoolExecutor(_STARTED_AT_ONCE) as pool:
            with self.watch.phase("network"):
                self._find_users(probe)
                list(pool.map(self._namespace, self.nodes))
                self._join()
            for node in containers:
                self.ledger.note("container", self.name(node))
            with self.watch.phase("starting containers"):
                list(pool.map(self._start, containers))
                pids = runtime.pids([self.name(node) for node in containers])
                self.pids = {node.name: pids[self.name(node)] for node in containers}
            with self.watch.phase("waiting for health"):
                list(pool.map(self._wait, containers))
        for pid in self.pids.values():
            cpu_time.shield(pid)

    def _find_users(self, probe: str) -> None:
        without = runtime.way(probe).without_users
        self._users = not without
        if without:
            self.say(f"VNFs have the host's users: no user namespace for containers: {without}")

    def _prepared(self, node: ContainerNode) -> bool:
        """Whether its namespaces are made with its container, before it starts."""
        if node.kind == TESTER or not self._users:
            return False
        return not _OF_THE_HOST.intersection(self.supplies[node.vnf].capabilities)

    def _namespace(self, node: ContainerNode) -> None:
        name = self.name(node)
        if self._prepared(node):
            self.ledger.note("container", name)
            adopt_namespace(name, runtime.prepare(self._container(node)), self.ledger)
        elif tool().enters or node.kind == TESTER:
            make_namespace(name, self.ledger)
        else:
            self.ledger.note("container", runtime.holder(name))
            adopt_namespace(name, runtime.hold(name), self.ledger)

    def _join(self) -> None:
        fabric = self._fabric()
        self.switch_pids = fabric.processes
        ports: dict[tuple[str, str], FabricPort] = {}
        for lan in self._lans:
            fabric.add_lan(lan)
        for lan, uplink in self.uplinks.items():
            fabric.lead_on(lan, uplink)
        for node in self.nodes:
            for interface in node.interfaces:
                ports[node.name, interface.name] = fabric.attach(self.name(node), interface)
            configure(self.name(node), node)
        for leaf in self._of_kind("leaf"):
            feeds = [ports[feed] for feed in leaf.mirrors]
            fabric.mirror(feeds, self.name(leaf), leaf.mirror)
            set_up(self.name(leaf), leaf.mirror)
        fabric.finish()
        self._adapt()
        self._poll(fabric, ports)

    @property
    def _lans(self) -> list[int]:
        return sorted({interface.lan for node in self.nodes for interface in node.interfaces})

    def _of_kind(self, kind: str) -> list[ContainerNode]:
        return [node for node in self.nodes if node.kind == kind]

    def _fabric(self) -> Fabric:
        if self.network == "ovs":
            return Ovs(self.tag, self.ledger, self.state.path)
        if self.network == "sriov":
            needed = self.layout.ports
            return Sriov(self.tag, self.ledger, choose_nic(self.pf, needed), needed)
        return (Bridge if self.network == "bridge" else Macvlan)(self.tag, self.ledger)

    def _adapt(self) -> None:
        """Suits VNFs that read frames themselves instead of leaving them to the kernel."""
        definitions = {node.name: self.supplies[node.vnf].definition for node in self.layout.nodes}
        if any(definition.whole_frames for definition in definitions.values()):
            for node in self.nodes:
                for interface in node.interfaces:
                    within(self.name(node), partial(no_offloads, interface.device))
        readers = {
            node.name for node in self.layout.nodes
            if node.kind == TESTER or definitions[node.name].forwards == "itself"
        }  # fmt: skip
        for node in self._of_kind("routed"):
            if node.name in readers:
                within(self.name(node), no_forwarding)
        for node in self.nodes:
            silent: dict[str, dict[str, str]] = {}
            for own, other in self.layout.neighbours(node):
                if self.layout.owner(other).name in readers:
                    silent.setdefault(own.device, {})[other.address] = other.mac
            for device, neighbours in silent.items():
                know(self.name(node), device, neighbours)

    def _poll(self, fabric: Fabric, ports: Mapping[tuple[str, str], FabricPort]) -> None:
        """Hold to their `cpus` or `cpuset` those for which the kernel forwards."""
        for node in self._of_kind("routed"):
            supply = self.supplies[node.vnf]
            given = supply.allocation
            if not supply.definition.in_kernel or (given.cpus is None and given.cpuset is None):
                continue
            one = self.forwarding[node.name] = Forwarding(node.name, given.cpus)
            for interface in node.interfaces:
                own = End(self.name(node), interface.device)
                far = End(fabric.namespace, ports[node.name, interface.name].host_end)
                one.poll(own, far, merge=fabric.merges)
            if given.cpuset is not None:
                one.bind(given.cpuset)
            one.hold()
        self._shifter = Shifter(tuple(self.forwarding.values()))

    def _start(self, node: ContainerNode) -> None:
        if self._prepared(node):
            runtime.begin(self.name(node))
        else:
            runtime.start(self._container(node))

    def _container(self, node: ContainerNode) -> runtime.ContainerSpec:
        supply = self.supplies[node.vnf]
        allocation = supply.allocation
        return runtime.ContainerSpec(
            self.name(node),
            supply.image,
            self.name(node),
            environment(node, self.layout, self.supplies[node.vnf]),
            supply.capabilities,
            supply.definition.devices,
            allocation.cpus,
            allocation.cpuset,
            allocation.memory_mb,
            supply.command,
        )

    def _wait(self, node: ContainerNode) -> None:
        timeout = self.supplies[node.vnf].definition.health_timeout_s
        name = self.name(node)
        if self._healthy_within(node, timeout):
            return
        if not runtime.running(name):
            raise HeadraceError(f"VNF {node.name}: ended at its start: {runtime.logs(name)}")
        raise HeadraceError(
            f"VNF {node.name}: not healthy after {timeout:.0f} s: {runtime.logs(name)}"
        )

    def _healthy_within(self, node: ContainerNode, timeout_s: float) -> bool:
        supply, name = self.supplies[node.vnf], self.name(node)
        if not supply.opaque:
            # It ends there: whoever asks for it outside can be killed without it.
            until = ("timeout", f"{timeout_s}", *_UNTIL_HEALTHY)
            return self.inside(node, *until, timeout_s=timeout_s + _EXEC_S).returncode == 0
        if supply.health is None:
            return runtime.running(name)
        deadline = time.monotonic() + timeout_s
        while runtime.execute(name, supply.health).returncode:
            if time.monotonic() > deadline or not runtime.running(name):
                return False
            time.sleep(_HEALTH_PERIOD_S)
        return True

    # reading ---------------------------------------------------------------------------

    def targets(self) -> Targets:
        """What collectors watch of this deployment; its bridges by the LANs that they are."""
        if self.network == "ovs":
            return targets_of(self.pids, ovs=self.state.path / "ovs", held=self.held())
        if self.network != "bridge":
            return targets_of(self.pids)
        bridges = {f"{self.tag}b{lan}": f"LAN {lan}" for lan in self._lans}
        inside = bridges_of(self.tag)
        return targets_of(self.pids, bridges, bridges_in=inside, held=self.held())

    def held(self) -> tuple[Held, ...]:
        """Whose forwarding in the kernel is held to its `cpus`, by which threads."""
        return tuple(
            Held(name=name, cpus=one.cpus, threads=tuple(one.threads))
            for name, one in self.forwarding.items()
            if one.cpus is not None
        )

    def charge(self) -> ChargeReading:
        namespaces = {node.name: self.name(node) for node in self.nodes}
        if self.network == "bridge":
            namespaces[BRIDGE] = bridges_of(self.tag)
        spent = self.clock.spent()
        return charged_here.read(self.pids, self.switch_pids, self.forwarding, spent, namespaces)

    def interface_counts(self) -> dict[str, dict[str, InterfaceCount]]:
        return {node.name: counts(self.name(node)) for node in self.nodes}

    def inside(
        self, node: ContainerNode, *command: str, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """A command in a container, with the container's rights and environment."""
        return runtime.execute(self.name(node), command, timeout_s=timeout_s)

    def give(self, file: Path, target: str) -> None:
        """A file of the lab's, to the clients."""
        runtime.copy_in(str(file), self.name(self.layout.client), target)


def configure(namespace: str, node: ContainerNode) -> None:
    """Addresses, then routes, of a node whose interfaces are there."""
    within(namespace, lambda: _configure(node))


def _configure(node: ContainerNode) -> None:
    with netlink.IPRoute() as ip:
        for interface in node.interfaces:
            index = ip.link_lookup(ifname=interface.device)[0]
            ip.addr("add", index=index, address=interface.address, prefixlen=24)
            ip.link("set", index=index, state="up")
        if node.service:
            ip.addr("add", index=_LOOPBACK, address=node.service, prefixlen=32)
        for route in node.routes:
            _add_route(ip, route.destination, route.via)


def _add_route(ip: Any, destination: str, via: tuple[str, ...]) -> None:
    if len(via) == 1:
        ip.route("add", dst=destination, gateway=via[0])
    else:
        ip.route("add", dst=destination, multipath=[{"gateway": gateway} for gateway in via])
