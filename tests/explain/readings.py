# SPDX-License-Identifier: Apache-2.0
"""What the collectors say against readings that share nothing with them but the kernel.

    PYTHONPATH=tests python tests/explain/readings.py [--seconds 100]      (root)

Two namespaces on a bridge of the host's, work of each kind between two samples; each metric is read
a second way: by the process itself, by bpftrace's own counts, by the tools that come with the
kernel. One line per metric: both figures, how far apart, and whether that is within the goal of
2 %. Exit status 1 if one is not. Where cores' times are the kernel's clock ticks (no BPF), they are
samples: of n ticks, a share p of the time is found with a relative error of sqrt((1 - p) / (p n)),
2 % in 20 s at 250 ticks/s and p = 1/3. Hence the seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from headrace.collect import Sampler, Targets, collectors
from headrace.collect.collector import WatchedProcess
from headrace.collect.cores import busy, softirq
from headrace.collect.layers import Windows
from headrace.collect.samples import Window
from headrace.collect.stack.result import StackTrace
from headrace.collect.stack.tracer import Tracer, why_not
from headrace.host.cgroups import mounts
from support.netns import Lan, ip

GOAL = 0.02
PERIOD_S = 0.5
PORT = 7000
MEGABYTES = 256

# Told what to do on its input, a line each; says what it returned and what it used (getrusage).
WORKER = f"""
import ctypes, json, os, resource, socket, sys, time
held = []
def used():
    u = resource.getrusage(resource.RUSAGE_SELF)
    return u.ru_utime + u.ru_stime, u.ru_nvcsw, u.ru_nivcsw
