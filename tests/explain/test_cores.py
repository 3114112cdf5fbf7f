# SPDX-License-Identifier: Apache-2.0
"""Cores' time from switch to switch, against work whose CPU time is known."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from provoked import pair

from headrace.measure.collectors import cores
from headrace.measure.collectors.base import Targets
from headrace.measure.collectors.hardware import Hardware
from headrace.measure.collectors.sampler import Sampler
from headrace.measure.collectors.samples import Samples, Window
from support.netns import Lan

pytestmark = pytest.mark.needs_root


@pytest.fixture
def hardware() -> Iterator[Hardware]:
    made = Hardware(Targets())
    try:
        if why := made.absent().get("cpu_idle_ns"):
            pytest.skip(why)
        yield made
    finally:
        made.close()


def watched(hardware: Hardware, folder: Path, command: list[str]) -> Window:
    with Sampler([hardware], folder, 10) as sampler:
        begin = sampler.now()
        subprocess.run(command, check=True)
        sampler.now()
        end = sampler.last_ns
    return Samples(folder).window("hardware", begin, end)


def test_a_core_that_works_is_not_idle(hardware: Hardware, tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    work = (
        f"import os, time\nos.sched_setaffinity(0, {{{cpu}}})\nstarting = time.process_time()\n"
        "while time.process_time() < starting + 1:\n pass"
    )
    w = watched(hardware, tmp_path, [sys.executable, "-c", work])
    assert w.change("cpu_idle_ns")[f"cpu{cpu}"] <= w.seconds * 1e9 - 1e9
    assert cores.busy(w)[f"cpu{cpu}"] <= 1.0


def test_idle_and_ticks_agree_roughly(hardware: Hardware, tmp_path: Path) -> None:
    w = watched(hardware, tmp_path, ["sleep", "2"])
    waiting = w.change("cpu_iowait_s")
    for cpu, ns in w.change("cpu_idle_ns").items():
        by_ticks = w.change("cpu_idle_s")[cpu] + waiting.get(cpu, 0.0)
        assert ns / 1e9 == pytest.approx(by_ticks, rel=0.3, abs=0.3)


def test_softirqs_of_packets_are_seen(hardware: Hardware, tmp_path: Path, lan: Lan) -> None:
    """Each packet over a veth pair is received in a softirq, which takes a while."""
    a, _ = pair(lan)
    send = (
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "for _ in range(50000):\n s.sendto(bytes(100), ('10.76.0.2', 7000))"
    )
    w = watched(hardware, tmp_path, ["ip", "netns", "exec", a, sys.executable, "-c", send])
    seen = sum(w.change("cpu_softirq_ns").values())
    assert 50_000 * 100 < seen < w.seconds * 1e9 * len(cores.softirq(w))


def test_it_ends_with_the_lab(hardware: Hardware) -> None:
    """Its input is a pipe of the lab's: however that ends, there is nothing left."""
    code = (
        "import os, signal\n"
        "from headrace.measure.collectors.cores import CoreClock\n"
        "clock = CoreClock()\nassert list(clock.read())\n"
        "print(clock._process.pid, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    pid = int(said.stdout)
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.05)
    pytest.fail(f"headrace-cores {pid} goes on")
