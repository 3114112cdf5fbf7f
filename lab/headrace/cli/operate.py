# SPDX-License-Identifier: Apache-2.0
"""headrace operate: keep an SLO under a load that changes, with as few lcores as that takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.run import Claims, Inputs, On, Spec


def operate(
    spec: Spec,
    slo: Annotated[
        str | None,
        typer.Option("--slo", help="What to keep in each interval: p99=200us,loss=0."),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", help="headrace, oracle, static, rsspp, metron: one, or several."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The bundle's directory; runs/NAME-TIME by default."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object: bundle and results.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Check the spec and its files, and stop.")
    ] = False,
    claims: Claims = False,
    on: On = None,
    inputs: Inputs = None,
) -> None:
    """Add and remove lcores while the load of a study changes, and say what that came to."""
    from headrace.cli._operated import OperateOptions
    from headrace.cli._study_run import RunOptions, run_study

    run_study(
        RunOptions(
            spec=spec, out=out, as_json=as_json, wait=0.0, settled=0.0, check=check, group=None,
            figure=None, point=None, quick=False, show=False, claims=claims, live=None, on=on,
            beside=None, trust=False, inputs=tuple(inputs or ()),
            operate=OperateOptions(slo, policy or ()),
        )
    )  # fmt: skip
