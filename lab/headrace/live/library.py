# SPDX-License-Identifier: Apache-2.0
"""A folder's bundles as documents: a list with trends and what was searched for, two compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import quote, urlencode

from headrace.analyse import units
from headrace.analyse.diff import Diff
from headrace.live.bundles import FigureKey, FigureRow, Folder, Listed, by_place
from headrace.report.charts.trend import Trend, TrendDot, TrendLine
from headrace.report.difference import document
from headrace.report.document_model import (
    Block,
    Cell,
    Chart,
    Column,
    Document,
    Heading,
    Link,
    Row,
    Section,
    Table,
    Text,
    strokes,
)

MOST_TRENDS, MOST_ROWS = 12, 500  # on one page; the search narrows them down


def listing(folder: Folder, words: str) -> Document:
    bundles, rows = folder.figures(folder.bundles(), words)
    return Document(
        title=f"Runs in {folder.path.name or folder.path}",
        subtitle=", ".join(
            (units.plural(len(bundles), "bundle"), units.plural(len(rows), "figure"))
        ),
        about=f"Figures with “{words}” in their names or verdicts." if words else "",
        sections=(_bundles(bundles, rows, words), *_trends(bundles, rows), _figures(rows)),
    )


def _bundles(bundles: Sequence[Listed], rows: Sequence[FigureRow], words: str) -> Section:
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.bundle] = counts.get(row.bundle, 0) + 1
    shown = [one for one in bundles if counts.get(one.name) or one.damage or not words]
    if not shown:
        return Section("Bundles", blocks=(Text("No bundle has such a figure."),))
    columns = (
        "bundle",
        Column("started", "text"),
        Column("", "text"),
        Column("measured figures", "count"),
        Column("compared with the last of its kind", "text"),
    )
    before = _before(bundles, rows)
    lines = tuple(
        (
            _report(one.name, one.has_report),
            one.started_at.replace("T", " ").removesuffix("Z"),
            one.damage or ("" if one.state == "complete" else one.state),
            counts.get(one.name, 0),
            _compare(before[one.name], one.name) if one.name in before else "",
        )
        for one in shown
    )
    return Section("Bundles", "The newest first, UTC.", (Table(columns, lines),))


def _before(bundles: Sequence[Listed], rows: Sequence[FigureRow]) -> dict[str, str]:
    """The last one before each bundle that has a figure of it, too."""
    figures: dict[str, set[FigureKey]] = {}
    for row in rows:
        figures.setdefault(row.bundle, set()).add(row.key)
    names = [one.name for one in bundles if one.name in figures]
    pairs = {
        name: next((b for b in names[i + 1 :] if figures[b] & figures[name]), None)
        for i, name in enumerate(names)
    }
    return {name: older for name, older in pairs.items() if older is not None}


def _report(name: str, there: bool = True) -> Cell:
    return Link(name, f"/report/{quote(name, safe='')}") if there else name


def _compare(a: str, b: str) -> Link:
    return Link(a, f"/compare?{urlencode({'a': a, 'b': b})}")


def _trends(bundles: Sequence[Listed], rows: Sequence[FigureRow]) -> Iterator[Section]:
    """Figures that several bundles have."""
    runs = [one.name for one in reversed(bundles)]
    blocks: list[Block] = []
    left_out = 0
    for of_place in by_place(rows).values():
        names = [name for name in runs if name in {row.bundle for row in of_place}]
        if len(names) < 2:
            continue
        if len(blocks) >= 2 * MOST_TRENDS:
            left_out += 1
            continue
        trend = Trend(tuple(names), tuple(_lines(of_place, names)))
        keys = strokes([one.name for one in trend.lines]) if len(trend.lines) > 1 else ()
        blocks += [Heading(_place(of_place[0])), Chart(trend, keys)]
    if left_out:
        blocks.append(Text(f"{left_out} more; search for what is wanted.", "dim"))
    if blocks:
        note = "Medians; a bar is from the least to the most of a run's repetitions."
        yield Section("Trends", note, tuple(blocks))


def _lines(rows: Sequence[FigureRow], runs: Sequence[str]) -> Iterator[TrendLine]:
    # By name: the same have the same colours in each of a page's pictures.
    for execution in sorted({row.key.execution for row in rows}):
        own = {row.bundle: row for row in rows if row.key.execution == execution}
        dots = tuple(
            TrendDot(
                i,
                own[run].throughput_pps,
                own[run].low_pps,
                own[run].high_pps,
                own[run].verdict == "ok",
            )
            for i, run in enumerate(runs)
            if run in own
        )
        yield TrendLine(execution, dots)


def _place(row: FigureRow) -> str:
    load = "" if row.key.load_pps is None else f" {units.pps(row.key.load_pps)}"
    way = "" if row.key.direction == "forward" else f", {row.key.direction}"
    return f"{row.key.chain}: {row.key.workload}, {row.key.goal}{load}{way}"


def _figures(rows: Sequence[FigureRow]) -> Section:
    columns = (
        "bundle",
        Column("figure", "text"),
        Column("execution", "text"),
        Column("throughput", "rate", digits=4),
        Column("spread", "share", "max − min", digits=2),
        Column("loss", "loss"),
        Column("p99", "time"),
        Column("audit", "verdict"),
    )
    lines = tuple(_figure(row) for row in rows[:MOST_ROWS])
    note = f"The first {MOST_ROWS} of {len(rows)}." if len(rows) > MOST_ROWS else ""
    return Section("Figures", note, (Table(columns, lines),) if lines else ())


def _figure(row: FigureRow) -> Row:
    many = row.repetitions > 1 and row.throughput_pps
    spread = (row.high_pps - row.low_pps) / row.throughput_pps if many else None
    cells = (
        _report(row.bundle), _place(row), row.key.execution, row.throughput_pps, spread,
        row.loss_ratio, row.p99_ns, row.verdict,
    )  # fmt: skip
    return Row(cells, doubtful=row.verdict != "ok")


def comparison(compared: Diff, a: str, b: str) -> Document:
    reports = Table(("", Column("report", "text")), (("a", _report(a)), ("b", _report(b))))
    return document(compared, a, b, (Section("Reports", blocks=(reports,)),))
