# SPDX-License-Identifier: Apache-2.0
"""The engine at full load: cycles per packet over all, and as its segments sample them."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from headrace.host.cpu_time import shield
from support.engine import Engine

WARM_S = 0.5
loads: list[Load] = []  # of this whole run: what the machine gave is told at its end


@dataclass(frozen=True)
class Load:
    """What a plan did for a while: differences of two readings."""

    before: dict[str, Any]
    after: dict[str, Any]

    @property
    def seconds(self) -> float:
        return float(self.after["tsc"] - self.before["tsc"]) / self.after["tsc_hz"]

    def _sum(self, segment: str, *keys: str) -> int:
        total = 0
        for before, after in zip(
            self.before["segments"][segment], self.after["segments"][segment], strict=True
        ):
            for key in keys:
                before, after = before[key], after[key]
            total += after - before
        return total

    def packets(self, segment: str) -> int:
        return self._sum(segment, "in")

    def wall_cycles(self, segment: str) -> float:
        """TSC cycles of the lcore per packet, when it did nothing else but this segment."""
        return float(self.after["tsc"] - self.before["tsc"]) / self._sum(segment, "in")

    def io_cycles(self, segment: str, part: str) -> float:
        """Sampled cycles per packet of receiving (`rx_cycles`) or sending (`tx_cycles`)."""
        return self._sum(segment, "io", part) / self._sum(segment, "io", "packets")

    def nf_cycles(self, segment: str, nf: str) -> float:
        return self._sum(segment, "nfs", nf, "cycles") / self._sum(
            segment, "nfs", nf, "cycles_packets"
        )

    def clock(self, cpu: str) -> float:
        """An lcore's own cycles in one of the TSC's, by a chain of additions."""
        return self._pace(cpu, "additions") / self._pace(cpu, "cycles")

    def mhz(self) -> float:
        """What the slowest lcore worked at."""
        return min(map(self.clock, self.after["workers"])) * float(self.after["tsc_hz"]) / 1e6

    def own_cycles(self, segment: str) -> float:
        """As wall_cycles, in the lcore's own cycles and without what it stood still."""
        [replica] = self.after["segments"][segment]
        cpu = str(replica["cpu"])
        stood = self._pace(cpu, "standstill_cycles") / (self.after["tsc"] - self.before["tsc"])
        return self.wall_cycles(segment) * (1 - stood) * self.clock(cpu)

    def width(self) -> float:
        """How many of four additions the worst lcore did at once: 2 beside a busy hyperthread."""
        return min(
            4 * self._pace(cpu, "cycles") / self._pace(cpu, "wide_cycles")
            for cpu in self.after["workers"]
        )

    def standstill(self) -> float:
        """The share of the time in which the worst lcore made pauses of over a millisecond."""
        hz = self.after["tsc_hz"]
        return max(
            self._pace(cpu, "standstill_cycles") / hz / self.seconds
            for cpu in self.after["workers"]
        )

    def _pace(self, cpu: str, key: str) -> int:
        before, after = (read["workers"][cpu]["pace"] for read in (self.before, self.after))
        return int(after[key]) - int(before[key])

    def rate_mpps(self, segment: str, key: str = "out") -> float:
        return self._sum(segment, key) / self.seconds / 1e6

    def burst(self, segment: str) -> float:
        """Packets of a poll that found some."""
        return self._sum(segment, "in") / (
            self._sum(segment, "polls") - self._sum(segment, "idle_polls")
        )

    def turned_away(self, writer: str, ring: str) -> float:
        """The share of what the writer had for a ring that found it full."""
        full = self._sum(writer, "outputs", ring, "full")
        return full / (full + self._sum(writer, "outputs", ring, "packets"))

    def counter(self, segment: str, nf: str, name: str) -> int:
        return self._sum(segment, "nfs", nf, "counters", name)


def load(
    binary: Path,
    plan: dict[str, Any],
    folder: Path,
    seconds: float,
    sources: dict[str, dict[str, Any]] | None = None,
) -> Load:
    """Run a plan at full load. Sources, if it has any, run as fast as they can (or as given)."""
    with Engine(binary, plan, folder) as engine:
        shield(engine.process.pid)
        if sources is None:
            sources = {
                name: {"rate_pps": 0, "duration_s": seconds + 2 * WARM_S}
                for name, link in plan["links"].items()
                if link["type"] == "source"
            }
        if sources:
            engine.call("start", sources=sources)
        time.sleep(WARM_S)
        before = engine.read()
        time.sleep(seconds)
        after = engine.read()
        engine.call("stop")
        time.sleep(0.05)
    loads.append(Load(before, after))
    return loads[-1]


