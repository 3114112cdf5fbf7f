# SPDX-License-Identifier: Apache-2.0
"""A busy thread that must share its CPU is seen to wait; one that sleeps is not."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from headrace.host.scheduling import Snapshot, Thread, kept_waiting, snapshot

pytestmark = pytest.mark.alone

BUSY = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
print("polls", flush=True)
while True: pass
"""


def test_two_pollers_on_one_cpu_wait_for_each_other() -> None:
    cpu = max(os.sched_getaffinity(0))
    command = [sys.executable, "-c", BUSY, str(cpu)]
    pollers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for poller in pollers:
            assert poller.stdout is not None
            assert poller.stdout.readline() == "polls\n"
        before = snapshot(pollers[0].pid)
        if not before.threads:
            pytest.skip("this kernel has no /proc/PID/task/TID/schedstat")
        after = later(pollers[0].pid, before, 200e6)
    finally:
        for poller in pollers:
            poller.kill()
            poller.wait()
    assert kept_waiting(before, after, [cpu])[cpu] > 50e6


def later(pid: int, before: Snapshot, ran_ns: float) -> Snapshot:
    """Once the thread ran for so long, however little of the CPU it gets."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        time.sleep(0.05)
        after = snapshot(pid)
        if after.threads[pid].ran_ns - before.threads[pid].ran_ns >= ran_ns:
            return after
    raise TimeoutError(f"{pid} did not run for {ran_ns / 1e6:g} ms within a minute")


def test_other_cpus_and_sleepers_do_not_count() -> None:
    before = Snapshot({1: Thread(0, 0, 0), 2: Thread(1, 0, 0), 3: Thread(1, 0, 0)}, {0: 0, 1: 0})
    after = Snapshot(
        {1: Thread(0, 900, 100), 2: Thread(1, 990, 10), 3: Thread(1, 0, 700)}, {0: 5, 1: 7}
    )
    assert kept_waiting(before, after, [1]) == {1: 17}
    assert kept_waiting(before, after, [0]) == {0: 105}
