# SPDX-License-Identifier: Apache-2.0
"""The metrics of a five-VNF chain of containers, as its bundle has them, against readings taken
beside the run by other means.

    PYTHONPATH=tests python tests/explain/readings_chain.py [--seconds 30] [--network ovs]    (root)

The same chain, the same window: what was counted beside it is read several times a second, and the
value at the trial's begin and end is on the straight line between two readings. One line per
metric, and exit status 1 if one is more than 2 % apart.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from readings import Agreement, Reading, Skipped, Trace, between, cores, grown, show, softirq_s

from headrace.collect.layers import Windows
from headrace.collect.stack.result import StackTrace
from headrace.collect.watch import STACK_ABSENT, stack_file, trial_times
from headrace.host.state import state_directories
from headrace.record.bundle import Bundle
from headrace.record.rows import Result

PERIOD_S = 0.2
SPEC = """name: readings
deployment: {{hosting: {{kind: appliances, network: [{network}]}}}}
chain: [nat, ids, ip-firewall, l7-cache, l4-lb]
workload: {{kind: http, object_kb: 16, repeated: 50%, connections: 16}}
measure: {{trial: {seconds} s}}
"""
HEADRACE = [sys.executable, "-c", "from headrace.cli import main; main()"]
Points = list[tuple[int, float]]  # CLOCK_MONOTONIC, value


class Beside(threading.Thread):
    """Reads what others say, by name, until it is told to stop."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, Points] = {}
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(PERIOD_S):
            for name, value in self._read():
                self.seen.setdefault(name, []).append((time.monotonic_ns(), value))

    def stop(self) -> None:
        self._ended.set()
        self.join()

    def _read(self) -> Iterator[tuple[str, float]]:
        for run in (r for d in state_directories() if d.is_dir() for r in d.glob("run-*")):
            yield from _switch(run / "ovs")
        for namespace in _said("ip", "netns", "list").split():
            if namespace.startswith("hr") and "-" in namespace and "switch" not in namespace:
                yield from _container(namespace)


def _switch(directory: Path) -> Iterator[tuple[str, float]]:
    control, pidfile = directory / "ovs-vswitchd.ctl", directory / "ovs-vswitchd.pid"
    if not (control.exists() and pidfile.exists()):
        return
    dumped = _said("ovs-appctl", "--target", str(control), "dpctl/dump-flows")
    yield "flows", sum("actions:" in line for line in dumped.splitlines())
    yield "switch", _ran_s([pidfile.read_text().strip()])


def _container(namespace: str) -> Iterator[tuple[str, float]]:
    node = namespace.partition("-")[2]
    shown = json.loads(_said("ip", "-n", namespace, "-s", "-j", "link", "show") or "[]")
    devices = [link for link in shown if link["ifname"] != "lo"]
    yield f"{node} bytes", sum(link["stats64"]["rx"]["bytes"] for link in devices)
    yield f"{node} CPU", _ran_s(_said("ip", "netns", "pids", namespace).split())


def _ran_s(pids: list[str]) -> float:
    """CPU time of processes by the scheduler's own account of each thread."""
    ran = 0
    for file in (f for pid in pids for f in Path(f"/proc/{pid}/task").glob("*/schedstat")):
        try:
            ran += int(file.read_text().split()[0])
        except OSError:
            continue
    return ran / 1e9


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def at(points: Points, when: int) -> float:
    """On the straight line between two readings; the nearest one's beyond them."""
    value = between(points, when)
    return points[0 if when < points[0][0] else -1][1] if value is None else value


