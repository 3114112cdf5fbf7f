# SPDX-License-Identifier: Apache-2.0
"""Published figures beside what was measured here: each point is measured, or says why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from headrace.report.charts import bars, lines
from headrace.report.charts.bars import Bar
from headrace.report.charts.lines import Axes, Series
from headrace.report.page import both
from headrace.report.sheet import Section, Table
from headrace.report.units import NOT_KNOWN, significant


@dataclass(frozen=True)
class Entry:
    """`published`: as text, since it may be a range; None: the paper gives no number for it."""

    name: str
    measured: float | None = None
    published: str | None = None
    skipped: str = ""  # why it is not measured here

    def __post_init__(self) -> None:
        if self.measured is None and not self.skipped:
            raise ValueError(f"{self.name}: neither measured nor with a reason why not")


def section(
    title: str,
    note: str,
    entries: Sequence[Entry],
    unit: str,
    series: Sequence[Series] = (),
    axes: Axes | None = None,
) -> Section:
    """A figure of the paper's kind where there are several points, and all of them in a table."""
    shown = [s for s in series if s.points]
    drawn = axes is not None and any(len(s.points) > 1 for s in shown)
    return Section(
        title=title,
        note=note,
        figure=both(partial(_draw, shown, axes)) if drawn and axes is not None else "",
        legend=tuple(s.name for s in shown) if drawn and len(shown) > 1 else (),
        tables=(Table(("", f"measured, {unit}", "published", ""), tuple(map(_row, entries))),),
    )


def bar_section(
    title: str, note: str, entries: Sequence[Entry], unit: str, shown: Sequence[Bar]
) -> Section:
    """Where the paper's figure has a bar for each point."""
    made = section(title, note, entries, unit)
    return replace(made, figure=both(partial(bars.draw, shown, unit)))


def _row(entry: Entry) -> tuple[str, ...]:
    measured = NOT_KNOWN if entry.measured is None else significant(entry.measured)
    reason = f"skipped: {entry.skipped}" if entry.skipped else ""
    return (entry.name, measured, entry.published or NOT_KNOWN, reason)


def _draw(series: list[Series], axes: Axes, width: float) -> str:
    return lines.draw(series, axes, width, [])


def text(value: object) -> str:
    """A published value, a range or several of them, as its data file has it."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {text(one)}" for key, one in value.items())
    if isinstance(value, list):
        return "–".join(map(str, value))
    return str(value)
