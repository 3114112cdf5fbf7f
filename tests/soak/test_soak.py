# SPDX-License-Identifier: Apache-2.0
"""`make test-soak`: eight VNFs behind one host for SOAK_SECONDS. 10,000 new flows a second go
through the VNFs and the host's functions, 1,000 routes a second change, and every ten seconds
a VNF is killed and started again. What the host holds must not grow: a line is laid through each
reading's second half, and what it rises in that time is bounded."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression
from typing import Any

import pytest

from support.engine import Engine, memory_engine, nf_imbalance

Start = Callable[..., Engine]
VNFS, FLOWS_PER_S, ROUTES_PER_S, KILL_S = 8, 10_000, 1000, 10.0
SECONDS = float(os.environ.get("SOAK_SECONDS", "0"))
# What may be added in the second half, whatever its length: a round of each kind of work in flight.
MAY_RISE = {"rss_kb": 1024.0, "descriptors": 1.0, "threads": 0.5, "mbufs": 96.0, "huge_kb": 0.0}
TIMEOUTS = {
    "udp_timeout_s": 5, "udp_replied_timeout_s": 5, "flows": 262_144, "half_open": 262_144,
}  # fmt: skip


def _host(cpu: int, folder: Path) -> dict[str, Any]:
    links: dict[str, Any] = {"meas": {"type": "sink", "params": {}}}
    segments: list[dict[str, Any]] = []
    for i in range(VNFS):
        flows = {"flows": 1 << 18, "vary": ["src_ip"], "src_ip": f"{10 + i}.0.0.1"}
        links[f"gen{i}"] = {"type": "source", "params": {"frame_bytes": [128], **flows}}
        links[f"vf{i}"] = {"type": "shm", "params": {"socket": str(folder / f"vf{i}")}}
        way = {"link": f"gen{i}", "to": f"link:vf{i}"}
        segments.append({"name": f"out{i}", "cpus": [cpu], "inputs": [way]})
    segments.append(
        {
            "name": "in",
            "cpus": [cpu],
            "inputs": [{"link": f"vf{i}", "to": "fw"} for i in range(VNFS)],
            "nodes": {
                "fw": {"forward": {"pass": "l3"}},
                "l3": {"forward": {"out0": "link:meas"}},
            },
        }
    )
    l3 = {"routes": [{"prefix": "0.0.0.0/0", "next_hop": 0}], "ipv4_capacity": 100_000}
    nfs = {
        "fw": {"type": "firewall", "params": {"default": "permit", **TIMEOUTS}},
        "l3": {"type": "l3fwd", "params": l3},
    }
    engine = memory_engine(memory_mb=768, mbufs=65536, wait={"mode": "adaptive"})
    return {"version": 1, "engine": engine, "links": links, "nfs": nfs, "segments": segments}


def _vnf(cpu: int, folder: Path, i: int) -> dict[str, Any]:
    link = {"socket": str(folder / f"vf{i}"), "role": "client", "wait_link_ms": 10000}
    return {
        "version": 1,
        "engine": memory_engine(memory_mb=96, mbufs=8192, wait={"mode": "interrupt"}),
        "links": {"vf": {"type": "shm", "params": link}},
        "nfs": {"echo": {"type": "l2fwd", "params": {}}},
        "segments": [
            {
                "name": "vnf",
                "cpus": [cpu],
                "inputs": [{"link": "vf", "to": "echo"}],
                "nodes": {"echo": {"forward": {"out": "link:vf"}}},
            }
        ],
    }


@dataclass
class Readings:
    """Of one process, by the kernel, and its buffers by itself."""

    at: list[float] = field(default_factory=list)
    of: dict[str, list[float]] = field(default_factory=lambda: {k: [] for k in MAY_RISE})

    def take(self, engine: Engine) -> None:
        process = Path(f"/proc/{engine.process.pid}")
        status = dict(
            line.split(":\t", 1)
            for line in (process / "status").read_text().splitlines()
            if ":\t" in line
        )
        now = {
            "rss_kb": float(status["VmRSS"].split()[0]),
            "huge_kb": float(status["HugetlbPages"].split()[0]),
            "threads": float(status["Threads"]),
            "descriptors": float(len(list((process / "fd").iterdir()))),
            "mbufs": float(engine.read()["mbufs_in_use"]),
        }
        self.at.append(time.monotonic())
        for name, value in now.items():
            self.of[name].append(value)

    def rises(self) -> dict[str, float]:
        """What the line through the second half of each rises in that time."""
        half = len(self.at) // 2
        at = self.at[half:]
        return {
            name: linear_regression(at, values[half:]).slope * (at[-1] - at[0])
            for name, values in self.of.items()
        }


def _change_routes(host: Engine, turn: int) -> None:
    """As many come as go: 100 of them, ten times a second."""
    there = [f"172.16.{turn % 200}.{n}/32" for n in range(50)]
    gone = [f"172.16.{(turn - 100) % 200}.{n}/32" for n in range(50)]
    routes = [{"op": "replace", "prefix": prefix, "next_hop": 0} for prefix in there]
    if turn >= 100:
        routes += [{"op": "del", "prefix": prefix} for prefix in gone]
    host.call("update", nf="l3", op={"routes": routes})


@pytest.mark.skipif(not SECONDS, reason="make test-soak: SOAK_SECONDS says how long")
@pytest.mark.needs_root
def test_nothing_grows(start_engine: Start, cpus: list[int], tmp_path: Path) -> None:
    choose, readings = random.Random(1), Readings()
    kills, turn = 0, 0
    with start_engine(_host(cpus[0], tmp_path)) as host:
        vnfs = [start_engine(_vnf(cpus[-1], tmp_path, i)) for i in range(VNFS)]
        for vnf in vnfs:
            vnf.__enter__()
        rate = {"rate_pps": FLOWS_PER_S / VNFS, "duration_s": SECONDS + 60}
        host.call("start", sources={f"gen{i}": rate for i in range(VNFS)})
        began = time.monotonic()
        while (passed := time.monotonic() - began) < SECONDS:
            _change_routes(host, turn)
            turn += 1
            if turn % 10 == 0:
                readings.take(host)
            if passed > (kills + 1) * KILL_S:
                i = choose.randrange(VNFS)
                os.kill(vnfs[i].process.pid, signal.SIGKILL)
                vnfs[i].process.wait()
                vnfs[i].socket.close()
                vnfs[i] = start_engine(_vnf(cpus[-1], tmp_path, i))
                vnfs[i].__enter__()
                kills += 1
            time.sleep(max(0.0, began + turn * 100 / ROUTES_PER_S - time.monotonic()))
        host.call("stop")
        for vnf in vnfs:
            vnf.__exit__(None, None, None)
        time.sleep(1)
        last = host.read()
    rises = readings.rises()
    new = last["segments"]["in"][0]["nfs"]["fw"]["counters"]["new-flows"]
    first = {name: values[0] for name, values in readings.of.items()}
    end = {name: values[-1] for name, values in readings.of.items()}
    print(f"\n{SECONDS:.0f} s, {kills} kills, {new / SECONDS:.0f} new flows/s, {turn * 100} routes")
    for name, rise in rises.items():
        print(f"  {name}: {first[name]:.0f} at first, {end[name]:.0f} at last, rise {rise:+.1f}")
    # A shared machine is slower at times; half of each kind of work is work enough to tell.
    assert new > FLOWS_PER_S * SECONDS / 2 and turn * 100 > ROUTES_PER_S * SECONDS / 2
    assert kills > SECONDS / KILL_S / 2
    assert not any(nf_imbalance(last).values())
    assert {name: rise for name, rise in rises.items() if rise > MAY_RISE[name]} == {}
