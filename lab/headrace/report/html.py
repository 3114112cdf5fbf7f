# SPDX-License-Identifier: Apache-2.0
"""A document as one HTML page that needs nothing from the network."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

import headrace
from headrace.errors import BadInput
from headrace.report.cells import has_figures, number, scales
from headrace.report.charts.svg import WIDTHS
from headrace.report.document_model import Cell, Column, Document, Link, Picture, Table, seen

_BAR = 110.0  # pixels of the longest in a table's column of bars
_WRAPS, _FOLDS = 60, 16  # characters of a text from which on its column is broken into lines


@dataclass(frozen=True)
class Served:
    """What a page has that a program serves, and that goes on changing."""

    script: str = ""  # its address
    fit: int | None = None  # of the widths of pictures, the window's; None: all of them
    view: str = ""
    search: str | None = None  # what is in the field; None: there is no field
    views: tuple[tuple[str, str], ...] = ()  # name and address of each


def render(document: Document, served: Served | None = None) -> str:
    template = _environment().get_template("page.html.j2")
    return str(
        template.render(
            document=document, icon=_icon(), version=headrace.__version__, served=served
        )
    )


@cache
def _environment() -> Any:
    import jinja2  # only for whoever writes a page

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("headrace.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(picture=_picture, grid=_grid)
    environment.tests["shown"] = lambda part: seen(part.on, "page")
    return environment


def write(document: Document, target: Path) -> None:
    page = render(document)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page, encoding="utf-8")
    except OSError as e:
        raise BadInput(
            f"--html {target}: cannot be written: {e.strerror}; "
            "allowed: a file in a directory that may be written"
        ) from None


def standalone(picture: str) -> str:
    """An SVG that is a file of its own has the style sheet in it."""
    style = (Path(__file__).parent / "templates" / "style.css").read_text(encoding="utf-8")
    return picture.replace(">", f"><style>{style}</style>", 1)


def _picture(picture: Picture, fit: int | None = None) -> Markup:
    """Draws it at several widths, of which the style sheet shows the one that fits the window best:
    scaling one picture for all would shrink or blow up its text. `fit`: the one that a window
    shows."""
    if fit is not None:
        return Markup(f'<div class="w{fit}">{picture.draw(WIDTHS[fit])}</div>')
    drawn = [picture.draw(width) for width in WIDTHS]
    if drawn[0] == drawn[-1]:
        return Markup(f'<div class="scroll">{drawn[0]}</div>')
    return Markup("".join(f'<div class="w{i}">{one}</div>' for i, one in enumerate(drawn)))


def _grid(table: Table) -> dict[str, Any]:
    """The columns that the page has, and each row's cells as text with their class."""
    scaled = scales(table)
    kept = [
        (i, c)
        for i, c in enumerate(table.typed)
        if seen(c.on, "page") and (not c.optional or has_figures(i, table.lines))
    ]
    classes = {i: _class(c, [row.cells[i] for row in table.lines]) for i, c in kept}
    longest = {
        i: max((number(row.cells[i]) or 0.0 for row in table.lines), default=0.0) or 1.0
        for i, c in kept
        if c.kind == "bar"
    }

    def cell(i: int, column: Column, value: Cell) -> dict[str, Any]:
        return {
            "name": f"{column.name} {scaled.unit(column)}".strip(),
            "text": scaled.text(column, value),
            "class": classes[i],
            "to": value.to if isinstance(value, Link) else None,
            "verdict": column.kind == "verdict",
            "bar": _BAR * (number(value) or 0.0) / longest[i] if i in longest else None,
        }

    return {
        "columns": [
            {"name": c.name, "unit": scaled.unit(c), "class": classes[i].partition(" ")[0]}
            for i, c in kept
        ],
        "rows": [
            {
                "group": row.group,
                "doubtful": row.doubtful,
                "cells": [cell(i, c, row.cells[i]) for i, c in kept],
            }
            for row in table.lines
        ],
    }


def _class(column: Column, cells: Sequence[Cell]) -> str:
    if column.kind not in ("text", "verdict", "bar"):
        return ""
    longest = max((len(one) for one in cells if isinstance(one, str)), default=0)
    return "left wrap" if longest > _WRAPS else "left fold" if longest > _FOLDS else "left"


def _icon() -> Markup:
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#2874b2" '
        'd="M0 3h5c2 0 2 3 4 3h7v4H9c-2 0-2 3-4 3H0z"/></svg>'
    )
    return Markup("data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode())
