# SPDX-License-Identifier: Apache-2.0
"""headrace schema: the JSON Schema of specs, for editors."""

from __future__ import annotations

import json

import typer

from headrace.cli._spec_schema import spec_schema
from headrace.engine.describe import describe
from headrace.host.programs import find_engine


def schema() -> None:
    """Print the JSON Schema of a spec: editors complete and check by it."""
    typer.echo(json.dumps(spec_schema(describe(find_engine())), indent=1))
