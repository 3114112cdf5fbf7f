# SPDX-License-Identifier: Apache-2.0
"""S3's chain, ACL -> LB -> L3FWD, cut into segments in one way or another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headrace.profile.studied import workload

HERE = Path(__file__).resolve().parent
ORIGIN = HERE.parent / "s3-execution.yaml"  # what paths of the specs are relative to
PUBLISHED = yaml.safe_load((HERE / "published.yaml").read_text(encoding="utf-8"))
FLOWS = 90
NAMES = ("acl", "lb", "l3fwd")
MEMORY_MB = 1536
BACKENDS_MAX = 65_534  # of a load balancer

Groups = tuple[tuple[str, ...], ...]
Places = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Cut:
    groups: Groups
    lcores: Places

    def __str__(self) -> str:
        on = (",".join(map(str, lcores)) for lcores in self.lcores)
        return " | ".join(f"{'+'.join(g)} @{at}" for g, at in zip(self.groups, on, strict=True))


def chain(flows: int, exact: bool) -> list[dict[str, Any]]:
    """`exact`: a backend for each flow, as far as the load balancer has so many, and each of them
    in L3FWD's exact-match table, which has an entry per flow; else eight, and a routing table."""
    hops = [{"dst_mac": f"02:00:00:00:03:0{i}"} for i in range(1, 5)]
    backends: list[dict[str, Any]] = [{"address": f"198.19.{i}.1"} for i in range(1, 9)]
    table: dict[str, Any] = {"fib": "lpm", "routes_file": "data/quickstart.routes"}
    sizes: dict[str, Any] = {}
    if exact:
        count = min(flows, BACKENDS_MAX)
        backends = [{"address": "20.0.0.1", "count": count}]
        table = {"fib": "exact", "ranges": [{"first": "20.0.0.1", "count": flows}]}
        sizes = {"table_size": 655_373}  # prime, and ten times the backends
    vip = {"address": "198.19.0.1", "port": 80, "protocol": "udp", "backends": backends}
    rules = {"rules_file": "data/quickstart.rules", "default": "deny"}
    return [
        # Twice the flows, since buckets fill unevenly: a flow that has no place is classified anew.
        {"acl": {**rules, "cache_flows": max(16_384, 2 * flows)}},
        {"lb": {"vips": [vip], "flows": max(4096, flows + flows // 4), **sizes}},
        {"l3fwd": {**table, "next_hops": hops}},
    ]


def spec(
    cut: Cut, traffic: tuple[int, ...], frame: int, flows: int, exact: bool = False, locate: int = 0
) -> dict[str, Any]:
    parts = {next(iter(nf)): nf for nf in chain(flows, exact)}
    return {
        "name": "s3-execution",
        "chain": [parts[name] for group in cut.groups for name in group],
        "deployment": {
            "execution": {
                "segments": [list(group) for group in cut.groups],
                "lcores": [list(on) for on in cut.lcores],
            },
            "lcores": {"traffic": list(traffic), "shared": True},
            "steer": "even",
            "memory_mb": MEMORY_MB,
            "locate": locate,
        },
        "workload": workload(frame, flows),
    }
