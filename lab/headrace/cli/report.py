# SPDX-License-Identifier: Apache-2.0
"""headrace report: what a bundle says, on the terminal, as HTML or as JSON."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headrace.analyse.report import Report
from headrace.analyse.report import report as make_report
from headrace.cli import _claims as claimed
from headrace.cli._console import print_json, stdout
from headrace.errors import BadInput
from headrace.record.bundle import Bundle, write_whole
from headrace.report import appliances, engines, fitted, in_turn, layers, offload, operate, tune
from headrace.report import claims as claims_page
from headrace.report import html as page
from headrace.report.document import Document
from headrace.report.machine import report_output
from headrace.report.measured import document
from headrace.report.points import sections
from headrace.report.terminal import show
from headrace.tune.result import read as tuned


def report(
    bundle: Annotated[Path, typer.Argument(help="The directory that `headrace run` made.")],
    html: Annotated[
        Path | None, typer.Option("--html", help="Write one self-contained HTML page to FILE.")
    ] = None,
    as_text: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    claims: Annotated[
        bool,
        typer.Option("--claims", help="Exit status 3 or 4 by the study's claims, as of `run`."),
    ] = False,
) -> None:
    """Show the results of a run, where its chains are narrowest, and the evidence."""
    opened = Bundle(bundle)
    opened.check_whole()
    reported = make_report(opened)
    if claims:
        judged = claimed.of_bundle(opened)
        reported = reported.model_copy(update={"claims": judged})
    shown = _document(opened, reported)
    if html is not None:
        write_html(shown, html)
    if as_text:
        print_json(report_output(reported, shown))
    else:
        console = stdout()
        show(shown, console)
        if html is not None:
            console.print(f"Written: {html}", markup=False)
    if claims:
        claimed.exit_by(reported.claims)


def write_html(shown: Document, target: Path) -> None:
    text = page.render(shown)
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as e:
        if e.errno == errno.ENOSPC and target.is_file():
            target.unlink()  # a part of a page is none
        raise BadInput(
            f"--html {target}: cannot be written: {e.strerror}; "
            "allowed: a file in a directory that exists and may be written"
        ) from None


def sentence(bundle: Bundle, reported: Report) -> str:
    """What it comes to, by what was asked: of advice, of offloading, of executions."""
    advised = tuned(bundle)
    own = offload.sentence(bundle) if advised is None else tune.sentence(advised)
    sides = in_turn.of_bundle(bundle)
    if sides is not None:
        own = in_turn.sentence(sides)
    return own or fitted.sentence(bundle) or operate.sentence(bundle) or reported.sentence


def _document(bundle: Bundle, reported: Report) -> Document:
    more = (
        *engines.sections(bundle),
        *fitted.sections(bundle),
        *offload.sections(bundle),
        *operate.sections(bundle),
        *appliances.sections(reported.reached, bundle.path / "samples"),
        *layers.sections(bundle.path, bundle.results()),
        *tune.sections(tuned(bundle)),
    )
    sides = in_turn.of_bundle(bundle)
    points = (*(() if sides is None else (in_turn.section(sides),)), *sections(bundle))
    return document(
        reported,
        spec=bundle.spec_given,
        points=points,
        more=(*claims_page.sections(reported.claims), *more),
        sentence=sentence(bundle, reported),
    )


def finish_run(path: Path, console: Console | None) -> Path:
    """At a run's end: the page goes into the bundle, the tables to `console` if there is one."""
    bundle = Bundle(path)
    shown = _document(bundle, make_report(bundle))
    target = path / "report.html"
    if console is not None:
        show(shown, console)  # first, as it needs no space
    write_whole(target, page.render(shown))
    return target
