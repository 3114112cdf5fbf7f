# SPDX-License-Identifier: Apache-2.0
"""A run that goes on, as documents: an overview, the distribution of latency, the counters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from headrace.analyse import units
from headrace.live import counter_sections, distribution
from headrace.live.course import course, per_second
from headrace.live.scene import Scene
from headrace.measure.observer import TrialBegun
from headrace.record.rows import Result
from headrace.record.text import between
from headrace.report.charts.trials import GoalBounds, SearchTrials
from headrace.report.document_model import (
    Answer,
    Block,
    Cell,
    Chart,
    Column,
    Document,
    Row,
    Section,
    Table,
    Text,
)

SHOWN = 12  # findings and lines of the overview


@dataclass(frozen=True)
class View:
    title: str  # in the navigation
    document: Callable[[Scene, float], Document]


def overview(scene: Scene, now_s: float) -> Document:
    """`now_s`: by the onlooker's clock."""
    sections = (
        _chain(scene),
        *_drops(scene),
        *_search(scene),
        distribution.section(scene),
        _disturbances(scene),
        *_results(scene),
        Section("Progress", blocks=(_notes(scene),)),
    )
    return _document(scene, now_s, sections)


def _document(scene: Scene, now_s: float, sections: tuple[Section, ...]) -> Document:
    if scene.ended:
        cautions: tuple[str, ...] = (scene.ended,)
    else:
        cautions = (scene.unseen,) if scene.unseen and scene.deployed else ()
    return Document(
        title=scene.study,
        subtitle=_where(scene, now_s),
        answers=tuple(_answers(scene)),
        cautions=cautions,
        sections=sections,
    )


def _latency(scene: Scene, now_s: float) -> Document:
    return _document(scene, now_s, (distribution.section(scene), *distribution.tables(scene)))


def _counters(scene: Scene, now_s: float) -> Document:
    return _document(scene, now_s, (_chain(scene), *counter_sections.sections(scene)))


VIEWS: Mapping[str, View] = {
    "": View("Overview", overview),
    "latency": View("Latency", _latency),
    "counters": View("Counters", _counters),
}


def _where(scene: Scene, now_s: float) -> str:
    parts = [f"{scene.label} ({scene.number}/{scene.total})" if scene.label else "starting"]
    if not scene.label and scene.chain:  # executions that are compared are measured before
        parts = [f"{scene.chain}, {scene.execution}"]
    if scene.trial is not None:
        parts.append(_trial(scene.trial, now_s - scene.trial_began_s))
    elif (scene.label or scene.chain) and not scene.ended:
        parts.append("between trials" if scene.deployed else "deploying")
    return " · ".join(parts)


def _trial(trial: TrialBegun, went_s: float) -> str:
    load = units.pps(trial.load_pps) if trial.load_pps else "as fast as possible"
    went = min(max(0.0, went_s), trial.seconds)
    return f"trial {trial.number}, {trial.phase}: {load}, {went:.1f} of {trial.seconds:g} s"


def _answers(scene: Scene) -> Iterator[Answer]:
    if (moment := scene.moment) is not None:
        over = f"mean of the last {moment.seconds:.2g}{units.SPACE}s"
        if not scene.deployed:
            over = "when it was seen last"
        yield Answer(units.pps(sum(w.sent_pps for w in moment.ways)), over, "sent")
        yield Answer(units.pps(sum(w.received_pps for w in moment.ways)), over, "received")
        dropped = sum(moment.dropped.values()) / moment.seconds if moment.seconds else 0.0
        yield Answer(units.pps(dropped) if dropped else "none", over, "dropped")
    if (last := scene.last) is not None:
        loss = units.loss(last.loss_ratio)
        yield Answer(loss, f"trial {last.trial}, {last.audit.verdict}", "loss of the last trial")
    if scene.verdicts:
        good = scene.verdicts.get("ok", 0)
        yield Answer(f"{good} of {sum(scene.verdicts.values())}", "passed the audit", "trials")


