# SPDX-License-Identifier: Apache-2.0
"""A page of figures and tables that is not a run's report: a calibration, a profile, a plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from markupsafe import Markup
from rich.console import Console
from rich.table import Table as Grid

import headrace
from headrace.errors import BadInput

from .page import page_icon


@dataclass(frozen=True)
class Table:
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Section:
    title: str
    note: str = ""
    figure: Markup | str = ""
    legend: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Sheet:
    title: str
    subtitle: str
    answers: tuple[tuple[str, str], ...] = ()  # value, what it is
    cautions: tuple[str, ...] = ()
    sections: tuple[Section, ...] = field(default_factory=tuple)


def render(sheet: Sheet) -> str:
    import jinja2  # only for whoever writes a page

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("headrace.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    template = environment.get_template("sheet.html.j2")
    return template.render(sheet=sheet, icon=Markup(page_icon()), version=headrace.__version__)


def write(sheet: Sheet, target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(render(sheet), encoding="utf-8")
    except OSError as e:
        raise BadInput(
            f"--html {target}: cannot be written: {e.strerror}; "
            "allowed: a file in a directory that may be written"
        ) from None


def show(sheet: Sheet, console: Console) -> None:
    """The same on a terminal, without the pictures."""
    console.print(f"[bold]{sheet.title}[/bold]  {sheet.subtitle}")
    for text in sheet.cautions:
        console.print(f"! {text}", markup=False, style="yellow")
    for section in sheet.sections:
        for table in section.tables:
            console.print()
            console.print(section.title, style="bold", markup=False)
            grid = Grid(box=None, pad_edge=False, header_style="dim")
            for i, column in enumerate(table.columns):
                grid.add_column(column, justify="left" if i == 0 else "right")
            for row in table.rows:
                grid.add_row(*row)
            console.print(grid, markup=False)
