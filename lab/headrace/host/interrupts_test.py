# SPDX-License-Identifier: Apache-2.0
"""Signals that come when it suits nobody."""

from __future__ import annotations

import subprocess
import sys

import pytest

_HEAD = """
import os, signal
from headrace.host import interrupts
interrupts.catch()
def ctrl_c(): os.kill(os.getpid(), signal.SIGINT)
"""


def printed(script: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _HEAD + script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_only_the_first_is_raised() -> None:
    script = """
try:
    ctrl_c()
    print("not raised")
except KeyboardInterrupt:
    print("first")
    ctrl_c(); ctrl_c()
    os.kill(os.getpid(), signal.SIGTERM)
    print("undone")
print(*interrupts.received)
"""
    assert printed(script) == ["first", "undone", "2", "2", "2", "15"]


def test_held_it_waits_for_the_last_holder() -> None:
    script = """
interrupts.hold(); interrupts.hold()
ctrl_c()
interrupts.let_go()
print("pending" if interrupts.pending() else "lost")
try:
    interrupts.let_go()
    print("not raised")
except KeyboardInterrupt:
    print("raised", interrupts.pending())
interrupts.hold()
interrupts.let_go()
print("once")
"""
    assert printed(script) == ["pending", "raised", "False", "once"]


@pytest.mark.parametrize("moment", ["", "interrupts.hold()"])
def test_without_signals_nothing_is_raised(moment: str) -> None:
    assert printed(f"{moment}\n{moment and 'interrupts.let_go()'}\nprint('on')") == ["on"]
