# SPDX-License-Identifier: Apache-2.0
"""A busy thread that must share its CPU is seen to wait; one that sleeps is not."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from headrace.testbed.scheduling import Snapshot, Thread, kept_waiting, snapshot

BUSY = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass\n"


def test_two_pollers_on_one_cpu_wait_for_each_other() -> None:
    cpu = max(os.sched_getaffinity(0))
    pollers = [subprocess.Popen([sys.executable, "-c", BUSY, str(cpu)]) for _ in range(2)]
    try:
        time.sleep(0.3)
        before = snapshot(pollers[0].pid)
        if not before.threads:
            pytest.skip("this kernel has no /proc/PID/task/TID/schedstat")
        time.sleep(0.5)
        after = snapshot(pollers[0].pid)
    finally:
        for poller in pollers:
            poller.kill()
            poller.wait()
    assert kept_waiting(before, after, [cpu])[cpu] > 50e6


def test_other_cpus_and_sleepers_do_not_count() -> None:
    before = Snapshot({1: Thread(0, 0, 0), 2: Thread(1, 0, 0), 3: Thread(1, 0, 0)}, {0: 0, 1: 0})
    after = Snapshot(
        {1: Thread(0, 900, 100), 2: Thread(1, 990, 10), 3: Thread(1, 0, 700)}, {0: 5, 1: 7}
    )
    assert kept_waiting(before, after, [1]) == {1: 17}
    assert kept_waiting(before, after, [0]) == {0: 105}
