# SPDX-License-Identifier: Apache-2.0
"""Rules, routes and flows for the chain benchmark, drawn from a fixed seed.

1000 ClassBench-like filters, 4096 UDP flows that each match one of them, and a million routes with
the prefix lengths of the Internet's table; the load balancer's backends lie all over the routes.
"""

from __future__ import annotations

import random
from ipaddress import IPv4Address
from pathlib import Path

RULES = 1000
FLOWS = 4096
BACKENDS = 64
ROUTES = 1_000_000
VIP = int(IPv4Address("198.19.0.1"))
# Share of prefix lengths in a full table, in per mille (RIPE RIS, rounded).
LENGTHS = {24: 600, 23: 90, 22: 120, 21: 50, 20: 50, 19: 40, 18: 20, 17: 10, 16: 20}


def _dotted(address: int) -> str:
    return str(IPv4Address(address))


def _rules(draw: random.Random) -> list[tuple[int, int, int, int]]:
    """(source prefix, its length, lowest and highest destination port), no two alike."""
    rules: dict[tuple[int, int, int, int], None] = {}
    while len(rules) < RULES:
        length = draw.choice([16, 20, 24, 24, 24, 28, 32, 32])
        # Sources in 20.0.0.0/6: no martian is among them.
        prefix = (20 << 24 | draw.getrandbits(26)) >> (32 - length) << (32 - length)
        low = draw.choice([53, 80, 123, 443, 1024, draw.randrange(1024, 65000)])
        rules[prefix, length, low, draw.choice([low, low, low, 65535])] = None
    return list(rules)


def write_chain(folder: Path) -> dict[str, str]:
    """Write rules, headers and routes; the paths by what they are."""
    draw = random.Random(2544)
    rules = _rules(draw)
    paths = {name: folder / f"bench.{name}" for name in ("rules", "headers", "routes")}
    with paths["rules"].open("w") as out:
        for prefix, length, low, high in rules:
            out.write(
                f"@{_dotted(prefix)}/{length}\t{_dotted(VIP)}/32\t0 : 65535\t{low} : {high}\t"
                "0x11/0xFF\n"
            )
    with paths["headers"].open("w") as out:
        flows: dict[str, None] = {}
        while len(flows) < FLOWS:
            prefix, length, low, high = draw.choice(rules)
            source = prefix | draw.getrandbits(32 - length) if length < 32 else prefix
            port = draw.randrange(1024, 65536)
            flows[f"{source} {VIP} {port} {draw.randint(low, high)} 17"] = None
        out.writelines(line + "\n" for line in flows)
    _write_routes(paths["routes"], draw)
    return {name: str(path) for name, path in paths.items()}


def _write_routes(path: Path, draw: random.Random) -> None:
    seen: set[tuple[int, int]] = set()
    lengths, weights = list(LENGTHS), list(LENGTHS.values())
    with path.open("w") as out:
        out.write("0.0.0.0/0\n")
        while len(seen) < ROUTES - 1:
            length = draw.choices(lengths, weights)[0]
            prefix = draw.getrandbits(32) >> (32 - length) << (32 - length)
            if 1 <= prefix >> 24 < 224 and (prefix, length) not in seen:
                seen.add((prefix, length))
                out.write(f"{_dotted(prefix)}/{length}\n")


def backends() -> list[dict[str, str]]:
    """Addresses all over the unicast space, so that each is another route."""
    draw = random.Random(1812)
    return [{"address": _dotted(draw.randrange(20 << 24, 100 << 24) | 1)} for _ in range(BACKENDS)]
