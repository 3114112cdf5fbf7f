# SPDX-License-Identifier: Apache-2.0
"""Bundles of one study on several grounds as one document: its claims judged by each, its figures
with a line for each, and what was published among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.analyse.claims import claimed_text, measured_text, run_claims
from headrace.analyse.grounds import (
    AskedPoint,
    GroundResults,
    parts_of,
    side_by_side,
    study_of,
    told_apart,
)
from headrace.analyse.repetitions import median_known
from headrace.analyse.units import plural
from headrace.record.claim import JudgedClaim
from headrace.record.points import PointRow
from headrace.record.rows import Result
from headrace.report.charts.curves import Axes, Series
from headrace.report.document_model import (
    Block,
    Cell,
    Chart,
    Column,
    Document,
    Items,
    Row,
    Section,
    Table,
    curves,
)
from headrace.report.hosting import words
from headrace.spec.claim import Claim
from headrace.spec.group import Group, Published

_NOTE = (
    "Each claim is a query over a run's results. It is judged on each ground by itself, and only "
    "where rows that the audit doubts make no difference."
)
# What is drawn: its axis, and its value in a result.
FIGURES: dict[str, tuple[str, Callable[[Result], float | None]]] = {
    "throughput_gbps": ("Gbit/s, L1", lambda r: r.throughput_gbps_l1),
    "loss": ("loss, %", lambda r: 100 * r.loss_ratio),
    "latency_us": (
        "mean latency, us",
        lambda r: None if r.latency_ns is None else r.latency_ns.mean / 1e3,
    ),
}
_AT_LOADS, _AT_GOALS = ("latency_us", "loss"), ("throughput_gbps", "latency_us")
_LOAD = "load"
Judged = Mapping[str, Mapping[Path, JudgedClaim]]  # by claim and bundle


def document(grounds: Sequence[GroundResults]) -> Document:
    groups, grounds = side_by_side(grounds), told_apart(grounds)
    data, claims = study_of(grounds[0]), parts_of(grounds[0], "claims", Claim)
    judged: dict[str, dict[Path, JudgedClaim]] = {}
    for ground in grounds:
        for one in run_claims(ground.claims):
            judged.setdefault(one.name, {})[ground.bundle.path] = one
    sections = [*_claims(grounds, judged), *_reasons(grounds, claims, judged)]
    for name, group in groups.items():
        sections += _figure(name, group, grounds)
    return Document(
        title=data.get("paper") or data["name"],
        subtitle=" · ".join(ground.title for ground in grounds),
        about=data.get("description", ""),
        sentence="; ".join(f"{ground.title}: {ground.tally}" for ground in grounds) + ".",
        sections=tuple(sections),
    )


def _claims(grounds: Sequence[GroundResults], judged: Judged) -> Iterator[Section]:
    if not judged:
        return
    columns: list[Column | str] = ["claim", Column("published", "text")]
    for ground in grounds:
        columns += [Column(ground.title, "text"), Column("verdict", "verdict")]
    rows = []
    for name, by in judged.items():
        cells: list[Cell] = [name, _claimed(next(iter(by.values())))]
        for ground in grounds:
            one = by.get(ground.bundle.path)
            cells += ["", ""] if one is None else [measured_text(one), one.verdict]
        rows.append(Row(tuple(cells), doubtful=any(o.verdict != "confirmed" for o in by.values())))
    texts = tuple(f"{name}: {next(iter(by.values())).text}" for name, by in judged.items())
    blocks = (Table(tuple(columns), tuple(rows)), Items(texts, on="page"))
    about = "; ".join(f"{_who(ground, grounds)}: {ground.tally}" for ground in grounds)
    yield Section("Claims", _NOTE, blocks, about=about, anchor="claims")


def _who(one: GroundResults, grounds: Sequence[GroundResults]) -> str:
    """Measured or predicted, where that tells all of them apart."""
    kinds = {ground.ground for ground in grounds}
    return one.ground if len(kinds) == len(grounds) else one.title


def _claimed(one: JudgedClaim) -> str:
    return claimed_text(one) + ("" if one.published else " (own)")


def _reasons(
    grounds: Sequence[GroundResults],
    claims: Mapping[str, Claim],
    judged: Judged,
) -> Iterator[Section]:
    """What is not confirmed, and what is known of why. A reason that the study gives is that of the
    paper's own server."""
    texts = []
    for name, by in judged.items():
        for ground in grounds:
            one = by.get(ground.bundle.path)
            if one is None or one.verdict == "confirmed":
                continue
            reason = claims[name].differs if ground.of_the_paper and name in claims else None
            why = one.why or (reason if one.verdict == "contradicted" else None)
            difference = f" {measured_text(one)} instead of {claimed_text(one)}."
            text = f"{name}, {_who(ground, grounds)}: {one.verdict.replace('-', ' ')}."
            texts.append(
                text + difference * (one.verdict == "contradicted") + (f" {why}" if why else "")
            )
    if texts:
        yield Section("What differs, and why", blocks=(Items(tuple(texts)),), anchor="differs")


