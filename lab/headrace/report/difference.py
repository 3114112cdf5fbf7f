# SPDX-License-Identifier: Apache-2.0
"""Two bundles compared, as a document: for `headrace diff`, and for a folder in a browser."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.analyse import units
from headrace.analyse.diff import FEWEST, ComparedResults, Diff, MetricChange
from headrace.analyse.gate import name_of
from headrace.report.document_model import (
    Block,
    Code,
    Column,
    Document,
    Items,
    Section,
    Table,
    Text,
)

_JUDGED = {
    "within-spread": "within the spread",
    "unknown": f"fewer than {FEWEST} repetitions cannot tell",
    "not-trusted": "not compared: a side is not trusted",
}


def document(compared: Diff, a: str, b: str, more: Sequence[Section] = ()) -> Document:
    """`a`, `b`: what the bundles are called."""
    return Document(
        title="Two runs compared",
        subtitle=f"a: {a} · b: {b}",
        sentence=compared.sentence,
        sections=(*map(_results, compared.compared), *_only(compared), _around(compared), *more),
    )


def _only(compared: Diff) -> Iterator[Section]:
    sides = (("a", compared.only_a), ("b", compared.only_b))
    only = tuple(f"only in {side}: {name_of(key)}" for side, keys in sides for key in keys)
    if only:
        yield Section("Not in both", blocks=(Items(only),))


def _results(row: ComparedResults) -> Section:
    columns = (
        "",
        Column("a", "text"),
        Column("b", "text"),
        Column("change", "change"),
        Column("judged", "text"),
    )
    lines = tuple(
        (change.metric, _value(change.a, change.unit), _value(change.b, change.unit),
         change.ratio, _judged(change))
        for change in row.changes
    )  # fmt: skip
    blocks: list[Block] = []
    if not row.trusted:
        blocks.append(Text(f"Not trusted: a {row.verdict_a}, b {row.verdict_b}."))
    blocks.append(Table(columns, lines))
    if any(c.metric == "throughput" and c.significance == "different" for c in row.changes):
        blocks.append(Text("Latencies are at each side's own rate.", style="dim"))
    about = f"{row.repetitions_a} against {row.repetitions_b} repetitions"
    return Section(name_of(row.key), "", tuple(blocks), about=about)


def _value(value: float, unit: str) -> str:
    if unit == "pps":
        return units.pps(value, 4)
    if unit == "ns":
        return units.ns(value)
    if unit == "ratio":
        return units.loss(value)
    return units.significant(value) + ("" if unit == "cycles" else f"{units.SPACE}{unit}")


def _judged(change: MetricChange) -> str:
    beyond = f"{'better' if change.better else 'worse'}, beyond the spread"
    words = _JUDGED.get(change.significance, beyond)
    return words + ("" if change.p_value is None else f" (p = {change.p_value:.2g})")


def _around(compared: Diff) -> Section:
    if not compared.differences:
        same = Text("Specification and environment are the same.")
        return Section("What surrounded them", blocks=(same,))
    columns = ("", Column("of", "text"), Column("a", "text"), Column("b", "text"))
    rows = tuple((d.name, d.where, _flat(d.a), _flat(d.b)) for d in compared.differences)
    # A line each, however long: they are searched and copied.
    lines = "\n".join(f"  {where} {name}: {a} -> {b}" for name, where, a, b in rows)
    blocks = (Table(columns, rows, on="page"), Code(lines, on="terminal"))
    return Section("What surrounded them", blocks=blocks)


def _flat(value: str | None) -> str:
    return "absent" if value is None else " ".join(value.split())
