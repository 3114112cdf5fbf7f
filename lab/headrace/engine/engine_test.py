# SPDX-License-Identifier: Apache-2.0
"""An engine's program that the system does not start."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.engine.engine import Engine
from headrace.errors import HeadraceError


def test_a_program_that_cannot_be_started_is_one_line(tmp_path: Path) -> None:
    """A build may replace it while a run goes on."""
    binary = tmp_path / "headrace-engine"
    binary.touch(mode=0o644)
    settings = SimpleNamespace(hugepages=False, memory_mb=0)
    plan: Any = SimpleNamespace(engine=settings, text="{}", segments=())
    state: Any = SimpleNamespace(path=tmp_path)
    with pytest.raises(HeadraceError, match=r"/headrace-engine: cannot be started: permission"):
        Engine(binary, plan, state)
