# SPDX-License-Identifier: Apache-2.0
"""Network namespaces, interfaces, addresses and routes, by netlink."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from headrace.errors import HeadraceError
from headrace.host import libc, netlink
from headrace.host.ledger import Ledger

T = TypeVar("T")
_CLONE_NEWNET = 0x40000000
_MS_BIND = 0x1000
_LOOPBACK = 1
_LOWER_UP = 0x10000  # IFF_LOWER_UP, linux/if.h: there is a carrier
_BRIDGE_SETTINGS = Path("/proc/sys/net/bridge")
_TUN = Path("/dev/net/tun")
_TUNSETIFF = 0x400454CA
_TUNSETPERSIST = 0x400454CB
_TAP_FLAGS = 0x0002 | 0x1000 | 0x4000  # IFF_TAP | IFF_NO_PI | IFF_VNET_HDR
_NAMESPACES = Path("/run/netns")
_SIOCETHTOOL = 0x8946
# ethtool.h: the setters that every driver has had since before feature strings.
_OFFLOADS = {"tx": 0x17, "sg": 0x19, "tso": 0x1F, "gso": 0x24, "gro": 0x2C}

# What a router and a measured path need: forwarding, replies by another way, flow-hash multipath.
SYSCTLS: Mapping[str, str] = {
    "ipv4/ip_forward": "1",
    "ipv4/conf/all/rp_filter": "0",
    "ipv4/conf/default/rp_filter": "0",
    "ipv4/conf/all/send_redirects": "0",
    "ipv4/conf/default/send_redirects": "0",
    "ipv4/fib_multipath_hash_policy": "1",
    "ipv4/ip_local_port_range": "1024 65535",
    "ipv4/tcp_tw_reuse": "1",
    "ipv4/ip_unprivileged_port_start": "0",
    "ipv4/ping_group_range": "0 2147483647",
    "ipv6/conf/all/disable_ipv6": "1",
    "ipv6/conf/default/disable_ipv6": "1",
}


def make_namespace(name: str, ledger: Ledger) -> None:
    """A named network namespace, as `ip netns add` makes it.

    In a thread, and not in a forked child as libraries do it: a child would inherit what this
    process does when it is terminated, which is to remove everything.
    """
    ledger.note("netns", name)
    path = _NAMESPACES / name
    try:
        _NAMESPACES.mkdir(mode=0o755, exist_ok=True)
        path.touch(mode=0o000, exist_ok=False)
        _in_thread(lambda: _make_here(path))
    except FileExistsError:
        raise HeadraceError(
            f"network namespace {name}: is there already: what runs has this name, too, or was "
            "killed (then `headrace clean` removes it)"
        ) from None
    except OSError as error:
        raise HeadraceError(f"network namespace {name}: cannot be made: {error.strerror}") from None


def adopt_namespace(name: str, pid: int, ledger: Ledger) -> None:
    """The network namespace of a process, by a name as those that are made here have."""
    ledger.note("netns", name)
    path = _NAMESPACES / name
    try:
        _NAMESPACES.mkdir(mode=0o755, exist_ok=True)
        path.touch(mode=0o000, exist_ok=False)
        libc.check(
            libc.C.mount(f"/proc/{pid}/ns/net".encode(), bytes(path), b"none", _MS_BIND, None)
        )
        within(name, _set_sysctls)
    except OSError as error:
        raise HeadraceError(f"network namespace {name}: cannot be named: {error}") from None


def _make_here(path: Path) -> None:
    libc.check(libc.C.unshare(_CLONE_NEWNET))
    own = f"/proc/self/task/{threading.get_native_id()}/ns/net"
    libc.check(libc.C.mount(own.encode(), bytes(path), b"none", _MS_BIND, None))
    _set_sysctls()
    with netlink.IPRoute() as ip:
        ip.link("set", index=_LOOPBACK, state="up")


def _set_sysctls() -> None:
    for name, value in SYSCTLS.items():
        path = Path("/proc/sys/net") / name
        if path.exists():
            path.write_text(value)


def within(name: str, work: Callable[[], T]) -> T:
    """Run `work` inside a namespace."""

    def enter() -> T:
        with (_NAMESPACES / name).open() as file:
            libc.check(libc.C.setns(file.fileno(), _CLONE_NEWNET))
        return work()

    return _in_thread(enter)


def _in_thread(work: Callable[[], T]) -> T:
    """Calls it in a thread of its own, since a thread that has changed its namespace is of no other
    use."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def add_veth(host_end: str, namespace: str, name: str, mac: str | None, ledger: Ledger) -> int:
    """A pair with one end in the namespace; the host end's index, up."""
    ledger.note("link", host_end)
    peer = {"ifname": name, "net_ns_fd": namespace}
    if mac:
        peer["address"] = mac
    try:
        with netlink.IPRoute() as ip:
            ip.link("add", ifname=host_end, kind="veth", peer=peer)
            index = int(ip.link_lookup(ifname=host_end)[0])
            ip.link("set", index=index, state="up")
            return index
    except netlink.NetlinkError as error:
        raise HeadraceError(f"veth {host_end}: cannot be made: {error}") from None


