# SPDX-License-Identifier: Apache-2.0
"""What tracing costs: `python tests/trace/overhead.py [ROUNDS]` (root; about a minute).

The kernel's own run time of the programs (bpf_stats) in interleaved rounds, under iperf3's TCP and
small UDP over veth and bridge: no tracer, hooks that do nothing, the tracer at 1 % and on every
packet, and a bpftrace script that measures the same way between two of the same points. Being
called and timed has a price by itself, that of the idle hooks: it is stated, and subtracted in the
last column. A naive tracer of the same points (naive/) says what this machine, as busy as it is,
makes of such programs: a share of its cost holds elsewhere, too. Each goal stands beside its
figure; exit status 1 if one is missed.

The kernel's timing off, the whole machine's cycles (PMU) say what tracing really takes: at a steady
rate that it has time for, against the run without it of the same round.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from headrace.collect.perf import CYCLES, HARDWARE, PerfCounter, PerfRefused

REPO = Path(__file__).resolve().parents[2]
SECONDS = 2
# Of all CPU, and ns per event above idle hooks, by way.
GOALS = {"1 %": (0.02, 60.0), "every packet": (0.15, 130.0)}
STEADY = {"tcp": "4G", "udp": "20M"}
PAIR, SWITCH = ("hrovera", "hroverb"), "hrovers"
NONE, IDLE = "no tracer", "idle hooks"
NAIVE = {"1 %": "naive, 1 %", "every packet": "naive, every packet"}
BPFTRACE_WAY = "bpftrace, 2 points"
BPFTRACE_PART = 0.5  # of its cost
BPFTRACE = (
    "tracepoint:net:net_dev_queue { @at[args->skbaddr] = nsecs; } "
    "tracepoint:net:netif_receive_skb /@at[args->skbaddr]/ "
    "{ @ns = hist(nsecs - @at[args->skbaddr]); delete(@at[args->skbaddr]); }"
)


def ip(*arguments: str, check: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=check, stderr=None if check else subprocess.DEVNULL)


def network() -> None:
    """Two stations on one bridge, which is in a namespace of its own."""
    for n in (*PAIR, SWITCH):
        ip("netns", "add", n)
    ip("-n", SWITCH, "link", "add", "br0", "type", "bridge")
    for n, port, address in ((PAIR[0], "pa", "10.79.0.1/24"), (PAIR[1], "pb", "10.79.0.2/24")):
        peer = ["type", "veth", "peer", "name", "eth0", "netns", n]
        ip("link", "add", port, "netns", SWITCH, *peer)
        ip("-n", SWITCH, "link", "set", port, "master", "br0", "up")
        ip("-n", n, "addr", "add", address, "dev", "eth0")
        ip("-n", n, "link", "set", "eth0", "up")
    ip("-n", SWITCH, "link", "set", "br0", "up")


def traffic(kind: str, rate: str = "0") -> float:
    """By iperf3, at `rate` bit/s (0: at most): bytes/s (tcp) or packets/s (udp) that arrived."""
    inside = ["ip", "netns", "exec"]
    server = subprocess.Popen(
        [*inside, PAIR[1], "iperf3", "-s", "-1", "--forceflush"], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    while "listening" not in server.stdout.readline():
        if server.poll() is not None:
            sys.exit("iperf3 -s ended")
    udp = ["-u", "-l", "64"] if kind == "udp" else []
    try:
        client = subprocess.run(
            [*inside, PAIR[0], "iperf3", "-c", "10.79.0.2", "-t", str(SECONDS), "-b", rate,
             "-J", *udp],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        server.communicate(timeout=20)
    finally:
        server.kill()
        server.wait()
    end = json.loads(client.stdout)["end"]
    if kind == "udp":
        arrived = end["sum"]["packets"] - end["sum"]["lost_packets"]
        return float(arrived / end["sum"]["seconds"])
    return float(end["sum_received"]["bits_per_second"] / 8)


def run_time(pid: int) -> tuple[int, int]:
    """The run time in ns, and the runs, of all BPF programs that a process holds."""
    total, runs = 0, 0
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            text = info.read_text()
        except FileNotFoundError:  # closed meanwhile
            continue
        if "prog_type" in text:
            total += int(re.search(r"run_time_ns:\s+(\d+)", text)[1])  # type: ignore[index]
            runs += int(re.search(r"run_cnt:\s+(\d+)", text)[1])  # type: ignore[index]
    return total, runs


def attached(pid: int) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with suppress(FileNotFoundError):
            if any("prog_type" in i.read_text() for i in Path(f"/proc/{pid}/fdinfo").iterdir()):
                time.sleep(1)  # programs are attached one by one
                return
        time.sleep(0.1)


def started(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    ready = folder / "traced"
    ready.unlink(missing_ok=True)
    command = [str(ready) if c == "READY" else c for c in command]
    p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if str(ready) in command:
        while not ready.exists():
            time.sleep(0.01)
    else:
        attached(p.pid)
    return p


def measure(command: list[str], kind: str, folder: Path) -> dict[str, float]:
    if not command:
        return {"ns": 0, "runs": 0, "cpu_share": 0, "rate": traffic(kind)}
    p = started(command, folder)
    begin = time.monotonic()
    before = run_time(p.pid)
    rate = traffic(kind)
    after = run_time(p.pid)
    seconds = time.monotonic() - begin
    p.send_signal(signal.SIGINT)
    p.wait()
    runs = after[1] - before[1]
    return {
        "ns": (after[0] - before[0]) / max(runs, 1),
        "runs": runs,
        "cpu_share": (after[0] - before[0]) / (seconds * 1e9 * (os.cpu_count() or 1)),
        "rate": rate,
    }


def cycles_per_sent(command: list[str], kind: str, folder: Path) -> float:
    """The whole machine's, for each byte (tcp) or packet (udp) that arrived."""
    p = started(command, folder) if command else None
    counters = [PerfCounter(HARDWARE, CYCLES, cpu) for cpu in range(os.cpu_count() or 1)]
    before = sum(c.read() for c in counters)
    arrived = traffic(kind, STEADY[kind]) * SECONDS
    cycles = sum(c.read() for c in counters) - before
    for c in counters:
        c.close()
    if p is not None:
        p.send_signal(signal.SIGINT)
        p.wait()
    return cycles / arrived