def _figure(name: str, group: Group, grounds: Sequence[GroundResults]) -> Iterator[Section]:
    figures = f"Figure {', '.join(group.figures)}: " if group.figures else ""
    blocks: list[Block] = [*_charts(group, name, grounds), *_tables(name, group, grounds)]
    if blocks:
        yield Section(f"{figures}{name}", group.about, tuple(blocks))


def _charts(group: Group, name: str, grounds: Sequence[GroundResults]) -> Iterator[Chart]:
    every = [
        (ground, point, asked, results)
        for ground in grounds
        for point in ground.points
        if point.group == name
        for asked, results in ground.results.items()
        if asked.point == point.point
    ]
    path = _axis(every)
    for goal in dict.fromkeys(asked.goal for _, _, asked, _ in every):
        mine = [one for one in every if one[2].goal == goal]
        traffic = _traffic([(point, asked) for _, point, asked, _ in mine])
        named = _named([asked for _, _, asked, _ in mine], path, traffic)
        for figure in _AT_LOADS if goal == "fixed" else _AT_GOALS:
            label, value = FIGURES[figure]
            lines: dict[str, list[tuple[float, float]]] = {}
            for ground, point, asked, results in mine:
                x, y = _x(path, point, asked), median_known([value(one) for one in results])
                if x is not None and y is not None:
                    setting = _setting(point.values, path, named[asked])
                    who = _who(ground, grounds)
                    lines.setdefault(": ".join(filter(None, (who, setting))), []).append((x, y))
            drawn = [Series(title, tuple(sorted(points))) for title, points in lines.items()]
            drawn += _published(group.published, path, figure)
            if any(len({x for x, _ in one.points}) > 1 for one in drawn):
                axes = Axes(
                    "Mpps" if path == _LOAD else path.rpartition(".")[2], f"{label} ({goal})"
                )
                yield curves(drawn, axes)


def _traffic(every: Sequence[tuple[PointRow, AskedPoint]]) -> dict[AskedPoint, str]:
    """Which workload it is, where a point has several; what is swept stands in the point."""
    texts = {}
    for point, asked in every:
        text = asked.workload
        for key, value in point.values.items():
            text = text.replace(f" {key}={value}", "")
        texts[asked] = text
    several: dict[str, set[str]] = {}
    for asked, text in texts.items():
        several.setdefault(asked.point, set()).add(text)
    return {asked: text if several[asked.point] - {text} else "" for asked, text in texts.items()}


def _named(
    every: Sequence[AskedPoint], path: str, traffic: Mapping[AskedPoint, str]
) -> dict[AskedPoint, str]:
    """What of each is not the same in all, and is no axis."""
    parts = {
        one: (
            traffic[one],
            one.execution,
            "" if path == _LOAD or not one.load_pps else f"{one.load_pps / 1e6:.3g} Mpps",
        )
        for one in every
    }
    same = [len(set(column)) == 1 for column in zip(*parts.values(), strict=True)]
    return {
        one: ", ".join(text for text, alike in zip(texts, same, strict=True) if not alike and text)
        for one, texts in parts.items()
    }


