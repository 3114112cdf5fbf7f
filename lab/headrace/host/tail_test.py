# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.host.tail import MOST_BYTES, tail


def test_a_file_may_be_longer_than_memory(tmp_path: Path) -> None:
    """An engine that was taken over can say so of its standard error, which takes no room."""
    file = tmp_path / "stderr"
    file.write_text("so it began\n")
    os.truncate(file, 1 << 40)
    assert tail(file) == ""
    with file.open("a") as end:
        end.write("\nthe end\n")
    assert tail(file) == "\nthe end\n"
    file.write_text("x" * 3 * MOST_BYTES)
    assert len(tail(file)) == MOST_BYTES


def test_a_link_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "host").write_text("secret")
    (tmp_path / "log").symlink_to(tmp_path / "host")
    with pytest.raises(OSError, match="symbolic links"):
        tail(tmp_path / "log")
