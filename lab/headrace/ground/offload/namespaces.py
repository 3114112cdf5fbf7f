# SPDX-License-Identifier: Apache-2.0
"""A network namespace for each VNF, and its interfaces once the engine has made their TAPs."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from headrace.host import netlink
from headrace.host.ledger import Ledger
from headrace.host.plumbing import make_namespace, within
from headrace.spec.offload import OffloadService, RouterVnf

_SYSCTL = Path("/proc/sys/net")
_PERMANENT = 0x80  # linux/neighbour.h: NUD_PERMANENT


def make(spec: OffloadService, ledger: Ledger) -> dict[str, str]:
    """Namespaces HEADRACE-NAME-VNF; the file of each. They outlive the daemons in them, so that a
    restarted one, or a container that joins by the name, finds its interfaces."""
    files = {}
    for name in spec.vnfs:
        namespace = of(spec, name)
        make_namespace(namespace, ledger)
        within(namespace, _dual_stack)
        files[name] = f"/run/netns/{namespace}"
    return files


def of(spec: OffloadService, vnf: str) -> str:
    return f"headrace-{spec.name}-{vnf}"


def _dual_stack() -> None:
    """A router's settings. Duplicate address detection would keep an address away for a second,
    through a TAP that nobody else is on."""
    for name, value in (
        ("ipv6/conf/all/disable_ipv6", "0"),
        ("ipv6/conf/default/disable_ipv6", "0"),
        ("ipv6/conf/all/forwarding", "1"),
        ("ipv6/conf/default/accept_dad", "0"),
    ):
        path = _SYSCTL / name
        if path.exists():
            path.write_text(value)


def configure(spec: OffloadService) -> None:
    for name, vnf in spec.vnfs.items():
        within(of(spec, name), lambda vnf=vnf: _addresses(vnf))  # type: ignore[misc]


def _addresses(vnf: RouterVnf) -> None:
    with netlink.IPRoute() as ip:
        for device, interface in vnf.interfaces.items():
            index = ip.link_lookup(ifname=device)[0]
            ip.link("set", index=index, state="up")
            for text in interface.addresses:
                address = ipaddress.ip_interface(text)
                ip.addr(
                    "add", index=index, address=str(address.ip), prefixlen=address.network.prefixlen
                )


def add_neighbour(spec: OffloadService, vnf: str, device: str, address: str, mac: str) -> None:
    """For good: of an address at which nobody would answer."""
    within(of(spec, vnf), lambda: _neighbour(device, address, mac))


def _neighbour(device: str, address: str, mac: str) -> None:
    with netlink.IPRoute() as ip:
        index = ip.link_lookup(ifname=device)[0]
        ip.neigh("replace", dst=address, lladdr=mac, ifindex=index, state=_PERMANENT)
