# SPDX-License-Identifier: Apache-2.0
"""A self-test's parts as a document."""

from __future__ import annotations

from headrace.analyse.units import plural
from headrace.record.selftest import SelftestOutput, SelftestPart
from headrace.report.document_model import Column, Document, Items, Row, Section, Table, Text

_COLUMNS = ("part", Column("outcome", "text"), Column("packets", "text"), Column("why", "text"))


def document(output: SelftestOutput) -> Document:
    doubts = tuple(f"{one.part}: {text}" for one in output.parts for text in one.doubts)
    blocks: list[Table | Text | Items] = [Table(_COLUMNS, tuple(map(_row, output.parts)))]
    if doubts:
        blocks += [
            Text("What the audit has against figures, which this is not about:"),
            Items(doubts),
        ]
    return Document(
        "Self-test of hosting",
        sentence=f"{plural(output.passed, 'part')} passed, {output.failed} failed, "
        f"{output.skipped} skipped.",
        sections=(Section("Parts", "", tuple(blocks)),),
    )


def _row(one: SelftestPart) -> Row:
    packets = "" if one.outcome == "skipped" else f"{one.received} of {one.sent}"
    cells = (one.part, one.outcome, packets, one.why or "")
    return Row(cells, doubtful=one.outcome == "failed")
