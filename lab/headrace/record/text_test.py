# SPDX-License-Identifier: Apache-2.0
"""Figures in words have three digits and a unit, never a power of ten."""

from __future__ import annotations

import pytest

from headrace.record.text import rate, time


@pytest.mark.parametrize(
    ("pps", "text"),
    [
        (None, "?"),
        (999.4, "999 pps"),
        (999_400, "999 kpps"),
        (999_500, "1 Mpps"),  # was 1e+03 kpps
        (999_950, "1 Mpps"),
        (24_300_000, "24.3 Mpps"),
    ],
)
def test_a_rate_has_the_unit_that_it_rounds_to(pps: float | None, text: str) -> None:
    assert rate(pps) == text


def test_a_time_does_so_too() -> None:
    assert [time(ns) for ns in (999.4, 999.6, 999_960, 3.77e6)] == [
        "999 ns",
        "1 µs",
        "1 ms",
        "3.77 ms",
    ]
