# SPDX-License-Identifier: Apache-2.0
"""headrace explain: what kept a chain, or what ran beside `headrace collect`, from more."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headrace.analyse.bundle_report import report
from headrace.analyse.diagnosis import Diagnoses, Diagnosis
from headrace.analyse.rule_evidence import parts
from headrace.analyse.rules import explain_parts
from headrace.cli._console import print_json, stdout
from headrace.cli.report import sentence
from headrace.record.bundle import Bundle
from headrace.spec.collect import ALL_LAYERS

_NAMED = 3  # deployments; all are in --json


def explain(
    bundle: Annotated[
        Path, typer.Argument(help="What `headrace run` or `headrace collect` wrote.")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the diagnoses, a JSON list.")
    ] = False,
) -> None:
    """Name what is narrowest, the evidence for it, and what would move it."""
    # What `headrace collect` wrote has neither.
    ran = any((bundle / name).exists() for name in ("status.json", "resolved.json"))
    if ran or not bundle.is_dir():
        Bundle(bundle).check_whole()
    known = parts(bundle)
    diagnoses = explain_parts(known)
    if as_json:
        print_json(Diagnoses(tuple(diagnoses)))
        return
    console = stdout()
    if (unfinished := known[0].evidence[0].unfinished) is not None:
        console.print(f"{unfinished} What follows is of the trials that had ended.", markup=False)
    measured = ran and (opened := Bundle(bundle)).results()
    if measured and (answer := sentence(opened, report(opened))):
        console.print(answer, style="bold", markup=False)
    if not diagnoses:
        console.print("Nothing that was counted shows what the limit is.")
    for number, diagnosis in enumerate(diagnoses, 1):
        _show(number, diagnosis, sum(bool(p.title) for p in known), console)
    evidence = [e for part in known for e in part.evidence]
    absent = {layer: why for e in evidence for layer, why in e.absent.items()}
    _not_looked_at({*absent, *(layer for e in evidence for layer in e.layers)}, console)
    for layer, why in absent.items():
        console.print(f"{layer}: not sampled: {why}", markup=False)


def _not_looked_at(known: Set[str], console: Console) -> None:
    """`known`: layers that were sampled, or refused."""
    left = [layer for layer in ALL_LAYERS if layer not in known]
    if not left:
        return
    why = "these were not asked for"
    if not known:
        why = "nothing was sampled beside the trials; `collect: true` in the spec has that done"
    console.print(f"Not looked at: {', '.join(left)}: {why} (docs/collectors.md).", markup=False)


def _show(number: int, d: Diagnosis, deployments: int, console: Console) -> None:
    console.print(f"[bold]{number}. {d.rule}[/bold]", end=" ")
    console.print(d.text, markup=False)
    for line in d.evidence:
        console.print(f"   {line}", markup=False)
    if d.deployments:
        more = f"; and {left} more" if (left := len(d.deployments) - _NAMED) > 0 else ""
        console.print(
            f"   In {len(d.deployments)} of {deployments} deployments: "
            + "; ".join(d.deployments[:_NAMED])
            + more,
            markup=False,
        )
    if d.remedy:
        console.print(f"   What would move it: {d.remedy}", markup=False)
