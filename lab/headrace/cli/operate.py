# SPDX-License-Identifier: Apache-2.0
"""headrace operate: keep an SLO under a load that changes, with as few lcores as that takes."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.run import AsJson, Check, Claims, Inputs, On, Out, Spec


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
    out: Out = None,
    as_json: AsJson = False,
    check: Check = False,
    claims: Claims = False,
    on: On = None,
    inputs: Inputs = None,
) -> None:
    """Add and remove lcores while the load of a study changes, and say what that came to."""
    from headrace.cli._operated import OperateOptions
    from headrace.cli._study_run import RunOptions, run_study

    run_study(
        RunOptions(
            spec, out, as_json, check=check, claims=claims, on=on, inputs=tuple(inputs or ()),
            operate=OperateOptions(slo, policy or ()),
        )
    )  # fmt: skip
