# SPDX-License-Identifier: Apache-2.0
"""Programs that say when they have begun, that end before, and that say nothing."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from headrace.errors import HeadraceError
from headrace.host.ready import ReadyProgram

BEGINS = """
import sys, time
with open(sys.argv[-1], "w") as file:
    file.write("\\n")
time.sleep(60)
"""


def started(script: str) -> ReadyProgram:
    return ReadyProgram("thing", [sys.executable, "-c", script], subprocess.DEVNULL)


def test_it_is_ready_once_it_says_so() -> None:
    program = started(BEGINS)
    try:
        assert program.ready(60) and program.process.poll() is None
    finally:
        program.kill()


def test_one_that_ends_is_not_waited_for() -> None:
    program, began = started("import sys; sys.exit('no')"), time.monotonic()
    assert not program.ready(600)
    assert program.process.communicate()[1] == "no\n"
    assert time.monotonic() - began < 300


def test_one_that_says_nothing_is_ended() -> None:
    program = started("import time; time.sleep(600)")
    with pytest.raises(HeadraceError, match=r"^thing: not ready after 0\.2 s$"):
        program.ready(0.2)
    assert program.process.returncode
