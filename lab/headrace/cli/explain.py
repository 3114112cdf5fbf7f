# SPDX-License-Identifier: Apache-2.0
"""headrace explain: what kept a chain, or what ran beside `headrace collect`, from more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headrace.cli._console import stdout
from headrace.explain import Diagnosis, explain_parts
from headrace.explain.evidence import parts
from headrace.spec.collect import ALL_LAYERS

_NAMED = 3  # deployments; all are in --json


def explain(
    bundle: Annotated[
        Path, typer.Argument(help="What `headrace run` or `headrace collect` wrote.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
) -> None:
    """Name what is narrowest, the evidence for it, and what would move it."""
    known = parts(bundle)
    found = explain_parts(known)
    if as_json:
        typer.echo(json.dumps([d.model_dump(mode="json") for d in found], indent=2))
        return
    console = stdout()
    if not found:
        console.print("Nothing that was counted shows what the limit is.")
    for number, diagnosis in enumerate(found, 1):
        _show(number, diagnosis, sum(bool(p.title) for p in known), console)
    if not any(e.sampled for p in known for e in p.evidence):
        console.print(
            f"Not looked at: {', '.join(ALL_LAYERS)}: nothing was sampled beside the trials; "
            "`collect: true` in the spec has that done (docs/collectors.md).",
            markup=False,
        )
    absent = {layer: why for p in known for e in p.evidence for layer, why in e.absent.items()}
    for layer, why in absent.items():
        console.print(f"{layer}: not sampled: {why}", markup=False)


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
