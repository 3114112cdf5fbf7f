#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes sample.rules and sample.trace beside this script: filters and headers in ClassBench's
formats, for tests where no larger set is at hand. Always the same, as the seed is fixed.

A header is a corner of some filter's hypercube, as ClassBench's trace generator picks them; the
last column names that filter (from zero), which matches but need not be the first that does.
"""

import random
from ipaddress import IPv4Network
from pathlib import Path

RULES = 120
HEADERS = 800
PORT_CLASSES = [(0, 65535)] * 4 + [(0, 1023), (1024, 65535), (80, 80), (53, 53), (443, 445)]
PROTOCOLS = [(6, 255)] * 6 + [(17, 255)] * 3 + [(1, 255), (47, 255), (0, 0)]
TCP_FLAGS = [(0, 0)] * 4 + [(0x0200, 0x1200), (0x1000, 0x1000), (0, 0x0200), (0x0400, 0x0400)]
ICMP_TYPES = [(0, 0), (0x0800, 0xFF00), (0x0B00, 0xFF00), (0x0301, 0xFFFF)]

Ports = tuple[int, int]
Rule = tuple[IPv4Network, IPv4Network, Ports, Ports, Ports, Ports]


def prefix(rng: random.Random) -> IPv4Network:
    length = rng.choice([0, 8, 15, 16, 23, 24, 27, 31, 32, 32])
    return IPv4Network(
        (0x0A000000 | rng.randrange(64) << 12 | rng.randrange(4), length), strict=False
    )


def make_rule(rng: random.Random) -> Rule:
    proto = rng.choice(PROTOCOLS)
    ports = proto[0] in (6, 17)
    sport = rng.choice(PORT_CLASSES) if ports else (0, 65535)
    dport = rng.choice(PORT_CLASSES) if ports else (0, 65535)
    flags = rng.choice({6: TCP_FLAGS, 1: ICMP_TYPES}.get(proto[0], [(0, 0)]))
    return prefix(rng), prefix(rng), sport, dport, proto, flags


def rule_line(rule: Rule) -> str:
    src, dst, sport, dport, proto, flags = rule
    return (
        f"@{src}\t{dst}\t{sport[0]} : {sport[1]}\t{dport[0]} : {dport[1]}\t"
        f"0x{proto[0]:02x}/0x{proto[1]:02X}\t0x{flags[0]:04x}/0x{flags[1]:04x}\t"
    )


def trace_line(rng: random.Random, number: int, rule: Rule) -> str:
    src, dst, sport, dport, proto, flags = rule
    fields = [
        int(src[rng.choice([0, -1])]),
        int(dst[rng.choice([0, -1])]),
        rng.choice(sport),
        rng.choice(dport),
        proto[0] if proto[1] else rng.choice([0, 255]),
        flags[0] << 16 | flags[1] if flags[1] else rng.choice([0, 0xFFFFFFFF]),
        number,
    ]
    return "\t".join(str(f) for f in fields) + "\t"


def main() -> None:
    rng = random.Random(2007)
    here = Path(__file__).parent
    rules = [make_rule(rng) for _ in range(RULES)]
    picks = [rng.randrange(RULES) for _ in range(HEADERS)]
    (here / "sample.rules").write_text("".join(rule_line(r) + "\n" for r in rules))
    (here / "sample.trace").write_text("".join(trace_line(rng, i, rules[i]) + "\n" for i in picks))


if __name__ == "__main__":
    main()
