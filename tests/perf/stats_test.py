# SPDX-License-Identifier: Apache-2.0
"""Intervals of medians, held against samples whose median is known."""

from __future__ import annotations

import random

import pytest

from perf.stats import Sample

pytestmark = pytest.mark.parallel


def test_interval_holds_the_median_as_often_as_it_says() -> None:
    draw = random.Random(7)
    held = 0
    for _ in range(200):
        low, high = Sample(tuple(draw.gauss(1.0, 0.03) for _ in range(25))).interval()
        held += low <= 1.0 <= high
    assert 0.90 <= held / 200 <= 0.99


def test_interval_narrows_with_the_root_of_the_number() -> None:
    draw = random.Random(7)

    def width(n: int) -> float:
        low, high = Sample(tuple(draw.gauss(1.0, 0.03) for _ in range(n))).interval()
        return high - low

    few = sum(width(20) for _ in range(20))
    many = sum(width(180) for _ in range(20))
    assert 2 < few / many < 4.5


def test_interval_of_equal_runs_is_a_point() -> None:
    assert Sample((1.5,) * 9).interval() == (1.5, 1.5)
