# SPDX-License-Identifier: Apache-2.0
"""A study's claims held against its results.

A claim is answered by all rows, by those alone that no audit doubts, and by these without each
repetition in turn (the jackknife's samples: Tukey 1958). Only where all say the same is it
confirmed or contradicted; so a doubtful row, or one repetition that differs, makes no difference,
or is named.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, get_args

from headrace.analyse.units import percent, plural
from headrace.record.bundle import CLAIMS_FILE, Bundle, write_whole
from headrace.record.claim import ClaimValue, ClaimVerdict, JudgedClaim, JudgedClaims
from headrace.record.known import known
from headrace.record.points import PointRow, points_of
from headrace.record.select import Ask, QueryError, rows_of
from headrace.record.verdict import DISTURBANCES, Verdict
from headrace.spec.claim import Claim
from headrace.spec.document import Document

MANY = 10_000  # written with all digits
SIGNS = 6  # repetitions: 2 / 2^6 is under 5 %, of 5 it is above
# Checks of the audit that fail without a doubt of such figures: what a packet took in the chain is
# the same where more could have been made, and where the sink did not take it from there.
UNCONCERNED: Mapping[str, frozenset[str]] = {
    "rate": frozenset(),
    "cycles": frozenset({"generator-limit", "sink"}),
}
# Why this machine cannot answer a claim; None: it can.
Lacks = Callable[[Claim], str | None]


def check_claims(claims: Mapping[str, Claim], doc: Document) -> None:
    """A query that cannot be asked is bad input, and that is found before anything is measured."""
    if not claims:
        return  # and DuckDB is not loaded
    with rows_of(None) as ask:
        for name, claim in claims.items():
            try:
                ask(claim.query)
            except QueryError as error:
                raise doc.error(("claims", name, "query"), str(error)) from None


def judge_claims(
    bundle: Bundle, claims: Mapping[str, Claim], lacks: Lacks, paper: str | None = None
) -> tuple[JudgedClaim, ...]:
    """`paper`: whose values the published ones are, where a claim does not say so itself."""
    if not claims:
        return ()
    doubted = Counter(
        row.audit.verdict
        for row in bundle.results()
        if row.ground == "measured" and not row.audit.trusted
    )
    points = points_of(bundle)

    def unknown(claim: Claim) -> str | None:
        return claim.unlike or lacks(claim) or bundle.status.unfinished

    asked_partly = partly(bundle)
    repetitions = _repetitions(bundle)
    with rows_of(bundle.path) as ask:
        return tuple(
            _judged(name, claim, _Answers(claim, ask, repetitions, points), paper,
                    unknown(claim), doubted, partly=asked_partly)
            for name, claim in claims.items()
        )  # fmt: skip


def _repetitions(bundle: Bundle) -> list[int]:
    """Give the numbers of those that were measured, where there are several."""
    numbers = sorted({row.repetition for row in bundle.results() if row.ground == "measured"})
    return numbers if len(numbers) > 1 else []


def partly(bundle: Bundle) -> bool:
    """Whether some of the study's points were asked for, and no others."""
    asked = known(bundle).selection
    return asked is not None and (asked.group, asked.figure, asked.point) != (None, None, None)


def run_claims(judged: Sequence[JudgedClaim]) -> tuple[JudgedClaim, ...]:
    """Leaves out those that nobody ran, of which a tally has the number."""
    return tuple(one for one in judged if one.verdict != "not-run")


def keep_claims(bundle: Bundle, judged: tuple[JudgedClaim, ...]) -> None:
    text = JudgedClaims(judged).model_dump_json(indent=2)
    write_whole(bundle.path / CLAIMS_FILE, text + "\n")


class _Answers:
    """What the query gives, of all rows, of those that no audit doubts, of these without each
    repetition, and of each repetition by itself on a machine that others disturbed."""

    def __init__(
        self,
        claim: Claim,
        ask: Ask,
        repetitions: Sequence[int],
        points: Sequence[PointRow],
    ) -> None:
        self.problem: str | None = None
        self.without: dict[int, ClaimValue | None] = {}
        self.alone: dict[int, ClaimValue] = {}
        self.disturbed: ClaimValue | None = None
        unconcerned = UNCONCERNED[claim.of]
        self.absent = _absent(claim.query, points)
        # A study without groups names no points: nobody can say that these were left out.
        self.asked_for = not points or any(names_point(claim.query, one.point) for one in points)
        try:
            self.all = _value(ask(claim.query))
            self.trusted = _value(ask(claim.query, despite=unconcerned))
            self.without = {
                n: _value(ask(claim.query, despite=unconcerned, only={*repetitions} - {n}))
                for n in repetitions
            }
            if len(repetitions) >= SIGNS:
                disturbed = unconcerned | DISTURBANCES
                self.disturbed = _value(ask(claim.query, despite=disturbed))
                each = {
                    n: _value(ask(claim.query, despite=disturbed, only={n})) for n in repetitions
                }
                self.alone = {n: value for n, value in each.items() if value is not None}
        except QueryError as error:
            self.all = self.trusted = None
            self.problem = f"The query {error}."


def _absent(query: str, points: Sequence[PointRow]) -> list[str]:
    """Points that the query names and that have no results, by why."""
    alike: dict[str, list[str]] = {}
    for one in points:
        if one.absent is not None and names_point(query, one.point):
            alike.setdefault(one.absent, []).append(one.point)
    return [
        f"{first} {why}{f' (and {len(others)} more so)' * bool(others)}"
        for why, (first, *others) in alike.items()
    ]