def alone(bench: Path, plan: dict[str, Any], headers: str, folder: Path) -> dict[str, Any]:
    """The chain's segment with no source and no rings: what headrace-bench-chain says."""
    segment = next(s for s in plan["segments"] if s["name"] == "chain")
    file = folder / "alone.json"
    links = {name: {"type": "bench"} for name in ("wire", "back")}
    file.write_text(json.dumps(plan | {"links": links, "segments": [segment]}))
    done = subprocess.run([bench, file, headers], capture_output=True, text=True, check=True)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def transfer_cycles(calibrate: Path, cpus: tuple[int, int]) -> float:
    """What a line costs that the other of these CPUs has modified, the mean of both ways."""
    command = [str(calibrate), "--cpus", f"{cpus[0]},{cpus[1]}", "--only", "transfer"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    ways = json.loads(done.stdout)["transfer"]
    return mean(float(way["modified"]["median"]) for way in ways)


def tsc_hz(binary: Path, folder: Path) -> float:
    plan = generator_plan({"frame_bytes": [64]}, cpu=0)
    with Engine(binary, plan, folder) as engine:
        return float(engine.call("info")["tsc_hz"])


def host(memory_mb: int = 512, **changes: Any) -> dict[str, Any]:
    return {"hugepages": True, "memory_mb": memory_mb, "file_prefix": "hr-bench"} | changes


def generator_plan(source: dict[str, Any], cpu: int) -> dict[str, Any]:
    """Source straight into the sink, in one segment: the cost of both."""
    return {
        "version": 1,
        "engine": host(),
        "links": {
            "gen": {"type": "source", "params": source},
            "meas": {"type": "sink", "params": {}},
        },
        "segments": [
            {
                "name": "loop",
                "cpus": [cpu],
                "inputs": [{"link": "gen", "to": "link:meas"}],
            }
        ],
    }


def ports_plan(devices: list[str], nf: dict[str, Any] | None, cpu: int) -> dict[str, Any]:
    """Two ports, each forwarded to the other, through one NF or none: testpmd's topology."""
    links = {
        f"p{i}": {"type": "port", "params": {"devargs": device}} for i, device in enumerate(devices)
    }
    segment: dict[str, Any] = {"name": "dut", "cpus": [cpu], "burst": 32}
    plan: dict[str, Any] = {"version": 1, "engine": host(), "links": links, "segments": [segment]}
    if nf is None:
        segment["inputs"] = [
            {"link": "p0", "to": "link:p1"},
            {"link": "p1", "to": "link:p0", "direction": "reverse"},
        ]
        return plan
    plan["nfs"] = {"nf": nf}
    segment["nodes"] = {"nf": {"forward": {"out": "link:p1"}, "reverse": {"out": "link:p0"}}}
    segment["inputs"] = [
        {"link": "p0", "to": "nf"},
        {"link": "p1", "to": "nf", "direction": "reverse"},
    ]
    return plan


def chain_plan(
    source: dict[str, Any],
    chain: list[tuple[str, str, dict[str, Any]]],
    cpus: tuple[int, int],
    memory_mb: int,
) -> dict[str, Any]:
    """Run to completion on cpus[1]; generator and sink on cpus[0]. chain: (type, edge, params)."""
    nodes: dict[str, Any] = {}
    following = [*(name for name, _, _ in chain), "link:back"][1:]
    for (name, edge, _), to in zip(chain, following, strict=False):
        nodes[name] = {"forward": {edge: to}}
    return {
        "version": 1,
        "engine": host(memory_mb),
        "links": {
            "gen": {"type": "source", "params": source},
            "wire": {"type": "ring", "params": {"size": 4096}},
            "back": {"type": "ring", "params": {"size": 4096}},
            "meas": {"type": "sink", "params": {}},
        },
        "nfs": {name: {"type": name, "params": params} for name, _, params in chain},
        "segments": [
            {
                "name": "generator",
                "cpus": [cpus[0]],
                "inputs": [{"link": "gen", "to": "link:wire"}],
            },
            {
                "name": "chain",
                "cpus": [cpus[1]],
                "inputs": [{"link": "wire", "to": chain[0][0] if chain else "link:back"}],
                "nodes": nodes,
            },
            {"name": "measure", "cpus": [cpus[0]], "inputs": [{"link": "back", "to": "link:meas"}]},
        ],
    }


def save(path: Path, data: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1) + "\n")
