# SPDX-License-Identifier: Apache-2.0
"""The devices of a testbed's ports on this machine: found, made ready, counted beside DPDK."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headrace.engine.counts import EngineCounts
from headrace.engine.link_counts import DeviceCounts, PortCounts
from headrace.errors import HeadraceError
from headrace.host import netlink
from headrace.host.iproute2 import ip
from headrace.host.ledger import Ledger
from headrace.host.plumbing import KernelInterface
from headrace.host.settings import Setting
from headrace.spec.document import Document, PathKey
from headrace.spec.testbed import Device, Testbed

_NET = Path("/sys/class/net")
_PCI = Path("/sys/bus/pci/devices")
# Kernel drivers beside which DPDK has a device (its mlx4, mlx5 and mana); others have to let go.
_SHARED = frozenset({"mlx4_core", "mlx5_core", "mana"})
_FOR_USERS = frozenset({"vfio-pci", "uio_pci_generic", "igb_uio"})
_IP_FAMILIES = {2: "an IPv4", 10: "an IPv6"}
_GLOBAL = 0  # scope of an address (rtnetlink(7))
PORTS: tuple[PathKey, ...] = ("testbed", "ports")


class Unfit(Exception):
    """A device that no port can be: why, and what is allowed."""


Answers = Mapping[str, "Device | str"]
"""Of each port its device as it is there, or why there is none."""


def resolve(
    bed: Testbed,
    doc: Document,
    servers: Mapping[str | None, Callable[[Mapping[str, Device]], Answers]] | None = None,
) -> dict[str, Device]:
    """Each port's device; that of an interface's name alone is the PCI device behind it. BadInput
    where its server has none, its kernel uses it, or a stranger's bundle would run programs.
    `servers`: how those are asked that ports name; without one it is this machine."""
    _check_trust(bed, doc)
    ask = servers or {None: answers}
    devices: dict[str, Device] = {}
    for server in dict.fromkeys(port.server for port in bed.ports.values()):
        own = {name: port.to for name, port in bed.ports.items() if port.server == server}
        for name, answer in ask[server](own).items():
            if isinstance(answer, str):
                where = "" if server is None else f"{server}: "
                raise doc.error((*PORTS, name, "device"), where + answer)
            devices[name] = answer
    return {name: devices[name] for name in bed.ports}


def answers(devices: Mapping[str, Device]) -> Answers:
    """This machine's."""
    return {name: _answer(to) for name, to in devices.items()}


def no_interfaces(spec: dict[str, Any]) -> str | None:
    """Why this machine has not all ports of a spec's testbed; None: it has, or the testbed is a
    mistake, which is told where it is read."""
    try:
        bed = Testbed.model_validate(spec.get("testbed"))
    except ValueError:
        return None
    here = {name: port.to for name, port in bed.ports.items() if port.server is None}
    return next((one for one in answers(here).values() if isinstance(one, str)), None)


def _answer(to: Device) -> Device | str:
    try:
        return _resolved(to)
    except Unfit as why:
        return str(why)


def _check_trust(bed: Testbed, doc: Document) -> None:
    """BadInput where a stranger's bundle would run programs, or write to sockets."""
    if (dut := bed.external) is not None:
        for key, command in (
            ("start", dut.start),
            ("configure", dut.configure),
            ("read", dut.read),
        ):
            if command:
                doc.check_trusted(("testbed", "dut", key), str(command))
    for name, port in bed.ports.items():
        if port.to.socket is not None:
            doc.check_trusted((*PORTS, name, "device"), port.to.socket, "written to")


def _resolved(to: Device) -> Device:
    """The device on this machine; of an interface's name alone it is the PCI device behind it.
    Unfit where this machine has none, or its kernel uses it."""
    if to.kind in ("af_xdp", "af_packet", "pcap", "interface") and not (_NET / to.name).exists():
        here = ", ".join(sorted(path.name for path in _NET.iterdir() if path.name != "lo"))
        raise Unfit(f"there is no interface {to.name}; allowed: {here or 'none here'}")
    if to.interface is not None and (address := _address(to.interface)) is not None:
        raise Unfit(
            f"{to.interface} has {address}, and all of its packets would be taken; "
            "allowed: an interface without addresses",
        )
    if to.kind == "interface":
        device = (_NET / to.name / "device").resolve()
        if not (_PCI / device.name).exists():
            raise Unfit(
                f"{to.name} is no PCI device, which DPDK has a driver for; "
                f"allowed: af_xdp:{to.name}, af_packet:{to.name}",
            )
        to = Device("pci", device.name)
    if to.kind == "pci":
        _check_pci(to.name)
    if to.socket is not None:
        _check_folder(Path(to.socket).parent)
    return to