def memory(): held.append(bytearray(b"x") * ({MEGABYTES} << 20)); return {MEGABYTES} << 20
def burn(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
def switch(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.0002)
def send(seconds, host):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end, sent = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for _ in range(100):
            s.sendto(bytes(1000), (host, {PORT}))
        sent += 100
    return sent
for line in sys.stdin:
    name, *arguments = json.loads(line)
    before = used()
    returned = globals()[name](*arguments)
    print(json.dumps([returned, [b - a for a, b in zip(before, used())]]), flush=True)
"""


@dataclass(frozen=True)
class Agreement:
    metric: str
    ours: float
    other: float
    how: str  # the other reading

    @property
    def apart(self) -> float:
        return abs(self.ours / self.other - 1) if self.other else float(self.ours != 0)

    @property
    def within(self) -> bool:
        return self.apart <= GOAL


@dataclass(frozen=True)
class Skipped:
    metric: str
    why: str


Reading = Agreement | Skipped


class Worker:
    def __init__(self, namespace: str) -> None:
        self._process = subprocess.Popen(
            ["ip", "netns", "exec", namespace, sys.executable, "-c", WORKER],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.do("burn", 0)  # it runs
        self.pid = self._process.pid

    def do(self, *what: object) -> tuple[float, list[float]]:
        """What it returned, and what it used: CPU seconds, switches of its own will and not."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        returned, used = json.loads(self._process.stdout.readline())
        return returned or 0, used

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


class Trace:
    """bpftrace's own counts beside the samples, with the time of each: CLOCK_MONOTONIC as well."""

    PROGRAM = (
        "tracepoint:raw_syscalls:sys_enter { @calls = count(); } "
        "tracepoint:sched:sched_switch { @switches = count(); "
        "if (args->prev_pid == 0 && @since[cpu]) { @idle[cpu] = sum(nsecs - @since[cpu]); } "
        "if (args->next_pid == 0) { @since[cpu] = nsecs; } else { delete(@since[cpu]); } } "
        # Where the switch to it was hidden from BPF.
        "tracepoint:power:cpu_idle /args->state != 4294967295 && !@since[cpu]/ "
        "{ @since[cpu] = nsecs; } "
        "tracepoint:irq:softirq_entry { @entry[cpu] = nsecs; } "
        "tracepoint:irq:softirq_exit /@entry[cpu]/ { @softirq = sum(nsecs - @entry[cpu]); "
        "if (pid == 0) { @idle_softirq[cpu] = sum(nsecs - @entry[cpu]); } } "
        'interval:ms:50 { printf("at %llu\\n", nsecs); print(@calls); print(@switches); '
        "print(@idle); print(@idle_softirq); print(@softirq); }"
    )

    def __init__(self) -> None:
        script = 'mount -t tracefs t /sys/kernel/tracing; exec bpftrace -e "$0"'
        # A pipe would be full after some seconds.
        self._out = tempfile.NamedTemporaryFile("w")  # noqa: SIM115 - closed by end()
        self._process = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", script, self.PROGRAM],
            stdout=self._out, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        while "at " not in self._read():
            assert self._process.poll() is None, "bpftrace ended"
            time.sleep(0.1)

    def _read(self) -> str:
        return Path(self._out.name).read_text()

    def end(self) -> str:
        self._process.terminate()
        self._process.wait()
        with self._out:
            return self._read()


def between(points: Sequence[tuple[int, float]], when: int) -> float | None:
    """On the straight line between the two readings around it; None beyond them."""
    for (t0, v0), (t1, v1) in pairwise(points):
        if t0 <= when <= t1:
            return v0 + (v1 - v0) * (when - t0) / (t1 - t0)
    return None


def idle_s(printed: str, cpu: int, begin_ns: int, end_ns: int) -> float:
    """In the idle task, but for the softirqs that interrupt it."""
    return (
        grown(printed, f"idle[{cpu}]", begin_ns, end_ns)
        - grown(printed, f"idle_softirq[{cpu}]", begin_ns, end_ns)
    ) / 1e9


def grown(printed: str, name: str, begin_ns: int, end_ns: int) -> float:
    """How far one of its counts went between two instants, by straight lines between its prints."""
    points: list[tuple[int, int]] = []
    for line in printed.splitlines():
        if line.startswith("at "):  # what has not happened yet is not printed
            points.append((int(line[3:]), points[-1][1] if points else 0))
        elif line.startswith(f"@{name}:") and points:
            points[-1] = (points[-1][0], int(line.partition(":")[2]))

    begin, end = between(points, begin_ns), between(points, end_ns)
    assert begin is not None and end is not None, f"not within bpftrace's prints: {begin}, {end}"
    return end - begin


@contextmanager
def bridged(lan: Lan) -> Iterator[tuple[str, str, str]]:
    """Two namespaces on a bridge of this one, where the collectors look: (bridge, a, b)."""
    name = f"hrr{os.getpid() % 100000}"
    ip("link", "add", name, "type", "bridge")
    try:
        ip("link", "set", name, "up")
        ends = []
        for number, role in enumerate("ab", 1):
            n = lan.namespace(role)
            port = f"{name}{role}"
            ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", n)
            ip("link", "set", port, "master", name, "up")
            lan.address(n, "eth0", f"10.74.0.{number}/24")
            ip("-n", n, "link", "set", "eth0", "up")
            ends.append(n)
        lan.inside(ends[0], "ping", "-c", "1", "-w", "10", "10.74.0.2")
        yield name, ends[0], ends[1]
    finally:
        ip("link", "del", name)


@contextmanager
def group() -> Iterator[Path | None]:
    """A control group of either version; its name below the mount point is its last part."""
    at = mounts()
    name = f"headrace-readings-{os.getpid()}"
    roots = [at[c] for c in ("cpu", "cpuacct", "memory") if c in at] or [at[""]]
    groups: list[Path] = []
    try:
        for root in dict.fromkeys(roots):
            (root / name).mkdir()
            groups.append(root / name)
        yield groups[0]
    except PermissionError:
        yield None
    finally:
        for path in groups:
            for _ in range(100):
                try:
                    path.rmdir()
                    break
                except OSError:  # what was in it is still ending
                    time.sleep(0.05)


def join(group_name: str, pid: int) -> None:
    at = mounts()
    roots = [at[c] for c in ("cpu", "cpuacct", "memory") if c in at] or [at[""]]
    for root in dict.fromkeys(roots):
        (root / group_name / "cgroup.procs").write_text(str(pid))


def device_bytes(namespace: str) -> int:
    (link,) = json.loads(ip("-n", namespace, "-s", "-j", "link", "show", "dev", "eth0"))
    return int(link["stats64"]["rx"]["bytes"])


def forwarding_entries(bridge: str) -> int:
    shown = json.loads(
        subprocess.run(
            ["bridge", "-j", "fdb", "show", "br", bridge],
            capture_output=True, text=True, check=True,
        ).stdout
    )  # fmt: skip
    return sum(e.get("master") == bridge and e["ifname"] != bridge for e in shown)


def connections(lan: Lan, namespace: str) -> int:
    if shutil.which("conntrack"):
        return int(lan.inside(namespace, "conntrack", "-C").strip())
    return int(lan.inside(namespace, "cat", "/proc/sys/net/netfilter/nf_conntrack_count"))


def _unacknowledged(lan: Lan, namespace: str) -> bool:
    """Whether the sender of the talk still holds bytes: ss's Send-Q."""
    shown = lan.inside(namespace, "ss", "-tnH", "state", "established", "dst", "10.74.0.2")
    return any(int(line.split()[1]) for line in shown.splitlines())


def retransmissions(lan: Lan, namespace: str) -> int:
    """How often the connections there sent a segment again: `retrans:OUTSTANDING/TOTAL`."""
    shown = lan.inside(namespace, "ss", "-tiH", "dst", "10.74.0.2")
    return sum(int(n) for n in re.findall(r"retrans:\d+/(\d+)", shown))


TALK = f"""
import socket, sys, time
if sys.argv[1] == "accept":
    with socket.create_server(("10.74.0.2", {PORT})) as server:
        print("ready", flush=True)
        c, _ = server.accept()
    while c.recv(1 << 20):
        pass
else:
    c = socket.create_connection(("10.74.0.2", {PORT}), timeout=30)
    end = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < end:
        c.sendall(bytes(100000))
    print("done", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def lossy_talk(lan: Lan, a: str, b: str, seconds: float) -> Iterator[None]:
    """A TCP connection of which the receiver drops one packet in thirty; it stays open."""
    rules = (
        "table ip loss { chain c { type filter hook input priority 0; "
        f"tcp dport {PORT} numgen random mod 30 < 1 drop; }}; }}"
    )
    lan.inside(b, "nft", rules)
    inside = ["ip", "netns", "exec"]
    with ExitStack() as ends:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        rx = subprocess.Popen([*inside, b, sys.executable, "-c", TALK, "accept"], **pipes)
        ends.callback(_kill, rx)
        assert rx.stdout is not None
        rx.stdout.readline()
        tx = subprocess.Popen(
            [*inside, a, sys.executable, "-c", TALK, "send", str(seconds)], **pipes
        )
        ends.callback(_kill, tx)
        assert tx.stdout is not None
        tx.stdout.readline()
        while _unacknowledged(lan, a):
            time.sleep(0.1)
        yield


def _kill(p: subprocess.Popen[bytes]) -> None:
    p.kill()
    p.communicate()


def read_all(folder: Path, seconds: float) -> list[Reading]:
    """`seconds` of each kind of work, several kinds in turn."""
    with ExitStack() as stack:
        lan = stack.enter_context(Lan())
        bridge, a, b = stack.enter_context(bridged(lan))
        own_group = stack.enter_context(group())
        lan.inside(b, "nft", "table ip t { chain c { type filter hook input priority 0; "
                   "ct state new accept; }; }")  # fmt: skip
        worker = Worker(a)
        stack.callback(worker.end)
        there = subprocess.Popen(["ip", "netns", "exec", b, "sleep", "1000"])
        stack.callback(there.wait)
        stack.callback(there.kill)
        time.sleep(0.2)
        if own_group is not None:
            join(own_group.name, worker.pid)
        targets = Targets(
            processes=(WatchedProcess(name="sender", pid=worker.pid),
                       WatchedProcess(name="receiver", pid=there.pid)),
            cgroups=(own_group.name,) if own_group is not None else (), bridges=(bridge,),
        )  # fmt: skip
        return _readings(folder, seconds, lan, (bridge, a, b), worker, targets)


@dataclass(frozen=True)
class Work:
    """What was done between which samples, and what others than the collectors counted of it."""

    begin: int
    after_memory: int
    end: int
    flood: tuple[int, int]
    traced: tuple[int, int]
    lossy: tuple[int, int]
    touched: float
    used: list[float]  # CPU seconds, switches of its own will and not
    received: int
    entries: int
    tracked: int
    again: int  # segments sent once more
    stacked: StackTrace | None


def _work(
    sampler: Sampler,
    seconds: float,
    lan: Lan,
    places: tuple[str, str, str],
    worker: Worker,
    softirqs: Tracer | None,
) -> Work:
    bridge, a, b = places
    begin = sampler.now()
    received = device_bytes(b)
    touched, used_first = worker.do("memory")
    sampler.now()
    after_memory = sampler.last_ns
    _, used_burn = worker.do("burn", seconds / 4)
    _, used_switch = worker.do("switch", seconds / 4)
    if softirqs is not None:
        softirqs.__enter__()
    traced_begin = time.monotonic_ns()
    flood_begin = sampler.now()
    _, used_send = worker.do("send", seconds, "10.74.0.2")
    sampler.now()
    flood_end = sampler.last_ns
    traced_end = time.monotonic_ns()
    stacked = softirqs.stop() if softirqs is not None else None
    received = device_bytes(b) - received
    sampler.now()
    end = sampler.last_ns
    entries, tracked = forwarding_entries(bridge), connections(lan, b)
    lossy_begin = sampler.now()
    with lossy_talk(lan, a, b, 2):
        sampler.now()
        lossy_end = sampler.last_ns
        again = retransmissions(lan, a)
    used = [sum(u) for u in zip(used_first, used_burn, used_switch, used_send, strict=True)]
    return Work(
        begin, after_memory, end, (flood_begin, flood_end), (traced_begin, traced_end),
        (lossy_begin, lossy_end), touched, used, received, entries, tracked, again, stacked,
    )  # fmt: skip


def _agree(metric: str, ours: dict[str, float], place: str, other: float, how: str) -> Reading:
    if place in ours:
        return Agreement(metric, ours[place], other, how)
    return Skipped(metric, f"not collected for {place}")


def _of_places(folder: Path, work: Work, bridge: str, cgroup: str) -> Iterator[Reading]:
    w = Windows.of(folder, work.begin, work.end)
    held = Windows.of(folder, work.begin, work.after_memory).virtualization
    lossy = Windows.of(folder, *work.lossy).os
    yield _agree("container's CPU, ns", w.virtualization.change("cgroup_cpu_ns"), cgroup,
                 work.used[0] * 1e9, "getrusage of its process")  # fmt: skip
    yield _agree("container's memory, bytes", held.change("cgroup_memory_bytes"), cgroup,
                 work.touched, "bytes that its process wrote")  # fmt: skip
    yield _agree("devices' bandwidth, bytes", w.virtualization.change("rx_bytes"),
                 "receiver/eth0", work.received, "ip -s link")  # fmt: skip
    yield _agree("forwarding entries", w.virtual_switch.now("bridge_fdb_entries"), bridge,
                 work.entries, "bridge fdb show")  # fmt: skip
    yield _agree("switches of a process", w.os.change("process_voluntary_ctxt_switches"),
                 "sender", work.used[1], "getrusage")  # fmt: skip
    yield _agree("connections tracked", w.os.now("conntrack_entries"), "receiver",
                 work.tracked, "conntrack -C")  # fmt: skip
    yield _agree("retransmissions", lossy.change("tcp_retransmitted_segments"), "sender",
                 work.again, "ss -ti")  # fmt: skip


def _readings(
    folder: Path,
    seconds: float,
    lan: Lan,
    places: tuple[str, str, str],
    worker: Worker,
    targets: Targets,
) -> list[Reading]:
    trace = Trace() if shutil.which("bpftrace") else None
    softirqs = Tracer(["--softirq", "--sample", "0.01"]) if why_not() is None else None
    with Sampler(collectors(targets), folder, PERIOD_S) as sampler:
        work = _work(sampler, seconds, lan, places, worker, softirqs)
    counted = trace.end() if trace is not None else ""
    w = Windows.of(folder, work.begin, work.end)
    readings = [
        *_of_places(folder, work, places[0], targets.cgroups[0] if targets.cgroups else ""),
        *_machine_wide(w.os, counted, work.begin, work.end),
    ]
    if counted:
        readings += cores(w.hardware, counted, work.begin, work.end)
    if counted and work.stacked is not None:
        other = grown(counted, "softirq", *work.traced) / 1e9
        readings.append(Agreement("softirq time traced, s", softirq_s(work.stacked), other,
                                  "bpftrace, from entry to exit"))  # fmt: skip
    readings += _of_cores(Windows.of(folder, *work.flood), work.stacked)
    return readings


def cores(hardware: Window, counted: str, begin: int, end: int) -> Iterator[Reading]:
    """Idle together; and busy, each, which may be little."""
    how = "bpftrace, from switch to switch"
    window = (end - begin) / 1e9
    ours = {cpu: share * window for cpu, share in busy(hardware).items()}
    idle = {cpu: idle_s(counted, int(cpu.removeprefix("cpu")), begin, end) for cpu in ours}
    yield Agreement(
        "cores idle, s", sum(window - s for s in ours.values()), sum(idle.values()), how
    )
    for cpu, seconds in ours.items():
        yield Agreement(f"{cpu} busy, s", seconds, window - idle[cpu], how)
    entered = grown(counted, "softirq", begin, end) / 1e9
    ours_in = sum(softirq(hardware).values()) * window
    yield Agreement("softirq time, s", ours_in, entered, "bpftrace, from entry to exit")


def softirq_s(stacked: StackTrace) -> float:
    return sum(v.time_ns for cpu in stacked.softirq for v in cpu.vectors.values()) / 1e9


def _machine_wide(os_window: Window, counted: str, begin: int, end: int) -> Iterator[Reading]:
    for metric, key, name in (
        ("system calls", "system_calls", "calls"),
        ("context switches", "context_switches", "switches"),
    ):
        if not counted:
            yield Skipped(metric, "bpftrace is not installed")
        elif not os_window.change(key):
            yield Skipped(metric, "not collected here")
        else:
            # The window's ends are when its first and last samples began.
            other = grown(counted, name, begin, end)
            yield Agreement(metric, os_window.total(key), other, "bpftrace count()")


def _of_cores(flood: Windows, stacked: StackTrace | None) -> Iterator[Reading]:
    metric = "softirqs by vector, s"
    if stacked is None:
        yield Skipped(metric, why_not() or "")
        return
    ours = sum(softirq(flood.hardware).values()) * flood.hardware.seconds
    yield Agreement(metric, ours, softirq_s(stacked), "the stack tracer's")


def show(readings: list[Reading]) -> bool:
    """Whether all agree."""
    for f in readings:
        if isinstance(f, Skipped):
            print(f"{f.metric:28} skipped: {f.why}")
            continue
        verdict = "agrees" if f.within else "DOES NOT AGREE"
        print(
            f"{f.metric:28} {f.ours:16.6g}  {f.other:16.6g} ({f.how})  {f.apart:.2%} apart, "
            f"goal {GOAL:.0%}: {verdict}"
        )
    return all(f.within for f in readings if isinstance(f, Agreement))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--seconds", type=float, default=100, help="of traffic; default 100")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        readings = read_all(Path(folder), a.seconds)
    sys.exit(not show(readings))


if __name__ == "__main__":
    main()
