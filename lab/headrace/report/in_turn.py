# SPDX-License-Identifier: Apache-2.0
"""Two specs, or two builds of the engine, that were measured in turn: a section of their bundle's
report, and the sentence that it begins with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headrace.analyse.gate import name_of
from headrace.analyse.pairs import Comparison, PairedResults, compare_sides
from headrace.analyse.units import plural, signed_percent, significant
from headrace.record.bundle import Bundle
from headrace.record.estimates import Paired
from headrace.record.known import known
from headrace.report.charts.bar_rows import Bar, Piece
from headrace.report.charts.bars import plain
from headrace.report.document_model import (
    Block,
    Chart,
    Column,
    FactList,
    Items,
    Row,
    Section,
    Table,
)

_JUDGED = {
    "faster": "b is faster",
    "slower": "b is slower",
    "tie": "a tie",
    "unknown": "not known: too wide",
}
_NOTE = (
    "What was measured one after the other is one pair: b / a is the geometric mean of the pairs' "
    "ratios, in an interval of 95 %. Capacities are compared per cycle of the cores."
)


def of_bundle(bundle: Bundle) -> Comparison | None:
    """None: it has no two sides."""
    names = known(bundle).compared
    return None if names is None else compare_sides(bundle, names["a"], names["b"])


def sentence(compared: Comparison) -> str:
    """Judges by capacity, which a disturbed machine leaves as it is, where both sides have one."""
    told = [(one, _first(one)) for one in compared.results]
    known = [(one, paired) for one, paired in told if paired is not None]
    if not compared.results:
        return "Nothing to compare: no result has the same execution, goal and workload."
    if not known:
        return f"Which is faster cannot be told: {compared.results[0].why}."
    if len(compared.results) == 1:
        one, paired = known[0]
        by = "capacity" if one.capacity is not None else one.key.goal_text
        who = {**_JUDGED, "tie": "a and b tie", "unknown": "Which is faster is not known"}
        ratio = f"{paired.ratio.value:.3f} ± {paired.ratio.half:.3f}"
        pairs = plural(paired.pairs, "pair")
        text = f"{who[paired.verdict]}: {by} is {ratio} times a's ({pairs}, 95 %)."
        return text if one.capacity is not None or not one.doubted else f"{text} {_doubts(one)}."
    count = Counter(paired.verdict for _, paired in known)
    parts = []
    for verdict, word in (("faster", "faster"), ("slower", "slower")):
        changes = [paired.ratio.value - 1 for _, paired in known if paired.verdict == verdict]
        if changes:
            most = signed_percent(max(changes, key=abs))
            parts.append(f"{word} in {len(changes)} (at most {most})")
    if count["tie"]:
        parts.append(f"level with a in {count['tie']}")
    if count["unknown"]:
        parts.append(f"not known to be faster or slower in {count['unknown']}")
    if rest := len(told) - len(known):
        parts.append(f"not to be compared in {rest}")
    text = f"Of {len(told)} results b is {', '.join(parts)}."
    if doubted := sum(one.capacity is None and one.doubted > 0 for one, _ in known):
        text += f" The audit doubts rates of {doubted} of them."
    return text


def _doubts(one: PairedResults) -> str:
    assert one.paired is not None  # nothing is doubted of what is not told
    return f"The audit doubts a rate in {one.doubted} of {plural(one.paired.pairs, 'pair')}"


def _first(one: PairedResults) -> Paired | None:
    return one.paired if one.capacity is None else one.capacity.paired


def section(compared: Comparison) -> Section:
    names = (("a", compared.a), ("b", compared.b))
    sides = tuple(f"{side}: {name}" for side, name in names)
    blocks: list[Block] = [Items(sides, on="terminal"), FactList(names)]
    rows = tuple(row for one in compared.results for row in _rows(one))
    if bars := list(_bars(compared)):
        blocks.append(Chart(plain(bars, "b / a", "Ratios of b to a"), on="page"))
    columns = (
        "result",
        Column("of", "text"),
        Column("a", "own-rate"),
        Column("b", "own-rate"),
        Column("b / a", "text"),
        Column("least", "text"),
        Column("most", "text"),
        Column("pairs", "count"),
        Column("judged", "text"),
    )
    if rows:
        blocks.append(Table(columns, rows))
    return Section("b against a", _NOTE, tuple(blocks))


def _rows(one: PairedResults) -> Iterator[Row]:
    name, capacity = name_of(one.key), one.capacity
    if capacity is not None:
        yield _row(name, "capacity", capacity.a_pps, capacity.b_pps, capacity.paired, "")
    row = _row(name, "rate", one.a_pps, one.b_pps, one.paired, one.why)
    if one.paired is not None and one.doubted:
        judged = f"{row.cells[-1]}; the audit doubts {one.doubted} of {one.paired.pairs}"
        row = Row((*row.cells[:-1], judged), doubtful=True)
    yield row


def _row(name: str, of: str, a: float, b: float, paired: Paired | None, why: str) -> Row:
    if paired is None:
        return Row((name, of, a, b, None, None, None, None, why), doubtful=True)
    ratio = [f"{x:.3f}" for x in (paired.ratio.value, paired.ratio.low, paired.ratio.high)]
    return Row((name, of, a, b, *ratio, paired.pairs, _JUDGED[paired.verdict]))


def _bars(compared: Comparison) -> Iterator[Bar]:
    for one in compared.results:
        paired = _first(one)
        if paired is not None:
            ratio = paired.ratio
            piece = Piece("b / a", ratio.value)
            yield Bar(name_of(one.key), (piece,), significant(ratio.value), _JUDGED[paired.verdict],
                      (ratio.low, ratio.high))  # fmt: skip
