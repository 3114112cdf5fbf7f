# SPDX-License-Identifier: Apache-2.0
"""A table's values as people read them, the same on every medium."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from headrace.analyse import units
from headrace.analyse.units import NOT_KNOWN, Scale
from headrace.report.document_model import AtLeast, Below, Cell, Column, Kind, Link, Row, Table

_OWN: Mapping[Kind, Callable[[float, int], str]] = {
    "number": units.significant,
    "count": lambda v, _: units.count(int(v)),
    "own-rate": units.pps,
    "time": units.ns,
    "own-time": units.ns,
    "share": units.percent,
    "loss": lambda v, _: units.loss(v),
    "change": lambda v, _: units.signed_percent(v),
    "bytes": lambda v, _: units.size(v),
}


WIDEST = 1e4  # in a column's unit: where a time is as large, each has its own


@dataclass(frozen=True)
class Scales:
    """One unit for all rates of a table, and one for each column of times; None: each its own."""

    rate: Scale
    times: Mapping[Column, Scale | None]

    def unit(self, column: Column) -> str:
        """Empty where the values have theirs."""
        if column.kind == "rate":
            return self.rate.unit
        scale = self.times.get(column)
        return scale.unit if scale else column.unit

    def text(self, column: Column, cell: Cell) -> str:
        if isinstance(cell, AtLeast):
            return f"≥ {self.text(column, cell.at_least)}"
        if isinstance(cell, Below):
            return f"< {self.text(column, cell.below)}"
        if isinstance(cell, Link):
            return cell.text
        if cell is None:
            return NOT_KNOWN
        if isinstance(cell, str):
            return cell
        if column.kind == "rate":
            return self.rate.number(cell, column.digits)
        if scale := self.times.get(column):
            return scale.number(cell, column.digits)
        shown = _OWN.get(column.kind)
        return str(cell) if shown is None else shown(cell, column.digits)


def scales(table: Table) -> Scales:
    """Rates by the largest one."""
    rates: list[float] = []
    times: dict[Column, Scale | None] = {}
    for i, column in enumerate(table.typed):
        numbers = [v for row in table.lines if (v := number(row.cells[i])) is not None]
        if column.kind == "rate":
            rates += numbers
        elif column.kind == "time":
            times[column] = _time(numbers)
    return Scales(units.rate_scale(max(rates, default=1.0)), times)


def _time(values: Sequence[float]) -> Scale | None:
    """The unit goes by the size of most of them."""
    if not values:
        return None
    scale = units.time_scale(median(values))
    sizes = [abs(value) / scale.divisor for value in values if value]
    return None if sizes and (max(sizes) >= WIDEST or min(sizes) < 1 / WIDEST) else scale


def number(cell: Cell) -> float | None:
    if isinstance(cell, AtLeast):
        return cell.at_least
    if isinstance(cell, Below):
        return cell.below
    return cell if isinstance(cell, int | float) else None


def has_figures(index: int, rows: Sequence[Row]) -> bool:
    return any(row.cells[index] not in (None, "") for row in rows)
