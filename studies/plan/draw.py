#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw chains and their state at random, as specs for `headrace plan --verify`.

    studies/plan/draw.py FOLDER [--seed N] [--chains N]

`verify.py` beside it draws them and plans and runs each.

Chains of two to four different functions, in any order; the number of flows from 100 to 1,000,000
and of rules from 10 to 3,000, both log-uniform; frames of 64 to 1518 B. Nobody picks them: the seed
does.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any

import yaml

from headrace.measure.profile.recipes import recipe
from headrace.spec.profile import Settings

FUNCTIONS = ("acl", "firewall", "l2fwd", "l3fwd", "lb", "monitor", "nat")
FRAMES = (64, 128, 256, 512, 1024, 1518)
# Packets' buffers, and the tables of so many flows in each function.
MEMORY_MB, BYTES_PER_FLOW = 512, 640


def log_uniform(draw: random.Random, low: int, high: int) -> int:
    """Two digits are enough."""
    value = low * (high / low) ** draw.random()
    step = 10 ** max(0, len(str(int(value))) - 2)
    return int(value // step * step)


def function(name: str, settings: Settings, folder: Path) -> dict[str, Any]:
    if name == "l3fwd":
        # What arrives depends on the functions before it: a default route takes all.
        routes = folder / f"routes-{settings.state}"
        made = recipe(name, settings, folder).params["routes_file"]
        text = Path(made).read_text(encoding="ascii")
        routes.with_suffix(".lpm").write_text("0.0.0.0/0\n" + text, encoding="ascii")
        return {"fib": "lpm", "routes_file": str(routes.with_suffix(".lpm").resolve())}
    params = recipe(name, settings, folder).params
    if name in ("acl", "firewall"):
        # NAT in front of it writes sources that no rule knows.
        params = {**params, "default": "permit"}
    return params


def spec(draw: random.Random, number: int, folder: Path) -> dict[str, Any]:
    names = draw.sample(FUNCTIONS, draw.choice((2, 3, 3, 4)))
    settings = Settings(
        state=log_uniform(draw, 100, 1_000_000),
        rules=log_uniform(draw, 10, 3_000),
        frame_bytes=draw.choice(FRAMES),
        burst=32,
        skew=0.0,
    )
    return {
        "name": f"drawn-{number:02}",
        "description": " -> ".join(names),
        "chain": [{name: function(name, settings, folder)} for name in names],
        "deployment": {
            "memory_mb": MEMORY_MB + len(names) * settings.state * BYTES_PER_FLOW // 2**20
        },
        "workload": {
            "frame": settings.frame_bytes,
            "flows": {"count": settings.state, "vary": ["src_ip", "src_port"], "order": "random"},
        },
    }


def draw_chains(folder: Path, seed: int, count: int) -> list[Path]:
    """The specs that were written; the same ones for the same seed."""
    data = (folder / "data").resolve()
    data.mkdir(parents=True, exist_ok=True)
    draw = random.Random(seed)
    files = []
    for number in range(1, count + 1):
        made = spec(draw, number, data)
        file = folder / f"{made['name']}.yaml"
        file.write_text(yaml.safe_dump(made, sort_keys=False), encoding="utf-8")
        print(f"{file}: {made['description']}, {made['workload']['flows']['count']} flows")
        files.append(file)
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=2019)
    parser.add_argument("--chains", type=int, default=12)
    given = parser.parse_args()
    draw_chains(given.folder, given.seed, given.chains)


if __name__ == "__main__":
    main()
