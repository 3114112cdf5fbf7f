# SPDX-License-Identifier: Apache-2.0
"""headrace report: what a bundle says, on the terminal, as HTML or as JSON."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headrace.analyse.document import Report
from headrace.analyse.document import report as make_report
from headrace.cli._console import print_json, stdout
from headrace.errors import BadInput
from headrace.record.bundle import Bundle, write_whole
from headrace.report.layers import of_bundle
from headrace.report.machine import report_output
from headrace.report.page import render
from headrace.report.terminal import show


def report(
    bundle: Annotated[Path, typer.Argument(help="The directory that `headrace run` made.")],
    html: Annotated[
        Path | None, typer.Option("--html", help="Write one self-contained HTML page to FILE.")
    ] = None,
    as_text: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the results of a run, where its chains are narrowest, and the evidence."""
    opened = Bundle(bundle)
    made = make_report(opened)
    if html is not None:
        write_html(opened, made, html)
    if as_text:
        print_json(report_output(made))
        return
    console = stdout()
    show(made, console)
    if html is not None:
        console.print(f"Written: {html}", markup=False)


def write_html(bundle: Bundle, made: Report, target: Path) -> None:
    page = _page(bundle, made)
    try:
        target.write_text(page, encoding="utf-8")
    except OSError as e:
        if e.errno == errno.ENOSPC and target.is_file():
            target.unlink()  # a part of a page is none
        raise BadInput(
            f"--html {target}: cannot be written: {e.strerror}; "
            "allowed: a file in a directory that exists and may be written"
        ) from None


def _page(bundle: Bundle, made: Report) -> str:
    return render(made, spec=bundle.spec_given, layers=of_bundle(bundle.path))


def finish_run(path: Path, console: Console | None) -> Path:
    """At a run's end: the page goes into the bundle, the tables to `console` if there is one."""
    bundle = Bundle(path)
    made = make_report(bundle)
    target = path / "report.html"
    if console is not None:
        show(made, console)  # first, as it needs no space
    write_whole(target, _page(bundle, made))
    return target
