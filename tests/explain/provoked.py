# SPDX-License-Identifier: Apache-2.0
"""Conditions provoked for real: each is made, watched and undone, and says what should be named.

A condition is given a folder and namespaces of its own, and leaves in the folder what `headrace
explain` reads: a folder of samples, or a run's bundle.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from headrace.collect import Sampler, Targets, collectors
from headrace.collect.collector import WatchedProcess, pairs
from headrace.collect.virtualization import mounts
from headrace.ground.appliances.addressing import NodeInterface
from headrace.ground.appliances.fabric import Ovs
from headrace.host.ledger import Ledger
from support.containers import lacking
from support.lab import command
from support.netns import Lan

PEER = Path(__file__).resolve().parents[1] / "trace" / "peer.py"
HEADRACE = [sys.executable, "-c", "from headrace.cli import main; main()"]
BUSY = "while True: pass"
PERIOD = 0.2


class CannotProvoke(Exception):
    """Why this machine does not let the condition be made."""


@dataclass(frozen=True)
class Condition:
    rule: str
    make: Callable[[Path, Lan], Path]  # -> what to explain
    place: str = ""  # that is named, where others may have the same; its beginning


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    p = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        yield p
    finally:
        p.kill()
        p.wait()
        if p.stdout:
            p.stdout.close()


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not so after {seconds} s"
        time.sleep(0.05)


def cpus() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def watched(folder: Path, **targets: object) -> Sampler:
    return Sampler(collectors(Targets.model_validate(targets)), folder / "samples", PERIOD)


def pair(lan: Lan) -> tuple[str, str]:
    a, b = lan.namespace("a"), lan.namespace("b")
    lan.veth((a, "va"), (b, "vb"))
    lan.address(a, "va", "10.76.0.1/24")
    lan.address(b, "vb", "10.76.0.2/24")
    lan.inside(a, "ping", "-c", "1", "10.76.0.2")
    return a, b


def datagrams(
    folder: Path, ends: tuple[str, str], receive: list[str], send: list[str]
) -> dict[str, float]:
    """From one namespace to the other, with the receiver's watched."""
    a, b = ends
    ready = folder / "ready"
    inside = ["ip", "netns", "exec"]
    # It stays until nothing has come for a while, so that the last sample finds its namespace.
    peer = [sys.executable, str(PEER)]
    options = ["--ready", str(ready), "--count", "1000000", *receive]
    with running(*inside, b, *peer, "receive", *options) as rx:
        until(ready.exists)
        with watched(folder, processes=(WatchedProcess(name="receiver", pid=rx.pid),)):
            host = ["--host", "10.76.0.2"]
            subprocess.run(
                [*inside, a, *peer, "send", *host, *send], check=True, stdout=subprocess.DEVNULL
            )
            time.sleep(0.5)
        counts: dict[str, float] = json.loads(rx.communicate()[0])
    return counts


def socket_buffer(folder: Path, lan: Lan) -> Path:
    datagrams(folder, pair(lan), ["--buffer", "4096", "--delay-ms", "0.5"], ["--count", "5000"])
    return folder / "samples"


def fragments(folder: Path, lan: Lan) -> Path:
    """Larger than the MTU, slowly enough for the receiver."""
    send = ["--count", "300", "--bytes", "60000", "--may-fragment", "--gap-ms", "4"]
    datagrams(folder, pair(lan), ["--buffer", str(64 << 20)], send)
    return folder / "samples"


def light_traffic(folder: Path, lan: Lan) -> Path:
    datagrams(folder, pair(lan), [], ["--count", "500", "--gap-ms", "2"])
    return folder / "samples"


@contextmanager
def cgroup(controller: str) -> Iterator[Path]:
    """A control group of this process's name, of either version."""
    at = mounts()
    group = (at.get(controller) or at[""]) / f"headrace-explain-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as why:
        raise CannotProvoke(f"a cgroup cannot be made here: {why}") from None
    try:
        yield group
    finally:
        until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


def cpu_quota(folder: Path, lan: Lan) -> Path:
    with cgroup("cpu") as group:
        # Two per cent: throttled even where other work leaves the process less than it may use.
        try:
            if "cpu" in mounts():
                (group / "cpu.cfs_quota_us").write_text("2000")
            else:
                (group / "cpu.max").write_text("2000 100000")
        except OSError as why:
            raise CannotProvoke(f"a quota cannot be set here: {why}") from None
        with running(sys.executable, "-c", BUSY) as p:
            (group / "cgroup.procs").write_text(str(p.pid))
            with watched(folder, cgroups=(group.name,)):
                until(lambda: pairs(group / "cpu.stat").get("nr_throttled", 0) > 10)
    return folder / "samples"


def two_on_one_core(folder: Path, lan: Lan) -> Path:
    busy = ["taskset", "-c", str(cpus()[-1]), sys.executable, "-c", BUSY]
    with (
        running(*busy) as one,
        running(*busy),
        watched(folder, processes=(WatchedProcess(name="one", pid=one.pid),)),
    ):
        time.sleep(2)
    return folder / "samples"


