# SPDX-License-Identifier: Apache-2.0
"""A campaign as a document: its points, the highest figure first."""

from __future__ import annotations

from headrace.analyse.campaign import PACKETS
from headrace.analyse.units import plural, pps, significant
from headrace.record.campaign import CampaignOutput, CampaignPoint, CampaignRule
from headrace.report.document_model import Column, Document, Items, Row, Section, Table


def document(campaign: CampaignOutput, rule: CampaignRule) -> Document:
    units = {point.unit for point in campaign.points if point.unit}
    absent = [p for p in campaign.points if p.failed or p.skipped]
    blocks = (_table(campaign.points, units),)
    sections = [Section("Points", "Each run of a point is a bundle of its own.", blocks)]
    if absent:
        texts = tuple(f"{p.key}, {p.title}: {p.failed or p.skipped}" for p in absent)
        sections.append(Section("Not measured, or not to the end", "", (Items(texts),)))
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
    shown = [p for p in points if p.median is not None and p.verdict == "ok" and not p.left_out]
    if not shown:
        return "No point has a figure that may be believed."
    best, *others = shown
    text = f"{best.title} has the highest figure, {_value(best)}"
    if not others:
        return f"{text}."
    next_one = others[0]
    sure = (best.low or 0.0) > (next_one.high or 0.0)
    same = "" if sure else ", whose interval overlaps or touches its own"
    return f"{text}; next is {next_one.title} with {_value(next_one)}{same}."


def _value(point: CampaignPoint) -> str:
    value = point.median or 0.0
    return pps(value) if point.unit == PACKETS else f"{significant(value)} {point.unit}"


def _cautions(points: tuple[CampaignPoint, ...], rule: CampaignRule) -> tuple[str, ...]:
    texts = []
    doubtful = [p for p in points if p.verdict not in (None, "ok")]
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
        Column("", "verdict"),
    )
    rows = tuple(
        Row(
            (
                p.key, p.title, p.goal, p.median, p.low, p.high, sum(map(len, p.runs)),
                "failed" if p.failed else p.verdict or "skipped",
            ),
            group="Left out by halving" if p.left_out else "",
            doubtful=p.verdict not in (None, "ok"),
        )
        for p in points
    )  # fmt: skip
    return Table(columns, rows)
