# SPDX-License-Identifier: Apache-2.0
"""Where a plan is to be written is tried before minutes of measuring; what a plan's bundle is."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.plan import _check_writable
from headrace.cli.run import run
from headrace.errors import BadInput
from headrace.record.bundle import BundleWriter


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


def test_a_bundle_of_another_command_says_which(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Its study is run, which is not all of it: that is told before anything is measured."""
    with BundleWriter(tmp_path / "b", command=("headrace", "plan", "my chain.yaml", "--verify")):
        pass
    with pytest.raises(BadInput, match="has no spec to replay"):
        run(tmp_path / "b")
    note = " ".join(capfd.readouterr().err.split())
    assert f"{tmp_path / 'b'} is of `headrace plan`" in note
    assert f"headrace plan 'my chain.yaml' --verify, with {tmp_path / 'b'} as its spec" in note
