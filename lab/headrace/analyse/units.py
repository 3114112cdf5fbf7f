# SPDX-License-Identifier: Apache-2.0
"""Numbers as people read them: few digits, always with their unit."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import yaml

NOT_KNOWN = "–"
SPACE = "\u202f"  # narrow no-break: a number never parts from its unit
_ALL, _DIGITS_MOST = 1e-9, 12  # nearer to all than this is all, added up in floating point
_ABOVE = 1e-5


class Scale(NamedTuple):
    """One unit for a whole column or axis, so that its numbers can be compared by eye."""

    divisor: float
    unit: str

    def number(self, value: float | None, digits: int = 3) -> str:
        return NOT_KNOWN if value is None else significant(value / self.divisor, digits)

    def text(self, value: float | None, digits: int = 3) -> str:
        return NOT_KNOWN if value is None else f"{self.number(value, digits)}{SPACE}{self.unit}"


def rate_scale(largest_pps: float) -> Scale:
    for divisor, unit in ((1e9, "Gpps"), (1e6, "Mpps"), (1e3, "kpps")):
        if abs(largest_pps) >= divisor:
            return Scale(divisor, unit)
    return Scale(1.0, "pps")


def time_scale(typical_ns: float) -> Scale:
    for divisor, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if abs(typical_ns) >= divisor:
            return Scale(divisor, unit)
    return Scale(1.0, "ns")


def significant(value: float, digits: int = 3) -> str:
    """Plain notation with `digits` significant digits; the zeros at the end are kept."""
    if value == 0:
        return "0"
    exponent = int(f"{abs(value):.{digits - 1}e}".split("e")[1])
    return f"{value:,.{max(0, digits - 1 - exponent)}f}".replace(",", SPACE)


def pps(value: float | None, digits: int = 3) -> str:
    return NOT_KNOWN if value is None else rate_scale(value).text(value, digits)


def ns(value: float | None, digits: int = 3) -> str:
    return NOT_KNOWN if value is None else time_scale(value).text(value, digits)


def count(value: int) -> str:
    return f"{value:,}".replace(",", SPACE).replace("-", "−")


def percent(ratio: float | None, digits: int = 3) -> str:
    """Has as many digits more as keep what is not all from being rounded to 100 %; what is above it
    by less than a hundred-thousandth is rounding itself."""
    if ratio is None:
        return NOT_KNOWN
    text = significant(ratio * 100, digits)
    while (
        float(text.replace(SPACE, "")) == 100
        and not -_ALL <= ratio - 1 <= _ABOVE
        and digits < _DIGITS_MOST
    ):
        digits += 1
        text = significant(ratio * 100, digits)
    return f"{text}{SPACE}%"


def exact_percent(ratio: float) -> str:
    """A ratio that somebody chose: all its digits and no more."""
    return f"{ratio * 100:.10g}{SPACE}%"


def signed_percent(ratio: float | None) -> str:
    if ratio is None:
        return NOT_KNOWN
    sign = "+" if ratio > 0 else "−" if ratio < 0 else "±"
    return f"{sign}{abs(ratio) * 100:.1f}{SPACE}%"


def size(value: float | None, digits: int = 4) -> str:
    if value is None:
        return NOT_KNOWN
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= factor:
            return f"{value / factor:.{digits}g} {unit}"
    return f"{value:g} B"


def loss(ratio: float) -> str:
    """A loss ratio: exact zero is told from a small one."""
    return "0" if ratio == 0 else percent(ratio, 2)


def plural(n: int, one: str, many: str | None = None) -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"


def flat(facts: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    """Nested facts as `a.b` names with readable values."""
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        elif isinstance(value, list | tuple):
            yield prefix + name, ", ".join(map(_item, value)) or "none"
        elif isinstance(value, bool):
            yield prefix + name, "yes" if value else "no"
        elif isinstance(value, float):
            yield prefix + name, significant(value)
        elif isinstance(value, int) and abs(value) >= 10_000:
            yield prefix + name, count(value)
        elif value not in (None, ""):
            yield prefix + name, str(value)


def _item(value: object) -> str:
    return flow(value) if isinstance(value, dict | list | tuple) else str(value)


def flow(value: object) -> str:
    """Writes it on one line, as a spec has it (YAML 1.2 section 7.4)."""
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=math.inf)
    return text.removesuffix("\n").removesuffix("\n...")
