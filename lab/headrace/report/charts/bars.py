# SPDX-License-Identifier: Apache-2.0
"""A bar for each of several named values, measured ones and published ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from headrace.analyse.units import significant

from .svg import line, linear, picture, rect, shorten, text, text_width, ticks, title

ROW, BAR, AXIS = 28.0, 16.0, 40.0


class Bar(NamedTuple):
    name: str
    value: float
    published: bool = False


@dataclass(frozen=True)
class Bars:
    bars: tuple[Bar, ...]
    unit: str
    kind: Literal["bars"] = "bars"

    def draw(self, width: float) -> str:
        return draw(self.bars, self.unit, width)


def draw(bars: Sequence[Bar], unit: str, width: float) -> str:
    if not bars:
        return ""
    small = width < 500
    largest = max(bar.value for bar in bars) or 1.0
    left = min(140.0 if small else 240.0, max(text_width(bar.name, 13) for bar in bars) + 12)
    x = linear(0, largest, left, width - 60)
    bottom = ROW * len(bars)
    body = []
    for value in ticks(largest, 3 if small else 6):
        body.append(line(x(value), 0, x(value), bottom + 4, class_="grid"))
        body.append(text(x(value), bottom + 18, f"{value:g}", class_="tick", text_anchor="middle"))
    body.append(text((left + width) / 2, bottom + 34, unit, class_="tick", text_anchor="middle"))
    for i, bar in enumerate(bars):
        top = i * ROW + (ROW - BAR) / 2
        name, shown = shorten(bar.name, left - 10, 13), significant(bar.value)
        body.append(text(left - 10, top + 13, name, class_="row", text_anchor="end"))
        style = "bar other" if bar.published else "bar"
        tip = title(f"{bar.name}: {shown}")
        body.append(rect(left, top, x(bar.value) - left, BAR, tip, class_=style))
        body.append(text(x(bar.value) + 6, top + 13, shown, class_="value"))
    words = "; ".join(f"{bar.name}: {significant(bar.value)}" for bar in bars)
    return picture(width, bottom + AXIS, f"{unit}. {words}", *body)