def by_cycles(ways: dict[str, list[str]], kind: str, folder: Path, rounds: int) -> bool:
    """Prints each way's against none; whether a goal was missed."""
    ways = {
        way: [c for c in command if c != "--stats"]
        for way, command in ways.items()
        if way in (NONE, *GOALS)
    }
    more: dict[str, list[float]] = {way: [] for way in GOALS}
    try:
        for _ in range(rounds):
            used = {way: cycles_per_sent(c, kind, folder) for way, c in ways.items()}
            for way in GOALS:
                more[way].append(used[way] / used[NONE] - 1)
    except PerfRefused as why:
        print(f"{kind}: cycles of the whole machine: {why}")
        return False
    print(f"{kind}: cycles of the whole machine, without the kernel's timing")
    missed = False
    for way, of_rounds in more.items():
        median, most = statistics.median(of_rounds), GOALS[way][0]
        missed |= median >= most
        print(
            f"  {way:28} {median:+.2%} ({min(of_rounds):+.2%} to {max(of_rounds):+.2%})"
            f"    under {most:.0%}: {'yes' if median < most else 'NO'}"
        )
    return missed


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    tracer = os.environ.get("HEADRACE_TRACE") or str(REPO / "build/trace/headrace-trace")
    naive = str(Path(tracer).with_name("trace-naive"))
    if not os.access(tracer, os.X_OK):
        sys.exit(f"{tracer}: not there; build it with `make setup`, or name it in HEADRACE_TRACE")
    ready = ["--ready-file", "READY", "--stats"]
    if not os.access(naive, os.X_OK):
        sys.exit(f"{naive}: not there; it is built with the tracer")
    if shutil.which("iperf3") is None:
        sys.exit("iperf3: not found; install it")
    ways: dict[str, list[str]] = {
        NONE: [],
        IDLE: [tracer, "--idle", *ready],
        "1 %": [tracer, "--sample", "0.01", *ready],
        NAIVE["1 %"]: [naive, "0.01", "READY"],
        "every packet": [tracer, "--sample", "1", *ready],
        NAIVE["every packet"]: [naive, "1", "READY"],
        "every packet, copying reads": [tracer, "--sample", "1", "--copy-reads", *ready],
    }
    if shutil.which("bpftrace"):
        # Tracepoints by name need tracefs: mounted for bpftrace alone, gone with it.
        tracefs = 'mount -t tracefs t /sys/kernel/tracing; exec bpftrace -e "$0"'
        ways[BPFTRACE_WAY] = ["unshare", "-m", "sh", "-c", tracefs, BPFTRACE]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what follows is undone
    stats = Path("/proc/sys/kernel/bpf_stats_enabled")
    was = stats.read_text()
    try:
        network()
        stats.write_text("1")
        with tempfile.TemporaryDirectory() as folder:
            missed = [compare(ways, kind, Path(folder), rounds) for kind in ("tcp", "udp")]
            stats.write_text("0")
            missed += [by_cycles(ways, kind, Path(folder), 3 * rounds) for kind in ("tcp", "udp")]
    finally:
        stats.write_text(was)
        for n in (*PAIR, SWITCH):
            ip("netns", "del", n, check=False)
    sys.exit(1 if any(missed) else 0)