def _check_folder(folder: Path) -> None:
    """DPDK's drivers believe whoever is at the other end of such a port, so nobody else may put a
    socket there, nor another folder in its place."""
    for one in (folder, *folder.parents):
        try:
            status = one.stat()
        except FileNotFoundError:
            raise Unfit(f"there is no folder {one}; allowed: one that is there") from None
        strangers = status.st_mode & stat.S_IWOTH
        if one != folder and status.st_mode & stat.S_ISVTX:
            strangers = 0  # what is in it is its owners' to move
        if status.st_mode & stat.S_IWGRP and status.st_gid not in (0, os.getegid()):
            strangers |= stat.S_IWGRP
        if strangers or status.st_uid not in (0, os.geteuid()):
            raise Unfit(
                f"other users can put a socket into {one}, and whoever is at the port's other "
                "end has the engine; allowed: a folder that only its user and root can write to"
            )


def _check_pci(address: str) -> None:
    device = _PCI / address
    if not device.exists():
        raise Unfit(f"there is no PCI device {address}; `headrace doctor` lists NICs")
    driver = (device / "driver").resolve().name if (device / "driver").exists() else None
    if driver in _SHARED | _FOR_USERS:
        return
    raise Unfit(
        f"{address} is with the kernel's driver {driver or '(none)'}; allowed: vfio-pci "
        f"(`dpdk-devbind.py --bind=vfio-pci {address}`), or af_xdp:NAME of its interface",
    )


def _address(interface: str) -> str | None:
    """One that it has, beside those that the kernel gives each interface."""
    with netlink.IPRoute() as route:
        index = route.link_lookup(ifname=interface)
        for one in route.get_addr(index=index[0]) if index else ():
            if one["scope"] == _GLOBAL:
                family = _IP_FAMILIES.get(one["family"], "an")
                return f"{family} address ({one.get_attr('IFA_ADDRESS')})"
    return None


def make_ready(devices: Mapping[str, Device], ledger: Ledger) -> None:
    """Interfaces are up, and the kernel sends nothing of its own by them; the ledger undoes it."""
    for to in devices.values():
        name = to.interface
        if name is None or not (_NET / name).exists():
            continue
        target = f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6"
        if Path(target).exists():
            setting = Setting(namespace="", target=target, value="1")
            before = setting.with_value(Path(target).read_text().strip())
            if before.value != setting.value:
                ledger.note("setting", before.model_dump_json())
                setting.write()
        if not int((_NET / name / "flags").read_text(), 16) & 1:  # IFF_UP
            ledger.note("up", name)
            ip("link", "set", "dev", name, "up")


def with_devices(
    read: EngineCounts, devices: Mapping[str, Device], kernel: Mapping[str, KernelInterface]
) -> EngineCounts:
    """What the kernel counted at the ports that are interfaces of its own, beside what DPDK did,
    whose drivers of such call each link up. `kernel`: of their machine's interfaces."""
    links = dict(read.links)
    for name, to in devices.items():
        count, link = kernel.get(to.interface or ""), links.get(name)
        if count is None or not isinstance(link, PortCounts):
            continue
        came, left = count.rx_packets, count.tx_packets
        if to.kind == "tap":  # what the kernel sends there is what the port receives
            came, left = left, came
        device = DeviceCounts(rx_packets=came, tx_packets=left)
        up = link.up and count.carrier
        links[name] = link.model_copy(update={"device": device, "up": up})
    return read.model_copy(update={"links": links})


def without_sockets(devices: Mapping[str, Device]) -> None:
    """Sockets that killed engines left where ports are to listen are removed; one at which somebody
    listens is an error."""
    for name, to in devices.items():
        path = Path(to.name)
        if to.kind not in ("memif", "vhost") or not path.is_socket():
            continue
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            probe.setblocking(False)  # who listens may take nobody, for good
            kind = probe.connect_ex(to.name)
        if kind != errno.ECONNREFUSED:
            raise HeadraceError(
                f"testbed.ports.{name}: somebody listens at {path}; allowed: a path that is free"
            )
        path.unlink()
