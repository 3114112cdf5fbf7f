# SPDX-License-Identifier: Apache-2.0
"""Processes that outlive what knows of them, told apart and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

_KILL_WAIT_S = 5.0
ENDED_FIRST = 1000  # oom_score_adj (proc(5)): before anything else that runs


@dataclass(frozen=True)
class Process:
    """A process told apart from a later one with the same number by its start time."""

    pid: int
    started: int

    @staticmethod
    def of(pid: int) -> Process | None:
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        fields = text.rpartition(")")[2].split()
        if fields[0] == "Z":
            return None
        return Process(pid, int(fields[19]))  # proc(5): field 22, starttime

    def alive(self) -> bool:
        return Process.of(self.pid) == self


def ended_first(pid: int) -> None:
    """Where memory runs out this one is ended before the host's engine, however small it is: what
    it keeps by descriptors alone counts for nobody."""
    with contextlib.suppress(OSError):  # it has ended by itself
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(ENDED_FIRST))


def kill(process: Process) -> None:
    """SIGTERM, a moment to leave, then SIGKILL; never a process that took over the number."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not process.alive():
            return
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + _KILL_WAIT_S
        while process.alive() and time.monotonic() < deadline:
            time.sleep(0.02)
