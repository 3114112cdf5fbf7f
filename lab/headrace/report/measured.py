# SPDX-License-Identifier: Apache-2.0
"""A run's bundle as a document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from headrace.analyse import reached, units
from headrace.analyse.beside import Compared
from headrace.analyse.bundle_report import Explained, Report, ReportGroup
from headrace.analyse.limits import name_of
from headrace.analyse.summary import Summary
from headrace.record.rows import Result
from headrace.report import appliances, hosting, result_tables
from headrace.report.charts import executions, latency_load, percentiles
from headrace.report.charts.anatomy import AnatomyStack
from headrace.report.charts.latency_load import Loads
from headrace.report.charts.pipe import Flow
from headrace.report.document_model import (
    Block,
    Chart,
    Code,
    Column,
    Document,
    Folded,
    Heading,
    Items,
    Key,
    Link,
    Row,
    Section,
    Table,
    Text,
    strokes,
)
from headrace.report.evidence import in_brief, section

NARROWEST = "Where it is narrowest"


def document(
    report: Report,
    *,
    spec: str | None = None,
    first: Sequence[Section] = (),
    points: Sequence[Section] = (),
    more: Sequence[Section] = (),
    sentence: str = "",
) -> Document:
    """`sentence`: where executions are not what is asked about. `first`: sections before all;
    `points`: on a paper's points. `more`: on what a bundle has beside its results, such as samples
    of the layers."""
    groups = report.groups
    several, roles = len(groups) > 1, appliances.roles(report.reached)
    sections = [*first, *([_glance(groups)] if several else []), *points]
    for number, group in enumerate(groups, 1):
        sections += _group(group, f"group-{number}", several, roles)
    given = (Folded("Specification", "as given", (Code(spec),)),) if spec else ()
    return Document(
        title=report.title,
        subtitle=_subtitle(report),
        about=report.description,
        sentence=sentence or report.sentence,
        cautions=report.cautions,
        sections=(*sections, *more, section(report, given), in_brief(report)),
    )


def _subtitle(report: Report) -> str:
    parts = [] if report.name == report.title else [report.name]
    parts.append(f"{report.status.started_at[:16].replace('T', ' ')} UTC")
    if (e := report.environment) is not None:
        parts.append(", ".join(str(one) for one in (e.hostname, e.cpu.get("model")) if one))
    return " · ".join((*parts, units.plural(report.trials, "trial")))


def _glance(groups: Sequence[ReportGroup]) -> Section:
    rows = []
    for number, group in enumerate(groups, 1):
        if group.foreign:
            continue
        first = (Link(group.place, f"group-{number}"), group.workload, group.primary)
        best = group.best
        if best is None:
            rows.append(Row((*first, "no trusted result", None, None, ""), doubtful=True))
            continue
        p99 = best.latency_ns.get("p99")
        rows.append(
            Row(
                (
                    *first,
                    group.named(best),
                    best.throughput_pps.median,
                    p99.median if p99 else None,
                    ", ".join(_narrowest(e) for e in group.explained if e.summary.key == best.key),
                )
            )
        )
    columns = (
        "chain",
        Column("workload", "text"),
        Column("goal", "text"),
        Column("execution", "text"),
        Column("throughput", "own-rate"),
        Column("p99", "own-time"),
        Column("narrowest", "text"),
    )
    note = "The fastest trusted result of each chain and workload." if rows else ""
    tables = (Table(columns, tuple(rows)),) if rows else ()
    return Section("At a glance", note, (*tables, *_glance_of_vnfs(groups)), on="page")


def _glance_of_vnfs(groups: Sequence[ReportGroup]) -> Iterator[Table]:
    """Third-party VNFs: not measured to be chosen from, so the slowest deployment stands beside the
    fastest."""
    rows = []
    for number, group in enumerate(groups, 1):
        if not group.foreign:
            continue
        by_name = {group.named(s): reached.rate(s.results) for s in group.shown}
        slowest = min(by_name, key=lambda name: by_name[name].median)
        fastest = max(by_name, key=lambda name: by_name[name].median)
        several = len(by_name) > 1
        names = units.plural(len(by_name), "deployment") if several else fastest
        least = f"{by_name[slowest]}, {slowest}" if several else ""
        most = f"{by_name[fastest]}, {fastest}" if several else str(by_name[fastest])
        narrowest = ", ".join(dict.fromkeys(c.vnf for c in group.compared if c.vnf))
        first = (Link(group.workload, f"group-{number}"), group.place, names)
        rows.append(
            Row((*first, most, least, narrowest), doubtful=not all(s.trusted for s in group.shown))
        )
    if rows:
        columns = [
            Column(name, "text")
            for name in ("network", "deployed", "fastest", "slowest", "narrowest")
        ]
        yield Table(("workload", *columns), tuple(rows))


def _narrowest(e: Explained) -> str:
    return e.pipe.narrowest or (name_of(e.pipe.limit) if e.pipe.limit else units.NOT_KNOWN)


def _group(
    group: ReportGroup, anchor: str, several: bool, roles: Mapping[str, str]
) -> Iterator[Section]:
    deployed = any(s.typical.segments for s in group.summaries)
    chain = " → ".join(group.nfs) or ("empty chain" if deployed else group.place)
    title = group.place if group.foreign else f"{group.place}: {chain}" if several else chain
    title += f" x {group.copies}" if group.copies > 1 else ""
    ways = {"forward": "", "both": ", both directions in sum"}
    yield Section(
        title=title,
        about=group.workload + ways.get(group.direction, f", {group.direction}"),
        note=appliances.HOW if group.foreign else _note(group),
        blocks=(*_said(group, several), *_first(group), *_tables(group, roles)),
        anchor=anchor,
    )
    yield from _pictures(group)


def _note(group: ReportGroup) -> str:
    """How the first picture is to be read."""
    if group.conclusion is None:
        return f"Pictures show {_goal(group)}."
    by = f"{_goal(group)}, with its range over repetitions and the search's bounds."
    if group.conclusion.by == "capacity":
        by = (
            "capacity: what undisturbed lcores could carry, in an interval of 95 %; dots are "
            f"turns. Other pictures show {_goal(group)}."
        )
    return (
        f"{by} An lcore's bar is as long as the time from one packet carried to the next, in "
        "cycles of the TSC; behind it stands what is not idle."
    )


def _goal(group: ReportGroup) -> str:
    if group.goal is None:
        return group.primary
    allowed = group.goal.loss_ratio
    lost = f"at most {units.exact_percent(allowed)} loss" if allowed else "no loss"
    return f"{group.primary}: the highest rate with {lost}"


def _said(group: ReportGroup, several: bool) -> Iterator[Block]:
    """The only group's sentence is the document's."""
    if several and group.conclusion is not None:
        yield Text(group.conclusion.sentence)


def _first(group: ReportGroup) -> Iterator[Block]:
    """One picture: the executions with their intervals, and where their lcores' cycles go."""
    conclusion = group.conclusion
    if conclusion is None or not conclusion.standings:
        return
    judged = {e.summary.key for e in group.explained}
    others = [s for s in group.shown if s.key not in judged and s.key.ground != "measured"]
    picture, fills = executions.of(conclusion, others)
    yield Chart(picture, tuple(Key(fill, name) for name, fill in fills.items()))


