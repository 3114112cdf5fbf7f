# SPDX-License-Identifier: Apache-2.0
"""Published figures beside what was measured here: each point is measured, or says why not; and
where both are there, whether one may be held against the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.report.charts.bars import Bar, Bars
from headrace.report.charts.lines import Axes, Series
from headrace.report.document import Block, Cell, Chart, Column, Section, Table, curves

SAME = "yes"


@dataclass(frozen=True)
class Entry:
    """`published`: as text, since it may be a range; None: the paper gives no number for it.
    `unlike`: why the two may not be held against each other, or in which respect only; SAME where
    they may. It has to be given wherever both are there."""

    name: str
    measured: float | None = None
    published: str | None = None
    skipped: str = ""  # why it is not measured here
    unlike: str = ""

    def __post_init__(self) -> None:
        if self.measured is None and not self.skipped:
            raise ValueError(f"{self.name}: neither measured nor with a reason why not")
        if self.measured is not None and self.published is not None and not self.unlike:
            raise ValueError(f"{self.name}: published beside measured, but not whether comparable")


def section(
    title: str,
    note: str,
    entries: Sequence[Entry],
    unit: str,
    series: Sequence[Series] = (),
    axes: Axes | None = None,
) -> Section:
    """A figure of the paper's kind where there are several points, and all of them in a table."""
    drawn = axes is not None and any(len(s.points) > 1 for s in series)
    figure = (curves(series, axes),) if drawn and axes is not None else ()
    return Section(title, note, (*figure, _table(entries, unit)))


def bar_section(
    title: str, note: str, entries: Sequence[Entry], unit: str, shown: Sequence[Bar]
) -> Section:
    """Where the paper's figure has a bar for each point."""
    return Section(title, note, (Chart(Bars(tuple(shown), unit)), _table(entries, unit)))


def _table(entries: Sequence[Entry], unit: str) -> Block:
    columns = (
        "",
        f"measured, {unit}",
        "published",
        Column("may be compared", "text"),
    )
    return Table(columns, tuple(map(_row, entries)))


def _row(entry: Entry) -> tuple[Cell, ...]:
    return (entry.name, entry.measured, entry.published, _comparable(entry))


def _comparable(entry: Entry) -> str:
    if entry.skipped:
        return f"skipped: {entry.skipped}"
    if entry.published is None:
        return ""
    return entry.unlike if entry.unlike == SAME else f"no: {entry.unlike}"


def text(value: object) -> str:
    """A published value, a range or several of them, as its data file has it."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {text(one)}" for key, one in value.items())
    if isinstance(value, list):
        return "–".join(map(str, value))
    return str(value)
