# SPDX-License-Identifier: Apache-2.0
"""What is shown to a reader, before it has a form: terminal, HTML and JSON are written from this.

A document knows what is said and what the figures are, not how they look: cells are values with the
kind that their column has, pictures are their data and can draw themselves. What only one medium
has room for says so (`on`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from headrace.report.charts.bars import Bars
from headrace.report.charts.curves import Axes, Band, Lines, Series
from headrace.report.charts.graphs import Graphs
from headrace.report.charts.latency_load import Loads
from headrace.report.charts.operated import OperatedCourse
from headrace.report.charts.percentiles import Percentiles
from headrace.report.charts.pipe import Flow
from headrace.report.charts.pipe_rows import Course
from headrace.report.charts.server_picture import Sockets
from headrace.report.charts.trend import Trend
from headrace.report.charts.trials import SearchTrials

Medium = Literal["both", "page", "terminal"]
Kind = Literal[
    "text",
    "number",  # significant digits
    "count",  # all digits
    "rate",  # packets per second, in one unit for the whole column
    "own-rate",  # each with its unit
    "time",  # nanoseconds, in one unit for the whole column
    "own-time",  # each with its unit
    "share",  # of one, as percent
    "loss",  # a share whose exact zero is told from a small one
    "change",  # a share with its sign
    "bytes",
    "bar",  # a length beside the others of its column
    "verdict",
]
Picture = Annotated[
    Lines
    | Bars
    | Flow
    | Percentiles
    | Loads
    | Course
    | SearchTrials
    | Trend
    | Graphs
    | Sockets
    | OperatedCourse,
    Field(discriminator="kind"),
]


@dataclass(frozen=True)
class AtLeast:
    """A lower bound."""

    at_least: float


@dataclass(frozen=True)
class Below:
    """An upper bound: nothing that was tried reached it."""

    below: float


@dataclass(frozen=True)
class Link:
    """Leads to a section of the same document; with a slash in front, to a page of the same
    server."""

    text: str
    to: str


Cell = str | int | float | None | AtLeast | Below | Link


@dataclass(frozen=True)
class Column:
    name: str
    kind: Kind = "number"
    unit: str = ""  # where the kind does not give it
    digits: int = 3
    from_width: int = 0  # narrower terminals leave it out
    on: Medium = "both"
    optional: bool = False  # left out where no row has a figure


@dataclass(frozen=True)
class Row:
    cells: tuple[Cell, ...]
    group: str = ""  # rows of one group stand under its name
    doubtful: bool = False


@dataclass(frozen=True)
class Table:
    """A column that is a name alone is of text where it is the first, of numbers elsewhere."""

    columns: tuple[Column | str, ...]
    rows: tuple[Row | tuple[Cell, ...], ...]
    grouped_by: str = ""  # what `group` of the rows is
    on: Medium = "both"
    kind: Literal["table"] = "table"

    @property
    def typed(self) -> tuple[Column, ...]:
        return tuple(
            Column(c, "number" if i else "text") if isinstance(c, str) else c
            for i, c in enumerate(self.columns)
        )

    @property
    def lines(self) -> tuple[Row, ...]:
        return tuple(row if isinstance(row, Row) else Row(row) for row in self.rows)


@dataclass(frozen=True)
class Heading:
    text: str
    verdict: str = ""
    on: Medium = "both"
    kind: Literal["heading"] = "heading"


@dataclass(frozen=True)
class Text:
    text: str
    style: Literal["plain", "dim"] = "plain"
    on: Medium = "both"
    kind: Literal["text"] = "text"


@dataclass(frozen=True)
class Items:
    texts: tuple[str, ...]
    on: Medium = "both"
    kind: Literal["items"] = "items"


@dataclass(frozen=True)
class FactList:
    """Names with their values."""

    rows: tuple[tuple[str, str], ...]
    on: Medium = "page"
    kind: Literal["facts"] = "facts"


@dataclass(frozen=True)
class Code:
    text: str
    on: Medium = "page"
    kind: Literal["code"] = "code"


@dataclass(frozen=True)
class Key:
    """An entry of a legend: the style sheet's class of its swatch, and the name."""

    swatch: str
    text: str


@dataclass(frozen=True)
class Chart:
    picture: Picture
    legend: tuple[Key, ...] = ()
    on: Medium = "both"
    kind: Literal["chart"] = "chart"


@dataclass(frozen=True)
class Folded:
    """What a reader opens who wants to know more; not on a terminal."""

    title: str
    note: str = ""
    blocks: tuple[Block, ...] = ()
    on: Medium = "page"
    kind: Literal["folded"] = "folded"


Block = Annotated[
    Heading | Text | Items | Table | Chart | FactList | Code | Folded, Field(discriminator="kind")
]


@dataclass(frozen=True)
class Answer:
    """One large figure: what a reader came for."""

    value: str
    below: str
    above: str = ""


@dataclass(frozen=True)
class Section:
    title: str
    note: str = ""  # for the page: how to read it
    blocks: tuple[Block, ...] = ()
    about: str = ""  # behind the title: what it is of
    answers: tuple[Answer, ...] = ()
    anchor: str = ""
    on: Medium = "both"

    @property
    def tables(self) -> tuple[Table, ...]:
        return tuple(b for b in self.blocks if isinstance(b, Table))


@dataclass(frozen=True)
class Document:
    title: str
    subtitle: str = ""
    about: str = ""  # for the page: what it is for
    sentence: str = ""  # what all of it comes to: before everything else
    answers: tuple[Answer, ...] = ()
    cautions: tuple[str, ...] = ()  # what a reader must know before reading any figure
    sections: tuple[Section, ...] = field(default_factory=tuple)


def curves(series: Sequence[Series], axes: Axes, bands: Sequence[Band] = ()) -> Chart:
    """Lines, with a legend where there are several: narrow pictures have no names at the lines."""
    shown = tuple(s for s in series if s.points)
    keys = strokes(s.name for s in shown) if len(shown) > 1 else ()
    return Chart(Lines(shown, axes, tuple(bands)), keys)


def strokes(names: Iterator[str] | Sequence[str]) -> tuple[Key, ...]:
    return tuple(Key(f"stroke l{i % 6 + 1}", name) for i, name in enumerate(names))


def seen(on: Medium, medium: Literal["page", "terminal"]) -> bool:
    return on in ("both", medium)
