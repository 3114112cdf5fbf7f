# SPDX-License-Identifier: Apache-2.0
"""Figures in words, as progress has them: few digits and a unit."""

from __future__ import annotations

from collections.abc import Iterable

_ONE = 0.9995  # of a unit: three digits make one of it, and 1e+03 of the unit below


def rate(pps: float | None) -> str:
    if pps is None:
        return "?"
    for factor, unit in ((1e6, "Mpps"), (1e3, "kpps")):
        if pps >= _ONE * factor:
            return f"{pps / factor:.3g} {unit}"
    return f"{pps:.3g} pps"


def between(lower_pps: float | None, upper_pps: float | None) -> str:
    """Bounds of a search; one that it did not find is not there."""
    if lower_pps is None:
        return f"below {rate(upper_pps)}"
    if upper_pps is None:
        return f"at least {rate(lower_pps)}"
    return f"{rate(lower_pps)} to {rate(upper_pps)}"


def time(nanoseconds: float) -> str:
    for factor, unit in ((1e6, "ms"), (1e3, "µs")):
        if nanoseconds >= _ONE * factor:
            return f"{nanoseconds / factor:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"


def lcores_text(cpus: Iterable[int]) -> str:
    """`lcore 0`, `lcores 0, 1`"""
    numbers = sorted(set(cpus))
    return f"lcore{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def all_of(names: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`"""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
