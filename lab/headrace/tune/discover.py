# SPDX-License-Identifier: Apache-2.0
"""A path of the user's own: two namespaces (containers), joined by veth pairs and one bridge.

Nothing is made here: how the receiver is reached is read from the sender's routes, and which ports
of which bridge lead to both from the indexes of their veth pairs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError, bad_value
from headrace.host import settings
from headrace.tune.path import ServerPath, Station

_NAMESPACES = Path("/run/netns")
_ALLOWED = "a name of `ip netns`, the path of a namespace, or the number of a process in it"


def discover(sender: str, receiver: str, bridge: str) -> ServerPath:
    """`sender`, `receiver`, `bridge`: namespaces as the user names them; "" is this one."""
    namespaces = (namespace(sender, "--from"), namespace(receiver, "--to"))
    where = namespace(bridge, "--bridge-namespace") if bridge else ""
    out, into, address, source = _way(*namespaces, receiver)
    ends = [
        _station(*end, where, option)
        for end, option in (
            ((namespaces[0], out, source), "--from"),
            ((namespaces[1], into, address), "--to"),
        )
    ]
    masters = [_master(where, e.port) for e in ends]
    if masters[0] != masters[1]:
        raise HeadraceError(
            f"--from and --to: their ports {ends[0].port} and {ends[1].port} are on the bridges "
            f"{masters[0]} and {masters[1]}; both must be on one"
        )
    return ServerPath(
        namespace=where, bridge=masters[0], sender=ends[0], receiver=ends[1], own=True
    )


def namespace(named: str, option: str) -> str:
    """The namespace as a path."""
    if named.isdigit():
        path = Path(f"/proc/{named}/ns/net")
    else:
        path = Path(named) if "/" in named else _NAMESPACES / named
    if not named or not path.exists():
        raise bad_value(option, named, allowed=_ALLOWED)
    return str(path)


def _ip(where: str, *arguments: str) -> list[dict[str, Any]]:
    objects: list[dict[str, Any]] = json.loads(
        settings.run(where, ["ip", "-j", *arguments]) or "[]"
    )
    return objects


def _way(sender: str, receiver: str, named: str) -> tuple[str, str, str, str]:
    """The sender's device, the receiver's, the receiver's address and the sender's own: of the
    first address that is reached without a router."""
    addresses = [
        (device["ifname"], info["local"])
        for device in _ip(receiver, "-4", "addr", "show", "up")
        for info in device["addr_info"]
        if info["scope"] == "global"
    ]
    for device, address in addresses:
        try:
            (route, *_) = _ip(sender, "-4", "route", "get", address)
        except HeadraceError:
            continue  # no route
        if "gateway" not in route and route["dev"] != "lo":
            return route["dev"], device, address, route["prefsrc"]
    known = ", ".join(a for _, a in addresses) or "none"
    raise HeadraceError(
        f"--to: {named!r}: none of its IPv4 addresses ({known}) is reached from --from without a "
        "router; allowed: two namespaces on one bridge"
    )


def _link(where: str, device: str) -> dict[str, Any]:
    (link,) = _ip(where, "-d", "link", "show", "dev", device)
    return link


def _kind(link: dict[str, Any]) -> str:
    return str(link.get("linkinfo", {}).get("info_kind", "no virtual device"))


def _station(end: str, device: str, address: str, where: str, option: str) -> Station:
    link = _link(end, device)
    if _kind(link) != "veth" or "link_index" not in link:
        raise HeadraceError(
            f"{option}: its device {device} is {_kind(link)}; allowed: a veth pair whose other end "
            "is a bridge's port"
        )
    for port in _ip(where, "-d", "link", "show"):
        # Indexes are each namespace's own: both must point at each other.
        pair = (port["ifindex"], port.get("link_index"))
        if _kind(port) == "veth" and pair == (link["link_index"], link["ifindex"]):
            if "master" in port:
                return Station(
                    namespace=end, device=device, mac=link["address"], address=address,
                    port=port["ifname"],
                )  # fmt: skip
            raise HeadraceError(f"{option}: its port {port['ifname']} is on no bridge")
    raise HeadraceError(
        f"{option}: the other end of its {device} is not in "
        f"{where or 'this namespace'}; allowed: --bridge-namespace names the one with the bridge"
    )


def _master(where: str, port: str) -> str:
    name = str(_link(where, port)["master"])
    if _kind(_link(where, name)) != "bridge":
        raise HeadraceError(
            f"{port} belongs to {name}, which is {_kind(_link(where, name))}; allowed: a Linux "
            "bridge"
        )
    return name
