# SPDX-License-Identifier: Apache-2.0
"""Every repetition lies on the axis, left of the column that has the values."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.analyse.summary import summarise
from headrace.record.bundle import Bundle
from headrace.report.charts.svg import NARROW, WIDE, covering
from headrace.report.charts.throughput import of


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_no_point_is_beyond_the_last_tick(bundle_path: Path, width: float) -> None:
    some = [r for r in Bundle(bundle_path).results() if r.goal == "ndr"][:3]
    rates = (36_600.0, 95_380.0, 98_100.0)
    results = [
        r.model_copy(update={"throughput_pps": rate, "repetition": i + 1})
        for i, (r, rate) in enumerate(zip(some, rates, strict=True))
    ]
    root = ElementTree.fromstring(of(summarise(results)).draw(width))
    grid = [float(e.get("x1", "nan")) for e in root if e.get("class") == "grid"]
    dots = [float(e.get("cx", "nan")) for e in root if (e.get("class") or "").startswith("dot")]
    values = [float(e.get("x", "nan")) for e in root if e.get("class") == "value"]
    assert len(dots) == 3 and max(dots) <= max(grid)
    assert max(dots) < min(values)


@settings(deadline=None)
@given(st.floats(1.0, 1e10), st.integers(2, 8))
def test_ticks_cover_and_stay_round(high: float, about: int) -> None:
    marks = covering(high, about)
    assert marks[-1] >= high * (1 - 1e-6) and len(marks) <= about + 2
    step = marks[1]
    assert marks == pytest.approx([i * step for i in range(len(marks))])
    assert marks[-1] - high <= step
