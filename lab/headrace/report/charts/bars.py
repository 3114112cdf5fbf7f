# SPDX-License-Identifier: Apache-2.0
"""Bars, of which a page has an SVG (bars_svg.py) and a terminal characters (terminal.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .bar_rows import Bar, BarGroup, BarRows, Panel
from .bars_svg import draw

FILLS = 8  # n1..n8 of the page's style sheet


@dataclass(frozen=True)
class Bars(BarRows):
    kind: Literal["bars"] = "bars"

    def draw(self, width: float) -> str:
        return draw(self, width)


def plain(bars: Sequence[Bar], unit: str, label: str = "", divisor: float = 1.0) -> Bars:
    """One panel, without groups."""
    return Bars((BarGroup("", (tuple(bars),)),), (Panel(unit, divisor),), label or unit)


def fills(names: Sequence[str]) -> dict[str, str]:
    """Each name's own fill, in their order, the same in all bars of a chart."""
    return {name: f"n{i % FILLS + 1}" for i, name in enumerate(dict.fromkeys(names))}
