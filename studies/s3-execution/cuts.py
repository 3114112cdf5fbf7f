# SPDX-License-Identifier: Apache-2.0
"""S3's chain, ACL -> LB -> L3FWD, cut into segments in one way or another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headrace.host.server import detect
from headrace.profile import studied
from headrace.profile.point import Bench
from headrace.profile.studied import Run, workload
from headrace.report.comparison import SAME

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


@dataclass(frozen=True)
class Budget:
    """Lcores of the traffic and of the chain, which every execution model gets alike. On up to
    three the traffic's run the chain, too; on more they are the traffic's alone."""

    traffic: tuple[int, ...]
    chain: tuple[int, ...]

    @property
    def unlike(self) -> str:
        """Why rates, or their ratios, may not be held against the paper's."""
        paper = PUBLISHED["testbed"]["lcores"]
        if len(self.chain) == paper and not set(self.chain) & set(self.traffic):
            return SAME
        shared = " shared with the traffic" if set(self.chain) & set(self.traffic) else ""
        return f"{len(self.chain)} lcores{shared}, the paper's {paper}"


def budget(cpus: list[int], most: int = PUBLISHED["testbed"]["lcores"]) -> Budget:
    """Of the first CPU's node, and as many as pipelines of a lcore for each function take: 18 are
    six pipelines of three."""
    server = detect()
    near = [cpu for cpu in cpus if server.node_of(cpu) == server.node_of(cpus[0])]
    inner = tuple(near if len(near) <= len(NAMES) else near[1:-1])[:most]
    whole = len(inner) // len(NAMES) * len(NAMES)
    return Budget(tuple(dict.fromkeys((near[0], near[-1]))), inner[: whole or len(inner)])


def rtc(of: Budget) -> Cut:
    return Cut((NAMES,), (of.chain,))


def pipeline(of: Budget) -> Cut:
    """A lcore for each function, and as many replicas of each as that gives; where there are fewer
    lcores than functions these share them."""
    each = len(of.chain) // len(NAMES)
    if not each:
        return _cut([(of.chain[i % len(of.chain)],) for i in range(len(NAMES))])
    return _cut([of.chain[i * each : (i + 1) * each] for i in range(len(NAMES))])


def _cut(places: Sequence[tuple[int, ...]]) -> Cut:
    return Cut(tuple((name,) for name in NAMES), tuple(places))


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


@dataclass(frozen=True)
class Point:
    """What is run as fast as possible."""

    cut: Cut
    frame: int
    flows: int
    exact: bool = False


def fastest(bench: Bench, points: list[Point], traffic: tuple[int, ...]) -> list[Run]:
    """Round after round."""
    specs = [spec(p.cut, traffic, p.frame, p.flows, p.exact) for p in points]
    return studied.in_rounds(bench, specs, ORIGIN)