def compare(ways: dict[str, list[str]], kind: str, folder: Path, rounds: int) -> bool:
    """Prints all of it; whether a goal was missed."""
    by_way: dict[str, list[dict[str, float]]] = {w: [] for w in ways}
    for _ in range(rounds):
        for way, command in ways.items():
            by_way[way].append(measure(command, kind, folder))
    floor = statistics.median(m["ns"] for m in by_way[IDLE])
    above = {w: statistics.median(m["ns"] for m in f) - floor for w, f in by_way.items()}
    print(f"{kind}: median of {rounds} rounds (lowest to highest); ns per run of a program")
    missed = False
    for way, all_of_it in by_way.items():
        ns = sorted(m["ns"] for m in all_of_it)
        share = statistics.median(m["cpu_share"] for m in all_of_it)
        rate = statistics.median(m["rate"] for m in all_of_it)
        text = f"{rate * 8e-9:5.2f} Gbit/s" if kind == "tcp" else f"{rate * 1e-3:5.0f} kpps"
        if way == NONE:
            print(f"  {way:28} {text}")
            continue
        print(
            f"  {way:28} {text}  {statistics.median(ns):6.0f} ({ns[0]:.0f} to {ns[-1]:.0f})"
            f"  {share:6.2%} of all CPU  above idle: {above[way]:5.0f} ns"
        )
        for goal, met in goals(way, share, above):
            missed |= not met
            print(f"    {goal}: {'yes' if met else 'NO'}")
    return missed


def goals(way: str, share: float, above: dict[str, float]) -> Iterator[tuple[str, bool]]:
    """Each with its figure, and whether it is met."""
    if way not in GOALS:
        return
    most_share, most_ns = GOALS[way]
    yield f"under {most_share:.0%} of CPU: {share:.2%}", share < most_share
    yield f"under {most_ns:.0f} ns per event: {above[way]:.0f}", above[way] < most_ns
    if naive := above.get(NAIVE[way]):
        yield f"less than a naive tracer: {above[way] / naive:.2f} of it", above[way] < naive
    if other := above.get(BPFTRACE_WAY):
        part = above[way] / other
        yield f"at most {BPFTRACE_PART} of bpftrace's cost: {part:.2f}", part <= BPFTRACE_PART


if __name__ == "__main__":
    main()
