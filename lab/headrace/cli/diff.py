# SPDX-License-Identifier: Apache-2.0
"""headrace diff: what changed between two runs, in results, specification and environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.analyse import units
from headrace.analyse.compare import FEWEST, ComparedResults, Diff, Difference, MetricChange
from headrace.analyse.compare import diff as compare_bundles
from headrace.analyse.gate import GatedDiff, judge_diff, name_of
from headrace.cli._console import print_json, stdout
from headrace.cli._gate import FailIf, JunitFile, conditions_of, tell
from headrace.record.bundle import Bundle


def diff(
    a: Annotated[Path, typer.Argument(help="The bundle to compare with.")],
    b: Annotated[Path, typer.Argument(help="The bundle to compare.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    fail_if: FailIf = None,
    junit: JunitFile = None,
) -> None:
    """Compare two runs: results against their spread, and what surrounded them."""
    conditions = conditions_of(fail_if, junit)
    compared = compare_bundles(Bundle(a), Bundle(b))
    judged = judge_diff(compared, conditions)
    if as_json:
        print_json(GatedDiff(**dict(compared), judged=judged))
    else:
        show(compared, stdout())
    tell(judged, f"headrace diff {a} {b}", junit)


def show(compared: Diff, console: Console) -> None:
    console.print(Text(compared.sentence, style="bold"))
    console.print(Text(f"a  {compared.a}\nb  {compared.b}", style="dim"))
    for row in compared.compared:
        console.print()
        console.print(_title(row))
        console.print(_changes(row))
    for keys, side in ((compared.only_a, "a"), (compared.only_b, "b")):
        for key in keys:
            console.print(Text(f"only in {side}: {name_of(key)}", style="yellow"))
    console.print()
    console.print(_differences(compared.differences), soft_wrap=True)


def _title(row: ComparedResults) -> Text:
    text = Text(name_of(row.key), style="bold")
    text.append(f"  {row.repetitions_a} against {row.repetitions_b} repetitions", style="dim")
    if not row.trusted:
        text.append(f"  not trusted: a {row.verdict_a}, b {row.verdict_b}", style="bold red")
    return text


def _changes(row: ComparedResults) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 2))
    for justify in ("left", "right", "right", "right"):
        table.add_column(justify=justify, no_wrap=True)
    table.add_column(overflow="fold")  # the words give way on a narrow terminal, not the figures
    for change in row.changes:
        table.add_row(
            change.metric,
            _value(change.a, change.unit),
            _value(change.b, change.unit),
            units.signed_percent(change.ratio),
            _judged(change),
        )
    if any(c.metric == "throughput" and c.significance == "different" for c in row.changes):
        table.add_row(Text("latencies are at each side's own rate", style="dim"))
    return table


def _value(value: float, unit: str) -> str:
    if unit == "pps":
        return units.pps(value, 4)
    if unit == "ns":
        return units.ns(value)
    if unit == "ratio":
        return units.loss(value)
    if unit == "cycles":
        return units.significant(value)
    return f"{units.significant(value)}{units.SPACE}{unit}"


def _judged(change: MetricChange) -> Text:
    p = "" if change.p_value is None else f" (p = {change.p_value:.2g})"
    if change.significance == "within-spread":
        return Text(f"within the spread{p}", style="dim")
    if change.significance == "unknown":
        return Text(f"fewer than {FEWEST} repetitions cannot tell", style="dim")
    if change.significance == "not-trusted":
        return Text("not compared: a side is not trusted", style="bold red")
    return Text(
        f"{'better' if change.better else 'worse'}, beyond the spread{p}",
        style="green" if change.better else "bold red",
    )


def _differences(differences: tuple[Difference, ...]) -> Text:
    """One line each, however long: they are searched and copied."""
    if not differences:
        return Text("Specification and environment are the same.", style="dim")
    text = Text()
    for where, title in (("spec", "Specification"), ("environment", "Environment")):
        rows = [d for d in differences if d.where == where]
        if rows:
            text.append(f"{title}\n", style="bold")
        for d in rows:
            a, b = ("absent" if v is None else " ".join(v.split()) for v in (d.a, d.b))
            text.append(f"  {d.name}: {a} -> {b}\n")
    text.rstrip()
    return text