def _tables(group: ReportGroup, roles: Mapping[str, str]) -> Iterator[Block]:
    if group.foreign:
        yield Heading("What clients saw", on="page")
        yield result_tables.applications(group, roles)
        note = "as interfaces or the generator count them"
        yield Folded("Packets", note, (result_tables.results(group),))
    else:
        yield result_tables.results(group)
    yield Items(group.notes)
    yield Items(group.doubts, on="terminal")  # a page has them in its audit
    if group.single:
        note = "the table above is their sum"
        yield Folded("Each direction", note, (result_tables.directions(group, "page"),))
        yield result_tables.directions(group, "terminal")


def _pictures(group: ReportGroup) -> Iterator[Section]:
    if group.explained:
        how = group.explained[0].summary.key.ground  # of one ground are all that are explained
        note = (
            "Each part as high as the rate that it could carry with its lcores to itself, shaded "
            f"where these have other parts to run; the flow inside is what was {how}."
        )
        yield Section(NARROWEST, note, tuple(_explained(group.explained)))
    if group.compared:
        yield Section(NARROWEST, "", tuple(_compared(group.compared)))
    yield from _latency(group)
    yield from _anatomy(group)
    yield from _cpu_shares(group)
    if loads := latency_load.series(group.summaries):
        note = "At the fixed loads: p99, and p50 thinner. Hollow dashed points are not trusted."
        keys = strokes([one.name for one in loads]) if len(loads) > 1 else ()
        yield Section("Latency over load", note, (Chart(Loads(loads), keys),), on="page")
    drops = [
        (s.key.execution, place, n, n / (s.typical.sent or 1))
        for s in group.shown
        for place, n in sorted(s.typical.drops.items(), key=lambda item: -item[1])
    ]
    if drops:
        columns = (
            "execution",
            Column("place / reason", "text"),
            Column("packets", "count"),
            Column("of those sent", "share", digits=2),
        )
        note = "In the repetition nearest to the median, by place and reason."
        yield Section("Drops", note, (Table(columns, tuple(drops)),), on="page")


