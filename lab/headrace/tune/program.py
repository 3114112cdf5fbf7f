# SPDX-License-Identifier: Apache-2.0
"""headrace-shortcut (trace/): where it is, and what it was built with."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from headrace.host import programs


def find_shortcut() -> Path:
    return programs.find(
        "headrace-shortcut",
        [programs.BUILT / "trace" / "headrace-shortcut"],
        "; build it with `make setup`, put it on PATH, or name it in HEADRACE_SHORTCUT",
        variable="HEADRACE_SHORTCUT",
    )


@cache
def ways(program: Path) -> tuple[str, ...]:
    """The ways past a bridge that it knows; AF_XDP needs a library."""
    return tuple(programs.run_tool(program, ["--ways"], "headrace-shortcut").split())
