# SPDX-License-Identifier: Apache-2.0
"""How far from the bound placements of many chains are, and how long that takes: drawn chains of
eight functions on servers of two sockets with 32 cores and a NIC each.

    .venv/bin/python studies/plan/scale.py CHAINS SERVERS SECONDS AIM SEED [cpu]

With `cpu` the seconds are of this process's CPU time, as where other work has most of the machine.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import get_args

from headrace.host.programs import shipped
from headrace.layout import check_placement
from headrace.layout.provable import Placing
from headrace.profile.placeable import Placeable, PlacementWish
from headrace.spec import document
from headrace.spec.placement import PlacementAim, PlacementProblem
from headrace.spec.server_file import with_costs
from headrace.spec.study import expand

SERVER = """
name: drawn
sources: {x: {kind: assumed, text: two sockets of 32 cores with a NIC each}}
clock_mhz: [2800, x]
sockets: 2
cores_per_socket: 32
levels:
  - {name: L1, kib: [48, x], cycles: [5, x], gather_cycles: [1, x]}
  - {name: L2, kib: [2048, x], cycles: [15, x], gather_cycles: [2, x]}
  - {name: L3, kib: [61440, x], shared_by: 32, cycles: [70, x], gather_cycles: [7, x]}
  - {name: memory, cycles: [300, x], gather_cycles: [30, x]}
transfer_cycles: [80, x]
remote_cycles: [170, x]
memory_gbs: [200, x]
interconnect_gbs: [60, x]
ports: [{gbps: [200, x]}, {gbps: [200, x], socket: 1}]
price_usd: [9000, x]
power: {idle_watts: [180, x], busy_watts: [620, x]}
"""
_PER_CHAIN_PPS = (2e6, 10e6)  # of eight chains to a server: some 60 % of its lcores


def problem(chains: int, servers: int, aim: PlacementAim, seed: int) -> PlacementProblem:
    draw = random.Random(seed)
    each = 8 * servers / chains
    data = {
        f"c{c}": [
            {"name": f"f{i}", "nf": draw.choice(("acl", "lb", "l3fwd", "l2fwd"))} for i in range(8)
        ]
        for c in range(chains)
    }
    demands = {
        name: {
            "rate": draw.uniform(*_PER_CHAIN_PPS) * each,
            "latency": draw.choice((5e-5, 2e-4)),
        }
        for name in data
    }
    study = {"name": "drawn", "chains": data, "demands": demands, "workload": {"flows": 100_000}}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "drawn.yaml"
        file.write_text(f"{SERVER}costs: {shipped('servers') / 'reference.yaml'}\n")
        server, home = with_costs(file)
        doc = document.parse(json.dumps(study), Path(folder) / "study.yaml")
        wish = PlacementWish(aim, 0.8, servers)
        return Placeable(doc, list(expand(doc)), server, home, wish).problem()


def main() -> None:
    chains, servers, seed = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[5])
    [aim] = [one for one in get_args(PlacementAim) if one == sys.argv[4]]
    drawn = problem(chains, servers, aim, seed)
    wall, cpu = time.monotonic, time.process_time
    if sys.argv[6:] == ["cpu"]:
        time.monotonic = cpu
    began, used = wall(), cpu()
    answer = Placing(drawn, float(sys.argv[3]), began=time.monotonic()).answer()
    took, used = wall() - began, cpu() - used
    check_placement.check(json.loads(answer.model_dump_json()))
    checked = wall() - began - took
    bound = answer.certificate.bound
    gap = "not known" if answer.gap is None else f"{answer.gap:.2%}"
    print(f"{aim}: {answer.value}, bound {bound}, gap {gap}")
    print(f"{took:.1f} s, {used:.1f} s of CPU; checked in {checked:.1f} s")


if __name__ == "__main__":
    main()
