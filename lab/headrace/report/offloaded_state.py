# SPDX-License-Identifier: Apache-2.0
"""Hosted VNFs that tell their host what they decided: how many packets were spared them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headrace.record.bundle import Bundle
from headrace.record.counters import OffloadReading
from headrace.report.document_model import Column, Row, Section, Table

_NOTE = (
    "Each VNF's packets, summed over VNFs and trials: those to which the host did what the VNF "
    "had decided for their flow, and those that went to the VNF. Decisions are void when a table "
    "or the flow's state changed, or for a packet that the VNF has to see; stale: a table changed "
    "while they were told; refused: they made no sense."
)
_COUNTED = ("search", "fixed", "max", "capacity")
_COLUMNS = (
    Column("execution", "text"),
    Column("chain", "text"),
    Column("workload", "text"),
    Column("by the host", "count"),
    Column("by VNFs", "count"),
    Column("decisions", "count"),
    Column("void", "count"),
    Column("stale", "count"),
    Column("refused", "count"),
)


def sections(bundle: Bundle) -> Iterator[Section]:
    """None where nothing is offloaded."""
    sums: dict[tuple[str, str, str], Counter[str]] = {}
    for one in bundle.trials():
        if one.counters is None or one.phase not in _COUNTED or not one.counters.offload:
            continue
        into = sums.setdefault((one.execution, one.chain, one.workload), Counter())
        outputs = Counter[str]()
        for replica in one.counters.replicas:
            for link, side in replica.outputs.items():
                outputs[link] += side.packets
        for link, reading in one.counters.offload.items():
            into.update(_of(reading, outputs[link]))
    if sums:
        rows = tuple(Row((*key, *_cells(counts))) for key, counts in sums.items())
        yield Section("Offloaded state", _NOTE, (Table(_COLUMNS, rows),))


def _of(one: OffloadReading, passed: int) -> dict[str, int]:
    return {
        "host": one.hits, "vnf": passed - one.hits, "decisions": one.published,
        "void": one.voided, "stale": one.stale, "refused": one.refused,
    }  # fmt: skip


def _cells(counts: Counter[str]) -> tuple[int, ...]:
    keys = ("host", "vnf", "decisions", "void", "stale", "refused")
    return tuple(counts[key] for key in keys)
