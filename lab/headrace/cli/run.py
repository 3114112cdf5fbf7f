# SPDX-License-Identifier: Apache-2.0
"""headrace run: measure what a spec, or a bundle of an earlier run, describes. Here are its options
alone: what measures takes most of a second to load, and `--help` needs none of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._live import Address
from headrace.host.exclusive import WAIT_S

Spec = Annotated[
    Path, typer.Argument(help="A spec (YAML), a bundle to replay, or a study of headrace's own.")
]

Out = Annotated[
    Path | None,
    typer.Option("--out", help="The bundle's directory; runs/NAME-TIME by default."),
]

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object: bundle and results.")]

Check = Annotated[
    bool,
    typer.Option(
        "--check", help="Check the spec, its files and lcores, show what would run, and stop."
    ),
]

On = Annotated[
    str | None,
    typer.Option(
        "--on",
        help="Predict it for this described server (file or name); `kubernetes`: measure it there.",
    ),
]

Beside = Annotated[
    str | None,
    typer.Option("--beside", help="Measure here, and predict beside it for this server."),
]

Settled = Annotated[
    float,
    typer.Option(
        "--settle", min=0, help="Seconds to wait, at most, for other work here to pass first."
    ),
]

Wait = Annotated[
    float,
    typer.Option("--wait", min=0, help="Seconds to wait for lcores that another run holds."),
]

Claims = Annotated[
    bool,
    typer.Option(
        "--claims",
        help="Exit status 3 if a claim of the study is contradicted, 4 if one is not judged.",
    ),
]

Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Run what a bundle's spec names beside headrace's own (programs, images, machines), "
        "and write to what its functions are to write to.",
    ),
]

Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", help="A file that the spec names, where it lies: NAME=FILE."),
]


def run(
    spec: Spec = Path("quickstart"),
    out: Out = None,
    as_json: AsJson = False,
    wait: Wait = WAIT_S,
    settled: Settled = 0.0,
    check: Check = False,
    group: Annotated[
        str | None, typer.Option("--group", help="Only the points of this group.")
    ] = None,
    figure: Annotated[
        int | None, typer.Option("--figure", min=1, help="Only those of this figure.")
    ] = None,
    point: Annotated[
        str | None,
        typer.Option("--point", help="Only this point: its name, without groups its number."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="As the study's `quick` has it: sooner, and fewer points."),
    ] = False,
    show: Annotated[bool, typer.Option("--list", help="Show the points, measure nothing.")] = False,
    claims: Claims = False,
    live: Address = None,
    on: On = None,
    beside: Beside = None,
    trust: Trust = False,
    inputs: Inputs = None,
) -> None:
    """Deploy, warm up, verify, measure; write a bundle with a report."""
    from headrace.cli._study_run import RunOptions, run_study

    given = (spec, out, as_json, wait, settled, check, group, figure, point, quick, show, claims)
    run_study(RunOptions(*given, live, on, beside, trust, tuple(inputs or ())))
