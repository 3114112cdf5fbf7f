# SPDX-License-Identifier: Apache-2.0
"""What offloaded forwarding is compared with, each as a study of its own.

Every mode gets the same packets, whose destination MACs name the VNFs in turn, each with routes
of its own: bare-metal looks all up in one table of them all, offload each in its VNF's. Routes come
over FPM in both offload modes; in offload-updates they go on changing, from one next hop to the
other, while packets run. In the conventional modes each VNF is a process that forwards its
own; in ovs-dpdk it does so behind Open vSwitch with DPDK instead of the host engine's switch. In
ovs-flows there are no VNFs to forward: the switch does, by a flow for each of all routes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from headrace.engine.plan_document import Plan, PlanFunction
from headrace.ground.offload.fpm import destinations, prefixes
from headrace.spec.deployment import OVS_DPDK
from headrace.spec.offload import Mode

Json = dict[str, Any]
ROUTER = "router"
LEARNING = ("offload", "offload-updates")
UPDATED = "offload-updates"
FLOWS = "ovs-flows"
BY_SWITCH = (OVS_DPDK, FLOWS)
GATEWAYS = ("10.255.0.1", "10.255.0.2")
FPM_PORT = 26200
_OWN = "l3fwd"
_CONVENTIONAL = "conventional-"
_MEMORY_MB = 64  # of each VNF that forwards its own
_ADDRESSES = "addresses"
_QUEUE_MOST = 4096  # packets, of a port of Open vSwitch's


@dataclass(frozen=True)
class Many:
    """VNFs that are alike, and the packets that they get."""

    vnfs: int
    routes: int  # of each
    updates: float  # route changes per second, in all
    wire: int
    flows: int
    frame: int

    def addresses(self) -> list[str]:
        return destinations(self.vnfs, self.routes, self.flows // self.vnfs * self.vnfs)


def conventional(mode: Mode) -> bool:
    return mode == OVS_DPDK or mode.startswith(_CONVENTIONAL)


def mac(vnf: int) -> str:
    return f"02:48:52:01:{vnf >> 8:02x}:{vnf & 255:02x}"


def addresses_in(folder: Path) -> Path:
    """The file of the packets' addresses."""
    return folder / _ADDRESSES


def study_of(name: str, mode: Mode, many: Many, cpus: Sequence[int], folder: Path) -> Json:
    """`cpus`: of traffic, then those that forward. `folder`: where addresses and sockets are."""
    headers = {} if conventional(mode) else {"dst_mac": [mac(i) for i in range(many.vnfs)]}
    return {
        "name": name,
        "chain": [_function(mode, many)],
        "deployment": {
            **_hosting(mode, many),
            "lcores": {"traffic": [cpus[0]], "chain": list(cpus[1:])},
        },
        "workload": {
            "frame": [many.frame],
            "flows": many.flows // many.vnfs * many.vnfs,
            "headers": headers,
            "dst_ips_file": str(addresses_in(folder)),
        },
        **({"testbed": _between_sockets(many, folder)} if mode == FLOWS else {}),
    }


def _between_sockets(many: Many, folder: Path) -> Json:
    """The tester and the switch share memory, as a host shares it with its machines."""
    queue = min(many.wire, _QUEUE_MOST)
    ends = {"left": "vhost:l", "in": "virtio_user:l", "right": "vhost:r", "out": "virtio_user:r"}
    return {
        "ports": {
            name: {
                "device": f"{kind}:{folder}/{socket}.sock",
                "rx_descriptors": queue, "tx_descriptors": queue,
            }
            for name, end in ends.items()
            for kind, socket in [end.split(":")]
        },
        "tester": ["left", "right"],
        "chain": ["in", "out"],
    }  # fmt: skip


def _function(mode: Mode, many: Many) -> Json:
    if conventional(mode):
        # Whole addresses: a DIR-24-8 would be 64 MB for each of 63 VNFs. Each has its own routes.
        return {_OWN: {"fib": "exact", "routes": [], "next_hops": _next_hops()}}
    if mode in LEARNING:
        # Nobody speaks to the VNFs here: what would be punted is lost, and shows as such.
        return {"nf": ROUTER, "params": {"vnfs": _vnfs(many)}, "to": {"punt": "drop"}}
    return {_OWN: {"next_hops": _next_hops(), "routes": _all_routes(many.routes * many.vnfs)}}


@lru_cache(maxsize=1)
def _all_routes(count: int) -> list[Json]:
    """The routes of all VNFs in one table: the same at each point of a study."""
    return [{"prefix": str(net), "next_hop": i % 2} for i, net in enumerate(prefixes(count))]


def _next_hops() -> list[Json]:
    return [{"edge": 0, "dst_mac": f"02:00:00:00:03:0{i}"} for i in range(2)]


def _vnfs(many: Many) -> list[Json]:
    neighbours = [
        {"address": gateway, "mac": f"02:00:00:00:03:0{i}"} for i, gateway in enumerate(GATEWAYS)
    ]
    return [
        {
            "name": f"v{i}",
            "learn": "fpm",
            "fpm_port": FPM_PORT + i,
            "interfaces": [
                {"name": "in", "port": 0, "mac": mac(i)},
                # On the other side of the same wire: two interfaces, one edge out.
                {"name": "out", "port": 0, "mac": mac(many.vnfs + i),
                 "addresses": ["10.255.0.254/24"], "neighbours": neighbours},
            ],
        }
        for i in range(many.vnfs)
    ]  # fmt: skip


def _hosting(mode: Mode, many: Many) -> Json:
    """With several lcores a switch has a poller on each, and a function a replica."""
    if mode == FLOWS:
        return {"engine": [OVS_DPDK]}
    own = {"execution": {"name": mode, "model": "rtc"}, "wire": many.wire}
    if not conventional(mode):
        return own
    # Open vSwitch's ports cannot wake anybody; of what is left this serves many best.
    wait = "adaptive" if mode == OVS_DPDK else mode.removeprefix(_CONVENTIONAL)
    return {
        **own,
        "hosting": {
            "kind": "process", "chains": many.vnfs, "wait": wait, "memory_mb": _MEMORY_MB,
            "times": False,
        },
        "network": OVS_DPDK if mode == OVS_DPDK else "veb",
    }  # fmt: skip


def own_routes(plan: Plan, many: Many, vnf: int) -> Plan:
    """The plan of a VNF that forwards its own."""
    routes = [
        {"prefix": f"{net[1]}/32", "next_hop": i % 2}
        for i, net in enumerate(prefixes(many.routes, vnf))
    ]
    function = plan.nfs[_OWN]
    own = PlanFunction(type=function.type, params={**function.params, "routes": routes})
    return plan.having(nfs={**plan.nfs, _OWN: own})


def on_port(plan: Plan) -> Plan:
    """The wire is the router's port 0; a chain's other functions have none."""
    segments = []
    for segment in plan.segments:
        inputs = tuple(
            one.model_copy(update={"port": 0}) if one.to == ROUTER else one
            for one in segment.inputs
        )
        segments.append(segment.model_copy(update={"inputs": inputs}))
    return plan.having(segments=tuple(segments))
