# SPDX-License-Identifier: Apache-2.0
"""headrace clean: undo what killed runs left behind."""

from __future__ import annotations

import typer

from headrace.testbed.state import clean as clean_state


def clean() -> None:
    """Undo what killed runs left behind: engines, sockets, hugepages.

    Touches only what headrace made, and only of runs that are over."""
    done = clean_state()
    for line in done:
        typer.echo(line)
    if not done:
        typer.echo("nothing to clean")
