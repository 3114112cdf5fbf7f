# SPDX-License-Identifier: Apache-2.0
"""Whether engines do to packets what headrace's chain does, as a section of a bundle's report."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.record.bundle import Bundle
from headrace.record.equivalence import DifferingFrame, Equivalence, equivalences
from headrace.report.document_model import Block, Column, Items, Row, Section, Table

_NOTE = (
    "The same packets went through headrace's chain and through each engine, between the same "
    "ports, before anything was measured: those of the workload, and random ones at the edges of "
    "rules and routes. What came out is compared byte by byte, in any order. An engine that "
    "differs has no figures."
)
_COLUMNS = (
    Column("engine", "text"),
    Column("chain", "text"),
    Column("workload", "text"),
    Column("packets", "count"),
    Column("out of headrace", "count"),
    Column("out of it", "count"),
    Column("outputs", "text"),
)


def sections(bundle: Bundle) -> Iterator[Section]:
    """None of a bundle of headrace alone."""
    told = equivalences(bundle.path)
    if not told:
        return
    rows = tuple(
        Row(
            (one.engine, one.chain, one.workload, one.own + one.probes + one.answers,
             one.came, one.came_engine, one.verdict),
            doubtful=not one.equal,
        )
        for one in told
    )  # fmt: skip
    yield Section("Other engines", _NOTE, (Table(_COLUMNS, rows), *_words(told)))


def _words(told: list[Equivalence]) -> Iterator[Block]:
    for one in told:
        if not one.equal:
            alone = f"let out by {one.engine} alone"
            yield Items(
                (
                    *_frames(one, "let out by headrace alone", one.first_missing),
                    *_frames(one, alone, one.first_surplus),
                )
            )
    lines: dict[str, None] = {}
    for one in told:
        lines |= dict.fromkeys(f"{one.engine}: {text}" for text in one.beside)
        lines |= dict.fromkeys(f"{one.engine}, may differ: {text}" for text in one.declared)
        lines |= dict.fromkeys(f"{one.engine}, not compared: {text}." for text in one.not_compared)
    yield Items(tuple(lines))


def _frames(one: Equivalence, what: str, frames: tuple[DifferingFrame, ...]) -> Iterator[str]:
    for frame in frames:
        yield f"{one.chain}, {one.workload}, {what}: {frame.words}"
