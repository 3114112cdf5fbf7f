# SPDX-License-Identifier: Apache-2.0
"""A disk that is full at the run's end costs the page and the tables' form, not the figures."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from headrace.cli.init import init
from headrace.cli.report import finish_run
from headrace.errors import BadInput
from headrace.record.bundle import Bundle, BundleUnwritable, BundleWriter
from headrace.record.testdata import make_bundle


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a disk of its own can only be mounted by root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as f, pytest.raises(OSError, match="No space"):
        while True:
            f.write(b"x" * 4096)


@pytest.mark.parametrize("rows_fit", [False, True])
def test_tables_that_do_not_fit(tmp_path: Path, disk: Path, rows_fit: bool) -> None:
    whole = Bundle(make_bundle(tmp_path / "whole"))
    message = r"trials\.parquet: cannot be written: no space left on device$"
    with pytest.raises(BundleUnwritable, match=message) as caught, BundleWriter(disk / "b") as w:
        for trial in whole.trials()[:3]:
            w.trial(trial)
        w.result(whole.results()[0])
        fill(disk)
        if rows_fit:  # and the Parquet made of them does not
            rows = (disk / "b" / "trials.jsonl").stat().st_size
            filler = disk / "filler"
            os.truncate(filler, filler.stat().st_size - rows // 4096 * 4096 - 4096)
    assert caught.value.exit_status == 1
    left = {p.name for p in (disk / "b").iterdir()}
    assert left == {"samples", "status.json", "trials.jsonl", "results.jsonl"}
    bundle = Bundle(disk / "b")
    assert bundle.results() == whole.results()[:1]
    # Neither "is still running" nor "was killed".
    assert bundle.status.state == "partial"
    assert "no space left on device" in (bundle.status.unfinished or "")


def test_a_page_that_does_not_fit(disk: Path) -> None:
    bundle = make_bundle(disk / "b")
    fill(disk)
    printed = io.StringIO()
    with pytest.raises(BundleUnwritable, match=r"report\.html: .*no space left") as caught:
        finish_run(bundle, Console(file=printed, width=200))
    assert "--html" not in str(caught.value)
    assert "ndr" in printed.getvalue()
    assert not list(bundle.glob("*report.html*"))


@pytest.mark.parametrize("room", [0, 4096])
def test_a_first_spec_that_does_not_fit(
    disk: Path, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for the spec, and not for the schema beside it."""
    monkeypatch.setattr("headrace.cli.init.find_engine", Path)
    monkeypatch.setattr("headrace.cli.init.describe", lambda engine: None)
    monkeypatch.setattr("headrace.cli.init.spec_schema", lambda engine: "x" * 40960)
    fill(disk)
    os.truncate(disk / "filler", (disk / "filler").stat().st_size - room)
    with pytest.raises(BadInput, match=r"cannot be written: no space left on device"):
        init(disk / "first.yaml", None, False)
    assert [one.name for one in disk.iterdir()] == ["filler"]
