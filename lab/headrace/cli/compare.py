# SPDX-License-Identifier: Apache-2.0
"""headrace compare: two specs, or two builds of the engine, measured in turn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.analyse.gate import GatedComparison, judge_pairs
from headrace.analyse.pairs import compare_sides
from headrace.cli import _groups as groups
from headrace.cli._console import print_json, stdout
from headrace.cli._gate import FailIf, JunitFile, conditions_of, tell
from headrace.cli._sides import joined
from headrace.cli._study_run import measure_study
from headrace.cli.report import finish_run
from headrace.errors import BadInput
from headrace.ground.choose import Grounds
from headrace.host.exclusive import WAIT_S
from headrace.host.state import run_state
from headrace.record.bundle import Bundle
from headrace.report.document_model import Document
from headrace.report.in_turn import section, sentence
from headrace.report.terminal import show
from headrace.spec import document
from headrace.spec.points import Wanted

_FEWEST = 2  # repetitions that have an interval


def compare(
    a: Annotated[Path, typer.Argument(help="A spec.")],
    b: Annotated[
        Path | None, typer.Argument(help="Another one; the same, with other engines.")
    ] = None,
    engine_a: Annotated[
        Path | None, typer.Option("--engine-a", help="A build of headrace-engine, for a.")
    ] = None,
    engine_b: Annotated[Path | None, typer.Option("--engine-b", help="Another one, for b.")] = None,
    repetitions: Annotated[
        int, typer.Option("--repetitions", min=_FEWEST, max=1000, help="Pairs of measurements.")
    ] = 5,
    out: Annotated[
        Path | None, typer.Option("--out", help="The bundle's directory; runs/... by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    wait: Annotated[
        float,
        typer.Option("--wait", min=0, help="Seconds to wait for lcores that another run holds."),
    ] = WAIT_S,
    fail_if: FailIf = None,
    junit: JunitFile = None,
) -> None:
    """Measure both in turn, in one session, and give the paired ratio with its interval."""
    if b is None and engine_a is None and engine_b is None:
        raise BadInput(
            "B: missing; allowed: a second spec, or --engine-b with a build of the engine"
        )
    conditions = conditions_of(fail_if, junit)
    engines = {"a": engine_a, "b": engine_b}
    given = {side: engine for side, engine in engines.items() if engine is not None}
    names = {side: _named(spec, engines[side]) for side, spec in (("a", a), ("b", b or a))}
    with run_state() as state, state.folder("compare") as scratch:
        doc = joined(document.load(a), document.load(b or a), given, repetitions, scratch)
        chosen = groups.chosen(doc, Wanted())
        checked = chosen.checked(Grounds().check, all_right=True)
        bundle, _, _ = measure_study(doc, chosen, checked, out, as_json, wait, compared=names)
    page = finish_run(bundle, None)
    compared = compare_sides(Bundle(bundle), names["a"], names["b"])
    judged = judge_pairs(compared.results, conditions)
    if as_json:
        print_json(GatedComparison(**dict(compared), judged=judged))
    else:
        sections = (section(compared),)
        show(Document(str(bundle), sentence=sentence(compared), sections=sections), stdout())
        stdout().print(f"Bundle: {bundle}\nReport: {page}", markup=False, soft_wrap=True)
    chosen.complain()
    tell(judged, f"headrace compare {names['a']} {names['b']}", junit)


def _named(spec: Path, engine: Path | None) -> str:
    return str(spec) if engine is None else f"{spec} with {engine}"
