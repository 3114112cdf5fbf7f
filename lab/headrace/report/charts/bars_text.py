# SPDX-License-Identifier: Apache-2.0
"""Bars with characters."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text as Words

from .bar_rows import Bar
from .bars import Bars

LONGEST, SHORTEST = 60, 8  # columns of the longest bar
DIM, BAD = "dim", "bold red"
# What is told apart without colour, too: functions by turns, then what is none.
_LOOKS = {
    "links": ("▒", "white"), "loop": ("░", "white"), "tester": ("▓", "white"), "idle": ("·", DIM),
    "away": ("x", "red"), "unknown": ("?", DIM), "narrowest": ("█", BAD),
}  # fmt: skip
_FUNCTIONS = (
    "blue",
    "yellow",
    "green",
    "magenta",
    "red",
    "bright_yellow",
    "bright_magenta",
    "cyan",
)


def drawn(chart: Bars, width: int) -> RenderableType:
    """One panel below the other; a group's name stands at its first bar."""
    parts: list[RenderableType] = []
    for i, panel in enumerate(chart.panels):
        bars = chart.bars(i)
        if not bars:
            continue
        lines = [
            max(len(g.name) for g in chart.groups) + 2 if _named(chart) else 0,
            max(len(bar.name) for bar in bars) + 2,
            max(len(chart.text(i, bar)) + len(bar.note) for bar in bars) + 4,
        ]
        columns = max(SHORTEST, min(LONGEST, width - sum(lines)))
        parts += [Words(panel.unit, style=DIM), _panel(chart, i, columns)]
    if keys := _legend(chart):
        parts.append(keys)
    return Group(*parts)


def _named(chart: Bars) -> bool:
    return any(group.name for group in chart.groups)


def _panel(chart: Bars, index: int, columns: int) -> Grid:
    grid = Grid(box=None, show_header=False, pad_edge=False)
    for justify in ("left", "left", "left", "right", "left"):
        grid.add_column(justify=justify, no_wrap=True)
    most = max(bar.reach for bar in chart.bars(index)) or 1.0
    for group in chart.groups:
        for number, bar in enumerate(group.panels[index]):
            grid.add_row(
                Words("" if number else group.name, style="bold"),
                Words(bar.name, style="bold" if _marked(bar) else ""),
                _line(bar, columns / most),
                Words(chart.text(index, bar)),
                Words(bar.note, style=BAD if _marked(bar) else DIM),
            )
    return grid


def _marked(bar: Bar) -> bool:
    return any(piece.fill == "narrowest" for piece in bar.pieces)


def _line(bar: Bar, scale: float) -> Words:
    """Pieces end where their sum does, so that rounding adds up; the range as dashes behind."""
    line, end = Words(), 0.0
    for piece in bar.pieces:
        end += piece.value
        character, style = _look(piece.fill)
        line.append(character * (round(end * scale) - len(line)), style=style)
    if bar.interval is not None:
        line.append("─" * (round(bar.interval[1] * scale) - len(line)), style=DIM)
    return line


def _look(fill: str) -> tuple[str, str]:
    if fill in _LOOKS:
        return _LOOKS[fill]
    number = int(fill[1:]) - 1 if fill[0] == "n" else 0
    return ("█▚"[number % 2], _FUNCTIONS[number])


def _legend(chart: Bars) -> Words | None:
    """It is there where bars are of several pieces, of which each is named."""
    stacks = [bar for i in range(len(chart.panels)) for bar in chart.bars(i) if len(bar.pieces) > 1]
    names = {piece.name: piece.fill for bar in stacks for piece in bar.pieces}
    if not names:
        return None
    line = Words()
    for name, fill in names.items():
        character, style = _look(fill)
        line.append(character * 2, style=style)
        line.append(f" {name}  ", style=DIM)
    return line
