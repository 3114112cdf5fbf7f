# SPDX-License-Identifier: Apache-2.0
"""A process that takes a share of one CPU in bursts, as a neighbour does that wakes up now and
then: what figures that survive noise are held against.

Bursts take CPU time of 5 to 55 ms, at random; pauses make the share right. It is preferred to
pollers (SCHED_FIFO), as they are to others: otherwise the scheduler gives it what they leave.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator

SHORTEST_S, LONGEST_S = 0.005, 0.055


def burst(rng: random.Random, share: float, owed_s: float) -> float:
    """Works, then sleeps so that `share` of the time since the first burst was work; what the
    bursts so far took too much is `owed_s`, and what this one did is given back."""
    work = rng.uniform(SHORTEST_S, LONGEST_S)
    began, ran = time.monotonic(), time.thread_time()
    while time.thread_time() - ran < work:
        pass
    used = time.thread_time() - ran
    pause = used / share - (time.monotonic() - began) + owed_s
    if pause <= 0:
        return pause
    asleep = time.monotonic()
    time.sleep(pause)
    return pause - (time.monotonic() - asleep)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cpu", type=int)
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {arguments.cpu})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    rng, owed = random.Random(arguments.seed), 0.0
    print("bursts", flush=True)
    while os.getppid() != 1:
        owed = burst(rng, arguments.share, owed)


@contextlib.contextmanager
def bursty(cpu: int, share: float = 0.3, seed: int = 1) -> Iterator[subprocess.Popen[str]]:
    """Runs meanwhile."""
    command = [sys.executable, __file__, str(cpu), "--share", str(share), "--seed", str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "bursts\n", "the bursty process did not start"
            yield process
        finally:
            process.kill()


if __name__ == "__main__":
    main()
