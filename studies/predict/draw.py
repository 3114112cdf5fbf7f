#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw deployments at random, as one study with a group for each.

    studies/predict/draw.py [--seed N] [--deployments N] > drawn.yaml
    studies/predict/draw.py --costs inline > inline.yaml
    studies/predict/draw.py --costs hosted > hosted.yaml

`verify.py` beside it predicts and runs them. With `--costs` nothing is drawn: these are the few
deployments from which `headrace server describe --runs` takes what this machine costs.

Every other one is in the engine of the traffic: one to three functions in any order, cut anywhere,
each segment on either of two lcores or on both, with the traffic on one lcore or on two. The others
are in processes: 1 to 63 chains of one function, or of two in a process or in one each, that poll
or sleep, by `veb` or `vepa`, a third of them behind a limit of the NIC's switch. Frames are of 64
to 1024 B and flows of 512 to 8,192. Nobody picks anything: the seed does.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

DATA = Path(__file__).resolve().parents[1] / "data"
FUNCTIONS: dict[str, Json] = {
    "acl": {"rules_file": str(DATA / "quickstart.rules"), "default": "permit"},
    "l2fwd": {},
    "l3fwd": {"fib": "exact", "ranges": [{"first": "198.19.0.1", "count": 2048}],
              "next_hops": [{"dst_mac": "02:00:00:00:03:01"}]},
    "lb": {"vips": [{"address": "198.19.0.1", "port": 80, "protocol": "udp",
                     "backends": [{"address": f"198.19.{i}.1"} for i in range(1, 9)]}]},
    "nat": {"pool": ["203.0.113.1"], "sessions": 65536},
}  # fmt: skip
FRAMES, CHAINS = (64, 128, 256, 512, 1024), (1, 2, 3, 4, 6, 8, 13, 16, 24, 32, 63)
LIMITS = (1, 2, 4, 8)  # Gbit/s
# Each function behind one that reads headers, and one behind a function that does not.
PAIRS = ("acl|l2fwd", "l2fwd|l3fwd", "l3fwd|lb", "lb|nat", "lb|acl", "acl|l3fwd")
HEADERS = {"src_ip": "198.18.0.1", "dst_ip": "198.19.0.1", "dst_port": 80}
# Rings that wait: the slowest lcore sets the rate of all, and nothing is lost.
WAITING = {"ring": {"size": 1024, "on_full": "wait"}, "wire": 1024, "wire_on_full": "wait"}


def functions(draw: random.Random, most: int) -> list[Json]:
    """NAT is the last: its addresses are no balancer's or router's."""
    names = draw.sample(sorted(FUNCTIONS), draw.randint(1, most))
    names.sort(key=lambda name: name == "nat")
    return [{"name": name, "nf": name, "params": FUNCTIONS[name]} for name in names]


def inline(draw: random.Random) -> Json:
    chain = functions(draw, 3)
    segments = [[chain[0]["name"]]]
    for node in chain[1:]:
        if draw.random() < 0.5:
            segments.append([node["name"]])
        else:
            segments[-1].append(node["name"])
    lcores = [draw.choice(([0], [1], [0, 1])) for _ in segments]
    name = " | ".join(f"{'+'.join(s)} @{on}" for s, on in zip(segments, lcores, strict=True))
    execution = {"name": name[:60], "segments": segments, "lcores": lcores}
    traffic = {"traffic": draw.choice(([0], [0, 1])), "shared": True}
    return {"chain": chain, "deployment": {"execution": execution, "lcores": traffic, **WAITING}}


def hosted(draw: random.Random) -> Json:
    chain = functions(draw, 2)
    hosting: Json = {"kind": "process", "wait": draw.choice(("poll", "adaptive"))}
    hosting["chains"] = draw.choice([n for n in CHAINS if n * len(chain) <= max(CHAINS)])
    if draw.random() < 1 / 3:
        hosting["switch_gbps"] = draw.choice(LIMITS)
    execution = draw.choice(("rtc", "pipeline")) if len(chain) > 1 else "rtc"
    network = draw.choice(("veb", "veb", "vepa"))
    return {"chain": chain, "deployment": {"execution": execution, "network": network,
                                           "hosting": hosting}}  # fmt: skip


