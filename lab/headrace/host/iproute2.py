# SPDX-License-Identifier: Apache-2.0
"""ip(8) and tc(8), for what netlink's library has no words for. In the current network namespace;
HeadraceError with a program's first line where it fails."""

from __future__ import annotations

import shutil
import subprocess

from headrace.errors import HeadraceError

_TIMEOUT_S = 30


def ip(*arguments: str) -> str:
    """What it prints."""
    return _run("ip", arguments, named=4)


def tc(*arguments: str) -> None:
    _run("tc", arguments, named=2)


def _run(name: str, arguments: tuple[str, ...], named: int) -> str:
    """`named`: how many of its arguments an error repeats."""
    program = shutil.which(name) or f"/sbin/{name}"
    try:
        done = subprocess.run(
            [program, *arguments],
            capture_output=True, errors="replace", timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
    except OSError:
        raise HeadraceError(f"{name}: not found; install it (`apt-get install iproute2`)") from None
    if done.returncode:
        words = (done.stderr.strip() or "failed").splitlines()[0]
        raise HeadraceError(f"{name} {' '.join(arguments[:named])}: {words}")
    return done.stdout
