# SPDX-License-Identifier: Apache-2.0
"""A paper's points as a page: how throughput and delay go with the number of VNFs, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from markupsafe import Markup

from headrace.analyse.units import significant
from headrace.record.segments import Anatomy
from headrace.report.charts import lines
from headrace.report.charts.lines import Axes, Series
from headrace.report.comparison import text
from headrace.report.hosting import PARTS, Stack, draw_stack, parts, words
from headrace.report.page import both
from headrace.report.sheet import Section, Sheet, Table
from headrace.spec.group import Group
from headrace.spec.study import Study

Row = dict[str, Any]
_CHAINS = "deployment.hosting.chains"
_COLUMNS = ("", "goal", "kpps", "n x one", "loss", "mean us", "p99 us", "jitter us", "audit")


def sheet(file: Study, rows: Sequence[Row]) -> Sheet:
    sections: list[Section] = []
    for name, group in file.groups.items():
        mine = [row for row in rows if row["group"] == name]
        if mine:
            sections += _sections(name, group, mine)
    measured = sum(bool(row["results"]) for row in rows)
    subtitle = f"{file.paper}: {measured} of {len(rows)} points measured here"
    return Sheet(file.name, subtitle, cautions=tuple(_cautions(rows)), sections=tuple(sections))


def _cautions(rows: Sequence[Row]) -> Iterator[str]:
    results = [one for row in rows for one in row["results"]]
    doubted = sum(one["verdict"] != "ok" for one in results)
    if doubted:
        yield f"{doubted} of {len(results)} results did not pass every check: see their audits"


def _sections(name: str, group: Group, rows: Sequence[Row]) -> Iterator[Section]:
    goals = list(dict.fromkeys(one["goal"] for row in rows for one in row["results"]))
    for goal in goals:
        throughput = goal != "fixed"
        shown = scale(rows, goal) if throughput else delays(rows, goal)
        axes = Axes("VNFs", "kpps" if throughput else "mean latency, us", _whole, log_y=True)
        if any(len(one.points) > 1 for one in shown):
            figure = both(partial(lines.draw, shown, axes))
            what = "throughput" if throughput else "latency"
            yield Section(
                f"{name}: {what} ({goal})", group.about, figure, tuple(one.name for one in shown)
            )
    bars = list(stacks(rows))
    if bars:
        title = f"{name}: where the time goes"
        note = f"Mean latency in parts: {', '.join(PARTS)}."
        # Text and colours are the picture's own; nothing in it is a user's that is not escaped.
        yield Section(title, note, Markup(f'<div class="scroll">{draw_stack(bars)}</div>'))
    tables = [Table(_COLUMNS, tuple(_cells(rows)))]
    if group.published:
        published = tuple((one.setup, text(one.value), one.claim) for one in group.published)
        tables.append(Table(("published", "", "claim"), published))
    yield Section(f"{name}: all points", group.about, tables=tuple(tables))


def _whole(value: float) -> str:
    return f"{value:g}"


def scale(rows: Sequence[Row], goal: str) -> list[Series]:
    """Over the number of chains, one line for each of the other settings; beside it the additive
    line, n times what one chain had."""
    shown = []
    for name, points in _by_setting(rows, goal, "throughput_pps").items():
        shown.append(Series(name or "measured", points))
        best = _by_setting(rows, goal, "best_case_pps").get(name, ())
        if len(best) > 1:
            shown.append(Series(f"n x {name or 'one'}", best, marks=False))
    return shown


def delays(rows: Sequence[Row], goal: str) -> list[Series]:
    found = _by_setting(rows, goal, "latency_mean_us", 1.0)
    return [Series(name or "mean", points) for name, points in found.items()]


def _by_setting(
    rows: Sequence[Row], goal: str, key: str, factor: float = 1e-3
) -> dict[str, tuple[tuple[float, float], ...]]:
    """Points by what was set apart from the number of chains; what is nought has no logarithm."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        chains = row["values"].get(_CHAINS)
        for one in row["results"]:
            if chains is not None and one["goal"] == goal and (one[key] or 0) > 0:
                found.setdefault(_setting(row), []).append((float(chains), one[key] * factor))
    return {name: tuple(sorted(points)) for name, points in found.items()}


def _setting(row: Row) -> str:
    return ", ".join(
        f"{key.rpartition('.')[2]} {_short(value)}"
        for key, value in row["values"].items()
        if key != _CHAINS
    )


def _short(value: object) -> str:
    said = words(value)
    return said if len(said) <= 24 else said[:23] + "…"


def _label(row: Row) -> str:
    chains = row["values"].get(_CHAINS)
    vnfs = "" if chains is None else f"{chains} chain{'s' if chains != 1 else ''}"
    return ", ".join(part for part in (vnfs, _setting(row)) if part) or str(row["point"])


def _brief(row: Row) -> str:
    """Values without their names, as a bar's name has little room."""
    others = (_short(value) for key, value in row["values"].items() if key != _CHAINS)
    chains = row["values"].get(_CHAINS)
    return ", ".join(["" if chains is None else f"{chains} x", *others]).strip(", ")


def stacks(rows: Sequence[Row]) -> Iterator[Stack]:
    for row in rows:
        for one in row["results"]:
            if one["anatomy"] is not None:
                name = f"{_brief(row)}, {one['load_pps'] / 1e3:.4g} kpps"
                ns = parts(Anatomy.model_validate(one["anatomy"]))
                yield Stack(name, tuple(part / 1e3 for part in ns))


def _cells(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        for one in row["results"]:
            yield (
                _label(row),
                one["goal"],
                significant(one["throughput_pps"] / 1e3),
                _of(one["best_case_pps"], 1e-3),
                f"{one['loss_ratio']:.3%}",
                *(_of(one[key]) for key in ("latency_mean_us", "latency_p99_us", "jitter_us")),
                one["verdict"],
            )
        why = row.get("skipped") or row.get("failed")
        if why:
            said = "skipped" if row.get("skipped") else "failed"
            yield (_label(row), f"{said}: {why}", *[""] * (len(_COLUMNS) - 2))


def _of(value: float | None, factor: float = 1.0) -> str:
    return "" if value is None else significant(value * factor)