def study(seed: int, deployments: int) -> Json:
    draw = random.Random(seed)
    groups: Json = {}
    for number in range(deployments):
        spec = inline(draw) if number % 2 == 0 else hosted(draw)
        flows = round(512 * 16 ** draw.random())
        spec["workload"] = {"frame": draw.choice(FRAMES), "headers": HEADERS,
                            "flows": {"count": flows, "vary": ["src_ip", "src_port"]}}  # fmt: skip
        groups[f"drawn-{number + 1:02}"] = {"about": f"Drawn by seed {seed}.", "spec": spec}
    # Long enough for slices in which nobody disturbed an lcore: what the chain can carry is theirs.
    measure = {"max": True, "trial": "1.5 s", "pairs": 0}
    return {"name": f"drawn-{seed}", "measure": measure, "groups": groups}


def one_inline(nodes: str, lcores: list[list[int]], traffic: list[int], frame: int = 64) -> Json:
    """`nodes`: segments apart by `|`, functions of one by `+`."""
    segments = [part.split("+") for part in nodes.split("|")]
    chain = [{"name": n, "nf": n, "params": FUNCTIONS[n]} for part in segments for n in part]
    execution = {"name": nodes, "segments": segments, "lcores": lcores}
    deployment = {"execution": execution, "lcores": {"traffic": traffic, "shared": True}}
    return {"chain": chain, "deployment": {**deployment, **WAITING}, "workload": packets(frame)}


def one_hosted(nodes: str, chains: int, wait: str, frame: int = 64, network: str = "veb") -> Json:
    """`nodes`: VNFs apart by `|`."""
    names = nodes.split("|")
    chain = [{"name": n, "nf": n, "params": FUNCTIONS[n]} for n in names]
    hosting = {"kind": "process", "wait": wait, "chains": chains}
    execution = "pipeline" if len(names) > 1 else "rtc"
    deployment = {"execution": execution, "network": network, "hosting": hosting}
    return {"chain": chain, "deployment": deployment, "workload": packets(frame)}


def packets(frame: int, flows: int = 2048) -> Json:
    varied = {"count": flows, "vary": ["src_ip", "src_port"]}
    return {"frame": frame, "headers": HEADERS, "flows": varied}


def inline_costs() -> Iterator[Json]:
    """Each function beside the source, apart from it, on both lcores, and in front of and behind
    another one; frames of other lengths."""
    for name in FUNCTIONS:
        yield one_inline(name, [[0]], [0])
        yield one_inline(name, [[1]], [0])
        yield one_inline(name, [[1]], [0, 1])
        yield one_inline(name, [[0, 1]], [0])
    for pair in PAIRS:
        yield one_inline(pair, [[0], [1]], [0])
        yield one_inline(pair, [[1], [0]], [0, 1])
    yield one_inline("acl+lb+nat", [[1]], [0])
    for frame in (512, 1024):
        yield one_inline("l3fwd", [[0]], [0], frame)
        yield one_inline("l3fwd", [[1]], [0], frame)
        yield one_inline("acl", [[0]], [0, 1], frame)


def hosted_costs() -> Iterator[Json]:
    """1, 2, 8 and 32 processes, that poll and that sleep, with little work and with much; two of
    them by a bridge outside."""
    for chains in (1, 2, 8, 32):
        yield one_hosted("l2fwd", chains, "poll")
        yield one_hosted("l2fwd", chains, "adaptive")
    yield one_hosted("l2fwd", 1, "poll", 1024)
    yield one_hosted("l2fwd", 8, "adaptive", 512, "vepa")
    yield one_hosted("acl", 1, "poll", 64, "vepa")
    yield one_hosted("nat", 8, "adaptive")
    yield one_hosted("l2fwd|lb", 1, "adaptive")


COSTS = {"inline": (inline_costs, [2_000_000]), "hosted": (hosted_costs, [20_000, 500_000])}


def costs(part: str) -> Json:
    listed, loads = COSTS[part]
    groups = {
        f"{part}-{i:02}": {"about": "Costs of this machine.", "spec": spec}
        for i, spec in enumerate(listed(), 1)
    }
    measure = {"max": True, "trial": "0.3 s", "pairs": 0, "loads": loads}
    return {"name": f"costs-{part}", "warmup": "0.1 s", "measure": measure, "groups": groups}


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw deployments at random.")
    parser.add_argument("--costs", choices=COSTS, help="the deployments that costs are taken from")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--deployments", type=int, default=24)
    given = parser.parse_args()
    yaml.Dumper.ignore_aliases = lambda *_: True  # type: ignore[method-assign, assignment]
    drawn = costs(given.costs) if given.costs else study(given.seed, given.deployments)
    yaml.dump(drawn, sys.stdout, sort_keys=False, width=100)


if __name__ == "__main__":
    main()
