# SPDX-License-Identifier: Apache-2.0
"""What bars show, whatever draws them.

A chart has one panel or several, each with a scale of its own. Groups (executions) have bars in
each of them; beside each other where there is room, else one panel below the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from headrace.analyse.units import significant

Look = Literal["sure", "unsure", "other"]  # other: not measured here


class Piece(NamedTuple):
    """A stretch of a bar. `fill`: a class of the page's style sheet."""

    name: str
    value: float
    fill: str = "bar"


class Panel(NamedTuple):
    """`divisor`: what values are divided by to be in `unit`."""

    unit: str
    divisor: float = 1.0
    share: float = 1.0  # of the width, beside others


class Bar(NamedTuple):
    name: str
    pieces: tuple[Piece, ...]
    text: str = ""  # behind it; the sum of its pieces where nothing else is said
    note: str = ""
    interval: tuple[float, float] | None = None
    dots: tuple[float, ...] = ()  # repetitions
    look: Look = "sure"

    @property
    def total(self) -> float:
        return sum(float(piece.value) for piece in self.pieces)

    @property
    def reach(self) -> float:
        ends = self.interval or ()
        return max(self.total, *self.dots, *ends, 0.0)


class BarGroup(NamedTuple):
    name: str
    panels: tuple[tuple[Bar, ...], ...]  # as those of the chart


@dataclass(frozen=True)
class BarRows:
    """The bars of a chart, by group and panel."""

    groups: tuple[BarGroup, ...]
    panels: tuple[Panel, ...]
    label: str  # what it shows, for those who do not see it

    def bars(self, panel: int) -> list[Bar]:
        return [bar for group in self.groups for bar in group.panels[panel]]

    def text(self, panel: int, bar: Bar) -> str:
        return bar.text or significant(bar.total / self.panels[panel].divisor)

    def words(self) -> str:
        """All of it in a sentence each."""
        told = []
        for i, panel in enumerate(self.panels):
            for group in self.groups:
                for bar in group.panels[i]:
                    name = " ".join(part for part in (group.name, bar.name) if part)
                    parts = [f"{p.name} {significant(p.value / panel.divisor)}" for p in bar.pieces]
                    some = f" ({', '.join(parts)})" if len(parts) > 1 else ""
                    told.append(f"{name}: {self.text(i, bar)}{some}")
        return f"{self.label}. {'; '.join(told)}"
