# SPDX-License-Identifier: Apache-2.0
"""A campaign as a document: its points, the highest figure first."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.analyse.campaign import PACKETS
from headrace.analyse.units import plural, pps, significant
from headrace.record.campaign import CampaignOutput, CampaignPoint, CampaignRule
from headrace.record.verdict import Verdict
from headrace.report.document_model import (
    AtLeast,
    Cell,
    Column,
    Document,
    Items,
    Row,
    Section,
    Table,
)


def document(campaign: CampaignOutput, rule: CampaignRule) -> Document:
    units = {point.unit for point in campaign.points if point.unit}
    absent = [p for p in campaign.points if p.failed or p.skipped]
    blocks = (_table(campaign.points, units),)
    sections = [Section("Points", "Each run of a point is a bundle of its own.", blocks)]
    if absent:
        texts = tuple(f"{p.key}, {p.title}: {p.failed or p.skipped}" for p in absent)
        sections.append(Section("Not run, or not to the end", "", (Items(texts),)))
    runs = sum(len(point.bundles) for point in campaign.points)
    return Document(
        title=f"Campaign {campaign.study}",
        subtitle=f"{plural(len(campaign.points), 'point')}, {plural(runs, 'run')}",
        sentence=_sentence(campaign.points),
        cautions=_cautions(campaign.points, rule),
        sections=tuple(sections),
    )


def _sentence(points: tuple[CampaignPoint, ...]) -> str:
    """The best of those that may be believed, and whether the next one is surely worse."""
    shown = [
        p
        for p in points
        if p.median is not None and (p.verdict == "ok" or p.at_least) and not p.left_out
    ]
    if not shown:
        return "No point has a figure that may be believed."
    best, *others = shown
    if more := [p for p in others if p.at_least]:
        return _untold(best, more)
    text = f"{best.title} has the highest figure, {_value(best)}"
    if not others:
        return f"{text}."
    next_one = others[0]
    sure = (best.low or 0.0) > (next_one.high or 0.0)
    same = "" if sure else ", whose interval overlaps or touches its own"
    return f"{text}; next is {next_one.title} with {_value(next_one)}{same}."


def _untold(best: CampaignPoint, more: Sequence[CampaignPoint]) -> str:
    """The conclusion of `run` says the same of executions."""
    figures = f"{best.title} {_value(best)}"
    if len(more) == 1:
        [other] = more
        whose, figures = other.title, f"{figures} and {other.title} {_value(other)}"
    else:
        whose, figures = plural(len(more), "point"), f"the highest figure is of {figures}"
    why = f"as more packets than {whose} had were not made"
    return f"Which is best is not known, {why}: {figures}."


def _value(point: CampaignPoint) -> str:
    value = point.median or 0.0
    text = pps(value) if point.unit == PACKETS else f"{significant(value)} {point.unit}"
    return f"at least {text}" if point.at_least else text


def _cell(point: CampaignPoint, value: float | None) -> Cell:
    return AtLeast(value) if point.at_least and value is not None else value


def _cautions(points: tuple[CampaignPoint, ...], rule: CampaignRule) -> tuple[str, ...]:
    texts = []
    doubtful = [p for p in points if p.verdict not in (None, "ok", _only_bounded(p))]
    if bounded := [p for p in points if p.at_least]:
        texts.append(
            f"The figure of {plural(len(bounded), 'point')} is a lower bound (≥): the generator "
            "made no more packets."
        )
    kept = [p for p in points if p.runs and not p.left_out]
    if bounded and rule.keep is not None and len(kept) > rule.keep:
        texts.append(
            f"{plural(len(kept), 'point')} are left instead of {rule.keep}: one whose figure is a "
            "lower bound is not left out."
        )
    if doubtful:
        texts.append(
            f"{plural(len(doubtful), 'point')} with results that an audit doubts: their bundles "
            "say why."
        )
    if rule.until is not None:
        wide = [p for p in points if not p.left_out and len(p.runs) >= rule.most]
        if wide:
            texts.append(
                f"{plural(len(wide), 'point')} had all {rule.most} runs: the interval may be wider "
                f"than {rule.until:.0%}."
            )
    few = [p for p in points if 2 <= sum(map(len, p.runs)) < 6]
    if few:
        texts.append(
            f"Of fewer than 6 figures no interval holds the median with 95 %: for "
            f"{plural(len(few), 'point')} lowest and highest are all figures."
        )
    return tuple(texts)


def _only_bounded(point: CampaignPoint) -> Verdict | None:
    """The verdict that says of it no more than that its figure is a lower bound."""
    return "generator-bound" if point.at_least else None


def _table(points: tuple[CampaignPoint, ...], units: set[str]) -> Table:
    rates = units <= {PACKETS}
    unit = "" if rates or len(units) > 1 else f", {next(iter(units))}"
    columns = (
        Column("point", "text"),
        Column("chain, execution, workload", "text"),
        Column("goal", "text", from_width=100),
        Column(f"median{unit}", "rate" if rates else "number"),
        Column("lowest", "rate" if rates else "number", from_width=90),
        Column("highest", "rate" if rates else "number", from_width=90),
        Column("figures", "count"),
        Column("audit", "verdict"),
    )
    rows = tuple(
        Row(
            (
                p.key, p.title, p.goal, *(_cell(p, v) for v in (p.median, p.low, p.high)),
                sum(map(len, p.runs)),
                "failed" if p.failed else p.verdict or "skipped",
            ),
            group="Left out by halving" if p.left_out else "",
            doubtful=p.verdict not in (None, "ok"),
        )
        for p in points
    )  # fmt: skip
    return Table(columns, rows)
