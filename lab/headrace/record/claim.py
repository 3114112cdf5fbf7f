# SPDX-License-Identifier: Apache-2.0
"""What became of a study's claims when they were held against its results."""

from __future__ import annotations

from typing import Literal

from pydantic import RootModel

from headrace.record.frozen import Record

# not-run: of points that were not asked for, as `--figure` leaves them out.
ClaimVerdict = Literal["confirmed", "contradicted", "not-comparable", "not-run"]
ClaimValue = bool | int | float | str


class JudgedClaim(Record):
    """One claim: the value that was claimed, the one that was measured, and what follows."""

    name: str
    text: str
    paper: str | None  # whose claim it is, where it is published
    claimed: ClaimValue | tuple[int | float, int | float]  # two numbers: least and most
    published: bool  # the value is a paper's; otherwise the study's author expects it
    tolerance: float  # relative
    unit: str
    query: str  # SQL over the tables `results` and `trials`
    measured: ClaimValue | None  # null: nothing answers the query
    verdict: ClaimVerdict
    why: str | None  # a sentence; null where the figures say it themselves


class JudgedClaims(RootModel[tuple[JudgedClaim, ...]]):
    """claims.json of a bundle"""
