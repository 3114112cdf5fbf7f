# SPDX-License-Identifier: Apache-2.0
"""A paper's points as a document: how throughput and delay go with the number of VNFs, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from headrace.analyse.reached import Reached, gathered
from headrace.analyse.settings_apart import settings_apart
from headrace.analyse.summary import summarise
from headrace.analyse.units import plural
from headrace.model.hosting import best_case
from headrace.record.bundle import Bundle
from headrace.record.deployment import DeployedGraph
from headrace.record.known import known
from headrace.record.points import PointRow, points_of
from headrace.record.rows import Result
from headrace.record.segments import Anatomy
from headrace.report.charts.anatomy import AnatomyStack
from headrace.report.charts.curves import Axes, Series
from headrace.report.document_model import Below, Cell, Column, Row, Section, Table, Text, curves
from headrace.report.hosting import anatomy, parts, words
from headrace.report.result_tables import rate_cell
from headrace.spec.group import Group

_CHAINS = "deployment.hosting.chains"
_COLUMNS = (
    "point",
    Column("execution", "text", optional=True),
    Column("goal", "text"),
    Column("throughput", "rate"),
    Column("n x one", "rate", optional=True),
    Column("loss", "loss"),
    Column("mean", unit="us"),
    Column("p99", unit="us", from_width=100),
    Column("IPDV", unit="us"),
    Column("audit", "verdict"),
)
_VNF_COLUMNS = (
    "deployed",
    Column("workload", "text"),
    Column("rate", "text"),
    Column("audit", "verdict"),
)


@dataclass(frozen=True)
class PointResult:
    """What a paper's figures have of a result."""

    goal: str  # with the load, where that was asked for
    load_pps: float
    throughput: Cell
    throughput_pps: float | None
    loss_ratio: float
    latency_mean_us: float | None
    latency_p99_us: float | None
    jitter_us: float | None
    anatomy: Anatomy | None
    verdict: str
    best_case_pps: float | None = None  # n times what one chain had
    at_load: bool = False  # that the study asked for: throughput is what came of it
    execution: str | None = None  # where its group has several

    @classmethod
    def of(cls, result: Result) -> PointResult:
        [summary] = summarise([result])
        delay, shown = result.latency_ns, rate_cell(summary)
        return cls(
            goal=summary.key.asked.goal_text,
            at_load=result.goal == "fixed",
            execution=result.execution,
            load_pps=result.load_pps,
            throughput=shown,
            throughput_pps=None if isinstance(shown, Below) else result.throughput_pps,
            loss_ratio=result.loss_ratio,
            latency_mean_us=None if delay is None else delay.mean / 1e3,
            latency_p99_us=None if delay is None else delay.p99 / 1e3,
            jitter_us=None if result.ipdv_ns_mean is None else result.ipdv_ns_mean / 1e3,
            anatomy=None if result.below_floor else result.anatomy,
            verdict=result.audit.verdict,
        )


@dataclass(frozen=True)
class MeasuredPoint:
    """A point of the study, and what was measured of it."""

    row: PointRow
    results: tuple[PointResult, ...] = ()
    reached: tuple[Reached, ...] = ()  # of third-party VNFs: each of its graphs

    @property
    def chains(self) -> int | None:
        count: int | None = self.row.values.get(_CHAINS)
        return count

    @property
    def others(self) -> dict[str, object]:
        """What was swept besides the number of chains."""
        return {key: value for key, value in self.row.values.items() if key != _CHAINS}


def sections(bundle: Bundle) -> tuple[Section, ...]:
    """A study's points by group; none where it has no groups."""
    points = settings_apart(points_of(bundle))
    if not points or not bundle.spec_given:
        return ()
    given = bundle.spec_data
    groups = {name: Group.model_validate(group) for name, group in given["groups"].items()}
    results = bundle.results()
    graphs: dict[str, list[DeployedGraph]] = {}
    for one in known(bundle).experiments:
        if one.deployed is not None:
            graphs.setdefault(str(one.study.get("name")), []).append(one.deployed)
    rows = [_measured(point, results, graphs.get(point.point, ())) for point in points]
    computed = bool(results) and all(one.ground == "predicted" for one in results)
    how = "predicted" if computed else "measured here"
    return of_groups(groups, given.get("paper", ""), with_best_case(rows), how)


