#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What placements by chance and the worst of them cost on the servers of two papers, against the
plan's: the load of all lcores together, by the planner's own costs.

    .venv/bin/python studies/plan/penalties.py [DRAWS]
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from headrace.host.programs import shipped
from headrace.layout.placing import lcores_of, loads_of
from headrace.profile.placeable import Placeable, PlacementWish
from headrace.spec import document
from headrace.spec.placement import (
    ChainLoads,
    ChosenPlacement,
    ChosenSegment,
    ChosenWay,
    PlacementProblem,
)
from headrace.spec.server_file import with_costs
from headrace.spec.study import expand

Nodes = list[dict[str, Any]]
MINIMAL: Nodes = [
    {"name": "touch", "nf": "delay", "params": {"touch_bytes": 1}},
    {"name": "end", "nf": "null", "params": {"action": "drop"}},
]
SCREENED: Nodes = [{"acl": {}}, {"lb": {}}, {"l3fwd": {}}]
SERVERS = {
    "xeon-e5-2650v4": "Sieber et al. 2017",
    "xeon-platinum-8168": "Zheng et al. 2019",
}


def problem(server: str, chain: Nodes) -> PlacementProblem:
    """One chain at 1 Mpps."""
    study = {
        "name": "penalties", "chains": {"c": chain}, "demands": {"c": {"rate": 1e6}},
        "workload": {"flows": 1000},
    }  # fmt: skip
    described, home = with_costs(shipped("servers") / f"{server}.yaml")
    with tempfile.TemporaryDirectory() as folder:
        doc = document.parse(json.dumps(study), Path(folder) / "study.yaml")
        return Placeable(doc, list(expand(doc)), described, home, PlacementWish("rate")).problem()


def load(given: PlacementProblem, placement: ChosenPlacement) -> int:
    return sum(loads_of(given, placement).lcores.values())


def drawn(draw: random.Random, given: PlacementProblem) -> ChosenPlacement:
    """Any port, any cut, any cache, any lcore of it."""
    chain = given.chains[0]
    n, mode = len(chain.functions), given.modes[0]
    door = draw.randrange(len(chain.doors))
    ends = [i for i in range(1, n) if draw.random() < 0.5] + [n]
    segments = []
    for first, end in zip([0, *ends], ends, strict=False):
        area = draw.randrange(len(given.areas))
        lcore = draw.randrange(lcores_of(given, mode, area))
        segments.append(ChosenSegment(first=first, end=end, area=area, lcores=(lcore,)))
    return ChosenPlacement(mode=0, ways=(ChosenWay(door=door, segments=tuple(segments)),))


def whole(chain: ChainLoads, area: int) -> ChosenPlacement:
    segment = ChosenSegment(first=0, end=len(chain.functions), area=area, lcores=(0,))
    return ChosenPlacement(mode=0, ways=(ChosenWay(door=0, segments=(segment,)),))


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for server, paper in SERVERS.items():
        for name, chain in (("minimal", MINIMAL), ("acl, lb, l3fwd", SCREENED)):
            given = problem(server, chain)
            areas = range(len(given.areas))
            one = [load(given, whole(given.chains[0], a)) for a in areas]
            draw = random.Random(1)
            values = [load(given, drawn(draw, given)) for _ in range(count)]
            best = min(one)
            print(
                f"{server} ({paper}), {name}: by the port {best / 100:.1f} % of an lcore, on "
                f"the other node {max(one) / best - 1:+.1%}; of {count} by chance, cut by chance: "
                f"median {median(values) / best - 1:+.1%}, most {max(values) / best - 1:+.1%}"
            )


if __name__ == "__main__":
    main()
