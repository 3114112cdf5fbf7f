# SPDX-License-Identifier: Apache-2.0
"""A chain as Open vSwitch's userspace datapath forwards it, between the very ports that headrace
would have: OpenFlow's tables, which its pollers keep the results of in caches of flows."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.engine.ways import Direction
from headrace.errors import HeadraceError
from headrace.ground.contract import Site
from headrace.ground.engines import openflow, openflow_ends
from headrace.ground.engines.adapter import Declared, Work, program
from headrace.ground.engines.frames import with_right_header, with_right_sums
from headrace.ground.engines.openflow import FlowTables
from headrace.ground.engines.openflow_check import check_functions
from headrace.ground.engines.openflow_stats import OvsConsole
from headrace.ground.wired.devices import make_ready, without_sockets
from headrace.ground.wired.external import Commands
from headrace.ground.wired.wiring import devargs
from headrace.host.ledger import Ledger
from headrace.host.moved import move
from headrace.host.openvswitch import OpenVswitch, dpdk_lacking, dpdk_program, dpdk_settings
from headrace.host.plumbing import within
from headrace.host.processes import Process
from headrace.spec.chain import Node
from headrace.spec.testbed import Device, ExternalDut, WirePort

_KINDS = ("af_xdp", "af_packet", "vhost", "virtio_user")
_TABLES_MOST = 240
# Buffers of a port: 16384 and those in its queues (Open vSwitch, topics/dpdk/memory), a page each.
_BUFFERS, _PAGE, _EAL_MB = 16384, 4096, 64
_UNVERIFIED = Declared(
    "IPv4 packets whose header checksum is wrong: Open vSwitch does not look at it, l3fwd does.",
    with_right_header,
)
_INVALID = Declared(
    "IPv4 packets of whose checksums (header, TCP, UDP, ICMP) one is wrong: the connection tracker "
    "drops them, and nat does not look.",
    with_right_sums,
)
_BESIDE = (
    "What a packet's first of its kind met in the tables is kept for those that are alike "
    "(megaflows): that is always on, beside which headrace's `cache_flows` is the least of caches.",
    "It counts packets per flow, some time after they went; it checks no lengths.",
    "Its threads that do not poll (they look after caches) are on the chain's lcores, too.",
)
_TRACKED = (
    "A nat is the switch's connection tracker: it follows TCP's states and windows, looks at "
    "checksums, has timeouts of its own, and keeps a source's port where it is free, those below "
    "1024, too.",
)
_BALANCED = (
    "A lb is a select group: a hash of the packet's headers picks the backend, nothing is kept of "
    "a flow, and each packet is looked up twice (recirculation).",
)


@dataclass(frozen=True)
class OvsForwarder:
    work: Work
    tables: FlowTables
    ports: tuple[tuple[str, WirePort], ...]  # in the order of their OpenFlow numbers

    @property
    def beside(self) -> tuple[str, ...]:
        known = {node.nf for node in self.work.experiment.nodes}
        more = (*(_TRACKED if "nat" in known else ()), *(_BALANCED if "lb" in known else ()))
        given = self.work.experiment.study.deployment.ovs
        caches = (f"EMC (exact match cache) {_on(given.emc)}, SMC (signature match cache) "
                  f"{_on(given.smc)}; {len(self.tables.flows)} flows.")  # fmt: skip
        return (caches, *_BESIDE, *more)

    @property
    def declared(self) -> tuple[Declared, ...]:
        known = {node.nf for node in self.work.experiment.nodes}
        if "nat" in known:
            return (_INVALID,)
        return (_UNVERIFIED,) if "l3fwd" in known else ()

    @property
    def programs(self) -> tuple[str, ...]:
        switch = dpdk_program()
        if switch is None:
            raise HeadraceError(f"ovs-dpdk: {dpdk_lacking()}")
        tools = ("ovs-vsctl", "ovs-ofctl")
        return (switch, *(program(one, "openvswitch-switch-dpdk") for one in tools))

    def commands(self, site: Site, ledger: Ledger) -> Commands:
        folder, (binary, vsctl, ofctl) = site.state.path, self.programs
        switch = OpenVswitch(
            f"hr{secrets.token_hex(2)}", ledger, folder / "ovs", binary,
            self._settings(site),
        )  # fmt: skip
        switch.keep_on(self.work.cpus)
        for zone, sessions in self.tables.zones.items():
            switch.ask("dpctl/ct-set-limits", f"zone={zone},limit={sessions}")
        self._ready(switch, ledger)
        bridge = f"unix:{switch.management}"
        inside = [
            ("ip", "-n", switch.namespace, "link", "set", "dev", port.to.interface, "up")
            for _, port in self.ports if port.to.interface is not None
        ]  # fmt: skip
        files = self._files(folder)
        return Commands(
            ExternalDut(
                configure=(
                    *inside,
                    (ofctl, "-O", "OpenFlow13", "add-groups", bridge, str(files[0])),
                    (ofctl, "-O", "OpenFlow13", "--bundle", "add-flows", bridge, str(files[1])),
                    (vsctl, f"--db={switch.database}", "--timeout=30", *self._joined(switch)),
                ),
            ),
            place="deployment.engine: ovs-dpdk",
            console=OvsConsole(switch, [name for name, _ in self.ports], self.tables.counted),
            daemon=Process.of(switch.pid),
        )

    def _files(self, folder: Path) -> tuple[Path, Path]:
        groups, flows = folder / "ovs.groups", folder / "ovs.flows"
        groups.write_text("\n".join((*self.tables.groups, "")))
        flows.write_text("\n".join((*self.tables.flows, "")))
        return groups, flows

    def _ready(self, switch: OpenVswitch, ledger: Ledger) -> None:
        """Interfaces are in the switch's namespace, where the kernel sends nothing of its own."""
        devices = {name: port.to for name, port in self.ports}
        without_sockets(devices)
        make_ready(devices, ledger)
        off = Path("/proc/sys/net/ipv6/conf/default/disable_ipv6")
        if off.exists():
            within(switch.namespace, lambda: off.write_text("1"))
        for to in devices.values():
            if to.interface is not None:
                move(to.interface, switch.namespace, ledger)

    def _settings(self, site: Site) -> list[str]:
        study = self.work.experiment.study
        given = study.deployment.ovs
        own = dpdk_settings(
            study.deployment.memory_mb, f"{site.state.path.name}-ovs", self.work.cpus,
            per_port=True, huge=bool(site.engine.hugepages),
        )  # fmt: skip
        return [
            *own,
            f"other_config:emc-insert-inv-prob={100 if given.emc else 0}",
            f"other_config:smc-enable={'true' if given.smc else 'false'}",
        ]

    def _joined(self, switch: OpenVswitch) -> list[str]:
        """All in one transaction, in ovs-vsctl's words."""
        words: list[str] = []
        queues = len(self.work.cpus)
        for i, (name, port) in enumerate(self.ports):
            device = devargs(port.to, i, port, queues, listens=False)
            words += [
                "--", "add-port", switch.bridge, name, "--", "set", "interface", name, "type=dpdk",
                f'options:dpdk-devargs="{device}"', f"options:n_rxq={queues}",
                f"options:n_rxq_desc={_power(port.rx_descriptors)}",
                f"options:n_txq_desc={_power(port.tx_descriptors)}",
                f"ofport_request={i + 1}",
            ]  # fmt: skip
            if port.mtu is not None:
                words.append(f"mtu_request={port.mtu}")
        return words[1:]