def names_point(query: str, point: str) -> bool:
    """A text in the query is its name, or a pattern of LIKE that it matches."""
    patterns = (re.escape(text) for text in re.findall("'([^']*)'", query))
    return any(
        re.fullmatch(pattern.replace("%", ".*").replace("_", "."), point) for pattern in patterns
    )


def _value(rows: list[tuple[Any, ...]]) -> ClaimValue | None:
    if len(rows) > 1:
        raise QueryError("gives more than one row")
    value = rows[0][0] if rows else None
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is not None and not isinstance(value, bool | int | float | str):
        raise QueryError(f"gives {value!r}, which is no number, truth value or text")
    return value


def _judged(
    name: str,
    claim: Claim,
    answers: _Answers,
    paper: str | None,
    why: str | None,
    doubted: Counter[Verdict],
    *,
    partly: bool,
) -> JudgedClaim:
    verdict: ClaimVerdict = "not-comparable"
    measured = answers.all
    if partly and measured is None and answers.problem is None and not answers.asked_for:
        verdict, why = "not-run", "Its points were not asked for."
    why = why or answers.problem
    if why is None:
        why = _cannot_tell(claim, answers, doubted)
        if why is None or _each_says(claim, answers):
            measured = answers.disturbed if why else answers.trusted
            assert measured is not None
            verdict = "confirmed" if holds(claim, measured) else "contradicted"
            why = (
                why and f"Each of {len(answers.alone)} repetitions on a disturbed machine says so."
            )
    return JudgedClaim(
        name=name,
        text=claim.text,
        paper=(claim.paper or paper) if claim.published is not None else None,
        claimed=claim.value,
        published=claim.published is not None,
        tolerance=claim.tolerance,
        unit=claim.unit,
        query=claim.query,
        measured=measured,
        verdict=verdict,
        why=why,
    )


def _cannot_tell(claim: Claim, answers: _Answers, doubted: Counter[Verdict]) -> str | None:
    if answers.all is None:
        why = f": {'; '.join(answers.absent)}" if answers.absent else ""
        return f"No row answers it{why}."
    if _kind(answers.all) != _kind(claim.value):
        return f"The query gives {_kind(answers.all)}, the claim is {_kind(claim.value)}."
    doubts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(doubted.items()))
    if answers.trusted is None:
        return f"Only rows that the audit does not trust answer it ({doubts})."
    if holds(claim, answers.all) != holds(claim, answers.trusted):
        return (
            f"It depends on rows that the audit does not trust ({doubts}): {answers.all} with "
            f"them, {answers.trusted} without."
        )
    return _depends_on_one(claim, answers.trusted, answers.without)


def _each_says(claim: Claim, answers: _Answers) -> bool:
    """Whether rows that are doubted for disturbances alone, repetition by repetition, agree."""
    whole = answers.disturbed
    if whole is None or _kind(whole) != _kind(claim.value) or len(answers.alone) < SIGNS:
        return False
    return all(
        _kind(one) == _kind(whole) and holds(claim, one) == holds(claim, whole)
        for one in answers.alone.values()
    )


def _depends_on_one(
    claim: Claim, value: ClaimValue, without: Mapping[int, ClaimValue | None]
) -> str | None:
    """Say of a figure that one repetition alone decides why it would not come again."""
    for left_out, other in without.items():
        if other is None:
            return (
                f"Of {plural(len(without), 'repetition')} only number {left_out} answers it by "
                f"rows that the audit trusts, with {shown(value)}."
            )
        if _kind(other) == _kind(value) and holds(claim, other) != holds(claim, value):
            return (
                f"It depends on repetition {left_out} of {len(without)}: {shown(value)} with it, "
                f"{shown(other)} without."
            )
    return None


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "a truth value"
    return "text" if isinstance(value, str) else "a number"


def holds(claim: Claim, value: ClaimValue) -> bool:
    """A number within the tolerance, which is relative to what is claimed; all else equal."""
    claimed, room = claim.value, claim.tolerance
    if isinstance(claimed, bool | str) or isinstance(value, bool | str):
        return value == claimed
    least, most = claimed if isinstance(claimed, tuple) else (claimed, claimed)
    return least - room * abs(least) <= value <= most + room * abs(most)


def measured_text(judged: JudgedClaim) -> str:
    return f"{shown(judged.measured)}{_unit(judged) if judged.measured is not None else ''}"


def claimed_text(judged: JudgedClaim) -> str:
    value = judged.claimed
    ends = value if isinstance(value, tuple) else (value,)
    text = " to ".join(map(shown, ends))
    room = f" ± {percent(judged.tolerance)}" if judged.tolerance else ""
    return f"{text}{_unit(judged)}{room}"


def shown(value: ClaimValue | None) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= MANY else f"{value:.4g}"


def _unit(judged: JudgedClaim) -> str:
    return f" {judged.unit}" if judged.unit else ""


def tally(judged: Sequence[JudgedClaim]) -> str:
    counts = Counter(one.verdict for one in judged)
    each = [f"{counts[v]} {v.replace('-', ' ')}" for v in get_args(ClaimVerdict) if counts[v]]
    return f"{plural(len(judged), 'claim')}: {', '.join(each)}"
