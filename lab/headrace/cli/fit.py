# SPDX-License-Identifier: Apache-2.0
"""headrace fit: a model's unknowns by a few rows of a published table, and all others predicted."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.run import AsJson, Check, Claims, Inputs, Out, Spec


def fit(
    spec: Spec,
    points: Annotated[
        list[str] | None,
        typer.Option(
            "--points",
            help="A row to fit on, by its columns: x=1200, or experiment=router,x=1200; several. "
            "The study's own unless given.",
        ),
    ] = None,
    out: Out = None,
    as_json: AsJson = False,
    check: Check = False,
    claims: Claims = False,
    inputs: Inputs = None,
) -> None:
    """Fit a model to a few rows of a published table, and predict all others."""
    from headrace.cli._study_run import RunOptions, run_study

    run_study(
        RunOptions(
            spec, out, as_json, check=check, claims=claims, inputs=tuple(inputs or ()),
            fitted=tuple(points or ()),
        )
    )  # fmt: skip
