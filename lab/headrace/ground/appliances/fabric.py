# SPDX-License-Identifier: Apache-2.0
"""The networks that join a chain's containers: Linux bridge, Open vSwitch, macvlan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.ground.appliances.addressing import NodeInterface
from headrace.ground.wired.devices import answers, make_ready
from headrace.host import cpu_time, netlink
from headrace.host.ledger import Ledger
from headrace.host.openvswitch import OpenVswitch
from headrace.host.plumbing import (
    add_veth,
    bridges_as_on_the_host,
    make_namespace,
    no_forwarding,
    no_offloads,
    rename,
    within,
)
from headrace.host.programs import VSWITCHD
from headrace.host.traffic_control import lead, send_all
from headrace.spec.testbed import Device


@dataclass(frozen=True)
class FabricPort:
    """Where a container meets a LAN."""

    lan: int
    host_end: str  # empty where the host has no end of it
    mac: str
    number: int
    copies: list[int] = field(default_factory=list)  # ports that get a copy of its traffic


def bridges_of(tag: str) -> str:
    """The namespace that a deployment's bridges and their ports live in; no VNF has such a name."""
    return f"{tag}-lans.br"


class Fabric(ABC):
    """Makes LANs and joins containers to them; everything it makes is in the ledger."""

    def __init__(self, tag: str, ledger: Ledger) -> None:
        self.tag = tag
        self.ledger = ledger
        self.processes: dict[str, int] = {}  # that forward, where the kernel does not
        self.namespace = ""  # where the ports' other ends are, if anywhere
        self.merges = True  # whether those ends may receive merged frames
        self._ports = 0

    def _next(self) -> int:
        self._ports += 1
        return self._ports

    @abstractmethod
    def add_lan(self, lan: int) -> None: ...

    @abstractmethod
    def attach(self, namespace: str, interface: NodeInterface) -> FabricPort: ...

    @abstractmethod
    def mirror(self, ports: list[FabricPort], namespace: str, name: str) -> None:
        """Feed `name` in the namespace a copy of both directions of the ports' traffic."""

    def lead_on(self, lan: int, interface: str) -> None:
        """Joins a LAN to what is at the other end of an interface of this machine's."""
        raise HeadraceError(f"{interface}: leads to another server; allowed with network bridge")

    def finish(self) -> None:  # noqa: B027 - most have nothing left to do
        """All is attached."""


class Apart(Fabric):
    """LANs of the kernel's, in a namespace of their own: the host's has nothing of them, and its
    firewall and addresses have no part in what they forward."""

    def __init__(self, tag: str, ledger: Ledger) -> None:
        super().__init__(tag, ledger)
        self.namespace = self._namespace = bridges_of(tag)
        make_namespace(self._namespace, ledger)
        within(self._namespace, no_forwarding)
        bridges_as_on_the_host(self._namespace)

    def add_lan(self, lan: int) -> None:
        within(self._namespace, partial(self._add_lan, lan))

    @abstractmethod
    def _add_lan(self, lan: int) -> None: ...

    def attach(self, namespace: str, interface: NodeInterface) -> FabricPort:
        return within(self._namespace, partial(self._attach, namespace, interface))

    @abstractmethod
    def _attach(self, namespace: str, interface: NodeInterface) -> FabricPort: ...


class Bridge(Apart):
    """A Linux bridge for each LAN; copies by tc's mirred."""

    def _bridge(self, lan: int) -> str:
        return f"{self.tag}b{lan}"

    def _add_lan(self, lan: int) -> None:
        name = self._bridge(lan)
        try:
            with netlink.IPRoute() as ip:
                # No spanning tree, no snooping: nothing of the bridge's own on the LAN.
                ip.link("add", ifname=name, kind="bridge", br_stp_state=0, br_mcast_snooping=0)
                ip.link("set", index=ip.link_lookup(ifname=name)[0], state="up")
        except netlink.NetlinkError as error:
            raise HeadraceError(f"bridge {name}: cannot be made: {error}") from None

    def _attach(self, namespace: str, interface: NodeInterface) -> FabricPort:
        number = self._next()
        host_end = f"{self.tag}p{number}"
        index = add_veth(host_end, namespace, interface.device, interface.mac, self.ledger)
        with netlink.IPRoute() as ip:
            master = ip.link_lookup(ifname=self._bridge(interface.lan))[0]
            ip.link("set", index=index, master=master)
        return FabricPort(interface.lan, host_end, interface.mac, number)

    def lead_on(self, lan: int, interface: str) -> None:
        """The interface stays where it is: whatever comes in by it goes to a port of the bridge,
        and what leaves by that port goes out, before this machine's own stack has any of it."""
        own, far = f"{self.tag}u{lan}", f"{self.tag}p{self._next()}"
        add_veth(own, self._namespace, far, None, self.ledger)
        within(self._namespace, partial(self._enslave, far, lan))
        ends = {name: Device("af_packet", name) for name in (own, interface)}
        unfit = answers(ends)[interface]
        if isinstance(unfit, str):
            raise HeadraceError(f"deployment.hosting.cables: {unfit}")
        make_ready(ends, self.ledger)
        lead(own, interface, self.ledger)
        lead(interface, own, self.ledger)

    def _enslave(self, device: str, lan: int) -> None:
        with netlink.IPRoute() as ip:
            master = ip.link_lookup(ifname=self._bridge(lan))[0]
            index = ip.link_lookup(ifname=device)[0]
            ip.link("set", index=index, master=master, state="up")

    def mirror(self, ports: list[FabricPort], namespace: str, name: str) -> None:
        within(self._namespace, partial(self._mirror, ports, namespace, name))

    def _mirror(self, ports: list[FabricPort], namespace: str, name: str) -> None:
        host_end = f"{self.tag}p{self._next()}"
        add_veth(host_end, namespace, name, None, self.ledger)
        for port in ports:
            send_all(port.host_end, ("ingress", "egress"), "mirror", host_end)


