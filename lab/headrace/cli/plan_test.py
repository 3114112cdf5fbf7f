# SPDX-License-Identifier: Apache-2.0
"""What a plan is to be written to is tried before minutes of measuring, not after."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.plan import _check_writable
from headrace.errors import BadInput


def test_where_nothing_can_be_written_is_said_at_once(tmp_path: Path) -> None:
    for wrong in (tmp_path, tmp_path / "none" / "chosen.yaml", Path("/proc/chosen.yaml")):
        with pytest.raises(BadInput, match=f"--out: got '{wrong}'; cannot be written: "):
            _check_writable("--out", wrong)


def test_looking_leaves_everything_as_it_was(tmp_path: Path) -> None:
    _check_writable("--out", None)
    new, old = tmp_path / "new.yaml", tmp_path / "old.yaml"
    old.write_text("name: old\n")
    _check_writable("--out", new)
    _check_writable("--html", old)
    assert not new.exists() and old.read_text() == "name: old\n"
