# SPDX-License-Identifier: Apache-2.0
"""Bars as long as their values, published ones told apart."""

from __future__ import annotations

import re

import pytest

from headrace.report.charts.bars import Bar, draw


def lengths(picture: str) -> dict[str, float]:
    found = re.findall(r'<rect[^>]*width="([\d.]+)"[^>]*><title>([^:<]+):', picture)
    return {name: float(width) for width, name in found}


@pytest.mark.parametrize("width", [860.0, 400.0])
def test_lengths_are_the_values(width: float) -> None:
    picture = draw([Bar("here", 0.2), Bar("paper", 0.4, True), Bar("none", 0.0)], "share", width)
    found = lengths(picture)
    assert found["paper"] == pytest.approx(2 * found["here"], rel=0.01)
    assert found["none"] == 0
    assert picture.count('class="bar other"') == 1 and "here: 0.200" in picture


def test_nothing_to_draw() -> None:
    assert draw([], "share", 860) == ""
