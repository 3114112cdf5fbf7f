# SPDX-License-Identifier: Apache-2.0
"""The kernel's bridge as the switch of a hosted chain."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from functools import partial
from typing import Any

from headrace.errors import HeadraceError
from headrace.ground.hosted.licence import RateCap
from headrace.ground.hosted.ports import SwitchPort
from headrace.ground.hosted.switch import Switch, SwitchCounts
from headrace.host import netlink
from headrace.host.ledger import Ledger
from headrace.host.plumbing import (
    add_veth,
    bridges_as_on_the_host,
    make_namespace,
    make_tap,
    no_forwarding,
    no_offloads,
    open_tap,
    set_up,
    within,
)
from headrace.host.traffic_control import dropped, limit_sending, send_all

Json = dict[str, Any]
_MTU = 9216  # the longest frame of a workload
_AFTER_S = 10.0
# Frames that wait for a licence: while one does its sender's packet socket has the memory lent, and
# lends 208 KiB (net.core.wmem_default), less than the queue of an interface.
_WAITING = 64
_STATIC = 0x40  # NUD_NOARP; permanent ones are the bridge's own addresses
_MASTER = 0x04  # NTF_MASTER: the bridge's table, not the port's


class KernelBridge(Switch):
    """Made when the chain is deployed; `remove` undoes all of it.

    Each owner has a namespace with its ends of veth pairs, which its engine reads by packet
    sockets; a virtual machine has TAPs. The bridge knows every address from the start, and floods
    nothing.
    """

    def __init__(self, ports: tuple[SwitchPort, ...], ledger: Ledger, taps: bool) -> None:
        """`taps`: all but the tester are virtual machines."""
        self._tag = f"hr{secrets.token_hex(2)}"
        self._ledger, self._taps = ledger, taps
        self._ends = {(one.owner, one.name): f"{self._tag}p{i}" for i, one in enumerate(ports)}
        self._switch = self.bridge_in = f"{self._tag}-switch.br"  # no VNF has such a name
        self._bridge = self.bridge = f"{self._tag}b"
        try:
            self._make(ports)
        except BaseException:
            ledger.undo()
            raise

    def _make(self, ports: tuple[SwitchPort, ...]) -> None:
        make_namespace(self._switch, self._ledger)
        bridges_as_on_the_host(self._switch)
        within(self._switch, self._make_bridge)
        apart = [one.owner for one in ports if not self._has_taps(one.owner)]
        for owner in dict.fromkeys(apart):
            make_namespace(self.namespace_of(owner), self._ledger)
            within(self.namespace_of(owner), no_forwarding)
        for one in ports:
            self._join(one)

    def _has_taps(self, owner: str) -> bool:
        return self._taps and owner != ""

    def namespace_of(self, owner: str) -> str:
        return f"{self._tag}-{owner or 'tester'}"

    def enter(self, owner: str) -> list[str]:
        """What starts a command where its ports are."""
        return ["ip", "netns", "exec", self.namespace_of(owner)]

    def _make_bridge(self) -> None:
        name = self._bridge
        try:
            with netlink.IPRoute() as ip:
                ip.link("add", ifname=name, kind="bridge", br_stp_state=0, br_mcast_snooping=0)
                ip.link("set", index=ip.link_lookup(ifname=name)[0], state="up")
        except netlink.NetlinkError as error:
            raise HeadraceError(f"bridge {name}: cannot be made: {error}") from None

    def _join(self, one: SwitchPort) -> None:
        end = self._ends[one.owner, one.name]
        if self._has_taps(one.owner):
            within(self._switch, partial(make_tap, end))
        else:
            self._join_veth(one, end)
        within(self._switch, partial(_attach, self._bridge, end, one.mac))
        if one.cap is not None:
            within(self._switch, partial(_hold_to, one.cap, end, self._shaper(end)))

    def _shaper(self, end: str) -> str:
        return f"{end}q"

    def _join_veth(self, one: SwitchPort, end: str) -> None:
        """The veth's own address is another than the engine's: what is for that is the packet
        socket's alone, and not the kernel's too."""
        namespace = self.namespace_of(one.owner)
        within(self._switch, lambda: add_veth(end, namespace, one.name, None, self._ledger))
        within(namespace, partial(_lengthen, one.name))
        within(namespace, partial(no_offloads, one.name))
        set_up(namespace, one.name)

    def tap(self, owner: str, port: str) -> int | None:
        if not self._has_taps(owner):
            return None
        return within(self._switch, partial(open_tap, self._ends[owner, port]))

    def counts(self) -> dict[tuple[str, str], SwitchCounts]:
        every, capped = within(self._switch, lambda: (_counted(), dropped()))
        return {
            key: replace(every[end], rx_capped=capped.get(self._shaper(end), 0))
            for key, end in self._ends.items()
            if end in every
        }

    def wait_up(self) -> None:
        within(self._switch, partial(_await_forwarding, list(self._ends.values())))


def _counted() -> dict[str, SwitchCounts]:
    """Goes by the kernel's own statistics of this namespace's interfaces."""
    with netlink.IPRoute() as ip:
        links = {str(link.get_attr("IFLA_IFNAME")): link for link in ip.get_links()}
    return {
        name: SwitchCounts(
            stats["rx_packets"], stats["tx_packets"], stats["rx_dropped"], stats["tx_dropped"]
        )
        for name, link in links.items()
        if (stats := link.get_attr("IFLA_STATS64")) is not None
    }


def _hold_to(cap: RateCap, end: str, shaper: str) -> None:
    """What comes in by a bridge's port goes by way of a device that sends no more than that, and is
    the bridge's from there. The port's other end could not do it: a packet socket keeps what a
    qdisc refuses and sends it again, so that drops would be no losses."""
    try:
        with netlink.IPRoute() as ip:
            ip.link("add", ifname=shaper, kind="ifb")
            ip.link("set", index=ip.link_lookup(ifname=shaper)[0], mtu=_MTU, state="up")
    except netlink.NetlinkError as error:
        raise HeadraceError(f"ifb {shaper}, for rate_cap_gbps: cannot be made: {error}") from None
    limit_sending(shaper, cap.rate_bps, cap.bucket_bytes, _WAITING)
    send_all(end, ("ingress",), "redirect", shaper)


def _lengthen(name: str) -> None:
    with netlink.IPRoute() as ip:
        ip.link("set", index=ip.link_lookup(ifname=name)[0], mtu=_MTU)


def _attach(bridge: str, end: str, mac: str) -> None:
    with netlink.IPRoute() as ip:
        index = ip.link_lookup(ifname=end)[0]
        master = ip.link_lookup(ifname=bridge)[0]
        ip.link("set", index=index, mtu=_MTU, master=master, state="up")
        ip.brport("set", index=index, learning=0, unicast_flood=0, mcast_flood=0, bcast_flood=0)
        ip.fdb("append", ifindex=index, lladdr=mac, state=_STATIC, flags=_MASTER)


def _await_forwarding(ends: list[str]) -> None:
    """Without spanning tree that is when their carriers are there."""
    deadline = time.monotonic() + _AFTER_S
    with netlink.IPRoute() as ip:
        for end in ends:
            index = ip.link_lookup(ifname=end)[0]
            while not any(link.get_attr("IFLA_CARRIER") for link in ip.get_links(index)):
                if time.monotonic() > deadline:
                    raise HeadraceError(f"bridge port {end}: no carrier after {_AFTER_S:g} s")
                time.sleep(0.02)
