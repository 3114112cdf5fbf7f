# SPDX-License-Identifier: Apache-2.0
"""A host with eight VNFs for an hour: each packet is a new flow, routes come and go, and every ten
seconds one of seven VNFs is killed and started again. Nothing that the host has may grow, nor what
the VNF has that is left alone; and each of the others gets packets again.

Only seconds in which the machine ran are counted. SIGTERM has it judge what there is by then.

    PYTHONPATH=tests python -m soak [--seconds 3600] [--log FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from soak.growth import MOST_AN_HOUR, free_hugepages, sample, slope_an_hour
from soak.late import Clock, Moment, had_its_chance, waited_s
from support.engine import Engine, free_cpus, memory_engine

_BUILT = Path(__file__).resolve().parents[2] / "build" / "engine" / "headrace-engine"
BINARY = Path(os.environ.get("HEADRACE_ENGINE", _BUILT))
VNFS, FLOWS_PPS, ROUTES_PER_S = 8, 10_000, 1000
KILL_S, SAMPLE_S, ROUTES_S = 10.0, 5.0, 0.1
MOST_BEHIND_S = 2.0
WARM_SHARE = 0.2  # of the time, at first: tables and pools are touched for the first time
PATIENCE = 60  # it is niced, and others may have the machine to themselves for minutes
FEWEST = 10  # samples; a slope of fewer says nothing
HOST_MB, VNF_MB = 768, 128
LEFT_ALONE = 0  # the VNF that is not killed, and is looked at as the host is
LATE_S = 600.0  # longer than the time, for VNFs that had no CPU by its end


def hugepages() -> bool:
    """Whether host and VNFs find room in hugepages; ordinary memory does otherwise."""
    return free_hugepages() * 2 >= HOST_MB + (VNFS + 1) * VNF_MB


def host_plan(cpu: int, folder: Path, huge: bool) -> dict[str, Any]:
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
        "engine": memory_engine(
            wait={"mode": "adaptive"}, memory_mb=HOST_MB, mbufs=32768, hugepages=huge
        ),
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


def vnf_plan(cpu: int, socket: Path, huge: bool) -> dict[str, Any]:
    firewall = {"default": "permit", "flows": 32768, "udp_timeout_s": 5}
    link = {"socket": str(socket), "role": "client", "wait_link_ms": 60000}
    return {
        "version": 1,
        "engine": memory_engine(
            wait={"mode": "adaptive"}, memory_mb=VNF_MB, mbufs=4096, hugepages=huge
        ),
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
        self.cpus, self.huge = free_cpus(), hugepages()
        self.samples: dict[str, list[tuple[float, float]]] = {}
        self.kills = self.routes = 0
        self.clock, self.ended = Clock(), threading.Event()
        self.there: list[Moment] = []  # when each VNF was there
        self.late: dict[
            int, float
        ] = {}  # VNFs without a packet when they were to be killed, and when
        self.latest = 0.0
        self.blamed: set[int] = set()

    def run(self) -> None:
        with contextlib.ExitStack() as all_of_it:
            plan = host_plan(self.cpus[0], self.folder, self.huge)
            self.host = all_of_it.enter_context(
                Engine(BINARY, plan, self.folder, patience=PATIENCE)
            )
            self.vnfs = [self._vnf(i) for i in range(VNFS)]
            all_of_it.callback(self._end)
            packets = int((self.seconds + LATE_S) * FLOWS_PPS * 10)
            self.host.call("start", sources={"gen": {"rate_pps": FLOWS_PPS, "packets": packets}})
            self.there = [self._moment(i) for i in range(VNFS)]
            self.clock.start()
            self._turns()
            self.clock.end()
            self.last = self.host.read()
            self.host.call("stop")

    def _vnf(self, number: int) -> Engine:
        plan = vnf_plan(self.cpus[1 % len(self.cpus)], self.folder / f"vf{number}", self.huge)
        return Engine(BINARY, plan, self.folder, patience=PATIENCE).__enter__()

    def _end(self) -> None:
        for vnf in self.vnfs:
            vnf.__exit__(None, None, None)

    def _moment(self, number: int) -> Moment:
        waited = waited_s(self.host.process.pid) | waited_s(self.vnfs[number].process.pid)
        received = int(self.host.read()["links"]["meas"]["received"])
        return Moment(self.clock.seconds, received, waited)

    def _over(self) -> bool:
        more = LATE_S if self.late else 0.0
        return self.ended.is_set() or self.clock.seconds > self.seconds + more

    def _turns(self) -> None:
        kill, look = KILL_S, 0.0
        prefixes = itertools.cycle(f"203.{i >> 8}.{i & 255}.0/24" for i in range(4096))
        there: list[str] = []
        due = time.monotonic()
        for turn in itertools.count(1):
            if self._over():
                return
            # A turn that a kill kept is caught up; what the machine's standing still kept is not.
            due = max(due + ROUTES_S, time.monotonic() - MOST_BEHIND_S)
            now = self.clock.seconds
            changes = [
                {"op": "add", "prefix": next(prefixes), "next_hop": turn % VNFS} for _ in range(50)
            ]
            gone = [{"op": "del", "prefix": prefix} for prefix in there]
            self.host.call("update", nf="l3", op={"routes": gone + changes})
            there = [str(one["prefix"]) for one in changes]
            self.routes += len(gone) + len(changes)
            if now >= kill:
                number = 1 + int(kill / KILL_S) % (VNFS - 1)
                kill += KILL_S
                if not self._is_late(number):
                    self._kill(number)
            if now >= look:
                self._look(now)
                look = now + SAMPLE_S
            self.ended.wait(max(0.0, due - time.monotonic()))

    def _is_late(self, number: int) -> bool:
        """Whether a VNF has got no packet yet. It is not killed then, but blamed if it could."""
        [[replica]] = self.vnfs[number].read()["segments"].values()
        if replica["in"]:
            since = self.late.pop(number, self.clock.seconds)
            self.latest = max(self.latest, self.clock.seconds - since)
            return False
        self.late.setdefault(number, self.clock.seconds)
        if had_its_chance(self.there[number], self._moment(number)):
            self.blamed.add(number)
        return True

    def _kill(self, number: int) -> None:
        vnf = self.vnfs[number]
        vnf.process.kill()
        vnf.process.wait()
        vnf.socket.close()
        self.vnfs[number] = self._vnf(number)
        self.there[number] = self._moment(number)
        self.kills += 1

    def _look(self, second: float) -> None:
        told = {"host mbufs": float(self.host.read()["mbufs_in_use"])}
        alone = self.vnfs[LEFT_ALONE]
        told["vnf mbufs"] = float(alone.read()["mbufs_in_use"])
        pids = {"host": self.host.process.pid, "vnf": alone.process.pid, "soak": os.getpid()}
        for who, pid in pids.items():
            told |= {f"{who} {key}": value for key, value in sample(pid).items()}
        for number in list(self.late):
            self._is_late(number)
        for key, value in told.items():
            self.samples.setdefault(key, []).append((second, value))
        figures = " ".join(f"{key}={value:.0f}," for key, value in told.items())
        done = f"kills={self.kills}, routes={self.routes}, late={sorted(self.late)}"
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


def judged(soak: Soak) -> list[str]:
    """What is wrong, one line each; prints what was done."""
    links, clock = soak.last["links"], soak.clock
    sent, received = links["gen"]["sent"], links["meas"]["received"]
    done = f"{soak.kills} kills, {soak.routes} route changes"
    print(f"{clock.seconds:.0f} s: {sent} flows sent, {received} packets back, {done}")
    rates = f"{sent / clock.seconds:.0f} flows and {soak.routes / clock.seconds:.0f} route changes"
    print(f"{rates} a second, of {FLOWS_PPS} and {ROUTES_PER_S}")
    pages = "huge" if soak.huge else "ordinary"
    late = f"a VNF's first packet came {soak.latest:.0f} s late at most"
    print(f"the machine stood still for {clock.stood:.0f} s more; {late}; {pages} pages")
    wrong = grown(soak.samples, clock.seconds)
    if soak.blamed:
        wrong.append(
            f"VNFs that got no packet after they were started again: {sorted(soak.blamed)}"
        )
    if unjudged := sorted(set(soak.late) - soak.blamed):
        wrong.append(
            f"no verdict on VNFs {unjudged}: no packet yet, but not enough CPU time either"
        )
    if not received > sent / 2:
        wrong.append("most packets did not come back")
    if clock.seconds < soak.seconds:
        wrong.append(f"ended by a signal after {clock.seconds:.0f} of {soak.seconds:.0f} s")
    return wrong


def main() -> int:
    ask = argparse.ArgumentParser(prog="soak", description=__doc__)
    ask.add_argument("--seconds", type=float, default=3600)
    ask.add_argument("--log", type=Path, default=Path(os.devnull))
    asked = ask.parse_args()
    with tempfile.TemporaryDirectory() as folder, asked.log.open("w") as log:
        soak = Soak(Path(folder), asked.seconds, log)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: soak.ended.set())
        soak.run()
    wrong = judged(soak)
    for line in wrong:
        print(f"soak: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
