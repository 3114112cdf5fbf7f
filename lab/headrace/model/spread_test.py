# SPDX-License-Identifier: Apache-2.0
"""The interval of a median covers it as often as it says."""

from __future__ import annotations

import random

import pytest

from headrace.model.spread import median_interval


@pytest.mark.parametrize("count", [9, 30, 61])
def test_it_covers_the_median(count: int) -> None:
    draw = random.Random(count)
    low, high = median_interval(count)
    assert 0 <= low < high < count
    trials, covered = 3000, 0
    for _ in range(trials):
        values = sorted(draw.expovariate(1) for _ in range(count))
        covered += values[low] <= 0.6931472 <= values[high]
    # At least as often, as it is of whole values; but not by much: it would say little.
    assert 0.94 < covered / trials < 0.995


def test_of_few_values_it_is_all_of_them() -> None:
    assert median_interval(1) == (0, 0)
    assert median_interval(4) == (0, 3)