def make_tap(name: str) -> None:
    """It is of this namespace, stays when who has it open leaves, and goes with the namespace."""
    descriptor = open_tap(name)
    try:
        fcntl.ioctl(descriptor, _TUNSETPERSIST, 1)
    finally:
        os.close(descriptor)


def open_tap(name: str) -> int:
    """A descriptor of a TAP of this namespace, with a virtio header before each frame."""
    try:
        descriptor = os.open(_TUN, os.O_RDWR)
    except OSError as error:
        raise HeadraceError(f"{_TUN}: cannot be opened: {error.strerror}") from None
    try:
        fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TAP_FLAGS))
    except OSError as error:
        os.close(descriptor)
        raise HeadraceError(f"TAP {name}: cannot be opened: {error.strerror}") from None
    return descriptor


def no_offloads(interface: str, *, only: tuple[str, ...] = tuple(_OFFLOADS)) -> None:
    """Turn offloads off in the current namespace: what is switched in user space must be whole."""
    for name in only:
        with suppress(OSError):  # a driver without that offload
            offload(interface, name, on=False)


def offload(interface: str, name: str, *, on: bool) -> None:
    """Turn one on or off in the current namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        value = bytearray(struct.pack("II", _OFFLOADS[name], on))
        buffer = (ctypes.c_char * len(value)).from_buffer(value)
        request = struct.pack("16sP", interface.encode(), ctypes.addressof(buffer))
        fcntl.ioctl(control, _SIOCETHTOOL, request + bytes(24 - struct.calcsize("P")))


def no_forwarding() -> None:
    """Ends it in the current namespace: somebody in user space does it, and once is enough."""
    Path("/proc/sys/net/ipv4/ip_forward").write_text("0")


def bridges_as_on_the_host(namespace: str) -> None:
    """Whether iptables sees bridged frames: as in the namespace that we are in, which its user has
    set. In a new one it does, whatever the host's setting is."""
    settings = {path: path.read_text() for path in _BRIDGE_SETTINGS.glob("bridge-nf-*")}
    within(namespace, lambda: [path.write_text(v) for path, v in settings.items()])


def know(namespace: str, device: str, neighbours: Mapping[str, str]) -> None:
    """Neighbours (address: MAC) that nobody answers ARP for: no kernel reads their frames."""

    def add() -> None:
        with netlink.IPRoute() as ip:
            index = ip.link_lookup(ifname=device)[0]
            for address, mac in neighbours.items():
                ip.neigh("replace", dst=address, lladdr=mac, ifindex=index, state="permanent")

    within(namespace, add)


@dataclass(frozen=True)
class InterfaceCount:
    """What passed one interface since it was made. A segment that was never cut is one packet."""

    rx_packets: int
    tx_packets: int
    rx_bytes: int
    tx_bytes: int


@dataclass(frozen=True)
class KernelInterface(InterfaceCount):
    """The same, and whether it can carry packets by now: a NIC takes seconds to agree with the
    other end, and what is sent before is gone."""

    carrier: bool


def counts(namespace: str) -> dict[str, InterfaceCount]:
    return within(namespace, counts_here)


def counts_here() -> dict[str, InterfaceCount]:
    """Counts in the namespace that this process is in."""
    return {
        name: InterfaceCount(one.rx_packets, one.tx_packets, one.rx_bytes, one.tx_bytes)
        for name, one in interfaces_here().items()
    }


def interfaces_here() -> dict[str, KernelInterface]:
    interfaces = {}
    with netlink.IPRoute() as ip:
        for link in ip.get_links():
            s = link.get_attr("IFLA_STATS64")
            if s:
                interfaces[str(link.get_attr("IFLA_IFNAME"))] = KernelInterface(
                    s["rx_packets"], s["tx_packets"], s["rx_bytes"], s["tx_bytes"],
                    carrier=bool(link["flags"] & _LOWER_UP),
                )  # fmt: skip
    return interfaces


def set_up(namespace: str, *names: str) -> None:
    """Interfaces that only listen."""

    def up() -> None:
        for name in names:
            _set_link(name, state="up")

    within(namespace, up)


def _set_link(name: str, **change: object) -> None:
    with netlink.IPRoute() as ip:
        ip.link("set", index=ip.link_lookup(ifname=name)[0], **change)


def rename(namespace: str, old: str, new: str) -> None:
    within(namespace, lambda: _set_link(old, ifname=new))
