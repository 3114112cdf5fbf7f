# SPDX-License-Identifier: Apache-2.0
"""ip(8) and tc(8), for what netlink's library has no words for. In the current network namespace;
HeadraceError with a program's first line where it fails."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence

from headrace.errors import HeadraceError

_TIMEOUT_S = 30
_FAILED = re.compile(r"Command failed .*:(\d+)$", re.MULTILINE)  # the number of its line


def ip(*arguments: str) -> str:
    """What it prints."""
    return _run("ip", arguments, named=4)


def tc(*arguments: str) -> None:
    _run("tc", arguments, named=2)


def ip_each(commands: Sequence[Sequence[str]]) -> None:
    """Many of them in order, by one process: to start it takes longer than what it does. The first
    that fails is the last that is tried, and the error repeats all of it."""
    if not commands:
        return
    lines = "".join(f"{shlex.join(one)}\n" for one in commands)
    done = _asked("ip", ("-batch", "-"), _TIMEOUT_S + len(commands), lines)
    if done.returncode:
        number = _FAILED.search(done.stderr)
        failed = commands[int(number[1]) - 1] if number else ("-batch",)
        raise HeadraceError(f"ip {' '.join(failed)}: {_first_words(done)}")


def _run(name: str, arguments: tuple[str, ...], named: int) -> str:
    """`named`: how many of its arguments an error repeats."""
    done = _asked(name, arguments, _TIMEOUT_S)
    if done.returncode:
        raise HeadraceError(f"{name} {' '.join(arguments[:named])}: {_first_words(done)}")
    return done.stdout


def _asked(
    name: str, arguments: tuple[str, ...], within_s: float, lines: str = ""
) -> subprocess.CompletedProcess[str]:
    program = shutil.which(name) or f"/sbin/{name}"
    try:
        return subprocess.run(
            [program, *arguments],
            input=lines, capture_output=True, errors="replace", timeout=within_s, check=False,
        )  # fmt: skip
    except OSError:
        raise HeadraceError(f"{name}: not found; install it (`apt-get install iproute2`)") from None
    except subprocess.TimeoutExpired:
        command = f"{name} {' '.join(arguments)}"
        raise HeadraceError(f"{command}: has not ended after {within_s:g} s") from None


def _first_words(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr.strip() or "failed").splitlines()[0]