ShownPoint = tuple[GroundResults, PointRow, AskedPoint, list[Result]]


def _axis(every: Sequence[ShownPoint]) -> str:
    """The swept path that has the most numbers, else the load."""
    paths = dict.fromkeys(path for _, point, _, _ in every for path in point.values)
    numbers: dict[str, int] = {}
    for path in paths:
        values = {str(point.values.get(path)): point.values.get(path) for _, point, _, _ in every}
        if len(values) > 1 and all(isinstance(v, int | float) and v > 0 for v in values.values()):
            numbers[path] = len(values)
    return max(numbers, key=lambda path: numbers[path], default=_LOAD)


def _x(path: str, point: PointRow, asked: AskedPoint) -> float | None:
    x = asked.load_pps / 1e6 if path == _LOAD else point.values.get(path)
    return float(x) if isinstance(x, int | float) and x > 0 else None


def _setting(values: Mapping[str, Any], path: str, execution: str) -> str:
    others = (words(value)[:24] for key, value in values.items() if key != path)
    return ", ".join(text for text in (*others, execution) if text)


def _published(published: Sequence[Published], path: str, figure: str) -> Iterator[Series]:
    """A number where the text of the paper says for which point it is; of a range both ends."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for one in published:
        x = one.at.get(path)
        if one.figure != figure or not isinstance(x, int | float):
            continue
        ends = one.value if isinstance(one.value, list | tuple) else [one.value]
        scale = 100.0 if figure == "loss" else 1.0
        title = ": ".join(filter(None, ("published", _setting(one.at, path, ""))))
        lines.setdefault(title, []).extend((float(x), float(end) * scale) for end in ends)
    for title, points in lines.items():
        yield Series(title, tuple(sorted(points)))


def _tables(name: str, group: Group, grounds: Sequence[GroundResults]) -> Iterator[Block]:
    labels = {p.point: _label(p) for g in grounds for p in g.points if p.group == name}
    every = dict.fromkeys(a for g in grounds for a in g.results if a.point in labels)
    points = {p.point: p for g in grounds for p in g.points}
    traffic = _traffic([(points[asked.point], asked) for asked in every])
    columns: list[Column | str] = ["point", Column("execution", "text"), Column("goal", "text")]
    for ground in grounds:
        columns += [
            Column(f"{_who(ground, grounds)}: rate", "rate"),
            Column("loss", "loss", optional=True),
            Column("mean", unit="us", optional=True),
        ]
    rows = []
    for asked in every:
        load = f"{asked.load_pps / 1e6:.4g} Mpps" if asked.load_pps else ""
        label = ", ".join(filter(None, (labels[asked.point], traffic[asked])))
        cells: list[Cell] = [label, asked.execution, load or asked.goal]
        for ground in grounds:
            results = ground.results.get(asked, [])
            cells += [
                median_known([one.throughput_pps for one in results]),
                median_known([one.loss_ratio for one in results]),
                median_known([FIGURES["latency_us"][1](one) for one in results]),
            ]
        rows.append(Row(tuple(cells)))
    if rows:
        yield Table(tuple(columns), tuple(rows))
    absent = tuple(_absent(name, grounds))
    if absent:
        yield Items(absent)
    if group.published:
        told = tuple((one.setup, words(one.value), one.claim) for one in group.published)
        yield Table(("published", Column("", "text"), Column("claim", "text")), told)


def _absent(name: str, grounds: Sequence[GroundResults]) -> Iterator[str]:
    for ground in grounds:
        reasons: dict[str, int] = {}
        for point in ground.points:
            if point.group == name and point.absent is not None:
                reasons[point.absent] = reasons.get(point.absent, 0) + 1
        for why, count in reasons.items():
            yield f"{ground.title}: {plural(count, 'point')} {why}"


def _label(point: PointRow) -> str:
    values = (
        f"{key.rpartition('.')[2]} {words(value)[:24]}" for key, value in point.values.items()
    )
    return ", ".join(values) or point.point
