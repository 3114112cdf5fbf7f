# SPDX-License-Identifier: Apache-2.0
"""What the tests of the report hold against: a result's report on the terminal, and as a page."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from rich.console import Console

from headrace.analyse.bundle_report import Report, report
from headrace.record.bundle import Bundle, BundleWriter
from headrace.record.rows import Result
from headrace.report import html, terminal
from headrace.report.measured import document


def reported(folder: Path, result: Result, **changes: Any) -> Report:
    with BundleWriter(folder) as w:
        w.result(result.model_copy(update=changes))
    return report(Bundle(folder))


def render(shown: Report) -> str:
    return html.render(document(shown))


def on_terminal(shown: Report) -> str:
    console = Console(file=io.StringIO(), width=140)
    terminal.show(document(shown), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
