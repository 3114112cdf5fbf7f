# SPDX-License-Identifier: Apache-2.0
"""Runs the `headrace` command as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMMAND = Path(sys.executable).parent / "headrace"


def environment(folder: Path, engine: Path) -> dict[str, str]:
    """State and bundles go below the test's folder: what is left there was left by headrace."""
    runtime = folder / "runtime"
    runtime.mkdir(mode=0o700, exist_ok=True)
    return os.environ | {
        "XDG_RUNTIME_DIR": str(runtime),
        "HEADRACE_ENGINE": str(engine),
        "COLUMNS": "200",
        "NO_COLOR": "1",
    }


def headrace(
    *arguments: str, folder: Path, engine: Path, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMMAND), *arguments],
        cwd=folder,
        env=environment(folder, engine),
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def state_left(folder: Path) -> list[str]:
    """What is still written down as running or reserved."""
    base = folder / "runtime" / "headrace"
    return sorted(str(path) for path in base.rglob("*")) if base.exists() else []
