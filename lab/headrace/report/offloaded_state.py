# SPDX-License-Identifier: Apache-2.0
"""Hosted VNFs that tell their host what they decided: how many packets were spared them."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.analyse.spared import Spared, spared
from headrace.record.bundle import Bundle
from headrace.record.counters import Counters
from headrace.report.document_model import Column, Row, Section, Table

_NOTE = (
    "Each VNF's packets, summed over VNFs and trials: those to which the host did what the VNF "
    "had decided for their flow, and those that went to the VNF. Decisions are void when a table "
    "or the flow's state changed, or for a packet that the VNF has to see; stale: a table changed "
    "while they were told; no room: the host's table had none for the flow, or the flow's packets "
    "were held; gave way: another flow took its place; refused: they made no sense, or the link is "
    "read by another lcore than writes it. Each fragment voids all of its VNF's."
)
_COUNTED = ("search", "fixed", "max", "capacity")
_COLUMNS = (
    Column("execution", "text"),
    Column("chain", "text"),
    Column("workload", "text"),
    Column("by the host", "count"),
    Column("by VNFs", "count"),
    Column("host's share", "share"),
    Column("decisions", "count"),
    Column("void", "count"),
    Column("stale", "count", optional=True),
    Column("no room", "count", optional=True),
    Column("gave way", "count", optional=True),
    Column("refused", "count"),
    Column("fragments", "count", optional=True),
)


def sections(bundle: Bundle) -> Iterator[Section]:
    """None where nothing is offloaded."""
    each: dict[tuple[str, str, str], list[Counters]] = {}
    for one in bundle.trials():
        if one.counters is not None and one.phase in _COUNTED and one.counters.offload:
            each.setdefault((one.execution, one.chain, one.workload), []).append(one.counters)
    rows = [Row((*key, *_cells(whole))) for key, of in each.items() if (whole := spared(of))]
    if rows:
        yield Section("Offloaded state", _NOTE, (Table(_COLUMNS, tuple(rows)),))


def _cells(one: Spared) -> tuple[int | float | None, ...]:
    return (
        one.host, one.vnf, one.share, one.decisions, one.voided, one.stale or None,
        one.no_room or None, one.evicted or None, one.refused, one.fragments or None,
    )  # fmt: skip
