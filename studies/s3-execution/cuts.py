# SPDX-License-Identifier: Apache-2.0
"""S3's chain, ACL -> LB -> L3FWD, cut into segments in one way or another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headrace.measure.profile import studied
from headrace.measure.profile.point import Bench
from headrace.measure.profile.studied import Run, workload

HERE = Path(__file__).resolve().parent
ORIGIN = HERE.parent / "s3-execution.yaml"  # what paths of the specs are relative to
PUBLISHED = yaml.safe_load((HERE / "published.yaml").read_text(encoding="utf-8"))
FLOWS = 90
NAMES = ("acl", "lb", "l3fwd")
MEMORY_MB = 1536

Groups = tuple[tuple[str, ...], ...]
Places = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Cut:
    groups: Groups
    lcores: Places

    def __str__(self) -> str:
        on = (",".join(map(str, lcores)) for lcores in self.lcores)
        return " | ".join(f"{'+'.join(g)} @{at}" for g, at in zip(self.groups, on, strict=True))


def rtc(cpus: list[int]) -> Cut:
    return Cut((NAMES,), (tuple(cpus),))


def pipeline(cpus: list[int]) -> Cut:
    """A function per lcore; where there are fewer lcores they are shared."""
    return Cut(tuple((n,) for n in NAMES), tuple((cpus[i % len(cpus)],) for i in range(len(NAMES))))


def chain(flows: int) -> list[dict[str, Any]]:
    backends = [{"address": f"198.19.{i}.{j}"} for i in range(1, 5) for j in (1, 2)]
    vip = {"address": "198.19.0.1", "port": 80, "protocol": "udp", "backends": backends}
    hops = [{"dst_mac": f"02:00:00:00:03:0{i}"} for i in range(1, 5)]
    return [
        {"acl": {"rules_file": "data/quickstart.rules", "default": "deny"}},
        {"lb": {"vips": [vip], "flows": max(4096, flows + flows // 4)}},
        {"l3fwd": {"fib": "lpm", "routes_file": "data/quickstart.routes", "next_hops": hops}},
    ]


def spec(cut: Cut, cpus: list[int], frame: int, flows: int, locate: int = 0) -> dict[str, Any]:
    return {
        "name": "s3-execution",
        "chain": chain(flows),
        "deployment": {
            "execution": {
                "segments": [list(group) for group in cut.groups],
                "lcores": [list(on) for on in cut.lcores],
            },
            "lcores": {"traffic": list(dict.fromkeys((cpus[0], cpus[-1]))), "shared": True},
            "steer": "even",
            "memory_mb": MEMORY_MB,
            "locate": locate,
        },
        "workload": workload(frame, flows),
    }


def fastest(bench: Bench, points: list[tuple[Cut, int, int]], cpus: list[int]) -> list[Run]:
    """As fast as possible: cut, frame and flows of each point, round after round."""
    return studied.in_rounds(bench, [spec(c, cpus, f, n) for c, f, n in points], ORIGIN)
