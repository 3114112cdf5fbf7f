# SPDX-License-Identifier: Apache-2.0
"""Names of lines that end close together stand apart, and within the picture."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headrace.report.charts.percentiles import HEIGHT, NAME, PercentileCurve, draw
from headrace.report.charts.svg import WIDE, spaced


@given(st.lists(st.floats(0, 300), max_size=12).map(sorted))
def test_places_keep_their_gap_and_their_range(wanted: list[float]) -> None:
    places = spaced(wanted, 15, 10, 290)
    assert all(10 - 1e-6 <= p <= 290 + 1e-6 for p in places)
    assert all(b - a >= 15 - 1e-6 for a, b in pairwise(places))


def test_what_is_apart_stays_where_it_is() -> None:
    assert spaced([20, 100, 280], 15, 10, 290) == [20, 100, 280]
    assert spaced([289, 290], 15, 10, 290) == [275, 290]


def test_names_of_curves_that_end_together_are_in_one_column_apart() -> None:
    curves = [
        PercentileCurve(name, [(0.0, 1000.0), (0.9, 2000.0), (last, most)], 1000)
        for name, last, most in (
            ("rtc", 0.999, 3000.0),
            ("hybrid", 0.9999, 3010.0),
            ("pipeline", 0.99, 2990.0),
        )
    ]
    names = re.findall(r'<text x="([\d.]+)" y="([\d.]+)" class="name', draw(curves, None, WIDE))
    assert len(names) == 3 and len({x for x, _ in names}) == 1
    heights = sorted(float(y) for _, y in names)
    assert all(b - a >= NAME - 0.1 for a, b in pairwise(heights))
    assert heights[-1] < HEIGHT