def _explained(explained: Sequence[Explained]) -> Iterator[Block]:
    for e in explained:
        verdict = "" if e.summary.trusted else e.summary.verdict
        yield Heading(f"{e.summary.key.execution}, {e.summary.key.goal_text}", verdict)
        yield Text(e.pipe.headline)
        yield Chart(Flow(e.pipe))
        yield Items(e.pipe.reasons)


def _compared(compared: Sequence[Compared]) -> Iterator[Block]:
    for one in compared:
        yield Heading(one.network)
        yield Text(one.lines[0])
        yield Items(one.sentences)


def _latency(group: ReportGroup) -> Iterator[Section]:
    drawn = [
        (curve, s)
        for s in group.shown
        if (curve := percentiles.curve(s.key.execution, s.results)) is not None
    ]
    if not drawn:
        return
    keys = strokes(
        [
            f"{curve.name}: p50 {units.ns(s.latency_ns['p50'].median)}"
            f"{' (median of the repetitions)' if group.repeated else ''}, "
            f"{units.count(curve.packets)} packets"
            for curve, s in drawn
        ]
    )
    picture = percentiles.Percentiles(tuple(curve for curve, _ in drawn), _floor(group.shown))
    note = (
        f"From the intended send time, at the rate found for {group.primary}; lines are of all "
        "repetitions' packets together."
    )
    yield Section("Latency", note, (Chart(picture, keys),), on="page")


def _anatomy(group: ReportGroup) -> Iterator[Section]:
    """Only hosted chains have parts. Below the tester's floor, which is none then, these are not
    known."""
    results = [r for s in group.summaries for r in s.results]
    known = [r for r in results if r.anatomy is not None and not r.below_floor]
    if known:
        undivided = [r.anatomy.undivided for r in known if r.anatomy is not None]
        stacks = [AnatomyStack(_of_result(r), hosting.parts_us(r)) for r in known]
        yield replace(hosting.anatomy(stacks, undivided), on="page")


def _cpu_shares(group: ReportGroup) -> Iterator[Section]:
    """Only hosted chains have them whose spec weighs their VNFs."""
    known = [r for s in group.summaries for r in s.results if r.cpu_shares]
    if known:
        rows = [(_of_result(r), one) for r in known for one in r.cpu_shares]
        yield replace(hosting.cpu_shares(rows), on="page")


def _of_result(r: Result) -> str:
    again = f", {r.repetition}" if r.repetition > 1 else ""
    return f"{r.execution}, {r.goal} {units.pps(r.load_pps)}{again}"


def _floor(shown: Sequence[Summary]) -> float | None:
    results = [r for s in shown for r in s.results]
    floors = [r.calibration.floor_ns for r in results if r.calibration]
    return floors[0] if floors and not any(r.below_floor for r in results) else None
