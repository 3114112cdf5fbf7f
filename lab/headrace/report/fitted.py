# SPDX-License-Identifier: Apache-2.0
"""A published table beside what a model says of it, as a document."""

from __future__ import annotations

from headrace.analyse.units import percent, plural
from headrace.record.published import FittedTable
from headrace.report.document import Answer, Column, Document, Row, Section, Table, Text


def document(table: FittedTable) -> Document:
    figures = list(dict.fromkeys(one.figure for one in table.points))
    return Document(
        title=table.name,
        subtitle=f"{table.server} · {table.source}",
        about=table.about,
        sentence=_sentence(table),
        answers=tuple(
            Answer(
                percent(table.mean_error(name)),
                f"mean error of predicted {name}; most {percent(table.most_error(name))}",
            )
            for name in figures
        ),
        sections=tuple(filter(None, (_points(table), _unknowns(table), _rejected(table)))),
    )


def _sentence(table: FittedTable) -> str:
    used = sum(one.fitted_on for one in table.points)
    return (
        f"{plural(len(table.predicted()), 'figure')} predicted, and {used} fitted on: off by "
        f"{percent(table.mean_error())} in the mean, {percent(table.most_error())} at most."
    )


def _points(table: FittedTable) -> Section:
    rows = tuple(
        Row((
            one.setup, one.figure, one.published, one.predicted,
            None if one.fitted_on else one.error, "fitted on" if one.fitted_on else "predicted",
        ))
        for one in table.points
    )  # fmt: skip
    columns = (
        "row",
        Column("figure", "text"),
        Column("published", unit=table.unit),
        Column("model", unit=table.unit),
        Column("error", "change"),
        Column("is", "text"),
    )
    return Section("Published and predicted", blocks=(Table(columns, rows),))


def _unknowns(table: FittedTable) -> Section:
    held = len(table.unknowns) - table.free
    text = (
        f"{plural(table.free, 'unknown')} free, {held} held to what is known of them beforehand "
        f"(model {table.model})."
    )
    rows = tuple((name, value) for name, value in table.unknowns.items())
    return Section("Unknowns", blocks=(Text(text), Table(("unknown", Column("value")), rows)))


def _rejected(table: FittedTable) -> Section | None:
    if not table.rejected:
        return None
    rows = tuple((one.setup, one.why) for one in table.rejected)
    return Section("Left out by the audit", blocks=(Table(("row", Column("why", "text")), rows),))