class Perf:
    """`perf stat` of the whole machine, with the time of each of its lines."""

    EVENTS = ("cycles", "instructions", "cache-misses")

    def __init__(self, file: Path) -> None:
        self._file = file
        self.began_ns = time.monotonic_ns()
        self._process = subprocess.Popen(
            ["perf", "stat", "-a", "-x,", "-I", "200", "-e", ",".join(self.EVENTS), "-o", file],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def end(self) -> dict[str, Points]:
        """What each event has counted, so far, at each time."""
        self._process.send_signal(2)
        self._process.wait()
        by_event: dict[str, Points] = {event: [(self.began_ns, 0.0)] for event in self.EVENTS}
        for line in self._file.read_text().splitlines():
            fields = line.split(",")
            if len(fields) > 3 and fields[3] in by_event and fields[1].isdigit():
                points = by_event[fields[3]]
                when = self.began_ns + int(float(fields[0]) * 1e9)
                points.append((when, points[-1][1] + int(fields[1])))
        return by_event


def read(folder: Path, seconds: float, network: str, probed: bool) -> list[Reading]:
    """`probed`: with bpftrace beside it, whose own probes take some of the time in softirqs; else
    these are compared."""
    folder.mkdir()
    spec, bundle = folder / "readings.yaml", folder / "bundle"
    spec.write_text(SPEC.format(network=network, seconds=seconds))
    trace = Trace() if probed else None
    perf = Perf(folder / "perf") if shutil.which("perf") else None
    beside = Beside()
    beside.start()
    try:
        done = subprocess.run(
            [*HEADRACE, "run", str(spec), "--out", str(bundle)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    finally:
        beside.stop()
        counted = trace.end() if trace else ""
        events = perf.end() if perf else {}
    if done.returncode:
        sys.exit(done.stderr)
    samples = bundle / "samples/001"
    (trial,) = trial_times(samples)
    begin, end = trial.begin_ns, trial.end_ns
    if not probed:
        return list(_softirqs(samples))
    w = Windows.of(samples, begin, end)
    (result,) = Bundle(bundle).results()

    def grew(name: str) -> float:
        return at(beside.seen[name], end) - at(beside.seen[name], begin)

    return [
        *_application(result),
        *_virtualization(w, grew),
        *_switch_agrees(w, network, grew, lambda name: at(beside.seen[name], end)),
        *_system(w, counted, begin, end),
        *_pmu(w, events, begin, end),
    ]


def _application(result: Result) -> Iterator[Reading]:
    """Clients' and servers' counts are of different programs; a closed loop's mean latency is its
    connections over its rate (Little's law)."""
    application, latency = result.application, result.latency_ns
    assert application is not None and latency is not None
    counted = application.counters["l7-cache"]["requests"]
    yield Agreement("requests", application.requests, counted, "the cache's own count")
    mean = 16 / application.requests_per_s * 1e9
    yield Agreement("request latency, ns", latency.mean, mean, "connections / rate")


def _virtualization(w: Windows, grew: Callable[[str], float]) -> Iterator[Reading]:
    used = w.virtualization.change("cgroup_cpu_ns")
    for node in ("l7-cache", "l4-lb", "server1", "ids"):  # whose processes are there to the end
        how = "its threads' schedstat"
        yield Agreement(f"{node} CPU, s", used[node] / 1e9, grew(f"{node} CPU"), how)
    received: dict[str, float] = {}
    for place, count in w.virtualization.change("rx_bytes").items():
        node, _, device = place.partition("/")
        if device != "lo":
            received[node] = received.get(node, 0.0) + count
    for node in ("nat", "ip-firewall", "l7-cache"):
        yield Agreement(f"{node} devices, bytes", received[node], grew(f"{node} bytes"),
                        "ip -s link")  # fmt: skip


def _switch_agrees(
    w: Windows, network: str, grew: Callable[[str], float], now: Callable[[str], float]
) -> Iterator[Reading]:
    if network != "ovs":
        yield Skipped("switch", "the kernel's bridge has no process and no flows")
        return
    yield Agreement("flow entries", w.virtual_switch.now("ovs_flows")[""], now("flows"),
                    "dpctl/dump-flows")  # fmt: skip
    kinds = ("process_user_s", "process_system_s")
    ours = sum(w.virtual_switch.change(kind)["ovs-vswitchd"] for kind in kinds)
    yield Agreement("switch CPU, s", ours, grew("switch"), "its threads' schedstat")


def _system(w: Windows, counted: str, begin: int, end: int) -> Iterator[Reading]:
    for metric, key, name in (
        ("system calls", "system_calls", "calls"),
        ("context switches", "context_switches", "switches"),
    ):
        ours = w.os.total(key)
        yield Agreement(metric, ours, grown(counted, name, begin, end), "bpftrace count()")
    yield from cores(w.hardware, counted, begin, end)


def _softirqs(samples: Path) -> Iterator[Reading]:
    """The softirqs of the trial, which alone was traced."""
    (t,) = trial_times(samples)
    stack = samples / stack_file(t.trial)
    if not stack.is_file():
        yield Skipped("softirq time", (samples / STACK_ABSENT).read_text().strip())
        return
    traced = StackTrace.model_validate_json(stack.read_text())
    of_trial = Windows.of(samples, t.begin_ns, t.end_ns).hardware
    ours = of_trial.total("cpu_softirq_ns") / 1e9
    yield Agreement("softirqs by vector, s", ours, softirq_s(traced), "the stack tracer's")


def _pmu(w: Windows, events: dict[str, Points], begin: int, end: int) -> Iterator[Reading]:
    ours = {key: w.hardware.total(key) for key in ("cycles", "instructions", "cache_misses")}
    if not events or not ours["cycles"]:
        yield Skipped("IPC, cache misses", "no perf here, or no PMU")
        return
    other = {e: at(points, end) - at(points, begin) for e, points in events.items()}
    yield Agreement("IPC", ours["instructions"] / ours["cycles"],
                    other["instructions"] / other["cycles"], "perf stat")  # fmt: skip
    yield Agreement("cache misses", ours["cache_misses"], other["cache-misses"], "perf stat")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--seconds", type=float, default=30, help="of the trial; default 30")
    p.add_argument("--network", default="ovs", choices=("bridge", "ovs"))
    a = p.parse_args()
    if shutil.which("bpftrace") is None:
        sys.exit("readings_chain.py: bpftrace: not found; `apt-get install bpftrace`")
    with tempfile.TemporaryDirectory() as folder:
        readings = [
            one
            for probed in (True, False)
            for one in read(Path(folder) / f"probed-{probed}", a.seconds, a.network, probed)
        ]
    sys.exit(not show(readings))


if __name__ == "__main__":
    main()
