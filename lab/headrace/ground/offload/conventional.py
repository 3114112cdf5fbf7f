# SPDX-License-Identifier: Apache-2.0
"""What forwarding offload is compared with: VNFs that forward their own packets, each in a process
behind the host's switch or Open vSwitch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.engine.describe import describe
from headrace.ground.hosted.hosted import HostedEngine
from headrace.ground.hosted.layout import lay_out_hosted
from headrace.ground.offload.fpm import prefixes
from headrace.host.programs import find_engine
from headrace.host.state import RunState
from headrace.spec import document
from headrace.spec.offload import Comparison
from headrace.spec.study import expand

Json = dict[str, Any]
_ROUTER = "l3fwd"
_MEMORY_MB = 64  # of each VNF
OVS_DPDK = "ovs-dpdk"


class Conventional(HostedEngine):
    """A router in each VNF, which has routes of its own. `mode` is what follows the word
    conventional, how VNFs wait behind the host engine's switch, or ovs-dpdk."""

    source, sink = "gen-forward", "sink-forward"

    def __init__(
        self, c: Comparison, mode: str, cpus: tuple[int, int], engine: Json, addresses: Path,
        state: RunState,
    ) -> None:  # fmt: skip
        binary = find_engine()
        doc = document.parse(json.dumps(_study(c, mode, cpus, addresses)), addresses)
        [experiment] = expand(doc)
        if mode == OVS_DPDK:  # it maps the tester's memory, too
            engine = {**engine, "hugepages": False}
        hosted = lay_out_hosted(experiment, describe(binary), doc, list(cpus), engine)
        vnfs = [
            replace(vnf, plan=_with_routes(vnf.plan, c, number))
            for number, vnf in enumerate(hosted.vnfs)
        ]
        plan = {**hosted.plan, "engine": {**hosted.plan["engine"], "mbufs": engine["mbufs"]}}
        made = replace(hosted, plan=plan, vnfs=tuple(vnfs))
        super().__init__(binary, plan, made, state)


def _study(c: Comparison, mode: str, cpus: tuple[int, int], addresses: Path) -> Json:
    return {
        "name": "conventional",
        # Whole addresses: a DIR-24-8 would be 64 MB for each of 63 VNFs.
        "chain": [{_ROUTER: {"fib": "exact", "routes": [], "next_hops": _next_hops()}}],
        "deployment": {
            # Open vSwitch's ports cannot wake anybody; of what is left this serves many best.
            "hosting": {"kind": "process", "chains": c.vnfs,
                        "wait": "adaptive" if mode == OVS_DPDK else mode,
                        "memory_mb": _MEMORY_MB, "times": False},
            "network": OVS_DPDK if mode == OVS_DPDK else "veb",
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
