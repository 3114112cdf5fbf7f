# SPDX-License-Identifier: Apache-2.0
"""A search whose goal no load met: its last trial is no figure of the chain."""

from __future__ import annotations

from pathlib import Path

from headrace.analyse.bundle_report import report
from headrace.record.bundle import Bundle, BundleWriter
from headrace.record.rows import Bounds
from headrace.report.cells import scales
from headrace.report.document_model import Below
from headrace.report.paper_points import PointResult
from headrace.report.result_tables import results


def test_it_is_shown_as_below_the_lowest_load(bundle_path: Path, tmp_path: Path) -> None:
    rows = [r for r in Bundle(bundle_path).results() if r.goal == "ndr" and r.ground == "measured"]
    none = Bounds(lower_pps=None, upper_pps=2e4, stopped_by="min-load")
    with BundleWriter(tmp_path / "b") as writer:
        for one in rows:
            changes = {"bounds": none, "capacity": None} if one.execution == "hybrid" else {}
            writer.result(one.model_copy(update=changes))
    table = results(report(Bundle(tmp_path / "b")).groups[0])
    shown = {row.cells[0]: row.cells[1] for row in table.lines}
    assert shown["hybrid"] == Below(2e4) and isinstance(shown["rtc"], float)
    column = table.typed[1]
    assert scales(table).text(column, shown["hybrid"]) == "< 0.02000"
    unmet = next(r for r in Bundle(tmp_path / "b").results() if r.execution == "hybrid")
    in_brief = PointResult.of(unmet)
    assert in_brief.throughput_pps is None and in_brief.throughput == Below(2e4)
    assert PointResult.of(rows[0]).throughput_pps == rows[0].throughput_pps
