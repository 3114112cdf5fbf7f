# SPDX-License-Identifier: Apache-2.0
"""What a comparison in turn comes to, in its first sentence and its table."""

from __future__ import annotations

from headrace.analyse.pairs import Comparison, PairedCapacities, PairedResults
from headrace.analyse.summary import ResultKey
from headrace.model.paired import over
from headrace.report.document_model import Document, Table
from headrace.report.html import render
from headrace.report.in_turn import section, sentence

PAIRS = {
    "faster": [(1.2e6, 1e6), (1.21e6, 1e6)],
    "slower": [(0.8e6, 1e6), (0.79e6, 1e6)],
    "tie": [(1.001e6, 1e6), (0.999e6, 1e6)],
    "unknown": [(1.1e6, 1e6), (0.9e6, 1e6)],
}


def result(
    rate: str | None, capacity: str | None = None, execution: str = "rtc", doubted: int = 0
) -> PairedResults:
    known = None
    if capacity is not None:
        known = PairedCapacities(a_pps=2e6, b_pps=3e6, paired=over("b", "a", PAIRS[capacity]))
    return PairedResults(
        key=ResultKey(
            chain="c", workload="w", direction="forward", execution=execution, goal="ndr"
        ),
        a_pps=1e6,
        b_pps=1.2e6,
        paired=None if rate is None else over("b", "a", PAIRS[rate]),
        why="" if rate else "a result is generator-bound",
        doubted=doubted,
        capacity=known,
    )


def compared(*results: PairedResults) -> Comparison:
    return Comparison(bundle="runs/x", a="old.yaml", b="new.yaml", results=results)


def test_the_sentence_goes_by_capacity_where_there_is_one() -> None:
    by_rate = sentence(compared(result("slower")))
    assert by_rate.startswith("b is slower: ndr is 0.795 ± ") and "(2 pairs, 95 %)" in by_rate
    both = sentence(compared(result("tie", "faster")))
    assert both.startswith("b is faster: capacity is 1.205 ± ")
    wide = sentence(compared(result("unknown")))
    assert wide.startswith("Which is faster is not known: ndr is 0.995 ± ")
    assert sentence(compared(result(None))).endswith("cannot be told: a result is generator-bound.")
    assert sentence(compared()).startswith("Nothing to compare")


def test_what_the_audit_doubts_is_said_where_rates_are_judged() -> None:
    doubted = result("slower", doubted=1)
    told = sentence(compared(doubted))
    assert told.endswith("(2 pairs, 95 %). The audit doubts a rate in 1 of 2 pairs.")
    assert "doubts" not in sentence(compared(result("slower", "faster", doubted=1)))
    several = sentence(compared(doubted, result("tie"), result("tie", "tie", doubted=2)))
    assert several.endswith(" The audit doubts rates of 1 of them.")
    [table] = [block for block in section(compared(doubted)).blocks if isinstance(block, Table)]
    [row] = table.lines
    assert row.doubtful and row.cells[-1] == "b is slower; the audit doubts 1 of 2"


def test_several_results_are_counted() -> None:
    each = [result(name, execution=str(i)) for i, name in enumerate((*PAIRS, "slower", None))]
    assert sentence(compared(*each)).replace("\u202f", " ") == (
        "Of 6 results b is faster in 1 (at most +20.5 %), slower in 2 (at most −20.5 %), "
        "level with a in 1, not known to be faster or slower in 1, not to be compared in 1."
    )


def test_the_table_has_rates_and_capacities() -> None:
    shown = section(compared(result("tie", "faster"), result(None, execution="pipeline")))
    [table] = [block for block in shown.blocks if isinstance(block, Table)]
    rows = [(row.cells[1], row.cells[4], row.cells[8]) for row in table.lines]
    assert rows == [
        ("capacity", "1.205", "b is faster"),
        ("rate", "1.000", "a tie"),
        ("rate", None, "a result is generator-bound"),
    ]
    page = render(Document("t", sections=(shown,)))
    assert "old.yaml" in page and "new.yaml" in page and "b is faster" in page
