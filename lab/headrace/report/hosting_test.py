# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from headrace.analyse.units import flow
from headrace.cli._testdata import valid
from headrace.cli.hosting import app
from headrace.errors import HeadraceError
from headrace.record.bundle import Bundle, BundleWriter
from headrace.record.figures import LatencyFloor
from headrace.record.segments import Anatomy
from headrace.report.charts.anatomy import PARTS, AnatomyStack, anatomies
from headrace.report.charts.svg import WIDE
from headrace.report.hosting import words


def test_stack_is_to_scale() -> None:
    bars = [
        AnatomyStack("<one>", (1.0, 2.0, 3.0, 4.0, 10.0)),
        AnatomyStack("two", (0.0, 0.0, 0.0, 0.0, 40.0)),
    ]
    root = ElementTree.fromstring(anatomies(bars).draw(WIDE))
    bar_rects = [r for r in root if r.tag.endswith("rect")]
    widths = [float(r.get("width", "0")) for r in bar_rects]
    assert len(widths) == 2 * len(PARTS)
    first, last = (1 + width for width in (widths[len(PARTS) - 1], widths[-1]))  # a gap of 1 each
    assert first == pytest.approx(last / 4, rel=0.01)
    assert [1 + width for width in widths[:4]] == pytest.approx(
        [first * n / 10 for n in (1, 2, 3, 4)], rel=0.01
    )


def test_parts_of_a_latency_below_the_floor_are_left_out(tmp_path: Path, bundle_path: Path) -> None:
    """With a floor that is none, the generator would be all of the mean."""
    one, two = Bundle(bundle_path).trials()[:2]
    parts = Anatomy(generator_ns=3e3, switch_ns=0, queue_ns=1e3, scheduler_ns=0, vnf_ns=1e3,
                    of_which_back_ns=0)  # fmt: skip
    high = LatencyFloor(floor_ns=87.7e6)
    doubted = one.model_copy(update={"anatomy": parts, "calibration": high, "phase": "fixed"})
    known = two.model_copy(update={"anatomy": parts, "phase": "fixed"})
    for name, trials in (("both", [doubted, known]), ("none", [doubted])):
        with BundleWriter(tmp_path / name) as bundle:
            for trial in trials:
                bundle.trial(trial)
    shown = CliRunner().invoke(app, ["anatomy", str(tmp_path / "both")])
    assert (
        shown.exit_code == 0 and shown.output.count("64 B, 1024 flows") == 2
    )  # drawn, and as numbers
    assert "Left out: 1 trial with a median latency" in shown.output
    told = CliRunner().invoke(app, ["anatomy", str(tmp_path / "both"), "--json"])
    printed = valid("hosting anatomy", told.stdout)
    assert [(t["trial"], t["parts"]) for t in printed["trials"]] == [
        (known.trial, parts.model_dump())
    ]
    assert printed["left_out"] in shown.output
    with pytest.raises(HeadraceError, match=r"floor \(87\.7.ms\), whose calibration was disturbed"):
        CliRunner().invoke(app, ["anatomy", str(tmp_path / "none")], catch_exceptions=False)


def test_values_of_points_are_in_few_words() -> None:
    """In a table; `flow` has all of them."""
    chain = ["l2fwd", {"l3fwd": {"fib": "exact"}}]
    assert words(chain) == "l2fwd → l3fwd"
    assert flow(chain) == "[l2fwd, {l3fwd: {fib: exact}}]"
    assert [words(v) for v in (["32k"], "1:1", 63, True)] == ["32k", "1:1", "63", "true"]
