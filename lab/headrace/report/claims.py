# SPDX-License-Identifier: Apache-2.0
"""A study's claims and what became of them, as a section of a run's document."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.analyse.claims import claimed_text, measured_text, run_claims, tally
from headrace.record.claim import JudgedClaim
from headrace.report.document_model import Column, Items, Row, Section, Table

_NOTE = (
    "Each claim is a query over this run's results. It is judged only where rows that the audit "
    "doubts make no difference."
)


def sections(judged: Sequence[JudgedClaim], predicted: bool = False) -> tuple[Section, ...]:
    """`predicted`: all results are; who made the claims is said once, where it is one paper."""
    if not judged:
        return ()
    papers = {one.paper for one in judged if one.published}
    paper = papers.pop() if len(papers) == 1 else None
    rows = tuple(
        Row(
            (one.name, measured_text(one), claimed_text(one), _whose(one, paper), one.verdict),
            doubtful=one.verdict != "confirmed",
        )
        for one in run_claims(judged)
    )
    texts = tuple(
        " ".join(filter(None, (f"{one.name}: {one.text}", one.why))) for one in run_claims(judged)
    )
    columns = (
        "claim",
        Column("predicted" if predicted else "measured", "text"),
        Column("claimed", "text"),
        Column("by", "text"),
        Column("verdict", "verdict"),
    )
    blocks = (Table(columns, rows), Items(texts)) if rows else ()
    about = ". ".join(filter(None, (paper, tally(judged))))
    return (Section("Claims", _NOTE, blocks, about=about, anchor="claims"),)


def sentence(judged: Sequence[JudgedClaim]) -> str:
    """What became of them; empty of a study without."""
    return f"{tally(judged)}." if judged else ""


def _whose(one: JudgedClaim, paper: str | None) -> str:
    if not one.published:
        return one.paper or "expected"
    return "the paper" if paper else one.paper or "published"
