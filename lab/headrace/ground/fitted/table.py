# SPDX-License-Identifier: Apache-2.0
"""Rows of a published table, and what a model makes of them: fitted on the rows that a study names,
and without those that an audit would reject."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.engine.describe import check_text
from headrace.errors import BadInput
from headrace.ground.fitted.models import Modelled, Row, TableModel, model_of
from headrace.model.fitting import Unknown, allowed, fitted
from headrace.record.estimates import FittedFigure
from headrace.spec.described import DescribedServer
from headrace.spec.document import Document
from headrace.spec.fitted import Fitted

_UNKNOWNS = ("ground", "fitted", "unknowns")
_TABLE = ("ground", "fitted", "table")


@dataclass(frozen=True)
class FittedRow:
    """`figures`: the table's, beside the model's; `fitted_on`: these are no predictions."""

    setup: str
    figures: tuple[FittedFigure, ...]
    trial: Modelled
    fitted_on: bool


@dataclass(frozen=True)
class FittedRows:
    """`free`: unknowns of which nothing was known beforehand. `rejected`: set-up, and why."""

    rows: tuple[FittedRow, ...]
    unknowns: Mapping[str, float]
    free: int
    rejected: Mapping[str, str]


def fit_rows(doc: Document, asked: Fitted, server: DescribedServer) -> FittedRows:
    """BadInput: the table cannot be read or has no such rows, or too much of the model is free."""
    data = doc.resolve(asked.table)
    try:
        given = [row for row in _read(data, doc, asked.table) if _wanted(row, asked.rows)]
        if not given:
            raise BadInput(f"{data}: no row has {dict(asked.rows)}")
        return _fitted(doc, asked, model_of(asked, server), given)
    except (LookupError, ValueError, TypeError, ArithmeticError, csv.Error) as error:
        problem = f"{data}: model {asked.model} cannot read a row of it, for {error}"
        raise doc.error(_TABLE, problem) from None


def _fitted(doc: Document, asked: Fitted, model: TableModel, given: Sequence[Row]) -> FittedRows:
    best = max(value for row in given for value in model.published(row).values())
    reasons = [(row, model.rejected(row, best)) for row in given]
    kept = [row for row, why in reasons if why is None]
    points = [_point(doc, i, point, kept) for i, point in enumerate(asked.points)]
    unknowns = [Unknown(name, one.value, one.spread) for name, one in asked.unknowns.items()]
    free = sum(one.spread is None for one in unknowns)
    _check(doc, free, len(points) * len(model.published(points[0])))
    values = fitted(unknowns, lambda at: [e for row in points for e in _errors(model, row, at)])
    names = _telling(asked, given)
    return FittedRows(
        rows=tuple(_row(model, row, names, values, row in points) for row in kept),
        unknowns=values,
        free=free,
        rejected={_setup(row, names): why for row, why in reasons if why is not None},
    )


def _errors(model: TableModel, row: Row, values: Mapping[str, float]) -> Iterator[float]:
    published = model.published(row)
    for name, modelled in model.modelled(row, values).figures.items():
        yield modelled / published[name] - 1


def _row(
    model: TableModel, row: Row, names: Sequence[str], values: Mapping[str, float], fitted_on: bool
) -> FittedRow:
    trial = model.modelled(row, values)
    figures = tuple(
        FittedFigure(
            name=name, unit=model.unit, published=published, modelled=trial.figures[name]
        )
        for name, published in model.published(row).items()
    )  # fmt: skip
    return FittedRow(_setup(row, names), figures, trial, fitted_on)


def _read(data: Path, doc: Document, given: str) -> list[dict[str, str]]:
    if data.exists():
        check_text(data, doc, _TABLE, given)
    try:
        with data.open(newline="", encoding="utf-8") as file:
            return _by_setup(list(csv.DictReader(file)))
    except OSError as error:
        problem = f"{data}: cannot be read: {error.strerror}; allowed: the table, beside the spec "
        problem += f"or as --input {data.name}=FILE"
        raise doc.error(_TABLE, problem) from None


def _by_setup(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """A table with a row for each metric has one for each set-up then, with medians."""
    if not rows or "metric" not in rows[0]:
        return rows
    by_setup: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        setup = {name: row[name] for name in ("experiment", "variant", "x")}
        by_setup.setdefault(tuple(setup.values()), setup)[row["metric"]] = row["median"]
    return list(by_setup.values())


def _wanted(row: Row, rows: Mapping[str, Sequence[object]]) -> bool:
    return all(row.get(column) in tuple(map(str, values)) for column, values in rows.items())


def _point(doc: Document, i: int, point: Mapping[str, object], rows: Sequence[Row]) -> Row:
    matching = [row for row in rows if all(row.get(k) == str(v) for k, v in point.items())]
    if len(matching) != 1:
        path = ("ground", "fitted", "points", i)
        raise doc.error(path, f"{dict(point)} is {len(matching)} rows; allowed: one")
    return matching[0]


def _check(doc: Document, free: int, figures: int) -> None:
    if free > allowed(figures):
        raise doc.error(
            _UNKNOWNS,
            f"{free} are free, and the points have {figures} figures; allowed: {allowed(figures)}, "
            "one for three",
        )


def _telling(asked: Fitted, rows: Sequence[Row]) -> list[str]:
    """The columns that points are named by, without those in which all rows have the same."""
    names = {name for point in asked.points for name in point}
    return [name for name in rows[0] if name in names and len({row[name] for row in rows}) > 1]


def _setup(row: Row, names: Sequence[str]) -> str:
    return ", ".join(f"{name} {row[name]}" for name in names)
