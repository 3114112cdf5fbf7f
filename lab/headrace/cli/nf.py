# SPDX-License-Identifier: Apache-2.0
"""headrace nf: the network functions and links that the engine has, by its own description, and
the beginning of one that it has not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from headrace.cli._console import print_json, stdout
from headrace.cli._new_function import NEW, write_function
from headrace.engine.describe import DescribedKinds, DescribedNames, describe
from headrace.engine.reference import parameters
from headrace.errors import BadInput, unknown
from headrace.host.programs import find_engine


def nf(
    name: Annotated[
        str | None, typer.Argument(help="A function or link; all if not given. Or `new`.")
    ] = None,
    new_name: Annotated[
        str | None, typer.Argument(metavar="NEW-NAME", help="After `new`: name of its folder.")
    ] = None,
    load: Annotated[
        list[Path] | None, typer.Option(help="A shared object with a function of yours.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the description as JSON.")] = False,
) -> None:
    """List the functions, or show one with its parameters, drops and counters.

    `headrace nf new NAME` makes a folder with a function of your own that can be built,
    tested and measured at once: a rate limit for each source, to be changed.
    """
    objects = tuple(file.resolve() for file in load or ())
    description = describe(find_engine(), objects)
    if name == NEW:
        write_function(new_name, description)
        return
    if new_name is not None:
        raise BadInput(f"nf: {name} {new_name}; allowed: one name, or `new` and one")
    if name is None:
        _list(description.data["nfs"], description.links, as_json)
        return
    everything = {**description.links, **description.data["nfs"]}
    if name not in everything:
        raise BadInput(f"nf: {unknown(name, sorted(everything), f'there is no {name!r}')}")
    if as_json:
        print_json(DescribedNames.model_validate({name: everything[name]}))
        return
    _show(name, everything[name])


def _list(nfs: dict[str, Any], links: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(DescribedKinds.model_validate({"nfs": nfs, "links": links}))
        return
    width = max(map(len, [*nfs, *links]))
    for title, kinds in (("Functions", nfs), ("Links", links)):
        typer.echo(f"{title}:")
        for name, about in sorted(kinds.items()):
            typer.echo(f"  {name:{width}}  {brief(about['doc'])}")
    typer.echo("\nheadrace nf NAME: its parameters, drops and counters")


def brief(doc: str) -> str:
    """The first sentence, which says what it is: 66 characters at most."""
    return doc.split(". ", 1)[0].rstrip(".")


def _show(name: str, about: dict[str, Any]) -> None:
    console = stdout()
    console.print(Text(name, style="bold").append(f": {about['doc']}", style="not bold"))
    if about.get("standards"):
        console.print(about["standards"], markup=False)
    for key in ("category", "state_key", "edges", "drops", "counters", "reads", "writes"):
        value = about.get(key)
        if isinstance(value, list):
            value = ", ".join(value)
        if isinstance(value, str) and value:
            console.print(f"{key.replace('_', ' ')}: {value}", markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    # Names and values are there to be typed: they wrap, and are never cut.
    for column in ("parameter", "type", "default", "meaning"):
        table.add_column(column, overflow="fold", no_wrap=column == "parameter")
    for row in parameters(about["params"]):
        table.add_row(*map(Text, row))
    if table.row_count:
        console.print(table, markup=False)
