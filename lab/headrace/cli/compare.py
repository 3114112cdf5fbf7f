# SPDX-License-Identifier: Apache-2.0
"""headrace compare: two specs, or two builds of the engine, measured in turn."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from headrace.analyse import units
from headrace.analyse.gate import GatedComparison, judge_pairs, name_of
from headrace.analyse.pairs import Comparison, compare_sides
from headrace.cli import _groups as groups
from headrace.cli._console import print_json, stdout
from headrace.cli._gate import FailIf, JunitFile, conditions_of, tell
from headrace.cli._sides import joined
from headrace.cli.report import finish_run
from headrace.cli.run import measure_study
from headrace.errors import BadInput
from headrace.ground import choose
from headrace.host.exclusive import WAIT_S
from headrace.record.bundle import Bundle
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
    with tempfile.TemporaryDirectory(prefix="headrace-compare-") as scratch:
        doc = joined(document.load(a), document.load(b or a), given, repetitions, Path(scratch))
        chosen = groups.chosen(doc, Wanted())
        checked = chosen.checked(choose.check, all_right=True)
        bundle, _, _ = measure_study(
            doc, chosen, checked, out, as_json, wait, more={"compared": names}
        )
    page = finish_run(bundle, None)
    compared = compare_sides(Bundle(bundle), names["a"], names["b"])
    judged = judge_pairs(compared.results, conditions)
    if as_json:
        print_json(GatedComparison(**dict(compared), judged=judged))
    else:
        show(compared, stdout())
        stdout().print(f"Bundle: {bundle}\nReport: {page}", markup=False, soft_wrap=True)
    chosen.complain()
    tell(judged, f"headrace compare {names['a']} {names['b']}", junit)


def _named(spec: Path, engine: Path | None) -> str:
    return str(spec) if engine is None else f"{spec} with {engine}"


def show(compared: Comparison, console: Console) -> None:
    console.print(f"a  {compared.a}\nb  {compared.b}", markup=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "a", "b", "b / a, 95 %", "pairs", ""):
        table.add_column(column, justify="left" if not column else "right")
    for one in compared.results:
        a, b = units.pps(one.a_pps, 4), units.pps(one.b_pps, 4)
        if one.paired is None:
            table.add_row(name_of(one.key), a, b, "–", "", one.why)
            continue
        ratio = one.paired.ratio
        text = f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"
        verdict = {"faster": "b is faster", "slower": "b is slower", "tie": "a tie"}
        table.add_row(name_of(one.key), a, b, text, str(one.paired.pairs),
                      verdict[one.paired.verdict])  # fmt: skip
    console.print(table, markup=False)
    if not compared.results:
        console.print("Nothing to compare: no result has the same execution, goal and workload.")
