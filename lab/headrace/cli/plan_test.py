# SPDX-License-Identifier: Apache-2.0
"""Where a plan is to be written is tried before minutes of measuring; what a plan's bundle is."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli._study_run import on_server
from headrace.cli.plan import _check_output, _check_writable
from headrace.cli.run import run
from headrace.errors import BadInput
from headrace.host.store import server_named
from headrace.record.bundle import BundleWriter
from headrace.spec import document


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


def test_the_study_is_not_written_over(tmp_path: Path) -> None:
    study = tmp_path / "s.yaml"
    study.write_text("name: s\n")
    (tmp_path / "link.yaml").symlink_to(study)
    for same in (study, tmp_path / "link.yaml"):
        with pytest.raises(BadInput, match="is the study itself; allowed: another file"):
            _check_output("--out", same, document.load(study))


def test_no_name_of_a_server_is_not_this_machine(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("name: s\n")
    doc = on_server(document.load(tmp_path / "s.yaml"), "")
    assert doc.data["ground"] == {"simulated": {"server": ""}}
    with pytest.raises(BadInput, match="server: got ''; no such file"):
        server_named(doc, "")


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
