# SPDX-License-Identifier: Apache-2.0
"""A study's claims and what became of them, as a section of a run's document."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.analyse.claims import claimed_text, measured_text, run_claims, tally
from headrace.record.claim import JudgedClaim
from headrace.report.document_model import Column, Items, Row, Section, Table

_COLUMNS = (
    "claim",
    Column("measured", "text"),
    Column("claimed", "text"),
    Column("by", "text"),
    Column("verdict", "verdict"),
)
_NOTE = (
    "Each claim is a query over this run's results. It is judged only where rows that the audit "
    "doubts make no difference."
)


def sections(judged: Sequence[JudgedClaim]) -> tuple[Section, ...]:
    if not judged:
        return ()
    rows = tuple(
        Row(
            (one.name, measured_text(one), claimed_text(one), _whose(one), one.verdict),
            doubtful=one.verdict != "confirmed",
        )
        for one in run_claims(judged)
    )
    texts = tuple(
        " ".join(filter(None, (f"{one.name}: {one.text}", one.why))) for one in run_claims(judged)
    )
    blocks = (Table(_COLUMNS, rows), Items(texts)) if rows else ()
    return (Section("Claims", _NOTE, blocks, about=tally(judged), anchor="claims"),)


def sentence(judged: Sequence[JudgedClaim]) -> str:
    """What became of them; empty of a study without."""
    return f"{tally(judged)}." if judged else ""


def _whose(one: JudgedClaim) -> str:
    return one.paper or ("published" if one.published else "expected")
