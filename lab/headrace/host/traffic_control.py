# SPDX-License-Identifier: Apache-2.0
"""Queueing disciplines and filters of the current network namespace's devices: tc(8)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from headrace.errors import HeadraceError
from headrace.host import netlink
from headrace.host.iproute2 import ip as ip_link
from headrace.host.iproute2 import tc
from headrace.host.ledger import Ledger

_NET = Path("/sys/class/net")
_IFF_PROMISC, _PROMISC = 0x100, "promisc"
_AT_INGRESS = ("clsact", "ingress")
_ROOT = 0xFFFFFFFF  # TC_H_ROOT, linux/pkt_sched.h
_WIRE_BYTES = 24  # FCS, preamble and gap, which no frame in the kernel's memory has
# Every packet, in the order in which kernels are likely to have it: matchall, u32, classic BPF.
_ALL = (
    ("matchall",),
    ("u32", "match", "u32", "0", "0"),
    ("bpf", "bytecode", "1,6 0 0 4294967295,"),
)
Verb = Literal["mirror", "redirect"]


def send_all(device: str, hooks: Iterable[str], verb: Verb, to: str) -> None:
    """Has each packet at these hooks of a device (ingress, egress) go to another device: a copy, or
    the packet itself."""
    tc("qdisc", "replace", "dev", device, "clsact")
    for hook in hooks:
        _send_all(device, hook, verb, to)


def _send_all(device: str, hook: str, verb: Verb, to: str) -> None:
    error = ""
    for classifier in _ALL:
        try:
            tc("filter", "add", "dev", device, hook, "protocol", "all", "pref", "10", *classifier,
                "action", "mirred", "egress", verb, "dev", to)  # fmt: skip
            return
        except HeadraceError as failure:
            error = str(failure)
    raise HeadraceError(f"{verb} of {device}: {error}")


def lead(device: str, to: str, ledger: Ledger) -> None:
    """All that a device of this machine's receives goes to another one, whosever frames they are,
    until the ledger gives it back."""
    with netlink.IPRoute() as ip:
        [index] = ip.link_lookup(ifname=device) or [0]
        kinds = [q.get_attr("TCA_KIND") for q in ip.get_qdiscs(index=index) if q["index"] == index]
    if taken := next((kind for kind in kinds if kind in _AT_INGRESS), None):
        raise HeadraceError(
            f"{device}: somebody's filters are there (qdisc {taken}); allowed: an interface "
            "without any"
        )
    heard = int((_NET / device / "flags").read_text(), 16) & _IFF_PROMISC
    ledger.note("led", f"{device} {'' if heard else _PROMISC}".strip())
    if not heard:
        ip_link("link", "set", "dev", device, _PROMISC, "on")
    send_all(device, ("ingress",), "redirect", to)


def no_lead(text: str) -> bool:
    """Gives back what `lead` took. False: it is not there any more."""
    device, _, promisc = text.partition(" ")
    if not (_NET / device).exists():
        return False
    if promisc == _PROMISC:
        ip_link("link", "set", "dev", device, _PROMISC, "off")
    try:
        tc("qdisc", "del", "dev", device, "clsact")
    except HeadraceError:
        return False  # it was not led yet
    return True


def limit_sending(device: str, rate_bps: int, bucket_bytes: int, frames: int) -> None:
    """Lets a device send so many bits of layer 1 per second and no more (tc-tbf(8)); `frames` wait
    for it, and what finds no room among them is dropped."""
    tc("qdisc", "replace", "dev", device, "root", "handle", "1:", "tbf", "rate", f"{rate_bps}bit",
       "burst", f"{bucket_bytes}b", "overhead", str(_WIRE_BYTES),
       "limit", str(bucket_bytes))  # fmt: skip
    tc("qdisc", "replace", "dev", device, "parent", "1:1", "handle", "2:", "pfifo",
       "limit", str(frames))  # fmt: skip


def dropped() -> dict[str, int]:
    """What the root qdisc of each device has dropped since it is there, in packets."""
    with netlink.IPRoute() as ip:
        names = {link["index"]: str(link.get_attr("IFLA_IFNAME")) for link in ip.get_links()}
        return {
            names[qdisc["index"]]: int(stats.get_attr("TCA_STATS_QUEUE")["drops"])
            for qdisc in ip.get_qdiscs()
            if qdisc["parent"] == _ROOT and qdisc["index"] in names
            for stats in [qdisc.get_attr("TCA_STATS2")]
        }
