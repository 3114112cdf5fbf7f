# SPDX-License-Identifier: Apache-2.0
"""What each NF needs to be driven at a given number of state entries and rules.

An NF's parameters and its traffic belong together: a load balancer without a VIP passes everything
on, a router without the route drops it. What a user gives with --param comes after, and wins.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from headrace.spec.profile import Settings

Json = dict[str, Any]

# RFC 2544 appendix C: 198.18.0.0/15 is for benchmarks.
_CLIENTS, _SERVER = "198.18.0.0/16", "198.19.0.1"
_BACKENDS = 8
_NAT_PORTS = 60_000  # flows per outside address, with room for the hash
_FIRST_ROUTE = int(IPv4Address("20.0.0.0"))


@dataclass(frozen=True)
class Recipe:
    """Parameters of the NF, and what the workload needs beside the flows."""

    params: Json = field(default_factory=dict)
    workload: Json = field(default_factory=dict)
    depends_on: frozenset[str] = frozenset()  # of state, rules


Make = Callable[[Settings, Path], Recipe]


def recipe(nf: str, settings: Settings, folder: Path) -> Recipe:
    return _MAKE.get(nf, _nothing)(settings, folder)


def depends_on(nf: str) -> frozenset[str]:
    """What of state and rules this NF's cost can depend on."""
    return _DEPENDS.get(nf, frozenset({"state"}))


def _nothing(settings: Settings, folder: Path) -> Recipe:
    return Recipe()


def _acl(settings: Settings, folder: Path) -> Recipe:
    return Recipe({"rules_file": str(_rules(settings.rules, folder)), "default": "deny"})


def _firewall(settings: Settings, folder: Path) -> Recipe:
    rules = {"rules_file": str(_rules(settings.rules, folder)), "default": "deny"}
    # One direction only: a flow stays in the state that its timeout is shortest in.
    return Recipe({**rules, "flows": _capacity(settings.state), "udp_timeout_s": 3600})


def _lb(settings: Settings, folder: Path) -> Recipe:
    backends = [{"address": f"198.19.{i + 1}.1"} for i in range(_BACKENDS)]
    vip = {"address": _SERVER, "port": 80, "protocol": "udp", "backends": backends}
    return Recipe({"vips": [vip], "flows": _capacity(settings.state)})


def _nat(settings: Settings, folder: Path) -> Recipe:
    addresses = settings.state // _NAT_PORTS + 1
    pool = [str(IPv4Address(int(IPv4Address("203.0.113.1")) + i)) for i in range(addresses)]
    return Recipe({"pool": pool, "sessions": _capacity(settings.state)})


def _monitor(settings: Settings, folder: Path) -> Recipe:
    return Recipe({"flows": _capacity(settings.state), "active_timeout_s": 3600})


def _l3fwd(settings: Settings, folder: Path) -> Recipe:
    """Has as many /32 routes as entries, all of them looked up: Zheng et al.'s state for L3FWD."""
    routes, targets = folder / f"routes-{settings.state}", folder / f"targets-{settings.state}"
    if not routes.exists():
        addresses = _routes(settings.state)
        routes.write_text("".join(f"{a}/32\n" for a in addresses))
        random.Random(1812).shuffle(addresses)
        targets.write_text("".join(f"{a}\n" for a in addresses))
    return Recipe({"fib": "exact", "routes_file": str(routes)}, {"dst_ips_file": str(targets)})


def _delay(settings: Settings, folder: Path) -> Recipe:
    """A line of 64 bytes per entry, two of them read per packet: a cost that is known."""
    return Recipe({"table_bytes": settings.state * 64, "table_reads": 2})


def _capacity(entries: int) -> int:
    return max(1024, entries + entries // 4)


def _routes(count: int) -> list[str]:
    # 7 is prime to 2^26: spread over 20.0.0.0/6, where no martian is.
    return [
        str(IPv4Address(_FIRST_ROUTE + i * 7 * 64 % (1 << 26) + i * 7 * 64 // (1 << 26)))
        for i in range(count)
    ]


def _rules(count: int, folder: Path) -> Path:
    """ClassBench filters of which the last lets the traffic pass, so that all are looked at."""
    path = folder / f"rules-{count}"
    if path.exists():
        return path
    draw = random.Random(2544)
    lines = []
    for _ in range(count - 1):
        length = draw.choice([16, 20, 24, 24, 28, 32])
        source = draw.getrandbits(26) | 20 << 24
        network = IPv4Address(source >> (32 - length) << (32 - length))
        low = draw.choice([53, 80, 123, 443, 1024, draw.randrange(1024, 65000)])
        lines.append(f"@{network}/{length}\t198.19.0.0/16\t0 : 65535\t{low} : {low}\t0x11/0xFF")
    lines.append(f"@{_CLIENTS}\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x00/0x00")
    path.write_text("\n".join(lines) + "\n")
    return path


_MAKE: dict[str, Make] = {
    "acl": _acl,
    "delay": _delay,
    "firewall": _firewall,
    "l3fwd": _l3fwd,
    "lb": _lb,
    "monitor": _monitor,
    "nat": _nat,
}
_DEPENDS: dict[str, frozenset[str]] = {
    "acl": frozenset({"state", "rules"}),  # it caches flows in front of its rules
    "firewall": frozenset({"state", "rules"}),
    "l2fwd": frozenset(),
    "null": frozenset(),
}
