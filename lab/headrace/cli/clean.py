# SPDX-License-Identifier: Apache-2.0
"""headrace clean: undo what killed runs left behind."""

from __future__ import annotations

import typer

from headrace.testbed.state import clean as clean_state


def clean() -> None:
    """Kill orphaned engines, remove their sockets, give back hugepages. Touches only its own, and
    only of runs that are over."""
    done = clean_state()
    for line in done:
        typer.echo(line)
    if not done:
        typer.echo("nothing to clean")