def _measured(
    point: PointRow, results: Sequence[Result], graphs: Sequence[DeployedGraph]
) -> MeasuredPoint:
    """A chain of our functions has the point's name; graphs of third-party VNFs have their own."""
    if not graphs:
        own = [one for one in results if one.chain == point.point]
        # Beside the sum of both ways those of each would be taken for repetitions of it.
        if any(one.direction == "both" for one in own):
            own = [one for one in own if one.direction == "both"]
        return MeasuredPoint(point, tuple(map(PointResult.of, own)))
    of_graphs = ((graph, one) for graph in graphs for one in results if graph.has(one))
    return MeasuredPoint(point, reached=tuple(gathered(of_graphs)))


def with_best_case(rows: Sequence[MeasuredPoint]) -> list[MeasuredPoint]:
    """Puts beside each result of n chains n times what one chain of the same group and settings
    had, in the median of its repetitions."""
    single: dict[tuple[str, str, str | None, str], list[float]] = {}
    for row in rows:
        for one in row.results:
            if row.chains == 1 and one.throughput_pps is not None:
                key = (row.row.group, repr(row.others), one.execution, one.goal)
                single.setdefault(key, []).append(one.throughput_pps)

    def beside(row: MeasuredPoint, one: PointResult) -> PointResult:
        key = (row.row.group, repr(row.others), one.execution, one.goal)
        alone = median(single.get(key, [0.0]))
        if not alone or not row.chains or one.at_load:
            return one
        return replace(one, best_case_pps=best_case(alone, row.chains))

    return [replace(row, results=tuple(beside(row, one) for one in row.results)) for row in rows]


def of_groups(
    groups: Mapping[str, Group],
    paper: str,
    rows: Sequence[MeasuredPoint],
    how: str = "measured here",
) -> tuple[Section, ...]:
    measured = sum(bool(row.results or row.reached) for row in rows)
    origin = f"{paper}: " if paper else ""
    text = f"{origin}{measured} of {len(rows)} points {how}."
    sections = [Section("Points", blocks=(Text(text),))]
    for name, group in groups.items():
        mine = _told_apart([row for row in rows if row.row.group == name])
        if mine:
            sections += _sections(name, group, mine)
    return tuple(sections)


def _told_apart(rows: Sequence[MeasuredPoint]) -> list[MeasuredPoint]:
    """The points of a group; an execution that all of them have is no setting of theirs."""
    if len({one.execution for row in rows for one in row.results}) > 1:
        return list(rows)
    return [
        replace(row, results=tuple(replace(one, execution=None) for one in row.results))
        for row in rows
    ]


def _sections(name: str, group: Group, rows: Sequence[MeasuredPoint]) -> Iterator[Section]:
    goals = {one.goal: one.at_load for row in rows for one in row.results}
    for goal, at_load in goals.items():
        throughput = not at_load
        shown = scale(rows, goal) if throughput else delays(rows, goal)
        axes = Axes("VNFs", "kpps" if throughput else "mean latency, us", log_y=True)
        if any(len(one.points) > 1 for one in shown):
            what = "throughput" if throughput else "latency"
            yield Section(f"{name}: {what} ({goal})", group.about, (curves(shown, axes),))
    bars = list(stacks(rows))
    if bars:
        yield replace(anatomy(bars), title=f"{name}: where the time goes", on="page")
    tables = [
        Table(_VNF_COLUMNS, tuple(_reached(rows)))
        if any(row.reached for row in rows)
        else Table(_COLUMNS, tuple(_rows(rows)))
    ]
    if group.published:
        published = tuple((one.setup, _stated(one.value), one.claim) for one in group.published)
        tables.append(Table(("published", "", Column("claim", "text")), published))
    figures = f" (figure {', '.join(group.figures)})" if group.figures else ""
    yield Section(f"{name}: all points{figures}", group.about, tuple(tables))


def scale(rows: Sequence[MeasuredPoint], goal: str) -> list[Series]:
    """Over the number of chains, one line for each of the other settings; beside it the additive
    line, n times what one chain had."""
    shown = []
    for name, points in _by_setting(rows, goal, lambda one: one.throughput_pps).items():
        shown.append(Series(name or "measured", points))
        best = _by_setting(rows, goal, lambda one: one.best_case_pps).get(name, ())
        if len(best) > 1:
            shown.append(Series(f"n x {name or 'one'}", best, marks=False))
    return shown


