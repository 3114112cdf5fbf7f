# SPDX-License-Identifier: Apache-2.0
"""What tracing costs: `python tests/trace/overhead.py [ROUNDS]` (root; about a minute).

The kernel's own run time of the programs (bpf_stats) in interleaved rounds, under TCP and
small UDP over veth and bridge: hooks that do nothing, the tracer at 1 % and on every packet,
and a bpftrace script that measures the same way between two of the same points. Being called
and timed has a price by itself, that of the idle hooks: it is stated, and subtracted in the last
column.
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
from contextlib import suppress
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
PEER = Path(__file__).with_name("peer.py")
SECONDS = 1.0
# Of all CPU, and ns per event above idle hooks, by way.
GOALS = {"1 %": (0.02, 60.0), "every packet": (0.15, 130.0)}
PAIR, SWITCH = ("hrovera", "hroverb"), "hrovers"
BPFTRACE_WAY = "bpftrace, 2 points"
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


def traffic(kind: str, folder: Path) -> int:
    """Bytes (tcp) or packets (udp) that arrived."""
    ready = folder / "ready"
    ready.unlink(missing_ok=True)
    rx_do, tx = {
        "tcp": ("accept", ["stream", "--bytes", "262144", "--seconds", str(SECONDS)]),
        "udp": ("receive", ["send", "--count", "60000", "--bytes", "64"]),
    }[kind]
    inside = ["ip", "netns", "exec"]
    udp = ["--count", "60000"]
    peer = [sys.executable, str(PEER)]
    rx = subprocess.Popen(
        [*inside, PAIR[1], *peer, rx_do, "--host", "10.79.0.2", *udp, "--ready", str(ready)],
        stdout=subprocess.PIPE,
    )
    while not ready.exists():
        time.sleep(0.01)
    subprocess.run(
        [*inside, PAIR[0], *peer, *tx, "--host", "10.79.0.2"], check=True, stdout=subprocess.DEVNULL
    )
    said = json.loads(rx.communicate()[0])
    return int(said.get("received_bytes", said.get("received", 0)))


def run_time(pid: int) -> tuple[int, int]:
    """Of all BPF programs that a process holds: run time in ns and runs."""
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


def measure(command: list[str], kind: str, folder: Path) -> dict[str, float]:
    ready = folder / "traced"
    ready.unlink(missing_ok=True)
    command = [str(ready) if c == "READY" else c for c in command]
    p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if str(ready) in command:
        while not ready.exists():
            time.sleep(0.01)
    else:
        attached(p.pid)
    begin = time.monotonic()
    before = run_time(p.pid)
    arrived = traffic(kind, folder)
    after = run_time(p.pid)
    seconds = time.monotonic() - begin
    p.send_signal(signal.SIGINT)
    p.wait()
    runs = after[1] - before[1]
    return {
        "ns": (after[0] - before[0]) / max(runs, 1),
        "runs": runs,
        "cpu_share": (after[0] - before[0]) / (seconds * 1e9 * (os.cpu_count() or 1)),
        "rate": arrived / seconds,
    }


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    tracer = os.environ.get("HEADRACE_TRACE") or str(REPO / "build/trace/headrace-trace")
    if not os.access(tracer, os.X_OK):
        sys.exit(f"{tracer}: not there; build it with `make setup`, or name it in HEADRACE_TRACE")
    ready = ["--ready-file", "READY", "--stats"]
    ways = {
        "idle hooks": [tracer, "--idle", *ready],
        "1 %": [tracer, "--sample", "0.01", *ready],
        "every packet": [tracer, "--sample", "1", *ready],
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
            for kind in ("tcp", "udp"):
                compare(ways, kind, Path(folder), rounds)
    finally:
        stats.write_text(was)
        for n in (*PAIR, SWITCH):
            ip("netns", "del", n, check=False)


def compare(ways: dict[str, list[str]], kind: str, folder: Path, rounds: int) -> None:
    found: dict[str, list[dict[str, float]]] = {w: [] for w in ways}
    for _ in range(rounds):
        for way, command in ways.items():
            found[way].append(measure(command, kind, folder))
    floor = statistics.median(m["ns"] for m in found["idle hooks"])
    above = {w: statistics.median(m["ns"] for m in f) - floor for w, f in found.items()}
    print(f"{kind}: median of {rounds} rounds (lowest to highest); ns per run of a program")
    for way, all_of_it in found.items():
        ns = sorted(m["ns"] for m in all_of_it)
        share = statistics.median(m["cpu_share"] for m in all_of_it)
        print(
            f"  {way:28} {statistics.median(ns):6.0f} ({ns[0]:.0f} to {ns[-1]:.0f})"
            f"  {share:6.2%} of all CPU  above idle: {above[way]:5.0f} ns{goal(way, share, above)}"
        )


def goal(way: str, share: float, above: dict[str, float]) -> str:
    """Whether it is met, and the cost as a part of bpftrace's."""
    if way not in GOALS:
        return ""
    most_share, most_ns = GOALS[way]
    met = share < most_share and above[way] < most_ns
    text = f"; under {most_share:.0%} and {most_ns:.0f} ns: {'yes' if met else 'no'}"
    other = above.get(BPFTRACE_WAY)
    return text + (f"; {above[way] / other:.2f} of bpftrace's" if other else "")


if __name__ == "__main__":
    main()
