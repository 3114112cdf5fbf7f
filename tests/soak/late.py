# SPDX-License-Identifier: Apache-2.0
"""Time in which the machine did run, and whether a VNF that got no packet could have got one."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass
from pathlib import Path

TICK_S, LONGEST_S = 0.2, 2.0  # a longer step is the machine's, which stood still
# What a host that carries 10,000 packets/s gives the others in five seconds: a VNF that is there,
# and is not kept from its CPU, has had a seventh as many by then.
ENOUGH_OF_OTHERS = 50_000
STARVED = 0.5  # of its life, in which one of the threads that it takes waited for a CPU


class Clock(threading.Thread):
    """Counts seconds in which this process was run, and apart from them those in which it was not:
    a machine may be stopped, or somebody else's, for minutes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seconds = self.stood = 0.0
        self._ended = threading.Event()

    def run(self) -> None:
        last = time.monotonic()
        while not self._ended.wait(TICK_S):
            now = time.monotonic()
            self.count(now - last)
            last = now

    def count(self, step: float) -> None:
        self.seconds += min(step, LONGEST_S)
        self.stood += max(0.0, step - LONGEST_S)

    def end(self) -> None:
        self._ended.set()
        self.join()


def waited_s(pid: int) -> dict[str, float]:
    """How long each thread was ready to run and had no CPU, as the kernel counts."""
    waited = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # ended meanwhile
            waited[task.name] = int((task / "schedstat").read_text().split()[1]) / 1e9
    return waited


@dataclass(frozen=True)
class Moment:
    """What is known of a VNF, its host, and what came back of all VNFs."""

    second: float
    received: int
    waited: dict[str, float]


def had_its_chance(there: Moment, now: Moment) -> bool:
    """Whether packets of a VNF would have come in between, as those of others did: no thread of it
    or the host's was kept from a CPU for most of the time."""
    most = max(value - there.waited.get(task, 0.0) for task, value in now.waited.items())
    carried = now.received - there.received
    return carried >= ENOUGH_OF_OTHERS and most < STARVED * (now.second - there.second)
