# SPDX-License-Identifier: Apache-2.0
"""headrace's own source and sink at both ends of a chain of containers: latency per packet.

One engine reads both ends, which are in one namespace, so that both stamps are of one clock. The
kernel of that namespace drops what comes to it besides: its source is an address of its own.
"""

from __future__ import annotations

import os
import time
from typing import Any

from headrace.measure.latency import latency
from headrace.record import LatencyNs
from headrace.spec.appliance import PacketsWorkload
from headrace.testbed.containers.deploy import Deployed
from headrace.testbed.containers.layout import TESTER, Interface, Layout
from headrace.testbed.containers.load.base import GRACE_S, Load, Packets
from headrace.testbed.engine import Engine
from headrace.testbed.exclusive import Lcores
from headrace.testbed.programs import find_engine

_PORT = 5201  # what a firewall of the catalogue lets pass
_DRAIN_S = 0.2
_POLL_S = 0.05
_WAIT_S = 600.0
_DEVICES = {
    # Blocks of 64 KiB, 512 frames: 2 MB a direction, and bursts of the kernel's are not lost.
    "af_packet": "net_af_packet{n},iface={name},blocksz=65536,framesz=2048,framecnt=512",
    "af_xdp": "net_af_xdp{n},iface={name}",
}


def packets(deployed: Deployed, workload: PacketsWorkload, seconds: float) -> Load:
    plan = make_plan(deployed.layout, workload, f"{deployed.tag}-tester")
    namespace = f"{deployed.tag}-{TESTER}"
    enter = ("ip", "netns", "exec", namespace)

    def waiting(cpu: int) -> None:
        deployed.say(f"  lcore {cpu}: waiting for another run")

    with (
        Lcores({_lcore(workload)}, waiting, _WAIT_S),
        Engine(find_engine(), plan, deployed.state, enter) as engine,
        engine.measuring(),
    ):
        run = {"rate_pps": workload.rate, "duration_s": seconds}
        engine.request("start", sources={"source": run})
        deadline = time.monotonic() + seconds + GRACE_S
        while _source(engine)["state"] != "done" and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        time.sleep(_DRAIN_S)
        return _load(engine.request("read")["links"], workload)


def _lcore(workload: PacketsWorkload) -> int:
    return max(os.sched_getaffinity(0)) if workload.lcore is None else workload.lcore


def _source(engine: Engine) -> dict[str, Any]:
    source: dict[str, Any] = engine.request("read")["links"]["source"]
    return source


def _load(links: dict[str, Any], workload: PacketsWorkload) -> Load:
    source, sink = links["source"], links["sink"]
    # What is not stamped (ARP, a server's advertisements) is no packet of the source's.
    received = sink["stamped"] - sink["duplicated"]
    sent = source["sent"]
    found: LatencyNs | None = latency(sink["latency"]) if sink["latency"].get("count") else None
    return Load(
        duration_s=source["duration_ns"] / 1e9,
        bytes=received * workload.frame,
        loss_ratio=min(1.0, max(0.0, 1 - received / sent)) if sent else 0.0,
        latency=found,
        packets=Packets(
            source["intended"], sent, received, sink["reordered"], sink["duplicated"],
            sink["latency"].get("hdr"),
        ),
    )  # fmt: skip


def make_plan(layout: Layout, workload: PacketsWorkload, prefix: str) -> dict[str, Any]:
    """Source -> the interface at the clients' end; the one at the servers' end -> sink."""
    tester = layout.of_kind(TESTER)[0]
    down, up = tester.interface("down"), tester.interface("up")
    source = {
        "frame_bytes": [workload.frame],
        "flows": workload.flows,
        "vary": ["src_port"],
        "src_ip": down.address,
        "dst_ip": up.address,
        "dst_port": _PORT,
        "src_mac": down.mac,
        "dst_macs": [hop.mac for hop in layout.first_hops or (up,)],
    }
    cpus = [_lcore(workload)]
    return {
        "version": 1,
        "engine": {"hugepages": False, "memory_mb": 256, "file_prefix": prefix,
                   "mbufs": 16383, "mbuf_data_bytes": 2176},
        "links": {
            "source": {"type": "source", "params": source},
            "near": _device(0, down, workload),
            "far": _device(1, up, workload),
            "sink": {"type": "sink", "params": {}},
        },
        "nfs": {},
        "segments": [
            {"name": "generator", "cpus": cpus,
             "inputs": [{"link": "source", "to": "link:near", "direction": "forward"}]},
            {"name": "measure", "cpus": cpus,
             "inputs": [{"link": "far", "to": "link:sink", "direction": "forward"}]},
        ],
    }  # fmt: skip


def _device(number: int, interface: Interface, workload: PacketsWorkload) -> dict[str, Any]:
    text = _DEVICES[workload.link].format(n=number, name=interface.device)
    return {"type": "port", "params": {"devargs": text}}
