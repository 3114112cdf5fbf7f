# SPDX-License-Identifier: Apache-2.0
"""`headrace vnf`: the catalogue of third-party VNFs and their images."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.table import Table

from headrace.cli._console import print_json, stdout
from headrace.ground.appliances.images import build_all, has_image
from headrace.ground.catalogue import (
    CatalogueEntry,
    DescribedVnf,
    ListedVnf,
    ListedVnfs,
    catalogue,
    find,
)
from headrace.host.ledger import Ledger
from headrace.host.state import run_state
from headrace.host.tool import installed
from headrace.record.outputs import BuildOutput

app = typer.Typer(no_args_is_help=True, help="Third-party VNFs: list, describe, build images.")

Json = Annotated[bool, typer.Option("--json", help="As JSON.")]


@app.command("list")
def list_(json_: Json = False) -> None:
    """Every VNF of the catalogue, and whether its image is built."""
    # Without such a program nothing is built, and the catalogue can be read all the same.
    lacking = "" if installed() else "neither podman nor docker is installed"
    rows = [
        ListedVnf(
            name=entry.definition.name,
            category=entry.definition.category,
            kind=entry.definition.kind,
            title=entry.definition.title,
            image=entry.image,
            built=not lacking and has_image(entry.image),
        )
        for entry in catalogue().values()
    ]
    if json_:
        print_json(ListedVnfs(tuple(rows)))
        return
    table = _table("VNF", "category", "kind", "image", "")
    for row in rows:
        built = "built" if row.built else "not built"
        table.add_row(row.name, row.category.value, row.kind, built, row.title)
    stdout().print(table)
    if lacking:
        print(f"{lacking}: `headrace doctor` says how it is mended", file=sys.stderr)


@app.command()
def describe(name: Annotated[str, typer.Argument(help="VNF.")], json_: Json = False) -> None:
    """What a VNF is, its parameters and its counters."""
    entry = find(name)
    definition = entry.definition
    if json_:
        print_json(DescribedVnf(**dict(definition), image=entry.image))
        return
    console = stdout()
    console.print(f"[bold]{definition.name}[/]: {definition.title}")
    console.print(f"category {definition.category.value}, {definition.kind}; image {entry.image}")
    if definition.parameters:
        table = _table("parameter", "type", "default", "")
        for key, parameter in definition.parameters.items():
            table.add_row(key, parameter.type, str(parameter.default), parameter.doc)
        console.print(table)
    if definition.counters:
        table = _table("counter", "")
        for key, doc in definition.counters.items():
            table.add_row(key, doc)
        console.print(table)


@app.command()
def build(
    names: Annotated[list[str] | None, typer.Argument(help="VNFs; all unless given.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Also those that are built.")] = False,
    json_: Json = False,
) -> None:
    """Build images that are missing or whose definition has changed."""
    entries = [find(name) for name in names] if names else list(catalogue().values())
    with run_state() as state:
        built = build_all(entries, _say, Ledger(state.path), again=again)
    there = [entry for entry in entries if entry not in built]
    if json_:
        print_json(BuildOutput(built=_names(built), there=_names(there)))
        return
    print(f"{len(built)} built, {len(there)} were there")


def _names(entries: list[CatalogueEntry]) -> tuple[str, ...]:
    return tuple(entry.definition.name for entry in entries)


def _table(*headings: str) -> Table:
    """Names and values are there to be typed: they wrap, and are never cut."""
    table = Table(box=None)
    for number, heading in enumerate(headings):
        table.add_column(heading, overflow="fold", no_wrap=number == 0)
    return table


def _say(text: str) -> None:
    print(f"headrace vnf: {text}", file=sys.stderr, flush=True)
