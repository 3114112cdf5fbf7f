# SPDX-License-Identifier: Apache-2.0
"""What a campaign's page says of figures that are only lower bounds."""

from __future__ import annotations

import pytest

from headrace.record.campaign import CampaignOutput, CampaignPoint, CampaignRule
from headrace.report.campaign import document
from headrace.report.document_model import AtLeast, Document, Table


def point(title: str, value: float, *, at_least: bool = False) -> CampaignPoint:
    return CampaignPoint(
        key=title, title=title, runs=((value,),), unit="packets/s", goal="max",
        verdict="generator-bound" if at_least else "ok", bundles=(f"{title}-1",), median=value,
        low=value, high=value, at_least=at_least,
    )  # fmt: skip


def shown(*points: CampaignPoint, keep: int | None = None) -> Document:
    return document(CampaignOutput(folder="c", study="s", points=points), CampaignRule(keep=keep))


@pytest.mark.parametrize(
    ("points", "sentence"),
    [
        (
            (point("pipeline", 25.8e6), point("rtc", 24.5e6, at_least=True)),
            "Which is best is not known, as more packets than rtc had were not made: pipeline "
            "25.8\u202fMpps and rtc at least 24.5\u202fMpps.",
        ),
        (
            (point("a", 9e6), *(point(name, 8e6, at_least=True) for name in "bc")),
            "Which is best is not known, as more packets than 2 points had were not made: the "
            "highest figure is of a 9.00\u202fMpps.",
        ),
        (
            (point("rtc", 25.8e6, at_least=True), point("pipeline", 24.5e6)),
            "rtc has the highest figure, at least 25.8\u202fMpps; next is pipeline with "
            "24.5\u202fMpps.",
        ),
    ],
)
def test_the_best_is_named_where_it_is_known(
    points: tuple[CampaignPoint, ...], sentence: str
) -> None:
    assert shown(*points).sentence == sentence


def test_a_lower_bound_is_shown_as_one() -> None:
    page = shown(point("pipeline", 25.8e6), point("rtc", 24.5e6, at_least=True), keep=1)
    [table] = page.sections[0].blocks
    assert isinstance(table, Table)
    assert [row.cells[3:6] for row in table.lines] == [
        (25.8e6,) * 3,
        (AtLeast(24.5e6),) * 3,
    ]
    assert [column.name for column in table.typed][-1] == "audit"
    assert page.cautions == (
        "The figure of 1 point is a lower bound (≥): the generator made no more packets.",
        "2 points are left instead of 1: one whose figure is a lower bound is not left out.",
    )
