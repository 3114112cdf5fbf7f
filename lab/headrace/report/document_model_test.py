# SPDX-License-Identifier: Apache-2.0
"""A document is data: JSON has all of it, and every writer writes every kind of part."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from rich.console import Console

from headrace.analyse.bundle_report import report
from headrace.host.server.detect import detect
from headrace.model.amat import fit
from headrace.model.amat_test import CACHES, ENTRIES, cycles
from headrace.record.bundle import Bundle
from headrace.report import html, server, terminal
from headrace.report.charts.anatomy import AnatomyStack
from headrace.report.charts.curves import Axes, Band, Series
from headrace.report.document_model import (
    AtLeast,
    Column,
    Document,
    Link,
    Row,
    Section,
    Table,
    curves,
)
from headrace.report.hosting import anatomy
from headrace.report.measured import document
from headrace.report.profile import memory_model


def of_a_paper() -> Document:
    lines = [Series("a", ((1.0, 2.0), (1e6, 40.0)))]
    curve = fit([(n, cycles(n, 64, 8, overlapped=True)) for n in ENTRIES], CACHES)
    assert curve is not None
    axes = Axes("size", "cycles", "bytes")
    return Document(
        "A paper",
        sections=(
            Section("Lines", "n", (curves(lines, axes), Table(("", "Mpps"), (("here", 0.5),)))),
            Section("Bands", blocks=(curves(lines, axes, [Band("memory", 1e3, None)]),)),
            anatomy([AnatomyStack("one", (1.0, 2.0, 3.0, 4.0, 5.0))]),
            memory_model(curve, "flows"),
        ),
    )


@pytest.fixture(params=["run", "server", "paper"])
def shown(request: pytest.FixtureRequest, bundle_path: Path) -> Document:
    kinds = {
        "run": lambda: document(report(Bundle(bundle_path)), spec="a: 1"),
        "server": lambda: server.document(detect()),
        "paper": of_a_paper,
    }
    built: Document = kinds[request.param]()
    return built


def test_json_has_all_of_it(shown: Document) -> None:
    adapter: TypeAdapter[Document] = TypeAdapter(Document)
    read = adapter.validate_json(adapter.dump_json(shown))
    assert read == shown
    assert html.render(read) == html.render(shown)


def on_terminal(shown: Document, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    terminal.show(shown, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_each_medium_has_what_is_for_it() -> None:
    columns = (
        "chain",
        Column("rate", "rate"),
        Column("wide", from_width=120),
        Column("paper", on="page"),
        Column("empty", optional=True),
    )
    rows = (
        Row((Link("a", "group-1"), 2e6, 1, 22, None), doubtful=True),
        ("b", AtLeast(1e6), 1, 22, None),
    )
    document = Document("t", sections=(Section("s", "how to read it", (Table(columns, rows),)),))
    page, text = html.render(document), on_terminal(document)
    assert '<a href="#group-1">a</a>' in page and "how to read it" in page
    assert "≥ 1.00" in page and "≥ 1.00" in text  # in the unit of the largest
    assert "rate Mpps" in text and "<small>Mpps</small>" in page
    assert "paper" in page and "empty" not in page and 'class="unsure"' in page
    assert "paper" not in text and "empty" not in text and "how to read it" not in text
    assert "wide" not in text and "wide" in on_terminal(document, 130)


def test_times_have_the_unit_of_their_size() -> None:
    columns = ("", Column("p50", "time"), Column("max", "time"), Column("mixed", "time"))
    table = Table(columns, (("a", 440.0, 1_486_847.0, 47.0), ("b", 980.0, 2_000_000.0, 3.6e9)))
    page = html.render(Document("t", sections=(Section("s", blocks=(table,)),)))
    assert "p50<small>ns</small>" in page and "max<small>ms</small>" in page
    assert ">1.49</td>" in page and ">2.00</td>" in page and "486" not in page
    assert ">47.0\u202fns</td>" in page and ">3.60\u202fs</td>" in page


def test_a_cell_that_nobody_knows_is_told_from_none() -> None:
    table = Table(("", "n"), (("a", None), ("b", 0)))
    page = html.render(Document("t", sections=(Section("s", blocks=(table,)),)))
    assert ">–</td>" in page and ">0</td>" in page
