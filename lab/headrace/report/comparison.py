# SPDX-License-Identifier: Apache-2.0
"""Published figures beside what was measured here: each point is measured, or says why not; and
where both are there, whether one may be held against the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from headrace.analyse.units import NOT_KNOWN, significant
from headrace.report.charts import bars, lines
from headrace.report.charts.bars import Bar
from headrace.report.charts.lines import Axes, Series
from headrace.report.page import both
from headrace.report.sheet import Section, Table

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
    shown = [s for s in series if s.points]
    drawn = axes is not None and any(len(s.points) > 1 for s in shown)
    return Section(
        title=title,
        note=note,
        figure=both(partial(_draw, shown, axes)) if drawn and axes is not None else "",
        legend=tuple(s.name for s in shown) if drawn and len(shown) > 1 else (),
        tables=(
            Table(
                ("", f"measured, {unit}", "published", "may be compared"),
                tuple(map(_row, entries)),
            ),
        ),
    )


def bar_section(
    title: str, note: str, entries: Sequence[Entry], unit: str, shown: Sequence[Bar]
) -> Section:
    """Where the paper's figure has a bar for each point."""
    made = section(title, note, entries, unit)
    return replace(made, figure=both(partial(bars.draw, shown, unit)))


def _row(entry: Entry) -> tuple[str, ...]:
    measured = NOT_KNOWN if entry.measured is None else significant(entry.measured)
    return (entry.name, measured, entry.published or NOT_KNOWN, _comparable(entry))


def _comparable(entry: Entry) -> str:
    if entry.skipped:
        return f"skipped: {entry.skipped}"
    if entry.published is None:
        return ""
    return entry.unlike if entry.unlike == SAME else f"no: {entry.unlike}"


def _draw(series: list[Series], axes: Axes, width: float) -> str:
    return lines.draw(series, axes, width, [])


def text(value: object) -> str:
    """A published value, a range or several of them, as its data file has it."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {text(one)}" for key, one in value.items())
    if isinstance(value, list):
        return "–".join(map(str, value))
    return str(value)
