# SPDX-License-Identifier: Apache-2.0
"""What a profile's page says of the memory model: a verdict in words, and how far it predicts."""

from __future__ import annotations

from headrace.model.amat import fit
from headrace.model.amat_test import CACHES, ENTRIES, cycles
from headrace.report.cells import scales
from headrace.report.profile import memory_model
from headrace.spec.profile import Fit


def test_the_verdict_and_the_errors_that_it_stands_on() -> None:
    curve = fit([(n, cycles(n, 64, 8, overlapped=True)) for n in ENTRIES], CACHES)
    assert curve is not None
    parts = memory_model(curve, "flows")
    # By hand: 30 of base equal 8 ((1 - 512/n) + 3 (1 - 8192/n)) at n = 100 k.
    assert parts.note.startswith("Memory-bound above 100 k flows, most of it for DRAM at 1 M.")
    assert "error: median 0.0%" in parts.note
    assert "8.0 accesses, while others are under way" in parts.note
    prices, points, goal = parts.tables
    shown = scales(prices)
    parallelism = prices.typed[5]
    assert [shown.text(parallelism, row.cells[5]) for row in prices.lines] == ["", "10", "13", "10"]
    assert points.columns[3] == "predicted by a fit to the others"
    assert all(
        scales(points).text(points.typed[4], row.cells[4]).endswith("0.0\u202f%")
        for row in points.lines
    )
    assert goal.lines[0].cells[3] == "met"


def test_a_fit_of_an_older_headrace_has_no_verdict() -> None:
    old = Fit.model_validate(
        {
            "base_cycles": 30,
            "bytes_per_entry": 64,
            "penalties": [{"level": "L3", "size_bytes": 1, "cycles": 9, "accesses": 2}],
            "points": [{"state": 100, "measured": 30, "modelled": 31}],
        }
    )
    shown = memory_model(old, "flows")
    assert shown.note.startswith("No verdict: an older headrace made the fit")
    assert shown.tables[2].lines[0].cells[3] == "not measured: an older headrace made this fit"