def _chain(scene: Scene) -> Section:
    picture = course(scene)
    if not picture.stretches:
        return Section("Chain", blocks=(Text(scene.unseen or NO_SEGMENTS),))
    note = (
        "Packets/s into each segment, pauses between trials included. A stretch is as full as its "
        "lcore is busy; red drops packets."
    )
    if not scene.deployed:
        note = f"{scene.chain}, {scene.execution}, as it was seen last. {note}"
    return Section("Chain", note, (Chart(picture),), anchor="chain")


NO_SEGMENTS = "This ground has no segments of its own."


def _drops(scene: Scene) -> Iterator[Section]:
    if (moment := scene.moment) is None:
        return
    if not moment.dropped_ever:
        yield Section("Drops", blocks=(Text("No packet was dropped since the deployment."),))
        return
    rows: list[tuple[Cell, ...]] = []
    for place, packets in sorted(moment.dropped_ever.items(), key=lambda item: -item[1]):
        where, _, reason = place.rpartition("/")
        rows.append((where, reason, per_second(moment.dropped.get(place, 0), moment), packets))
    columns = (
        "where",
        Column("reason", "text"),
        Column("now", "rate"),
        Column("since the deployment", "count", "packets"),
    )
    note = "What functions were told to drop is among them; full: a link had no room."
    yield Section("Drops", note, (Table(columns, tuple(rows)),))


def _search(scene: Scene) -> Iterator[Section]:
    if not scene.search:
        return
    known = {goal: b for goal, b in scene.bounds.items() if b != (None, None)}
    bounds = tuple(GoalBounds(goal, *ends) for goal, ends in known.items())
    rows = tuple((goal, between(*ends), _width(*ends)) for goal, ends in known.items())
    columns = ("goal", Column("bounds", "text"), Column("width", "share"))
    note = "Hollow: packets were lost. Dashed: the audit has doubts. Shaded: between the bounds."
    blocks: list[Block] = [Chart(SearchTrials(scene.search, bounds))]
    if rows:
        blocks.append(Table(columns, rows))
    yield Section("Search", note, tuple(blocks))


def _width(lower: float | None, upper: float | None) -> float | None:
    return (upper - lower) / upper if lower is not None and upper else None


def _disturbances(scene: Scene) -> Section:
    held = tuple(counter_sections.held_up(scene))
    blocks: list[Block] = [Table(counter_sections.HELD, held)] if held else []
    if scene.checks:
        counts = tuple(sorted(scene.checks.items(), key=lambda item: -item[1]))
        blocks.append(Table(("check", Column("failed in trials", "count")), counts))
    if scene.disturbances:
        rows = tuple((d.check, d.trial, d.text) for d in scene.disturbances[:SHOWN])
        columns = ("check", Column("trial", "count"), Column("finding", "text"))
        blocks.append(Table(columns, rows))
    if not scene.checks:
        went = f"All {units.plural(scene.trials, 'trial')} so far" if scene.trials else "No trial"
        blocks.append(Text(f"{went} passed the audit." if scene.trials else f"{went} has ended."))
    return Section(
        "Disturbances", "What the audit of each trial found, the newest first.", tuple(blocks)
    )


def _results(scene: Scene) -> Iterator[Section]:
    if not scene.results:
        return
    rows = tuple(_result(one) for one in reversed(scene.results))
    columns = (
        "chain, execution",
        Column("goal", "text"),
        Column("load", "rate"),
        Column("throughput", "rate", digits=4),
        Column("loss", "loss"),
        Column("p99", "time"),
        Column("audit", "verdict"),
    )
    note = "The newest first; the report will compare them."
    yield Section("Results so far", note, (Table(columns, rows),))


def _result(one: Result) -> Row:
    name = f"{one.chain}, {one.execution}" + (f", {one.direction}" * (one.direction != "forward"))
    p99 = None if one.latency_ns is None else one.latency_ns.p99
    cells = (
        f"{name}, repetition {one.repetition}", one.goal, one.load_pps, one.throughput_pps,
        one.loss_ratio, p99, one.audit.verdict,
    )  # fmt: skip
    return Row(cells, doubtful=not one.audit.trusted)


def _notes(scene: Scene) -> Block:
    lines = tuple((line,) for line in scene.notes[: -SHOWN - 1 : -1])
    return Table((Column("newest first", "text"),), lines or (("",),))