def _on(on: bool) -> str:
    return "on" if on else "off"


def _power(descriptors: int) -> int:
    """Queues have a power of two of them, up to 4096."""
    return min(1 << (descriptors - 1).bit_length(), 4096)


def ovs_dpdk(work: Work) -> OvsForwarder:
    """BadInput where a function or parameter cannot be expressed."""
    work.check_ports(_KINDS, "is given virtual devices")
    check_functions(work)
    bed = work.experiment.study.testbed
    assert bed is not None
    ports = tuple((name, bed.ports[name]) for name in dict.fromkeys(bed.chain))
    _check_memory(work, ports)
    return OvsForwarder(work, _tables(work, [port.to for _, port in ports]), ports)


def _check_memory(work: Work, ports: tuple[tuple[str, WirePort], ...]) -> None:
    given = work.experiment.study.deployment.memory_mb
    descriptors = sum(_power(one.rx_descriptors) + _power(one.tx_descriptors) for _, one in ports)
    bytes_ = (len(ports) * _BUFFERS + len(work.cpus) * descriptors) * _PAGE
    needed = _EAL_MB + -(-bytes_ >> 20)
    if given < needed:
        raise work.doc.error(
            ("deployment", "memory_mb"),
            f"{given}; ovs-dpdk has buffers of its own for each port; allowed: {needed} or more",
        )


def _tables(work: Work, devices: list[Device]) -> FlowTables:
    tables = FlowTables()
    for direction, (enter, to) in work.ports.items():
        tables.enter(direction, 1 + devices.index(enter))
        for node in work.met(direction):
            _FUNCTIONS[node.nf](work, node, direction, tables)
            tables.table += 1
        openflow.leave(tables, enter, to, 1 + devices.index(to))
    if tables.table > _TABLES_MOST:
        raise work.doc.error(
            ("chain",), f"ovs-dpdk: {tables.table} tables of flows; allowed: {_TABLES_MOST}"
        )
    return tables


def _null(work: Work, node: Node, direction: Direction, tables: FlowTables) -> None:
    tables.flow(1, "", tables.onward())


_FUNCTIONS: dict[str, Callable[[Work, Node, Direction, FlowTables], None]] = {
    "acl": openflow.acl, "l2fwd": openflow.l2fwd, "l3fwd": openflow.l3fwd,
    "lb": openflow_ends.lb, "nat": openflow_ends.nat, "null": _null,
}  # fmt: skip