def one_full_thread(folder: Path, lan: Lan) -> Path:
    """What others could do on the other cores does not help it."""
    if len(cpus()) < 2:
        raise CannotProvoke("one CPU has nothing to compare with")
    with cgroup("cpuacct") as group, running(sys.executable, "-c", BUSY) as p:
        (group / "cgroup.procs").write_text(str(p.pid))
        with watched(folder, cgroups=(group.name,)):
            time.sleep(2)
    return folder / "samples"


def switch_of_one_thread(folder: Path, lan: Lan) -> Path:
    """Open vSwitch forwards in one thread, and is sent more than that can carry."""
    if shutil.which("ovs-vsctl") is None:
        raise CannotProvoke("Open vSwitch is not installed")
    ends = [NodeInterface("up", lan=0, address=f"10.76.0.{n}", device="eth0") for n in (1, 2)]
    a, b = lan.namespace("a"), lan.namespace("b")
    ledger = Ledger(folder)
    try:
        switch = Ovs(f"hrx{os.getpid() % 100000}", ledger, folder)
        switch.add_lan(0)
        for namespace, end in zip((a, b), ends, strict=True):
            switch.attach(namespace, end)
            lan.address(namespace, end.device, f"{end.address}/24")
            lan.inside(namespace, "ip", "link", "set", end.device, "up")
        switch.finish()
        lan.inside(a, "ping", "-c", "1", "-w", "20", ends[1].address, timeout=30)
        lan.inside(a, "ip", "route", "add", "10.99.0.0/16", "via", ends[1].address)
        lan.inside(b, "ip", "route", "add", "blackhole", "10.99.0.0/16")
        lan.sysctl(b, "net.ipv4.ip_forward", "1")
        send = ["send", "--host", "10.99.0.1", "--count", "100000000", "--bytes", "100"]
        with running("ip", "netns", "exec", a, sys.executable, str(PEER), *send):
            time.sleep(1)
            with watched(folder, ovs=switch.switch.directory):
                time.sleep(3)
    finally:
        ledger.undo()
    return folder / "samples"


def softirq_on_one_core(folder: Path, lan: Lan) -> Path:
    """Routers in a row forward in the softirqs of the sender's core; nobody reads. So many that
    what the sender itself does is little beside them; and the sender gives way, or it would have
    half of the core once the softirqs are ksoftirqd's, a thread among others."""
    if len(cpus()) < 2:
        raise CannotProvoke("one CPU has nothing to compare with")
    names = [lan.namespace(f"r{i}") for i in range(24)]
    for i, (a, b) in enumerate(pairwise(names)):
        lan.veth((a, f"e{i}"), (b, f"w{i}"))
        lan.address(a, f"e{i}", f"10.66.{i}.1/24")
        lan.address(b, f"w{i}", f"10.66.{i}.2/24")
        lan.sysctl(b, "net.ipv4.ip_forward", "1")
        lan.inside(a, "ip", "route", "add", "10.99.0.0/16", "via", f"10.66.{i}.2")
    lan.inside(names[-1], "ip", "route", "add", "blackhole", "10.99.0.0/16")
    send = ["send", "--host", "10.99.0.1", "--count", "100000000",
            "--bytes", "8000", "--may-fragment"]  # fmt: skip
    # A nice value counts within a session only, and sessions among each other by their autogroup's.
    modest = 'echo 19 > /proc/self/autogroup; exec nice -n 19 "$@"'
    command = ["ip", "netns", "exec", names[0], "setsid", "sh", "-c", modest, "sh",
               "taskset", "-c", str(cpus()[0]), sys.executable]  # fmt: skip
    with running(*command, str(PEER), *send):
        time.sleep(1)
        with watched(folder):
            time.sleep(3)
    return folder / "samples"


def conntrack_full(folder: Path, lan: Lan) -> Path:
    """The limit is of the whole machine: lowered for as long as it takes, to what a test's own
    connections exceed and an idle machine's do not."""
    limit = Path("/proc/sys/net/netfilter/nf_conntrack_max")
    if not limit.exists():
        raise CannotProvoke("connection tracking is not loaded")
    a, b = pair(lan)
    rules = "table ip t { chain c { type filter hook input priority 0; ct state new accept; }; }"
    lan.inside(b, "nft", rules)
    was = limit.read_text()
    script = (
        "import socket\n"
        "for port in range(1024, 40000):\n"
        "    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:\n"
        "        s.bind(('10.76.0.1', port))\n"
        "        s.sendto(b'x', ('10.76.0.2', 7000))\n"
    )
    with running("ip", "netns", "exec", b, "sleep", "120") as there:
        time.sleep(0.2)
        try:
            limit.write_text("16384")
            with watched(folder, processes=(WatchedProcess(name="receiver", pid=there.pid),)):
                lan.inside(a, sys.executable, "-c", script, timeout=120)
        finally:
            limit.write_text(was)
    return folder / "samples"