def delays(rows: Sequence[MeasuredPoint], goal: str) -> list[Series]:
    curves = _by_setting(rows, goal, lambda one: one.latency_mean_us, 1.0)
    return [Series(name or "mean", points) for name, points in curves.items()]


def _by_setting(
    rows: Sequence[MeasuredPoint],
    goal: str,
    figure: Callable[[PointResult], float | None],
    factor: float = 1e-3,
) -> dict[str, tuple[tuple[float, float], ...]]:
    """Points by what was set apart from the number of chains, each the median of its repetitions;
    what is nought has no logarithm."""
    curves: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        for one in row.results:
            value = figure(one) or 0.0
            if row.chains is not None and one.goal == goal and value > 0:
                at = curves.setdefault(_setting(row, one.execution), {})
                at.setdefault(float(row.chains), []).append(value * factor)
    return {
        name: tuple((chains, median(values)) for chains, values in sorted(at.items()))
        for name, at in curves.items()
    }


def _setting(row: MeasuredPoint, execution: str | None = None) -> str:
    swept = (f"{key.rpartition('.')[2]} {_short(value)}" for key, value in row.others.items())
    return ", ".join(filter(None, (execution, *swept)))


def _short(value: object) -> str:
    shown = words(value)
    return shown if len(shown) <= 24 else shown[:23] + "…"


def _label(row: MeasuredPoint) -> str:
    vnfs = "" if row.chains is None else plural(row.chains, "chain")
    return ", ".join(part for part in (vnfs, _setting(row)) if part) or row.row.point


def _brief(row: MeasuredPoint) -> str:
    """Values without their names, as a bar's name has little room."""
    others = map(_short, row.others.values())
    return ", ".join(["" if row.chains is None else f"{row.chains} x", *others]).strip(", ")


def stacks(rows: Sequence[MeasuredPoint]) -> Iterator[AnatomyStack]:
    for row in rows:
        for one in row.results:
            if one.anatomy is not None:
                load = f"{one.load_pps / 1e3:.4g} kpps"
                name = ", ".join(filter(None, (one.execution, _brief(row), load)))
                yield AnatomyStack(name, tuple(part / 1e3 for part in parts(one.anatomy)))


def _rows(points: Sequence[MeasuredPoint]) -> Iterator[Row]:
    for point in points:
        label = _label(point)
        for one in point.results:
            cells: tuple[Cell, ...] = (
                label,
                one.execution,
                one.goal,
                one.throughput,
                one.best_case_pps,
                one.loss_ratio,
                one.latency_mean_us,
                one.latency_p99_us,
                one.jitter_us,
                one.verdict,
            )
            yield Row(cells, doubtful=one.verdict != "ok")
        yield from _absent(point, 2, len(_COLUMNS))


def _reached(points: Sequence[MeasuredPoint]) -> Iterator[Row]:
    for point in points:
        several = len({one.deployed.chain for one in point.reached}) > 1
        for one in point.reached:
            label = one.deployed.chain if several else _label(point)
            verdict = one.verdict or "ok"
            goal = one.goal
            load = one.workload if goal == "max" else f"{one.workload}, {goal}"
            cells: tuple[Cell, ...] = (label, load, str(one.rate), verdict)
            yield Row(cells, doubtful=verdict != "ok")
        yield from _absent(point, 1, len(_VNF_COLUMNS))


def _absent(point: MeasuredPoint, at: int, columns: int) -> Iterator[Row]:
    """Why there is no result of it, in this column of so many."""
    why = point.row.skipped or point.row.failed
    if why:
        what = "skipped" if point.row.skipped else "failed"
        cells = [_label(point), *[""] * (columns - 1)]
        cells[at] = f"{what}: {why}"
        yield Row(tuple(cells), doubtful=True)


def _stated(value: object) -> str:
    """A published value, a range or several of them, as its study has it."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_stated(one)}" for key, one in value.items())
    if isinstance(value, list):
        return "–".join(map(str, value))
    return str(value)
