#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw chains and their state at random, as specs for `headrace plan --verify`.

    studies/plan/draw.py FOLDER [--seed N] [--chains N]

`verify.py` beside it draws them and plans and runs each.

Chains of three to six different functions, in any order; the number of flows from 1,000 to
1,000,000 and of rules from 10 to 3,000, both log-uniform; frames of 64 to 1518 B. Every third chain
has a branch: its router sends a quarter, a half or three quarters of the packets past the functions
that follow, to a later one or out of the chain. Each has a layout drawn for it as well, with one or
two replicas of each segment, so that predictions are not tried on layouts that somebody picked.
Nobody picks anything: the seed does.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headrace.profile.recipes import recipe
from headrace.spec.profile import Settings

FUNCTIONS = ("acl", "firewall", "l2fwd", "l3fwd", "lb", "monitor", "nat")
FRAMES = (64, 128, 256, 512, 1024, 1518)
# Of a branch's packets: each of the servers gets one of so many parts.
PARTS, BACKENDS = 4, 8
SERVERS = tuple(f"198.19.0.{i + 1}" for i in range(PARTS))
# Packets' buffers, and the tables of so many flows in each function.
MEMORY_MB, BYTES_PER_FLOW = 512, 640


def log_uniform(draw: random.Random, low: int, high: int) -> int:
    """Two digits are enough."""
    value = low * (high / low) ** draw.random()
    step = 10 ** max(0, len(str(int(value))) - 2)
    return int(value // step * step)


@dataclass(frozen=True)
class Branch:
    """The router's second edge: where it leads, and how many of `PARTS` packets take it."""

    to: str
    parts: int


def function(
    name: str, settings: Settings, folder: Path, branch: Branch | None, behind_lb: bool
) -> dict[str, Any]:
    if name == "l3fwd":
        routed = router(settings, folder)
        return {name: routed} if branch is None else branching(routed, branch, behind_lb)
    params = recipe(name, settings, folder).params
    if name in ("acl", "firewall"):
        # NAT in front of it writes sources that no rule knows.
        params = {**params, "default": "permit"}
    if name == "lb" and branch is not None:
        [vip] = params["vips"]
        params = {**params, "vips": [{**vip, **balanced(i)} for i in range(PARTS)]}
    return {name: params}


def router(settings: Settings, folder: Path) -> dict[str, Any]:
    """What arrives depends on the functions before it: a default route takes all."""
    routes = folder / f"routes-{settings.state}.lpm"
    if not routes.exists():
        nets = (
            f"20.{i >> 8 & 255}.{i & 255}.0/24 0\n" for i in range(min(settings.state, 1 << 16))
        )
        routes.write_text("0.0.0.0/0 0\n" + "".join(nets), encoding="ascii")
    return {"fib": "lpm", "routes_file": str(routes.resolve())}


def balanced(i: int) -> dict[str, Any]:
    """One of the load balancer's addresses, with backends of its own."""
    backends = [{"address": f"198.19.{16 * i + 16 + j}.1"} for j in range(BACKENDS)]
    return {"address": SERVERS[i], "backends": backends}


def branching(params: dict[str, Any], branch: Branch, behind_lb: bool) -> dict[str, Any]:
    """Packets to some of the servers, or where a load balancer is before, to their backends."""
    there = [
        f"198.19.{16 * i + 16}.0/20" if behind_lb else f"{SERVERS[i]}/32" for i in range(PARTS)
    ]
    more = {
        "routes": [{"prefix": prefix, "next_hop": 1} for prefix in there[: branch.parts]],
        "next_hops": [{"edge": 0}, {"edge": 1}],
    }
    return {"name": "l3fwd", "nf": "l3fwd", "params": {**params, **more}, "to": {"out1": branch.to}}


def drawn_branch(draw: random.Random, names: list[str]) -> Branch:
    """Past one function at least."""
    after = names[names.index("l3fwd") + 1 :]
    return Branch(draw.choice([*after[1:], "out"]), draw.randrange(1, PARTS))


def drawn_layout(draw: random.Random, names: list[str]) -> dict[str, Any]:
    """Any cut, and for each segment one of the two lcores or both."""
    segments = [[names[0]]]
    for name in names[1:]:
        if draw.random() < 0.5:
            segments.append([name])
        else:
            segments[-1].append(name)
    return {"segments": segments, "lcores": [draw.choice(([0], [1], [0, 1])) for _ in segments]}


def spec(draw: random.Random, number: int, folder: Path) -> dict[str, Any]:
    branched = number % 3 == 0
    names = draw.sample(FUNCTIONS, draw.randrange(3, 7))
    while branched and "l3fwd" not in names[:-1]:  # with a function to go past
        names = draw.sample(FUNCTIONS, len(names))
    settings = Settings(
        state=log_uniform(draw, 1_000, 1_000_000),
        rules=log_uniform(draw, 10, 3_000),
        frame_bytes=draw.choice(FRAMES),
        burst=32,
        skew=0.0,
    )
    branch = drawn_branch(draw, names) if branched else None
    behind_lb = "lb" in names and branched and names.index("lb") < names.index("l3fwd")
    flows = {"count": settings.state, "vary": ["src_ip", "src_port"], "order": "random"}
    workload: dict[str, Any] = {"frame": settings.frame_bytes, "flows": flows}
    if branched:
        workload["dst_ips_file"] = str(servers(folder))
    described = " -> ".join(names)
    if branch is not None:
        described += f"; {branch.parts} of {PARTS} packets go from l3fwd to {branch.to}"
    return {
        "name": f"drawn-{number:02}",
        "description": described,
        "chain": [function(name, settings, folder, branch, behind_lb) for name in names],
        "deployment": {
            "execution": drawn_layout(draw, names),
            "lcores": {"traffic": [0, 1], "shared": True},
            "memory_mb": MEMORY_MB + len(names) * settings.state * BYTES_PER_FLOW // 2**20,
        },
        "workload": workload,
    }


def servers(folder: Path) -> Path:
    file = folder / "servers"
    file.write_text("".join(f"{address}\n" for address in SERVERS), encoding="ascii")
    return file.resolve()


def draw_chains(folder: Path, seed: int, count: int) -> list[Path]:
    """The specs that were written; the same ones for the same seed."""
    data = (folder / "data").resolve()
    data.mkdir(parents=True, exist_ok=True)
    draw = random.Random(seed)
    files = []
    for number in range(1, count + 1):
        drawn = spec(draw, number, data)
        file = folder / f"{drawn['name']}.yaml"
        file.write_text(yaml.safe_dump(drawn, sort_keys=False), encoding="utf-8")
        print(f"{file}: {drawn['description']}, {drawn['workload']['flows']['count']} flows")
        files.append(file)
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=2019)
    parser.add_argument("--chains", type=int, default=24)
    given = parser.parse_args()
    draw_chains(given.folder, given.seed, given.chains)


if __name__ == "__main__":
    main()
