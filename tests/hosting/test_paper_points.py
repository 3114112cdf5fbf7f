# SPDX-License-Identifier: Apache-2.0
"""The papers' points: functions and VNFs that the engine accepts, all that are run here."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from headrace.record.bundle import Bundle
from support.lab import headrace

pytestmark = pytest.mark.beside

STUDIES = [
    file
    for file in sorted((Path(__file__).parents[2] / "studies").glob("s[12]/*.yaml"))
    if file.stem != "fib"  # whose table of 10^9 entries takes minutes to try
]
# All points of this one need a NIC with virtual functions.
PREDICTED = {"recommendations": ("--on", "xeon-gold-5118")}


@pytest.mark.parallel
@pytest.mark.parametrize("file", STUDIES, ids=lambda f: f"{f.parent.name}-{f.stem}")
def test_every_point_is_accepted(file: Path, tmp_path: Path, engine_binary: Path) -> None:
    on = PREDICTED.get(file.stem, ())
    asked = ("run", str(file), *on, "--check")
    done = headrace(*asked, folder=tmp_path, engine=engine_binary, timeout=300)
    assert done.returncode == 0, done.stderr
    can = "predicted" if on else "measured here"
    assert re.search(rf"\b(1 point|[1-9]\d* points) can be {can}$", done.stdout.rstrip())
    assert not list(file.parent.glob(".*"))  # nothing is left beside it


def test_a_point_that_fails_is_named_and_the_others_go_on(
    tmp_path: Path, engine_binary: Path
) -> None:
    (tmp_path / "points.yaml").write_text(
        """
name: points
paper: none
deployment: {hugepages: false}
measure: {loads: [1000], trial: 0.2}
warmup: 0
groups:
  two:
    about: The first has no next hop 7.
    sweep:
      chain:
        - [{l3fwd: {routes: [{prefix: 10.0.0.0/8, next_hop: 7}]}}]
        - [l2fwd]
"""
    )
    done = headrace(
        "run", "points.yaml", "--out", "out",
        folder=tmp_path, engine=engine_binary, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1
    assert "1 of 2 points failed: two-1" in done.stderr
    assert (tmp_path / "out/results.parquet").is_file()
    first, second = json.loads((tmp_path / "out/samples/points.json").read_text())
    assert "points.yaml:11: groups.two.sweep.chain: next hop 7" in first["failed"]
    assert second["point"] == "two-2" and second["failed"] is None
    [result] = Bundle(tmp_path / "out").results()
    assert result.chain == "two-2"
    page = (tmp_path / "out/report.html").read_text()
    assert "none: 1 of 2 points measured here" in page and "failed: " in page
    assert "two: all points" in page and "1 of 2 points measured here" in done.stdout
    again = headrace("run", "points.yaml", "--out", "out", folder=tmp_path, engine=engine_binary)
    assert again.returncode == 2 and "out" in again.stderr and "already" in again.stderr
    assert (tmp_path / "out/results.parquet").is_file()
