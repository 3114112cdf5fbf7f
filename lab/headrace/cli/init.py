# SPDX-License-Identifier: Apache-2.0
"""headrace init: a first spec that runs."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._capture import read
from headrace.cli._console import print_json
from headrace.cli._first_spec import SCHEMA_FILE, made_flows, of_capture, plain, trace
from headrace.cli._spec_schema import spec_schema
from headrace.engine.describe import describe
from headrace.errors import BadInput, bad_value
from headrace.host.programs import find_engine
from headrace.record.bundle import BundleUnwritable, write_whole
from headrace.record.outputs import InitOutput


def init(
    spec: Annotated[Path, typer.Argument(help="The file to write.")] = Path("first.yaml"),
    pcap: Annotated[
        Path | None,
        typer.Option("--pcap", help="A capture whose frame sizes, flows and addresses to take."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print {files: [...]}.")] = False,
) -> None:
    """Write a spec that runs as it is, and beside it the schema by which editors check it."""
    name = re.sub(r"[^A-Za-z0-9_-]", "-", spec.stem)[:31]
    if not name[:1].isalpha():
        raise bad_value("SPEC", str(spec), allowed="a name that begins with a letter, A to Z")
    tuples = spec.with_suffix(".tuples")
    files = {spec: plain(name)}
    if pcap is not None:
        capture = read(pcap)
        beside = os.path.relpath(pcap, spec.parent)
        files[spec] = of_capture(name, beside, capture, tuples.name)
        flows = made_flows(capture)
        if flows and not flows[0].ipv6:
            files[tuples] = trace(flows)
    for file in files:
        if file.exists():
            raise BadInput(f"{file}: is there already; allowed: another name")
    files[spec.with_name(SCHEMA_FILE)] = json.dumps(spec_schema(describe(find_engine())), indent=1)
    _write(files)
    if as_json:
        print_json(InitOutput(files=tuple(map(str, files))))
        return
    typer.echo(f"Written: {', '.join(map(str, files))}")
    named = shlex.quote(str(spec))  # to be copied into a shell
    typer.echo(f"Next: headrace run --check {named}, then headrace run {named}")


def _write(files: Mapping[Path, str]) -> None:
    """All or none: the next time, a part would be in the way."""
    new: list[Path] = []
    for file, text in files.items():
        new += [] if file.exists() else [file]
        try:
            write_whole(file, text)
        except BundleUnwritable as error:
            for one in new:
                one.unlink(missing_ok=True)
            raise BadInput(str(error)) from None
