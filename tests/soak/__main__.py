# SPDX-License-Identifier: Apache-2.0
"""A host with eight VNFs for an hour: each packet is a new flow, routes come and go, and a VNF is
killed and started again every ten seconds. Nothing that the host or a VNF has may grow.

    PYTHONPATH=tests python -m soak [--seconds 3600] [--log FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from soak.growth import MOST_AN_HOUR, sample, slope_an_hour
from support.engine import Engine, free_cpus, memory_engine

_BUILT = Path(__file__).resolve().parents[2] / "build" / "engine" / "headrace-engine"
BINARY = Path(os.environ.get("HEADRACE_ENGINE", _BUILT))
VNFS, FLOWS_PPS, ROUTES_PER_S = 8, 10_000, 1000
KILL_S, SAMPLE_S, ROUTES_S = 10.0, 2.0, 0.1
WARM_SHARE = 0.2  # of the time, at first: tables and pools are touched for the first time
PATIENCE = 60  # it is niced, and others may have the machine to themselves for minutes
FEWEST = 10  # samples; a slope of fewer says nothing


def host_plan(cpu: int, folder: Path) -> dict[str, Any]:
    """New flows to each of eight VNFs in turn, and what comes back to a sink."""
    vfs = [f"vf{i}" for i in range(VNFS)]
    destinations = folder / "destinations"
    destinations.write_text("".join(f"198.19.{i}.1\n" for i in range(VNFS)))
    source = {"frame_bytes": [128], "flows": 1 << 20, "vary": ["src_ip"]}
    source["dst_ips_file"] = str(destinations)
    routes = [{"prefix": f"198.19.{i}.0/24", "next_hop": i} for i in range(VNFS)]
    nodes = {"l3": {"forward": {f"out{i}": f"link:{vf}" for i, vf in enumerate(vfs)}}}
    return {
        "version": 1,
        "engine": memory_engine(wait={"mode": "adaptive"}, memory_mb=768, mbufs=32768),
        "links": {
            "gen": {"type": "source", "params": source},
            **{vf: {"type": "shm", "params": {"socket": str(folder / vf)}} for vf in vfs},
            "meas": {"type": "sink", "params": {}},
        },
        "nfs": {
            "l3": {
                "type": "l3fwd",
                "params": {"next_hops": [{"edge": i} for i in range(VNFS)], "routes": routes},
            }
        },
        "segments": [
            {"name": "out", "cpus": [cpu], "inputs": [{"link": "gen", "to": "l3"}], "nodes": nodes},
            {
                "name": "in",
                "cpus": [cpu],
                "inputs": [{"link": vf, "to": "link:meas"} for vf in vfs],
            },
        ],
    }


def vnf_plan(cpu: int, socket: Path) -> dict[str, Any]:
    firewall = {"default": "permit", "flows": 32768, "udp_timeout_s": 5}
    link = {"socket": str(socket), "role": "client", "wait_link_ms": 60000}
    return {
        "version": 1,
        "engine": memory_engine(wait={"mode": "adaptive"}, memory_mb=128, mbufs=4096),
        "links": {"vf": {"type": "shm", "params": link}},
        "nfs": {"fw": {"type": "firewall", "params": firewall}},
        "segments": [
            {
                "name": "vnf",
                "cpus": [cpu],
                "inputs": [{"link": "vf", "to": "fw"}],
                "nodes": {"fw": {"forward": {"pass": "link:vf"}}},
            }
        ],
    }


class Soak:
    def __init__(self, folder: Path, seconds: float, log: Any) -> None:
        self.folder, self.seconds, self.log = folder, seconds, log
        self.cpus = free_cpus()
        self.samples: dict[str, list[tuple[float, float]]] = {}
        self.kills = self.routes = 0
        self.away: set[int] = set()  # VNFs that were there again, and got no packet

    def run(self) -> None:
        with contextlib.ExitStack() as all_of_it:
            host = all_of_it.enter_context(
                Engine(BINARY, host_plan(self.cpus[0], self.folder), self.folder, patience=PATIENCE)
            )
            self.vnfs = [self._vnf(i) for i in range(VNFS)]
            all_of_it.callback(self._end)
            packets = int(self.seconds * FLOWS_PPS * 2)
            host.call("start", sources={"gen": {"rate_pps": FLOWS_PPS, "packets": packets}})
            self._turns(host)
            self.last = host.read()
            host.call("stop")

    def _vnf(self, number: int) -> Engine:
        plan = vnf_plan(self.cpus[1 % len(self.cpus)], self.folder / f"vf{number}")
        return Engine(BINARY, plan, self.folder, patience=PATIENCE).__enter__()

    def _end(self) -> None:
        for vnf in self.vnfs:
            vnf.__exit__(None, None, None)

    def _turns(self, host: Engine) -> None:
        began = time.monotonic()
        kill, look = began + KILL_S, began
        prefixes = itertools.cycle(f"203.{i >> 8}.{i & 255}.0/24" for i in range(4096))
        there: list[str] = []
        for turn in itertools.count(1):
            now = time.monotonic()
            if now - began > self.seconds:
                return
            changes = [
                {"op": "add", "prefix": next(prefixes), "next_hop": turn % VNFS} for _ in range(50)
            ]
            gone = [{"op": "del", "prefix": prefix} for prefix in there]
            host.call("update", nf="l3", op={"routes": gone + changes})
            there = [str(one["prefix"]) for one in changes]
            self.routes += len(gone) + len(changes)
            if now >= kill:
                self._kill(self.kills % VNFS)
                kill = max(kill + KILL_S, now)
            if now >= look:
                self._look(host, now - began)
                look = now + SAMPLE_S
            time.sleep(max(0.0, began + turn * ROUTES_S - time.monotonic()))

    def _kill(self, number: int) -> None:
        vnf = self.vnfs[number]
        [[replica]] = vnf.read()["segments"].values()
        if not replica["in"]:
            self.away.add(number)
        vnf.process.kill()
        vnf.process.wait()
        vnf.socket.close()
        self.vnfs[number] = self._vnf(number)
        self.kills += 1

    def _look(self, host: Engine, second: float) -> None:
        told = {f"host {key}": value for key, value in sample(host.process.pid).items()}
        told["host mbufs"] = float(host.read()["mbufs_in_use"])
        told |= {f"soak {key}": value for key, value in sample(os.getpid()).items()}
        for key, value in told.items():
            self.samples.setdefault(key, []).append((second, value))
        figures = " ".join(f"{key}={value:.0f}," for key, value in told.items())
        done = f"kills={self.kills}, routes={self.routes}"
        print(f"{second:.0f} s: {figures} {done}", file=self.log, flush=True)


def grown(samples: dict[str, list[tuple[float, float]]], seconds: float) -> list[str]:
    """What grew by more than it may, one line each; prints what each did."""
    wrong = []
    for key, all_of_it in samples.items():
        late = [one for one in all_of_it if one[0] >= seconds * WARM_SHARE]
        most = MOST_AN_HOUR[key.split()[1]]
        if len(late) < FEWEST:
            wrong.append(f"{key}: {len(late)} samples; at least {FEWEST} are wanted")
            continue
        slope = slope_an_hour(late)
        line = (
            f"{key}: {slope:+.1f} an hour (at most {most:g}); {late[0][1]:.0f} to {late[-1][1]:.0f}"
        )
        print(line)
        if slope > most:
            wrong.append(line)
    return wrong


def main() -> int:
    ask = argparse.ArgumentParser(prog="soak", description=__doc__)
    ask.add_argument("--seconds", type=float, default=3600)
    ask.add_argument("--log", type=Path, default=Path(os.devnull))
    asked = ask.parse_args()
    with tempfile.TemporaryDirectory() as folder, asked.log.open("w") as log:
        soak = Soak(Path(folder), asked.seconds, log)
        soak.run()
    links = soak.last["links"]
    sent, received = links["gen"]["sent"], links["meas"]["received"]
    done = f"{soak.kills} kills, {soak.routes} route changes"
    print(f"{asked.seconds:.0f} s: {sent} flows sent, {received} packets back, {done}")
    wrong = grown(soak.samples, asked.seconds)
    if soak.away:
        wrong.append(f"VNFs that got no packet after they were started again: {sorted(soak.away)}")
    if not received > sent / 2:
        wrong.append("most packets did not come back")
    for line in wrong:
        print(f"soak: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
