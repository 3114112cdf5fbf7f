# SPDX-License-Identifier: Apache-2.0
"""Waiting for other work on this machine to pass: a build that has just ended still writes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

IDLE = 0.9  # of the time of all CPUs: what is left is no build
LOOK_S = 1.0


def settle(most_s: float, say: Callable[[str], object]) -> float | None:
    """Return the seconds that it waited; None: the machine did not become idle within `most_s`, of
    which 0 asks for no wait at all."""
    if not most_s:
        return 0.0
    began, told = time.monotonic(), False
    while True:
        if idle_share(LOOK_S) >= IDLE:
            return time.monotonic() - began
        if time.monotonic() - began >= most_s:
            say(f"other work on this machine has not passed in {most_s:g} s: going on beside it")
            return None
        if not told:
            say(f"waiting for other work on this machine to pass, at most {most_s:g} s")
            told = True


def idle_share(seconds: float) -> float:
    """The share of the CPUs' time that nobody used, from now on for so long."""
    was = _times()
    time.sleep(seconds)
    idle, total = (after - before for before, after in zip(was, _times(), strict=True))
    return idle / total if total else 1.0


def _times() -> tuple[int, int]:
    """Ticks: idle, waiting for devices included; and all (proc(5), /proc/stat)."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split()[1:9]]
    return fields[3] + fields[4], sum(fields)
