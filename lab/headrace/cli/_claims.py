# SPDX-License-Identifier: Apache-2.0
"""A study's claims at a run's end: judged, kept in the bundle, and in the exit status."""

from __future__ import annotations

from pathlib import Path

import typer

from headrace.analyse.claims import judge_claims, keep_claims, run_claims
from headrace.cli._groups import described_machine, this_machine
from headrace.errors import EXIT_CONTRADICTED, EXIT_NOT_COMPARABLE, BadInput
from headrace.record.again import document_of
from headrace.record.bundle import Bundle
from headrace.record.claim import JudgedClaim
from headrace.record.known import known
from headrace.spec.claim import Claim
from headrace.spec.described import DescribedServer
from headrace.spec.group import Machine, lacking
from headrace.spec.study import Study, read


def judge(path: Path, study: Study) -> tuple[JudgedClaim, ...]:
    """Holds a study's claims against its bundle, and keeps there what follows, for the report."""
    if not study.claims:
        return ()
    bundle = Bundle(path)
    judged = _judged(bundle, study)
    keep_claims(bundle, judged)
    return judged


def of_bundle(bundle: Bundle) -> tuple[JudgedClaim, ...]:
    """Judges those of a run, too, that ended before anybody judged them."""
    if bundle.claims:
        return bundle.claims
    doc = document_of(bundle)
    study = None if doc is None else read(doc)
    if study is None or not study.claims:
        raise BadInput(f"{bundle.path}: --claims: its study has no claims")
    return _judged(bundle, study)


def _judged(bundle: Bundle, study: Study) -> tuple[JudgedClaim, ...]:
    """On a paper's own server, described, nothing is unlike what the paper measured on."""
    server = _server(bundle)
    machine = this_machine() if server is None else described_machine(server)
    claims = study.claims
    if server is not None and server.paper is not None and server.paper == study.paper:
        claims = {name: one.model_copy(update={"unlike": None}) for name, one in claims.items()}
    return judge_claims(bundle, claims, lambda claim: _lacks(claim, machine), study.paper)


def _server(bundle: Bundle) -> DescribedServer | None:
    """The one that a bundle's figures are predicted for."""
    server = known(bundle).server
    return None if server is None else DescribedServer.model_validate(server.whole)


def _lacks(claim: Claim, machine: Machine) -> str | None:
    problems = (lacking(need, {}, {}, machine) for need in claim.needs)
    return next((f"It {problem}." for problem in problems if problem is not None), None)


def exit_by(judged: tuple[JudgedClaim, ...]) -> None:
    """Claims that nobody ran do not count, unless there are no others."""
    verdicts = {one.verdict for one in run_claims(judged) or judged}
    if "contradicted" in verdicts:
        raise typer.Exit(EXIT_CONTRADICTED)
    if verdicts & {"not-comparable", "not-run"}:
        raise typer.Exit(EXIT_NOT_COMPARABLE)
