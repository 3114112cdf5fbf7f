# SPDX-License-Identifier: Apache-2.0
"""A published table beside what a model says of it, as sections of a bundle's report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.analyse.fitted import FittedResult, fitted_results, model_errors
from headrace.analyse.units import percent, plural
from headrace.record.bundle import Bundle
from headrace.record.known import KnownPoint, known
from headrace.report.document_model import Column, Section, Table, Text


def sections(bundle: Bundle) -> Iterator[Section]:
    """None of a bundle of something else."""
    rows = fitted_results(bundle.results())
    if not rows:
        return
    first, *_ = known(bundle).experiments
    yield _errors(rows)
    yield _points(rows)
    yield _unknowns(first)
    if first.rejected:
        table = Table(("row", Column("why", "text")), tuple(first.rejected.items()))
        yield Section("Left out by the audit", blocks=(table,))


def sentence(bundle: Bundle) -> str:
    """How far off the predictions are; empty of a bundle of something else."""
    rows = fitted_results(bundle.results())
    off = [abs(one.figure.error) for one in rows if not one.fitted_on]
    if not off:
        return ""
    return (
        f"{plural(len(off), 'figure')} predicted, and {len(rows) - len(off)} fitted on: off by "
        f"{percent(sum(off) / len(off))} in the mean, {percent(max(off))} at most."
    )


def _errors(rows: Sequence[FittedResult]) -> Section:
    columns = ("figure", Column("mean error", "share"), Column("most", "share"))
    lines = tuple((one.figure, one.mean, one.most) for one in model_errors(rows))
    return Section("How far the predictions are off", blocks=(Table(columns, lines),))


def _points(rows: Sequence[FittedResult]) -> Section:
    lines = tuple(
        (
            one.setup, one.figure.name, one.figure.published, one.figure.modelled,
            None if one.fitted_on else one.figure.error,
            "fitted on" if one.fitted_on else "predicted",
        )
        for one in rows
    )  # fmt: skip
    unit = rows[0].figure.unit
    columns = (
        "row",
        Column("figure", "text"),
        Column("published", unit=unit),
        Column("model", unit=unit),
        Column("error", "change"),
        Column("is", "text"),
    )
    return Section("Published and predicted", blocks=(Table(columns, lines),))


def _unknowns(point: KnownPoint) -> Section:
    unknowns, free = point.unknowns, point.free
    held = len(unknowns) - free
    text = f"{plural(free, 'unknown')} free, {held} held to what is known of them beforehand."
    table = Table(("unknown", Column("value")), tuple(unknowns.items()))
    return Section("Unknowns", blocks=(Text(text), table))
