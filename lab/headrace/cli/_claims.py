# SPDX-License-Identifier: Apache-2.0
"""A study's claims at a run's end: judged, kept in the bundle, and in the exit status."""

from __future__ import annotations

from pathlib import Path

import typer

from headrace.analyse.claims import judge_claims, keep_claims
from headrace.cli._groups import this_machine
from headrace.errors import EXIT_CONTRADICTED, EXIT_NOT_COMPARABLE
from headrace.record.bundle import Bundle
from headrace.record.claim import JudgedClaim
from headrace.spec.claim import Claim
from headrace.spec.group import lacking
from headrace.spec.study import Study


def judge(path: Path, study: Study) -> tuple[JudgedClaim, ...]:
    """And keep what follows: the report takes it from the bundle."""
    if not study.claims:
        return ()
    bundle = Bundle(path)
    judged = judge_claims(bundle, study.claims, _lacks, study.paper)
    keep_claims(bundle, judged)
    return judged


def _lacks(claim: Claim) -> str | None:
    problems = (lacking(need, {}, {}, this_machine()) for need in claim.needs)
    return next((f"It {problem}." for problem in problems if problem is not None), None)


def exit_by(judged: tuple[JudgedClaim, ...]) -> None:
    verdicts = {one.verdict for one in judged}
    if "contradicted" in verdicts:
        raise typer.Exit(EXIT_CONTRADICTED)
    if "not-comparable" in verdicts:
        raise typer.Exit(EXIT_NOT_COMPARABLE)
