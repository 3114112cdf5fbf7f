# SPDX-License-Identifier: Apache-2.0
"""What forwarding offload is compared with: VNFs that forward their own packets, each in a process
behind the host's switch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.spec import document
from headrace.spec.offload import Comparison
from headrace.spec.study import expand
from headrace.testbed.describe import describe
from headrace.testbed.hosting.hosted import HostedEngine
from headrace.testbed.hosting.layout import Hosted, lay_out_hosted
from headrace.testbed.offload.fpm import prefixes
from headrace.testbed.programs import find_engine
from headrace.testbed.state import RunState

Json = dict[str, Any]
_ROUTER = "l3fwd"
_MEMORY_MB = 64  # of each VNF


class Conventional(HostedEngine):
    """A router in each VNF, which has routes of its own."""

    source, sink = "gen-forward", "sink-forward"

    def __init__(
        self, c: Comparison, wait: str, cpus: tuple[int, int], engine: Json, addresses: Path,
        state: RunState,
    ) -> None:  # fmt: skip
        binary = find_engine()
        doc = document.parse(json.dumps(_study(c, wait, cpus, addresses)), addresses)
        [experiment] = expand(doc)
        hosted = lay_out_hosted(experiment, describe(binary), doc, list(cpus), engine)
        vnfs = [
            replace(vnf, plan=_with_routes(vnf.plan, c, number))
            for number, vnf in enumerate(hosted.vnfs)
        ]
        plan = {**hosted.plan, "engine": {**hosted.plan["engine"], "mbufs": engine["mbufs"]}}
        made = Hosted(hosted.placement, plan, tuple(vnfs), hosted.hosting, hosted.topology)
        super().__init__(binary, plan, made, state)


def _study(c: Comparison, wait: str, cpus: tuple[int, int], addresses: Path) -> Json:
    return {
        "name": "conventional",
        # Whole addresses: a DIR-24-8 would be 64 MB for each of 63 VNFs.
        "chain": [{_ROUTER: {"fib": "exact", "routes": [], "next_hops": _next_hops()}}],
        "deployment": {
            "hosting": {"kind": "process", "chains": c.vnfs, "wait": wait,
                        "memory_mb": _MEMORY_MB, "times": False},
            "lcores": {"traffic": [cpus[0]], "chain": [cpus[1]]},
            "wire": c.wire,
        },
        "workload": {"frame": [c.frame], "flows": max(1, c.flows // c.vnfs) * c.vnfs,
                     "dst_ips_file": str(addresses)},
    }  # fmt: skip


def _next_hops() -> list[Json]:
    return [{"edge": 0, "dst_mac": f"02:00:00:00:03:0{i}"} for i in range(2)]


def _with_routes(plan: Json, c: Comparison, vnf: int) -> Json:
    routes = [
        {"prefix": f"{net[1]}/32", "next_hop": i % 2}
        for i, net in enumerate(prefixes(c.routes, vnf))
    ]
    router = plan["nfs"][_ROUTER]
    params = {**router["params"], "routes": routes}
    return {**plan, "nfs": {**plan["nfs"], _ROUTER: {**router, "params": params}}}
