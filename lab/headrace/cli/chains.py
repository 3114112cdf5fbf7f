# SPDX-License-Identifier: Apache-2.0
"""`headrace chains`: the chain graphs that a set of VNFs can make."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._console import print_json
from headrace.errors import BadInput
from headrace.graph import draw
from headrace.graph.conflict import why_none
from headrace.graph.count import GraphCounter
from headrace.graph.enumerate import ChainCount, Enumerator, Graph, parse
from headrace.graph.knowledge import Category, Knowledge, load, with_declared
from headrace.graph.problem import compile_problem, resolve
from headrace.graph.unrank import sample as draw_sample
from headrace.spec.appliance import Base

SHOWN = 20  # graphs shown in a terminal unless a limit is given
DRAWN = 1000  # graphs drawn in one SVG at most


def chains(
    vnfs: Annotated[
        list[str], typer.Argument(help="VNFs; NAME:COUNT for several interchangeable instances.")
    ],
    base: Annotated[
        Base,
        typer.Option(help="Knowledge base: NfvInsight's own, or with what headrace adds."),
    ] = Base.NFVINSIGHT,
    rules: Annotated[
        list[Path] | None,
        typer.Option("--rules", help="Knowledge on top of the base (YAML). May be repeated."),
    ] = None,
    no_rules: Annotated[bool, typer.Option("--no-rules", help="Every rooted tree.")] = False,
    declared: Annotated[
        Path | None,
        typer.Option(
            help="Add functions by what they declare: output of headrace-engine --describe."
        ),
    ] = None,
    parallel: Annotated[
        int,
        typer.Option(min=1, max=4, help="At most so many neighbours in parallel, with a join."),
    ] = 1,
    count: Annotated[bool, typer.Option("--count", help="Only how many there are.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many graphs.")] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="So many graphs, drawn uniformly from all.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The sample's seed; 1 if not given.")] = None,
    draw_: Annotated[bool, typer.Option("--draw", help="Draw each graph.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Draw the graphs into this SVG file.")] = None,
    json_: Annotated[
        bool, typer.Option("--json", help="One object: {count, graphs: [{vnf: parent}]}.")
    ] = False,
) -> None:
    """Generate the chain graphs of a set of VNFs, or count them.

    The method, the knowledge base and the rules' language are in docs/chains.md."""
    if limit is not None and sample is not None:
        raise BadInput("--limit and --sample: got both; allowed: the first graphs, or a sample")
    _check_effect(count, json_, limit, sample, draw_, svg)
    if seed is not None and sample is None:
        raise BadInput("--seed: got no --sample, and nothing else is drawn; allowed: with --sample")
    knowledge = load(rules or (), base=base, rules=not no_rules)
    if declared is not None:
        knowledge = with_declared(knowledge, declared)
    counter, notes = _counted(vnfs, knowledge, parallel)
    for note in notes if not no_rules else ():
        print(f"headrace chains: note: {note}", file=sys.stderr)
    selection = Selection(limit, sample, 1 if seed is None else seed)
    if count:
        total = counter.total()
        print_json(ChainCount(count=total)) if json_ else print(total)
    else:
        _write(counter, selection, svg, json_, drawn=draw_)


@dataclass(frozen=True)
class Selection:
    """Which of all graphs are shown: the first ones, or a sample drawn uniformly."""

    limit: int | None
    sample: int | None
    seed: int

    def graphs(self, counter: GraphCounter, most: int | None) -> Iterator[Graph]:
        if self.sample is not None:
            return draw_sample(counter, self.sample, self.seed)
        stream = chain.from_iterable(Enumerator(counter).batches())
        return (parse(text) for text in islice(stream, most))


def _check_effect(
    count: bool,
    json_: bool,
    limit: int | None,
    sample: int | None,
    draw_: bool,
    svg: Path | None,
) -> None:
    shown = {"--limit": limit, "--sample": sample, "--draw": draw_ or None, "--svg": svg}
    _without_effect("--count", count, [name for name, given in shown.items() if given is not None])
    _without_effect("--json", json_, [n for n in ("--draw", "--svg") if shown[n] is not None])
    _without_effect("--svg", svg is not None, ["--draw"] if draw_ else [])


def _counted(
    vnfs: list[str], knowledge: Knowledge, parallel: int
) -> tuple[GraphCounter, list[str]]:
    wanted, notes = resolve(vnfs, knowledge)
    counter = GraphCounter(compile_problem(wanted, knowledge, width=parallel))
    if not counter.total():
        notes = [*notes, why_none(wanted, knowledge, parallel)]
    return counter, notes


def _write(
    counter: GraphCounter, selection: Selection, svg: Path | None, json_: bool, *, drawn: bool
) -> None:
    try:
        if svg is not None:
            _write_svg(svg, counter, selection)
        elif json_:
            _print_json(counter, selection)
        else:
            _print_graphs(counter, selection, drawn=drawn)
        sys.stdout.flush()
    except BrokenPipeError:  # `| head`: the reader has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _without_effect(option: str, given: bool, others: list[str]) -> None:
    if given and others:
        raise BadInput(f"{option}: nothing is shown that {', '.join(others)} would change")


def _print_json(counter: GraphCounter, selection: Selection) -> None:
    """It is as ChainGraphs has it, but written as the graphs are found: they may be millions."""
    write = sys.stdout.write
    total = counter.total()
    write(f'{{"count": {total}, "graphs": [')
    if selection.sample is not None:
        write(",\n".join(json.dumps(graph) for graph in selection.graphs(counter, None)))
    else:
        separator, left = "\n", total if selection.limit is None else selection.limit
        for batch in Enumerator(counter).batches():
            write(separator + ",\n".join(batch[:left]))
            separator, left = ",\n", left - len(batch)
            if left <= 0:
                break
    write("\n]}\n")


def _print_graphs(counter: GraphCounter, selection: Selection, *, drawn: bool) -> None:
    sampled = selection.sample is not None
    most = selection.limit if selection.limit is not None or sampled else SHOWN
    leaves = {item.name for item in counter.problem.items if item.vnf.category is Category.LEAF}
    total, number = counter.total(), 0
    for number, graph in enumerate(selection.graphs(counter, most), 1):
        if drawn:
            print(f"{number}\n{draw.terminal(graph)}\n")
        else:
            print(f"{number:6}  {draw.one_line(graph, leaves)}")
    which = "a sample" if sampled else "the first"
    rest = "" if number == total else f"; shown: {which} {number} (--limit N, --sample N, --json)"
    print(f"{total:,} chain graph{'' if total == 1 else 's'}{rest}")


def _write_svg(file: Path, counter: GraphCounter, selection: Selection) -> None:
    total = counter.total()
    graphs = list(islice(selection.graphs(counter, selection.limit or DRAWN), DRAWN))
    notes = [f"{total:,} chain graphs" + ("" if len(graphs) == total else f", {len(graphs)} drawn")]
    categories = {item.name: item.vnf.category for item in counter.problem.items}
    try:
        file.write_text(draw.svg(graphs, categories, notes), encoding="utf-8")
    except OSError as error:
        raise BadInput(f"--svg {file}: {error.strerror or error}") from None
    print(f"{file}: {len(graphs)} of {total:,} chain graphs")
