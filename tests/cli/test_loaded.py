# SPDX-License-Identifier: Apache-2.0
"""What a command that is forked of a loaded process says and does is what one says and does that
users start."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.lab import COMMAND, environment, wait_for
from support.loaded import loaded

pytestmark = pytest.mark.parallel
SPEC = "name: one\nchain: [l2fwd]\ndeployment: {hugepages: false}\nmeasure: {loads: [1k]}\n"
COMMANDS = {
    "version": ("--version",),
    "help": ("run", "--help"),
    "no such command": ("measure",),
    "no such file": ("run", "--check", "none.yaml"),
    "bad spec": ("run", "--check", "bad.yaml"),
    "check": ("run", "--check", "one.yaml"),
    "JSON": ("nf", "l2fwd", "--json"),
    "no bundle": ("explain", "."),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_it_says_and_does_the_same(name: str, engine_binary: Path, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(SPEC)
    (tmp_path / "bad.yaml").write_text(SPEC + "warmups: 1\n")
    command, env = [str(COMMAND), *COMMANDS[name]], environment(tmp_path, engine_binary)
    own = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    forked = loaded().run(command, tmp_path, env, 300)
    assert (forked.returncode, forked.stdout, forked.stderr) == (
        own.returncode,
        own.stdout,
        own.stderr,
    )


def test_nothing_of_one_command_is_in_the_next(engine_binary: Path, tmp_path: Path) -> None:
    """Environment, folder and arguments: an engine that one was told of is not the next one's."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/one.yaml").write_text(SPEC)
    env = environment(tmp_path, engine_binary)
    command = [str(COMMAND), "run", "--check", "one.yaml"]
    wrong = loaded().run(command, tmp_path / "a", env | {"HEADRACE_ENGINE": "/none"}, 300)
    assert wrong.returncode == 2 and "/none" in wrong.stderr
    assert loaded().run(command, tmp_path / "a", env, 300).returncode == 0
    assert "one.yaml: no such file" in loaded().run(command, tmp_path, env, 300).stderr


def test_one_that_takes_too_long_is_ended(engine_binary: Path, tmp_path: Path) -> None:
    """An engine that says nothing; it says whose it is."""
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\necho $PPID >asker\nexec sleep 3\n")
    slow.chmod(0o755)
    (tmp_path / "one.yaml").write_text(SPEC)
    env = environment(tmp_path, engine_binary) | {"HEADRACE_ENGINE": str(slow)}
    asker = tmp_path / "asker"
    with pytest.raises(subprocess.TimeoutExpired):
        loaded().run([str(COMMAND), "run", "--check", "one.yaml"], tmp_path, env, 2)
    # Where the machine was so slow that it had not begun, it was ended before it asked.
    if asker.exists() and (pid := asker.read_text().strip()):
        assert wait_for(lambda: not Path(f"/proc/{pid}").exists(), 60)
    # Nobody wants to know how that ended; others are served.
    for _ in range(2):
        assert loaded().run([str(COMMAND), "--version"], tmp_path, env, 300).returncode == 0


def test_it_ends_with_who_started_it() -> None:
    """However that ends: no process of the tests' remains."""
    script = (
        "import os, sys; from support.loaded import Loaded; one = Loaded(); "
        "print(one._process.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    watched = None
    try:
        watched = os.pidfd_open(int(done.stdout))
    except ProcessLookupError:
        return
    assert select.select([watched], [], [], 120)[0], "it goes on"
