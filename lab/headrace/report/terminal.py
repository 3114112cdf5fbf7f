# SPDX-License-Identifier: Apache-2.0
"""A document on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text as Words

from headrace.report.cells import Scales, has_figures, scales
from headrace.report.charts.bars import Bars
from headrace.report.charts.bars_text import drawn
from headrace.report.charts.pipe import Flow
from headrace.report.document_model import (
    Block,
    Chart,
    Code,
    Column,
    Document,
    Heading,
    Items,
    Row,
    Section,
    Table,
    Text,
    seen,
)

SHORT = 18  # characters of a figure that is never broken into lines
GOOD, BAD, DIM = "green", "bold red", "dim"
_VERDICTS = {"ok": GOOD, "confirmed": GOOD, "not-audited": DIM, "not-comparable": DIM}


def show(document: Document, console: Console) -> None:
    for part in lines(document, console.width):
        whole = isinstance(part, Words) and part.no_wrap  # a line that is searched and copied
        console.print(part, soft_wrap=bool(whole))


def lines(document: Document, width: int) -> Iterator[RenderableType]:
    if document.sentence:
        yield wrapped(document.sentence, width, "", "bold")
    heading = Words(document.title, style="bold")
    if document.subtitle:
        heading.append(f"  {document.subtitle}", style=f"not bold {DIM}")
    yield heading
    for text in document.cautions:
        yield wrapped(f"! {text}", width, "  ", BAD)
    for section in document.sections:
        shown = [b for b in section.blocks if _shown(b)]
        if shown and seen(section.on, "terminal"):
            yield Words()
            if section.title:
                yield Words(_title(section), style="bold")
            yield from _blocks(shown, width)


def _title(section: Section) -> str:
    return f"{section.title}: {section.about}" if section.about else section.title


def _shown(block: Block) -> bool:
    if isinstance(block, Chart) and _bars(block) is None:
        return False
    return seen(block.on, "terminal") and not (isinstance(block, Items) and not block.texts)


def _bars(chart: Chart) -> Bars | None:
    """Bars are what characters can draw; the parts of a pipe are bars there."""
    if isinstance(chart.picture, Flow):
        return chart.picture.bars()
    return chart.picture if isinstance(chart.picture, Bars) else None


def _blocks(blocks: Sequence[Block], width: int) -> Iterator[RenderableType]:
    """A text stands behind its heading, on the same line."""
    before: Block | None = None
    for block in blocks:
        if isinstance(before, Heading) and not isinstance(block, Text):
            yield Words(f"{before.text}:", style="bold")
        if isinstance(block, Heading) and before is not None:
            yield Words()
        elif isinstance(block, Text):
            yield _text(block, before, width)
        elif isinstance(block, Code):
            yield Words(block.text, no_wrap=True)
        elif isinstance(block, Items):
            for text in block.texts:
                yield wrapped(f"  - {text}", width, "    ", DIM)
        elif isinstance(block, Table):
            if isinstance(before, Table | Chart):
                yield Words()
            yield grid(block, width)
        elif isinstance(block, Chart) and (bars := _bars(block)) is not None:
            yield Padding(drawn(bars, width - 2), (0, 0, 0, 2), expand=False)
        before = block


def _text(block: Text, before: Block | None, width: int) -> Words:
    heading = f"{before.text}: " if isinstance(before, Heading) else ""
    style = DIM if block.style == "dim" else ""
    shown = wrapped(heading + block.text, width, "", style)
    shown.stylize("bold", 0, len(heading))
    return shown


def wrapped(content: str, width: int, hanging: str, style: str) -> Words:
    """textwrap breaks at ASCII spaces only; rich would part a number from its unit."""
    return Words(textwrap.fill(content, width, subsequent_indent=hanging), style=style)


def grid(table: Table, width: int) -> Grid:
    """On a narrow terminal some figures go, never the audit's verdict."""
    scaled = scales(table)
    kept = [(i, c) for i, c in enumerate(table.typed) if _has_room(i, c, table.lines, width)]
    shown = Grid(box=None, pad_edge=False, header_style=DIM)
    if table.grouped_by:
        shown.add_column(table.grouped_by, no_wrap=True)
    for i, column in kept:
        cells = [scaled.text(column, row.cells[i]) for row in table.lines]
        unit = "" if column.kind == "share" else scaled.unit(column)
        shown.add_column(
            f"{column.name} {unit}" if unit else column.name,
            justify="left" if column.kind in ("text", "verdict") else "right",
            no_wrap=column.kind != "text" and all(len(cell) <= SHORT for cell in cells),
            overflow="fold",
            min_width=min(len(column.name), 12),
        )
    for row in table.lines:
        group = (row.group,) if table.grouped_by else ()
        shown.add_row(
            *group,
            *(_cell(scaled, column, row, i) for i, column in kept),
            style=DIM if row.doubtful else None,
        )
    return shown


def _has_room(index: int, column: Column, rows: Sequence[Row], width: int) -> bool:
    if column.kind == "bar" or not seen(column.on, "terminal") or width < column.from_width:
        return False
    return not column.optional or has_figures(index, rows)


def _cell(scaled: Scales, column: Column, row: Row, index: int) -> Words:
    text = scaled.text(column, row.cells[index])
    if column.kind != "verdict":
        return Words(text)
    return Words(text, style=_VERDICTS.get(text, BAD))
