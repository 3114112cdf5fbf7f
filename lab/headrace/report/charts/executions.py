# SPDX-License-Identifier: Apache-2.0
"""The first picture: what each execution carries, with its interval, and beside it where each of
its lcores' cycles go, so that one sees why."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.analyse.capacity import CycleCost
from headrace.analyse.conclusion import Conclusion, Standing
from headrace.analyse.lcores import Lcore, folded
from headrace.analyse.summary import Summary
from headrace.analyse.units import NOT_KNOWN, ns, pps, rate_scale, significant, time_scale

from .bar_rows import Bar, BarGroup, Look, Panel, Piece
from .bars import Bars, fills

MOST = 12  # executions: the best of them
LCORES = 6  # of one execution; more are folded where they do the same
NAMES = {
    "links": "links",
    "loop": "loop",
    "tester": "source and sink",
    "away": "taken by others",
    "idle": "idle",
    "unknown": "not known: held up too often",
}


def of(conclusion: Conclusion, others: Sequence[Summary] = ()) -> tuple[Bars, dict[str, str]]:
    """The picture, and its legend: each name's fill. `others`: predicted, published."""
    shown, fixed = conclusion.standings[:MOST], conclusion.by_latency
    beside = () if fixed else tuple(BarGroup(s.key.execution, ((_other(s),), ())) for s in others)
    largest = max(
        [one.figure.high for one in shown] + [bar.total for g in beside for bar in g.panels[0]]
    )
    smallest = min(one.figure.value for one in shown)
    scale = time_scale(smallest) if fixed else rate_scale(largest)
    lcores = {one.execution: folded(one.lcores, LCORES) for one in shown}
    classes = _classes([i for some in lcores.values() for i in some])
    groups = tuple(
        BarGroup(
            one.execution,
            (
                (_figure(one, shown[0], fixed),),
                tuple(_lcore(i, classes) for i in lcores[one.execution]),
            ),
        )
        for one in shown
    )
    groups += beside
    panels = (
        Panel(f"{conclusion.by}, {scale.unit}", scale.divisor, 0.38),
        Panel("cycles of each lcore per packet carried", 1.0, 0.62),
    )
    label = f"Executions by {conclusion.by}, and their lcores' cycles per packet"
    if not any(lcores.values()):  # of a bundle without counters
        groups = tuple(BarGroup("", (_named(group),)) for group in groups)
        return Bars(groups, panels[:1], label), {}
    return Bars(groups, panels, label), classes


def _named(group: BarGroup) -> tuple[Bar, ...]:
    return tuple(bar._replace(name=group.name or bar.name) for bar in group.panels[0])


def _figure(one: Standing, best: Standing, fixed: bool) -> Bar:
    f = one.figure
    look: Look = "sure" if one.verdict == "ok" else "unsure"
    text = ("≥ " if one.at_least else "") + (ns if fixed else pps)(f.value)
    note = one.verdict if one.verdict != "ok" else ""
    if one is not best and best.figure.value:
        part = f.value / best.figure.value if one.of_best is None else one.of_best
        note = f"{significant(part, 2)} x" + (f", {note}" if note else "")
    between = (f.low, f.high) if f.high > f.low else None
    piece = Piece(one.execution, f.value)
    return Bar("", (piece,), text, note, between, one.each if len(one.each) > 1 else (), look)


def _lcore(one: Lcore, classes: dict[str, str]) -> Bar:
    name = f"lcore {one.cpu}" if one.alike == 1 else f"lcore {one.cpu}, of {one.alike} alike"
    pieces = tuple(Piece(_called(s), s.cycles, classes[_called(s)]) for s in one.spent)
    return Bar(name, pieces, significant(one.busy) if pieces else NOT_KNOWN, "")


def _called(spent: CycleCost) -> str:
    return NAMES.get(spent.kind, spent.name)


def _classes(lcores: Sequence[Lcore]) -> dict[str, str]:
    """The functions in their order, then what is no function's."""
    spent = [s for one in lcores for s in one.spent]
    functions = fills([s.name for s in spent if s.kind == "nf"])
    kinds = {s.kind for s in spent}
    return functions | {name: kind for kind, name in NAMES.items() if kind in kinds}


def _other(s: Summary) -> Bar:
    rate = s.throughput_pps.median
    return Bar("", (Piece(s.key.ground, rate),), pps(rate), s.key.ground, look="other")
