# SPDX-License-Identifier: Apache-2.0
"""headrace server: what this server consists of."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from headrace.report import server as report
from headrace.testbed.server import detect as find

app = typer.Typer(no_args_is_help=True, help="What this server consists of, and what it costs.")


@app.callback()
def server() -> None:
    """What this server consists of, and what it costs."""


@app.command()
def detect(
    as_json: Annotated[bool, typer.Option("--json", help="Print the description.")] = False,
) -> None:
    """Sockets, NUMA nodes, cores, caches, memory, hugepages and NICs."""
    found = find()
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
        return
    report.show(found, Console(highlight=False, soft_wrap=True))
