# SPDX-License-Identifier: Apache-2.0
"""What there is to look at, and what is said where there is nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.bundle import BundleWriter
from headrace.errors import BadInput, HeadraceError
from headrace.explain.evidence import of


def test_a_run_that_measured_nothing_has_nothing_to_explain(tmp_path: Path) -> None:
    """It waited for a lcore in vain, say; silence would read as `nothing is narrow`."""
    with pytest.raises(HeadraceError), BundleWriter(tmp_path / "b"):
        raise HeadraceError("lcore 1: held by process 7")
    with pytest.raises(HeadraceError, match="no trials to explain") as caught:
        of(tmp_path / "b")
    assert "lcore 1: held by process 7" in str(caught.value)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="allowed: a directory that `headrace run`"):
        of(tmp_path)
