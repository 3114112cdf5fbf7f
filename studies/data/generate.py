#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the quickstart's rule set and routes, the same ones each time.

Sizes are those of a small branch office: 1000 filters in ClassBench format, of which the last lets
the study's traffic pass (the first match wins, so every packet is matched against all of them), and
1000 routes of the prefix lengths that the Internet's table has most.
"""

from __future__ import annotations

import math
import random
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

RULES = ROUTES = 1000
NEXT_HOPS = 4
# RFC 2544 appendix C: 198.18.0.0/15 is for benchmarks; clients in the lower half, servers above.
CLIENTS, SERVERS = IPv4Network("198.18.0.0/16"), IPv4Network("198.19.0.0/16")
PORTS = (22, 25, 53, 80, 110, 123, 143, 389, 443, 445, 993, 1433, 1521, 3306, 5060, 8080)
LENGTHS = {24: 60, 23: 10, 22: 12, 21: 5, 20: 5, 19: 3, 18: 2, 16: 3}


def network(rng: random.Random, length: int) -> IPv4Network:
    """A unicast network outside the ranges that no router forwards, and outside the study's."""
    while True:
        address = IPv4Address(rng.randrange(1 << 24, 224 << 24))
        drawn = IPv4Network((address, length), strict=False)
        special = drawn.is_private or drawn.is_loopback or drawn.is_link_local
        if not special and not drawn.overlaps(CLIENTS) and not drawn.overlaps(SERVERS):
            return drawn


def rule(source: IPv4Network, target: IPv4Network, low: int, high: int, protocol: int) -> str:
    return f"@{source}\t{target}\t0 : 65535\t{low} : {high}\t{protocol:#04x}/0xFF\t0x0000/0x0000"


def rules(rng: random.Random) -> list[str]:
    lines = []
    for _ in range(RULES - 1):
        port = rng.choice(PORTS)
        high = port if rng.random() < 0.8 else min(65535, port + rng.choice((9, 99, 999)))
        source, target = network(rng, rng.choice((16, 20, 24, 32))), network(rng, 32)
        lines.append(rule(source, target, port, high, rng.choice((6, 6, 17))))
    return [*lines, rule(CLIENTS, SERVERS, 80, 80, 17)]


def routes(rng: random.Random) -> list[str]:
    lengths = list(LENGTHS)
    hops = {SERVERS: 0}
    while len(hops) < ROUTES:
        [length] = rng.choices(lengths, [LENGTHS[n] for n in lengths])
        hops[network(rng, length)] = rng.randrange(NEXT_HOPS)
    # The servers are reached over more specific routes too, so that the longest match decides.
    for i in range(NEXT_HOPS):
        hops[IPv4Network((int(SERVERS.network_address) + ((i + 1) << 8), 24))] = i
    return [f"{prefix} {hop}" for prefix, hop in sorted(hops.items())]


def day(rng: random.Random) -> list[str]:
    """A day's load by the minute, as a part of its peak: least at five in the morning, most at nine
    in the evening, never smooth, and twice a crowd that is there within two minutes."""
    drift, lines = 0.0, []
    for minute in range(24 * 60 + 1):
        hour = minute / 60
        slow = 0.45 - 0.25 * math.cos((hour - 5) / 24 * 2 * math.pi)
        evening = 0.22 * math.exp(-(((hour - 21) / 2.2) ** 2))
        crowd = sum(0.18 for begin in (11 * 60 + 7, 16 * 60 + 40) if 0 < minute - begin <= 9)
        drift = 0.9 * drift + rng.gauss(0, 0.012)
        lines.append(f"{minute * 60},{max(0.05, slow + evening + crowd + drift):.4f}")
    return ["seconds,of the peak", *lines]


def main() -> None:
    folder = Path(__file__).parent
    rng = random.Random(2544)
    texts = {
        "quickstart.rules": rules(rng),
        "quickstart.routes": routes(rng),
        "day.csv": day(random.Random(24)),
    }
    for name, lines in texts.items():
        (folder / name).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
