# SPDX-License-Identifier: Apache-2.0
"""Wires between engines, on which nftables counts."""

from __future__ import annotations

import json
from collections.abc import Mapping

from support.netns import Lan, ip

_COUNTER = "table netdev {0} {{ chain c {{ type filter hook ingress device {0} priority 0; "
_COUNTER += "ether type ip counter; }}; }}"


def wire(lan: Lan, wires: str, ends: Mapping[str, str]) -> None:
    """A bridge of the kernel's between two interfaces, given with their namespaces; nftables counts
    what comes to its ends."""
    bridge = f"br{next(iter(ends))}"
    ip("-n", wires, "link", "add", bridge, "type", "bridge", "mcast_snooping", "0")
    ip("-n", wires, "link", "set", bridge, "up")
    for name, namespace in ends.items():
        lan.veth((namespace, name), (wires, f"w{name}"))
        ip("-n", wires, "link", "set", f"w{name}", "master", bridge)
    for name in ends:
        lan.inside(wires, "nft", _COUNTER.format(f"w{name}"))


def counted(lan: Lan, wires: str, name: str) -> int:
    """Packets that an interface of the engines' sent, as nftables saw them."""
    rules = json.loads(lan.inside(wires, "nft", "-j", "list", "table", "netdev", f"w{name}"))
    [rule] = [one["rule"] for one in rules["nftables"] if "rule" in one]
    [packets] = [e["counter"]["packets"] for e in rule["expr"] if "counter" in e]
    return int(packets)
