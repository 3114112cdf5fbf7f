# SPDX-License-Identifier: Apache-2.0
"""Files of routes, plain and packed."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from headrace.spec.lines import entries_in, lines_of

ROUTES = "# three\n10.0.0.0/8 0\n\n10.1.0.0/16 1\n10.2.0.0/16 0\n"


def test_a_packed_file_has_the_entries_of_the_plain_one(tmp_path: Path) -> None:
    """Whatever it is called: its name says nothing."""
    plain, packed = tmp_path / "plain.gz", tmp_path / "packed.txt"
    plain.write_text(ROUTES)
    packed.write_bytes(gzip.compress(ROUTES.encode()))
    assert entries_in(plain) == entries_in(packed) == 3
    assert list(lines_of(packed)) == ROUTES.splitlines(keepends=True)


def test_half_a_packed_file_is_told(tmp_path: Path) -> None:
    half = tmp_path / "half.gz"
    half.write_bytes(gzip.compress(ROUTES.encode() * 100)[:40])
    with pytest.raises(OSError, match="no whole gzip file"):
        entries_in(half)
