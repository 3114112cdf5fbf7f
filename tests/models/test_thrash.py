# SPDX-License-Identifier: Apache-2.0
"""The neighbour of a profile ends with whoever started it, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.argv[1], "--cpus", sys.argv[2], "--thrash", "1048576"])
print(child.pid, flush=True)
time.sleep(60)
"""
WAIT_S = 20.0


def runs(pid: int) -> bool:
    """Not as a zombie, which is whose parent's affair."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] != "Z"


def test_the_neighbour_ends_with_its_parent(engine_binary: Path) -> None:
    program = engine_binary.parent / "calibrate/headrace-calibrate"
    if not program.is_file():
        pytest.skip(f"{program} is missing: run `make setup`")
    cpu = str(min(os.sched_getaffinity(0)))
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, program, cpu], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    neighbour = int(parent.stdout.readline())
    try:
        deadline = time.monotonic() + WAIT_S
        command = Path(f"/proc/{neighbour}/comm")
        # The program asks for its end at its start; until then it is still a copy of its parent.
        while "headrace-cal" not in command.read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        assert runs(neighbour)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        deadline = time.monotonic() + WAIT_S
        while runs(neighbour) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not runs(neighbour)
    finally:
        parent.kill()
        parent.wait()
        if runs(neighbour):
            os.kill(neighbour, signal.SIGKILL)
