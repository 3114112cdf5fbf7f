# SPDX-License-Identifier: Apache-2.0
"""Conditions provoked for real, and what `headrace explain` names first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.explain import Diagnosis, explain
from headrace.explain.diagnosis import Weight
from headrace.explain.evidence import of
from headrace.measure.collectors import Sampler, Targets, collectors
from headrace.measure.collectors.base import Process, pairs
from headrace.measure.collectors.virtualization import mounts
from support.netns import Lan

pytestmark = pytest.mark.needs_root

PEER = Path(__file__).resolve().parents[1] / "trace" / "peer.py"
BUSY = "while True: pass"


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    p = subprocess.Popen(command)
    try:
        yield p
    finally:
        p.kill()
        p.wait()


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not so after {seconds} s"
        time.sleep(0.05)


def diagnose(folder: Path) -> list[Diagnosis]:
    """What this test's own parts say: cores are shared with whatever else runs here."""
    return [d for d in explain(of(folder)) if d.rule not in ("core-full", "stolen-time")]


@pytest.fixture
def pair(lan: Lan) -> tuple[str, str]:
    a, b = lan.namespace("a"), lan.namespace("b")
    lan.veth((a, "va"), (b, "vb"))
    lan.address(a, "va", "10.76.0.1/24")
    lan.address(b, "vb", "10.76.0.2/24")
    lan.inside(a, "ping", "-c", "1", "10.76.0.2")
    return a, b


def datagrams(
    folder: Path, pair: tuple[str, str], receive: list[str], send: list[str]
) -> dict[str, float]:
    """From one namespace to the other, with the receiver's watched."""
    a, b = pair
    ready = folder / "ready"
    inside = ["ip", "netns", "exec"]
    # It stays until nothing has come for a while, so that the last sample finds its namespace.
    count = ["--count", "1000000"]
    rx = subprocess.Popen(
        [*inside, b, sys.executable, str(PEER), "receive", "--ready", str(ready), *count, *receive],
        stdout=subprocess.PIPE,
    )
    until(ready.exists)
    targets = Targets(processes=(Process(name="receiver", pid=rx.pid),))
    with Sampler(collectors(targets), folder / "samples", 0.2):
        subprocess.run(
            [*inside, a, sys.executable, str(PEER), "send", "--host", "10.76.0.2", *send],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        time.sleep(0.5)
    said: dict[str, float] = json.loads(rx.communicate()[0])
    return said


def test_small_socket_buffer(tmp_path: Path, pair: tuple[str, str]) -> None:
    said = datagrams(tmp_path, pair, ["--buffer", "4096", "--delay-ms", "0.5"], ["--count", "5000"])
    assert said["received"] < 5000
    first = diagnose(tmp_path / "samples")[0]
    assert (first.rule, first.place) == ("socket-buffer-full", "receiver")
    assert first.weight == Weight.LOSS and first.remedy


def test_fragments(tmp_path: Path, pair: tuple[str, str]) -> None:
    datagrams(
        tmp_path,
        pair,
        ["--buffer", str(32 << 20)],
        ["--count", "300", "--bytes", "60000", "--may-fragment", "--gap-ms", "2"],
    )
    found = diagnose(tmp_path / "samples")
    assert "fragments" in [d.rule for d in found if d.weight >= Weight.SHORTAGE]
    assert any("became 300 datagrams" in t for d in found for t in d.evidence) or found[0].rule == (
        "socket-buffer-full"
    )


def test_nothing_is_claimed_of_light_traffic(tmp_path: Path, pair: tuple[str, str]) -> None:
    said = datagrams(tmp_path, pair, [], ["--count", "500", "--gap-ms", "2"])
    assert said["received"] == 500
    rules = {d.rule for d in diagnose(tmp_path / "samples") if d.weight >= Weight.SHORTAGE}
    assert rules <= {"waiting-for-a-core", "softirq-on-one-core"}  # others' work on this machine
    assert not rules or os.getloadavg()[0] > 1


def test_cpu_quota(tmp_path: Path) -> None:
    at = mounts()
    name = f"headrace-explain-{os.getpid()}"
    folder = (at.get("cpu") or at[""]) / name
    try:
        folder.mkdir()
        # Two per cent: throttled even where other work leaves the process less than it may use.
        if "cpu" in at:
            (folder / "cpu.cfs_quota_us").write_text("2000")
        else:
            (folder / "cpu.max").write_text("2000 100000")
    except OSError as why:
        pytest.skip(f"a cgroup with a quota cannot be made here: {why}")
    try:
        with running(sys.executable, "-c", BUSY) as p:
            (folder / "cgroup.procs").write_text(str(p.pid))
            with Sampler(collectors(Targets(cgroups=(name,))), tmp_path, 0.2):
                until(lambda: pairs(folder / "cpu.stat").get("nr_throttled", 0) > 10)
        first = diagnose(tmp_path)[0]
        assert (first.rule, first.place) == ("cpu-quota", name)
        assert "0.02 CPUs" in first.evidence[0]
    finally:
        folder.rmdir()


def test_two_on_one_core(tmp_path: Path) -> None:
    cpu = str(max(os.sched_getaffinity(0)))
    busy = ["taskset", "-c", cpu, sys.executable, "-c", BUSY]
    with running(*busy) as one, running(*busy):
        targets = Targets(processes=(Process(name="one", pid=one.pid),))
        with Sampler(collectors(targets), tmp_path, 0.2):
            time.sleep(2)
    first = diagnose(tmp_path)[0]
    assert (first.rule, first.place) == ("waiting-for-a-core", "one")


def test_bridge_with_netfilter(tmp_path: Path, lan: Lan) -> None:
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
        pytest.skip("bridge-netfilter is not in this kernel, or its module not loaded")
    lan.inside(a, "ping", "-c", "1", "-w", "20", "10.75.0.2", timeout=30)
    command = [sys.executable, "-c", "from headrace.cli import main; main()", "collect"]
    options = ["--bridge", "br0", "--layer", "virtual-switch", "--period", "0.2"]
    out = ["--out", str(tmp_path / "samples"), "--duration", "4"]
    p = lan.start(s, *command, *options, *out)
    until((tmp_path / "samples/virtual-switch.jsonl").exists)
    lan.inside(a, "ping", "-q", "-f", "-c", "2000", "10.75.0.2")
    said, _ = p.communicate(timeout=60)
    assert p.returncode == 0, said
    assert "bridge-netfilter" in [d.rule for d in diagnose(tmp_path / "samples")]
