# SPDX-License-Identifier: Apache-2.0
"""Runs the `headrace` command as a user does."""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from support.loaded import loaded

COMMAND = Path(sys.executable).parent / "headrace"
PATIENCE_S = 300.0  # what takes ten seconds may take long at the lowest priority
# Whose run holds the machine's lcores meanwhile is nothing of the test's (exclusive_test has it).
_NOTICE = re.compile(r"\Aheadrace \w+: held for measuring: .*\n")


@cache
def runtime_dir(folder: Path) -> Path:
    """A run-time directory of the test's own: what is left there was left by headrace. Not below
    the test's folder: the path of a socket has room for 107 bytes."""
    own_folder = tempfile.mkdtemp(prefix="hr-", dir="/tmp")
    atexit.register(shutil.rmtree, own_folder, ignore_errors=True)
    return Path(own_folder)


def environment(folder: Path, engine: Path) -> dict[str, str]:
    return os.environ | {
        "XDG_RUNTIME_DIR": str(runtime_dir(folder)),
        "HEADRACE_ENGINE": str(engine),
        "COLUMNS": "200",
        "NO_COLOR": "1",
    }


def headrace(
    *arguments: str,
    folder: Path,
    engine: Path,
    timeout: float = PATIENCE_S,
    netns: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs it with this engine, and a run-time directory of the folder's own."""
    return command(arguments, folder, environment(folder, engine), timeout, netns)


def command(
    arguments: Sequence[object],
    folder: Path,
    env: Mapping[str, str] = os.environ,
    timeout: float = PATIENCE_S,
    netns: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """In a process forked of one that has loaded what it needs; with HEADRACE_TESTS_EXEC=1 as users
    start it."""
    words = [str(COMMAND), *map(str, arguments)]
    if os.environ.get("HEADRACE_TESTS_EXEC") != "1":
        done = loaded().run(words, folder, dict(env), timeout, netns)
    else:
        inside = [] if netns is None else ["ip", "netns", "exec", netns]
        done = subprocess.run(
            [*inside, *words], cwd=folder, env=env, capture_output=True, text=True, timeout=timeout
        )
    done.stderr = _NOTICE.sub("", done.stderr)
    return done


def killed_vnfs(
    folder: Path,
    engine: Path,
    seconds: int,
    rate: int,
    kills: int,
    timeout: float = 120,
    **more: Any,
) -> dict[str, Any]:
    """`measure.chaos` of the folder's spec.yaml: at least so many kills, after which the host is as
    it was and nothing is left."""
    study = yaml.safe_load((folder / "spec.yaml").read_text())
    study["measure"] = {"loads": [rate], "chaos": {"duration": seconds, **more}}
    (folder / "killed.yaml").write_text(json.dumps(study))
    done = headrace(
        "run", "killed.yaml", "--out", "killed", "--json",
        folder=folder, engine=engine, timeout=timeout,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [result] = json.loads(done.stdout)["results"]
    assert (result["goal"], result["audit"]["verdict"]) == ("chaos", "ok")
    outcome = chaos_outcome(folder / "killed")
    assert outcome["left"] == []
    assert sum(outcome["kills"].values()) >= kills
    assert 0 < outcome["received"] <= outcome["sent"]
    assert state_left(folder) == []
    return outcome


def chaos_outcome(bundle: Path) -> dict[str, Any]:
    outcome: dict[str, Any] = json.loads((bundle / "samples" / "chaos-001.json").read_text())
    return outcome


def wait_for(condition: Callable[[], object], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def state_left(folder: Path) -> list[str]:
    """What is still written down as running or reserved."""
    base = runtime_dir(folder) / "headrace"
    return sorted(str(path) for path in base.rglob("*")) if base.exists() else []


def refused_in_a_line(spec: Path, words: Iterable[str], engine: Path) -> None:
    """A check ends with status 2 and one line that names the spec and has the words."""
    done = headrace("run", "--check", spec.name, folder=spec.parent, engine=engine)
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith(f"headrace: {spec.name}") and done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr
