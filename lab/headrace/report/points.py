# SPDX-License-Identifier: Apache-2.0
"""A paper's points as a document: how throughput and delay go with the number of VNFs, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.record.bundle import Bundle
from headrace.record.points import points_of
from headrace.record.segments import Anatomy
from headrace.report.charts.anatomy import AnatomyStack
from headrace.report.charts.curves import Axes, Series
from headrace.report.document_model import Cell, Column, Row, Section, Table, Text, curves
from headrace.report.hosting import anatomy, brief, parts, with_best_case, words
from headrace.spec.group import Group

Point = dict[str, Any]
_CHAINS = "deployment.hosting.chains"
_COLUMNS = (
    "point",
    Column("goal", "text"),
    Column("throughput", "rate"),
    Column("n x one", "rate", optional=True),
    Column("loss", "loss"),
    Column("mean", unit="us"),
    Column("p99", unit="us", from_width=100),
    Column("jitter", unit="us"),
    Column("audit", "verdict"),
)


def sections(bundle: Bundle) -> tuple[Section, ...]:
    """A study's points by group; none where it has no groups."""
    points: list[Point] = [one.model_dump(exclude_none=True) for one in points_of(bundle)]
    if not points or not bundle.spec_given:
        return ()
    given = bundle.spec_data
    groups = {name: Group.model_validate(group) for name, group in given["groups"].items()}
    results = bundle.results()
    rows = [
        point | {"results": [brief(one) for one in results if one.chain == point["point"]]}
        for point in points
    ]
    computed = bool(results) and all(one.ground == "predicted" for one in results)
    how = "predicted" if computed else "measured here"
    return of_groups(groups, given.get("paper", ""), with_best_case(rows), how)


def of_groups(
    groups: Mapping[str, Group], paper: str, rows: Sequence[Point], how: str = "measured here"
) -> tuple[Section, ...]:
    measured = sum(bool(row["results"]) for row in rows)
    origin = f"{paper}: " if paper else ""
    text = f"{origin}{measured} of {len(rows)} points {how}."
    sections = [Section("Points", blocks=(Text(text),))]
    for name, group in groups.items():
        mine = [row for row in rows if row["group"] == name]
        if mine:
            sections += _sections(name, group, mine)
    return tuple(sections)


def _sections(name: str, group: Group, rows: Sequence[Point]) -> Iterator[Section]:
    goals = list(dict.fromkeys(one["goal"] for row in rows for one in row["results"]))
    for goal in goals:
        throughput = goal != "fixed"
        shown = scale(rows, goal) if throughput else delays(rows, goal)
        axes = Axes("VNFs", "kpps" if throughput else "mean latency, us", log_y=True)
        if any(len(one.points) > 1 for one in shown):
            what = "throughput" if throughput else "latency"
            yield Section(f"{name}: {what} ({goal})", group.about, (curves(shown, axes),))
    bars = list(stacks(rows))
    if bars:
        yield replace(anatomy(bars), title=f"{name}: where the time goes", on="page")
    tables = [Table(_COLUMNS, tuple(_rows(rows)))]
    if group.published:
        published = tuple((one.setup, _stated(one.value), one.claim) for one in group.published)
        tables.append(Table(("published", "", Column("claim", "text")), published))
    figures = f" (figure {', '.join(group.figures)})" if group.figures else ""
    yield Section(f"{name}: all points{figures}", group.about, tuple(tables))


def scale(rows: Sequence[Point], goal: str) -> list[Series]:
    """Over the number of chains, one line for each of the other settings; beside it the additive
    line, n times what one chain had."""
    shown = []
    for name, points in _by_setting(rows, goal, "throughput_pps").items():
        shown.append(Series(name or "measured", points))
        best = _by_setting(rows, goal, "best_case_pps").get(name, ())
        if len(best) > 1:
            shown.append(Series(f"n x {name or 'one'}", best, marks=False))
    return shown


def delays(rows: Sequence[Point], goal: str) -> list[Series]:
    curves = _by_setting(rows, goal, "latency_mean_us", 1.0)
    return [Series(name or "mean", points) for name, points in curves.items()]


def _by_setting(
    rows: Sequence[Point], goal: str, key: str, factor: float = 1e-3
) -> dict[str, tuple[tuple[float, float], ...]]:
    """Points by what was set apart from the number of chains; what is nought has no logarithm."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        chains = row["values"].get(_CHAINS)
        for one in row["results"]:
            if chains is not None and one["goal"] == goal and (one[key] or 0) > 0:
                curves.setdefault(_setting(row), []).append((float(chains), one[key] * factor))
    return {name: tuple(sorted(points)) for name, points in curves.items()}


def _setting(row: Point) -> str:
    return ", ".join(
        f"{key.rpartition('.')[2]} {_short(value)}"
        for key, value in row["values"].items()
        if key != _CHAINS
    )


def _short(value: object) -> str:
    shown = words(value)
    return shown if len(shown) <= 24 else shown[:23] + "…"


def _label(row: Point) -> str:
    chains = row["values"].get(_CHAINS)
    vnfs = "" if chains is None else f"{chains} chain{'s' if chains != 1 else ''}"
    return ", ".join(part for part in (vnfs, _setting(row)) if part) or str(row["point"])


def _brief(row: Point) -> str:
    """Values without their names, as a bar's name has little room."""
    others = (_short(value) for key, value in row["values"].items() if key != _CHAINS)
    chains = row["values"].get(_CHAINS)
    return ", ".join(["" if chains is None else f"{chains} x", *others]).strip(", ")


def stacks(rows: Sequence[Point]) -> Iterator[AnatomyStack]:
    for row in rows:
        for one in row["results"]:
            if one["anatomy"] is not None:
                name = f"{_brief(row)}, {one['load_pps'] / 1e3:.4g} kpps"
                ns = parts(Anatomy.model_validate(one["anatomy"]))
                yield AnatomyStack(name, tuple(part / 1e3 for part in ns))


def _rows(points: Sequence[Point]) -> Iterator[Row]:
    for point in points:
        label = _label(point)
        for one in point["results"]:
            cells: tuple[Cell, ...] = (
                label,
                one["goal"],
                one["throughput"],
                one["best_case_pps"],
                one["loss_ratio"],
                *(one[key] for key in ("latency_mean_us", "latency_p99_us", "jitter_us")),
                one["verdict"],
            )
            yield Row(cells, doubtful=one["verdict"] != "ok")
        why = point.get("skipped") or point.get("failed")
        if why:
            what = "skipped" if point.get("skipped") else "failed"
            yield Row((label, f"{what}: {why}", *[""] * (len(_COLUMNS) - 2)), doubtful=True)


def _stated(value: object) -> str:
    """A published value, a range or several of them, as its study has it."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_stated(one)}" for key, one in value.items())
    if isinstance(value, list):
        return "–".join(map(str, value))
    return str(value)
