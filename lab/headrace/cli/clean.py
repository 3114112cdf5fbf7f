# SPDX-License-Identifier: Apache-2.0
"""headrace clean: undo what killed runs left behind."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli._console import print_json
from headrace.host.state import clean as clean_state
from headrace.record.outputs import CleanOutput


def clean(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print {done: [what was undone]}.")
    ] = False,
) -> None:
    """Undo what killed runs left behind: engines, sockets, hugepages.

    Touches only what headrace made, and only of runs that are over."""
    done = clean_state()
    if as_json:
        print_json(CleanOutput(done=tuple(done)))
        return
    for line in done:
        typer.echo(line)
    if not done:
        typer.echo("nothing to clean")
