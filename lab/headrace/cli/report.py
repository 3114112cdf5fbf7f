# SPDX-License-Identifier: Apache-2.0
"""headrace report: what a bundle says, on the terminal, as HTML or as JSON."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headrace.analyse.bundle_report import Report
from headrace.analyse.bundle_report import report as make_report
from headrace.analyse.grounds import GroundResults
from headrace.cli import _claims as claimed
from headrace.cli._console import print_json, stdout
from headrace.errors import BadInput
from headrace.record.bundle import Bundle, write_whole
from headrace.record.frozen import Record
from headrace.record.known import known
from headrace.report import (
    appliances,
    equivalence,
    fitted,
    in_turn,
    layers,
    offload,
    offloaded_state,
    operate,
    paths,
    side_by_side,
    tune,
)
from headrace.report import claims as claims_page
from headrace.report import html as page
from headrace.report.document_model import Document
from headrace.report.machine import grounds_output, report_output
from headrace.report.measured import document
from headrace.report.paper_points import sections
from headrace.report.terminal import show
from headrace.tune.gains import read as tuned


def report(
    bundles: Annotated[
        list[Path],
        typer.Argument(
            metavar="BUNDLE",
            help="The directory that `headrace run` made; several of one study side by side.",
        ),
    ],
    html: Annotated[
        Path | None, typer.Option("--html", help="Write one self-contained HTML page to PATH.")
    ] = None,
    as_text: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    claims: Annotated[
        bool,
        typer.Option("--claims", help="Exit status 3 or 4 by the study's claims, as of `run`."),
    ] = False,
) -> None:
    """Show the results of a run, where its chains are narrowest, and the evidence."""
    opened = Bundle(bundles[0])
    opened.check_whole()
    if len(bundles) > 1:
        _several([opened, *map(Bundle, bundles[1:])], html, as_text=as_text, claims=claims)
        return
    reported = make_report(opened)
    whole = as_text or claims or html is not None or sentence(opened, reported)
    if not whole and not reported.claims and (lacking := opened.without_results) is not None:
        stdout().print(lacking, markup=False, soft_wrap=True)
        return
    if claims:
        judged = claimed.of_bundle(opened)
        reported = reported.model_copy(update={"claims": judged})
    shown = _document(opened, reported)
    _shown(shown, html, report_output(reported, shown) if as_text else None)
    if claims:
        claimed.exit_by(reported.claims)


def _several(bundles: list[Bundle], html: Path | None, *, as_text: bool, claims: bool) -> None:
    """One study on several grounds: its claims are judged on each."""
    for one in bundles:
        one.check_whole()
        if not one.claims:
            one.check_results()
    grounds = [GroundResults(one, one.claims) for one in bundles]
    shown = side_by_side.document(grounds)
    _shown(shown, html, grounds_output(grounds, shown) if as_text else None)
    if claims:
        claimed.exit_by(tuple(claim for one in grounds for claim in one.claims))


def _shown(shown: Document, html: Path | None, as_json: Record | None) -> None:
    if html is not None:
        write_html(shown, html)
    if as_json is not None:
        print_json(as_json)
        return
    console = stdout()
    show(shown, console)
    if html is not None:
        console.print(f"Written: {html}", markup=False)


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
    """What it comes to, by what was asked: of advice, of offloading, of claims, of executions."""
    advised = tuned(bundle)
    own = offload.sentence(bundle) if advised is None else tune.sentence(advised)
    sides = in_turn.of_bundle(bundle)
    if sides is not None:
        own = in_turn.sentence(sides)
    own = own or fitted.sentence(bundle) or operate.sentence(bundle)
    return own or claims_page.sentence(reported.claims) or reported.sentence


def _document(bundle: Bundle, reported: Report) -> Document:
    more = (
        *equivalence.sections(bundle),
        *paths.sections(bundle),
        *offloaded_state.sections(bundle),
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
        first=claims_page.sections(reported.claims, known(bundle).server is not None),
        points=points,
        more=more,
        sentence=sentence(bundle, reported),
    )


def finish_run(path: Path, console: Console | None) -> Path:
    """Is called at a run's end: the page goes into the bundle, the tables to `console` if there is
    one."""
    bundle = Bundle(path)
    shown = _document(bundle, make_report(bundle))
    target = path / "report.html"
    if console is not None:
        show(shown, console)  # first, as it needs no space
    write_whole(target, page.render(shown))
    return target
