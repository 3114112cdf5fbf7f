# SPDX-License-Identifier: Apache-2.0
"""`--fail-if` and `--junit`: a comparison as a step of a pipeline of tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from headrace.analyse.gate import Condition, Judged
from headrace.analyse.gate import junit as junit_xml
from headrace.errors import EXIT_CONTRADICTED, EXIT_NOT_COMPARABLE, BadInput
from headrace.host.consoles import Terminal

FailIf = Annotated[
    list[str] | None,
    typer.Option("--fail-if", metavar="CONDITION",
                 help="As 'worse: 3%' or 'throughput worse: 3%': exit status 3 if it is so, 4 if "
                 "nobody can tell."),
]  # fmt: skip
JunitFile = Annotated[
    Path | None, typer.Option("--junit", help="Write what came of --fail-if as JUnit XML.")
]


def conditions_of(given: Sequence[str] | None, junit: Path | None) -> list[Condition]:
    conditions = [Condition.of(text) for text in given or ()]
    if junit is not None and not conditions:
        raise BadInput("--junit: nothing to write; allowed: with --fail-if")
    return conditions


def tell(judged: Sequence[Judged], suite: str, junit: Path | None) -> None:
    """Says on stderr what was not kept, writes the file, returns the exit status."""
    console = Terminal(stderr=True, highlight=False)
    for one in judged:
        if one.state != "kept":
            what = "broken" if one.state == "broken" else "cannot be told"
            console.print(f"{one.condition}: {what}: {one.of}: {one.metric}: {one.text}",
                          markup=False, soft_wrap=True)  # fmt: skip
    if junit is not None:
        try:
            junit.write_text(junit_xml(suite, judged), encoding="utf-8")
        except OSError as error:
            raise BadInput(f"--junit: {junit}: {error.strerror or error}") from None
    states = {one.state for one in judged}
    if "broken" in states:
        raise typer.Exit(EXIT_CONTRADICTED)
    if "unknown" in states:
        raise typer.Exit(EXIT_NOT_COMPARABLE)