class Macvlan(Apart):
    """macvlan in bridge mode; the LAN is a device of its own, never a real one."""

    def _parent(self, lan: int) -> str:
        return f"{self.tag}m{lan}"

    def _add_lan(self, lan: int) -> None:
        name = self._parent(lan)
        try:
            with netlink.IPRoute() as ip:
                ip.link("add", ifname=name, kind="veth", peer=f"{self.tag}n{lan}")
                for end in (name, f"{self.tag}n{lan}"):
                    ip.link("set", index=ip.link_lookup(ifname=end)[0], state="up")
        except netlink.NetlinkError as error:
            raise HeadraceError(f"macvlan parent {name}: cannot be made: {error}") from None

    def _attach(self, namespace: str, interface: NodeInterface) -> FabricPort:
        number = self._next()
        name = f"{self.tag}p{number}"
        try:
            with netlink.IPRoute() as ip:
                parent = ip.link_lookup(ifname=self._parent(interface.lan))[0]
                ip.link("add", ifname=name, kind="macvlan", link=parent, macvlan_mode="bridge",
                        address=interface.mac)  # fmt: skip
                ip.link("set", index=ip.link_lookup(ifname=name)[0], net_ns_fd=namespace)
            rename(namespace, name, interface.device)
        except netlink.NetlinkError as error:
            raise HeadraceError(f"macvlan {name}: cannot be made: {error}") from None
        return FabricPort(interface.lan, "", interface.mac, number)

    def mirror(self, ports: list[FabricPort], namespace: str, name: str) -> None:
        raise AssertionError("refused before: macvlan has no point where a copy could be taken")


class Ovs(Fabric):
    """Open vSwitch with its userspace datapath.

    Steering is by OpenFlow rules: on each LAN a port's packets go to the port that has the
    destination address, broadcasts to all others, and what is mirrored also to the leaf.
    """

    def __init__(self, tag: str, ledger: Ledger, directory: Path) -> None:
        super().__init__(tag, ledger)
        self.ports: list[FabricPort] = []
        self._additions: list[str] = []  # all ports in one transaction: each waits for the switch
        self.switch = OpenVswitch(tag, ledger, directory / "ovs")
        self.namespace, self.merges = self.switch.namespace, False
        # As the containers: a bridge forwards on the CPU time of those.
        for pid in self.switch.daemons:
            cpu_time.shield(pid)
        self.processes[VSWITCHD] = self.switch.pid

    def add_lan(self, lan: int) -> None:
        """LANs are sets of rules here; finish() writes them."""

    def attach(self, namespace: str, interface: NodeInterface) -> FabricPort:
        number = self._add_port(namespace, interface.device, interface.mac)
        port = FabricPort(interface.lan, f"{self.tag}p{number}", interface.mac, number)
        self.ports.append(port)
        return port

    def _add_port(self, namespace: str, name: str, mac: str | None) -> int:
        number = self._next()
        host_end, apart = f"{self.tag}p{number}", self.switch.namespace
        within(apart, lambda: add_veth(host_end, namespace, name, mac, self.ledger))
        # The userspace datapath reads whole frames: checksums must be in them, segments cut.
        within(apart, lambda: no_offloads(host_end))
        within(namespace, lambda: no_offloads(name))
        self._additions += ["--", "add-port", self.switch.bridge, host_end, "--"]
        self._additions += ["set", "interface", host_end, f"ofport_request={number}"]
        return number

    def mirror(self, ports: list[FabricPort], namespace: str, name: str) -> None:
        number = self._add_port(namespace, name, None)
        for port in ports:
            port.copies.append(number)

    def flows(self) -> list[str]:
        """The OpenFlow rules, as ovs-ofctl reads them."""
        rules = []
        for port in self.ports:
            others = [p for p in self.ports if p.lan == port.lan and p is not port]
            for other in others:
                outputs = [other.number, *sorted({*port.copies, *other.copies})]
                actions = ",".join(f"output:{n}" for n in outputs)
                rules.append(
                    f"priority=20,in_port={port.number},dl_dst={other.mac},actions={actions}"
                )
            copies = {n for p in (port, *others) for n in p.copies}
            outputs = [*(p.number for p in others), *sorted(copies)]
            actions = ",".join(f"output:{n}" for n in outputs) or "drop"
            rules.append(
                f"priority=10,in_port={port.number},dl_dst=01:00:00:00:00:00/01:00:00:00:00:00,"
                f"actions={actions}"
            )
        return rules

    def finish(self) -> None:
        self.switch.vsctl(*self._additions)
        self.switch.add_flows(self.flows())