def bridge_netfilter(folder: Path, lan: Lan) -> Path:
    """The bridge's namespace is looked at from inside: sampling by the command itself."""
    a, b, s = lan.namespace("a"), lan.namespace("b"), lan.namespace("s")
    lan.inside(s, "ip", "link", "add", "br0", "type", "bridge")
    for n, address in ((a, "10.75.0.1/24"), (b, "10.75.0.2/24")):
        lan.veth((n, "eth0"), (s, f"p{n[-1]}"))
        lan.address(n, "eth0", address)
        lan.inside(s, "ip", "link", "set", f"p{n[-1]}", "master", "br0")
    lan.inside(s, "ip", "link", "set", "br0", "up")
    try:
        lan.sysctl(s, "net.bridge.bridge-nf-call-iptables", "1")
    except AssertionError:
        why = "bridge-netfilter is not in this kernel, or its module not loaded"
        raise CannotProvoke(why) from None
    lan.inside(a, "ping", "-c", "1", "-w", "20", "10.75.0.2", timeout=30)
    options = ["--bridge", "br0", "--layer", "virtual-switch", "--period", str(PERIOD)]
    out = ["--out", str(folder / "samples"), "--duration", "4"]
    p = lan.start(s, *HEADRACE, "collect", *options, *out)
    until((folder / "samples/virtual-switch.jsonl").exists)
    lan.inside(a, "ping", "-q", "-f", "-c", "2000", "10.75.0.2")
    printed, _ = p.communicate(timeout=60)
    assert p.returncode == 0, printed
    return folder / "samples"


def study(folder: Path, text: str, warmup: str = "warmup: 0.2\n") -> Path:
    spec, bundle = folder / "study.yaml", folder / "bundle"
    spec.write_text(f"name: provoked\n{warmup}{text}")
    done = command(("run", spec, "--out", bundle), folder, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return bundle


def forwarding_quota(folder: Path, lan: Lan) -> Path:
    """A NAT in a container, which has no process that forwards: the kernel does, and is held to a
    tenth of a CPU. The firewall behind it may have what it wants."""
    if (why := lacking("nat", "ip-firewall", "traffic")) is not None:
        raise CannotProvoke(why)
    return study(
        folder,
        "deployment: {hosting: {kind: appliances, vnfs: {nat: {cpus: 0.1}}}}\n"
        "chain: [nat, ip-firewall]\nworkload: {kind: tcp}\n"
        "measure: {trial: 2 s}\nwarmup: 1 s\ncollect: true\n",
        warmup="",
    )


def slow_nf(folder: Path, lan: Lan) -> Path:
    return study(folder, "chain: [null, delay: {cycles: 2000}]\nmeasure: {max: true, trial: 1 s}\n")


# Takes its CPU from whatever is there, for a millisecond in fifty: costs can still be told.
PAUSES = """
import os, time
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
while True:
    time.sleep(0.049)
    end = time.monotonic() + 0.001
    while time.monotonic() < end:
        pass
"""


def small_ring(folder: Path, lan: Lan) -> Path:
    """Far below what the chain can carry: but its reader pauses for a millisecond now and then, as
    a poller does on a core that the kernel also uses, and the ring holds an eighth of that."""
    if len(cpus()) < 2:
        raise CannotProvoke("the generator would pause with the reader")
    deployment = "deployment: {wire: 64}\n"
    with running("taskset", "-c", str(cpus()[-1]), sys.executable, "-c", PAUSES):
        return study(
            folder, f"chain: [null]\n{deployment}measure: {{loads: [20k, 500k], trial: 1 s}}\n"
        )


def generator(folder: Path, lan: Lan) -> Path:
    """More than any one core can make."""
    return study(folder, "chain: []\nmeasure: {loads: [500M], trial: 1 s}\n")


CONDITIONS = {
    "cpu quota": Condition("cpu-quota", cpu_quota),
    "quota of forwarding": Condition("cpu-quota", forwarding_quota, place="nat"),
    "two on one core": Condition("waiting-for-a-core", two_on_one_core),
    "one full thread": Condition("busy-thread", one_full_thread),
    "switch of one thread": Condition("busy-thread", switch_of_one_thread),
    "one softirq core": Condition("softirq-on-one-core", softirq_on_one_core),
    "small ring": Condition("small-ring", small_ring),
    "small socket buffer": Condition("socket-buffer-full", socket_buffer),
    "conntrack full": Condition("conntrack-full", conntrack_full),
    "bridge with netfilter": Condition("bridge-netfilter", bridge_netfilter),
    "MTU mismatch": Condition("fragments", fragments),
    "slow function": Condition("slow-nf", slow_nf),
    "slow generator": Condition("generator-bound", generator),
}


def provoke(condition: Condition, folder: Path) -> Path:
    folder.mkdir(parents=True)
    with Lan() as lan:
        return condition.make(folder, lan)


def remove(folder: Path) -> None:
    with suppress(OSError):
        subprocess.run(["rm", "-rf", str(folder)], check=False)
