# SPDX-License-Identifier: Apache-2.0
"""A table's values as people read them, the same on every medium."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headrace.analyse import units
from headrace.analyse.units import NOT_KNOWN, Scale
from headrace.report.document import AtLeast, Cell, Column, Kind, Link, Row, Table

_OWN: Mapping[Kind, Callable[[float, int], str]] = {
    "number": units.significant,
    "count": lambda v, _: units.count(int(v)),
    "own-rate": units.pps,
    "own-time": units.ns,
    "share": units.percent,
    "loss": lambda v, _: units.loss(v),
    "change": lambda v, _: units.signed_percent(v),
    "bytes": lambda v, _: units.size(v),
}


@dataclass(frozen=True)
class Scales:
    """One unit for all rates of a table, and one for its times."""

    rate: Scale
    time: Scale

    def unit(self, column: Column) -> str:
        """Empty where the values have theirs."""
        if column.kind == "rate":
            return self.rate.unit
        return self.time.unit if column.kind == "time" else column.unit

    def text(self, column: Column, cell: Cell) -> str:
        if isinstance(cell, AtLeast):
            return f"≥ {self.text(column, cell.at_least)}"
        if isinstance(cell, Link):
            return cell.text
        if cell is None:
            return NOT_KNOWN
        if isinstance(cell, str):
            return cell
        if column.kind == "rate":
            return self.rate.number(cell, column.digits)
        if column.kind == "time":
            return self.time.number(cell, column.digits)
        shown = _OWN.get(column.kind)
        return str(cell) if shown is None else shown(cell, column.digits)


def scales(table: Table) -> Scales:
    """Rates by the largest one; times by the smallest of the first column that has any."""
    rates: list[float] = []
    times: list[float] = []
    for i, column in enumerate(table.typed):
        numbers = [v for row in table.lines if (v := number(row.cells[i])) is not None]
        if column.kind == "rate":
            rates += numbers
        elif column.kind == "time" and not times:
            times = numbers
    return Scales(
        units.rate_scale(max(rates, default=1.0)), units.time_scale(min(times, default=1.0))
    )


def number(cell: Cell) -> float | None:
    if isinstance(cell, AtLeast):
        return cell.at_least
    return cell if isinstance(cell, int | float) else None


def has_figures(index: int, rows: Sequence[Row]) -> bool:
    return any(row.cells[index] not in (None, "") for row in rows)
