# SPDX-License-Identifier: Apache-2.0
"""Where commands print their results, and how scripts get them."""

from __future__ import annotations

import os
import sys

import typer
from pydantic import BaseModel
from rich.console import Console

from headrace.host.consoles import Terminal, escaped

STDERR = 2  # a file descriptor: for what would stand between the lines of an output for scripts
PIPED_WIDTH = 200  # columns; rich would cut tables to 80 for a file or another program


def stdout(soft_wrap: bool = False) -> Console:
    """It is as wide as the terminal; elsewhere wide, unless COLUMNS says how wide."""
    narrow = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Terminal(highlight=False, soft_wrap=soft_wrap, width=None if narrow else PIPED_WIDTH)


def print_json(output: BaseModel) -> None:
    """What a command prints with --json: cli/_schema.py names its model."""
    typer.echo(escaped(output.model_dump_json(indent=2, by_alias=True)))
