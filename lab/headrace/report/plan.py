# SPDX-License-Identifier: Apache-2.0
"""Plans as a document: layouts, what they are predicted to do, what they did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from headrace.analyse.units import NOT_KNOWN, percent, pps, rate_scale, signed_percent, significant
from headrace.layout.layout import joined
from headrace.report.charts.bar_rows import Bar, BarGroup, Panel, Piece
from headrace.report.charts.bars import Bars
from headrace.report.document_model import (
    Block,
    Cell,
    Chart,
    Column,
    Document,
    Heading,
    Section,
    Table,
)
from headrace.spec.plan import CHOICE_CLOSE, ChainPlan, LayoutPlan, Reference
from headrace.spec.profile import Speed

NOISE = 1e-9  # cycles: what is left of a difference of floating-point numbers
_NAMES = {
    "best": "chosen",
    "rtc": "run to completion",
    "pipeline": "pipeline",
    "given": "as the spec has it",
}


_LATENCIES = (
    "", "predicted", "measured", "p99, predicted", "measured", "such slices", "p99 of all slices",
)  # fmt: skip


_REPLICAS_PRICED = 2  # at once, when costs were taken


def document(plans: Sequence[ChainPlan]) -> Document:
    sections: list[Section] = []
    for plan in plans:
        sections += [_layouts(plan), _costs(plan)]
    return Document(
        title="Plan" if len(plans) == 1 else f"{len(plans)} plans",
        subtitle=", ".join(dict.fromkeys(p.chain for p in plans)),
        sentence=_sentence(plans),
        sections=tuple(sections),
    )


def _sentence(plans: Sequence[ChainPlan]) -> str:
    """Which layout is best, by how much, and how right predictions were where they were tried."""
    if len(plans) == 1:
        return _of_one(plans[0])
    errors = [abs(e) for p in plans for one in p.layouts if (e := one.error) is not None]
    losses = [loss for p in plans if (loss := p.choice_loss) is not None]
    if not errors or not losses:
        return ""
    right = sum(loss <= CHOICE_CLOSE for loss in losses)
    close = percent(CHOICE_CLOSE, 1)
    return (
        f"{right} of {len(losses)} choices are the measured best or within {close} of "
        f"it; predictions err by {percent(median(errors), 2)} in the median, by "
        f"{percent(max(errors), 2)} at most."
    )


def _of_one(plan: ChainPlan) -> str:
    best = plan.layout("best")
    others = [one for one in plan.layouts if one.segments != best.segments]
    told = f"{text(best)} is the best layout: {pps(best.predicted_pps)} predicted"
    if others:
        most = max(others, key=lambda one: one.predicted_pps)
        times = best.predicted_pps / most.predicted_pps
        told += f", {significant(times)} times {_NAMES[most.role]}"
    if best.measured_pps is None:
        return f"{told}; not verified."
    error = "" if best.error is None else f", the prediction errs by {signed_percent(best.error)}"
    return f"{told}; {pps(best.measured_pps)} measured{error}."


def _picture(plan: ChainPlan) -> Chart:
    """Predicted rates as bars, measured ones as dots with their range; lcores' cycles beside."""
    scale = rate_scale(max(one.predicted_pps for one in plan.layouts))
    groups = tuple(
        BarGroup(_NAMES[one.role], ((_rate(one),), tuple(_lcores(one)))) for one in plan.layouts
    )
    panels = (
        Panel(f"{scale.unit} predicted; dots: measured", scale.divisor, 0.45),
        Panel("cycles of each lcore per packet", 1.0, 0.55),
    )
    return Chart(Bars(groups, panels, f"Layouts of {plan.chain}"))


def _rate(one: LayoutPlan) -> Bar:
    measured = one.measured_min_pps, one.measured_pps, one.measured_max_pps
    note = "" if one.measured_pps is None else f"measured {pps(one.measured_pps)}"
    low, middle, high = measured
    between = (low, high) if low and high else None
    dots = (middle,) if middle else ()
    piece = Piece("predicted", one.predicted_pps)
    return Bar("", (piece,), pps(one.predicted_pps), note, between, dots, "other")


def _lcores(one: LayoutPlan) -> Iterator[Bar]:
    for cpu, cycles in one.cycles_per_lcore.items():
        yield Bar(f"lcore {cpu}", (Piece(f"lcore {cpu}", cycles),))


def text(layout: LayoutPlan) -> str:
    return " | ".join(
        f"{joined(s.functions, s.parallel[1:])} @{','.join(map(str, (*s.lcores, *s.beside)))}"
        for s in layout.segments
    )


def _where(plan: ChainPlan) -> str:
    """Where a hypervisor had the lcores, for costs and for what is held against them."""
    note = ""
    if plan.line_cycles:
        note += (
            f" Costs are of lcores between which a line takes {plan.line_cycles:.0f} TSC cycles: "
            "where a hypervisor has put them elsewhere, what passes between them costs otherwise."
        )
    if plan.mixed:
        note += (
            " Some runs could be made only while the hypervisor had the lcores elsewhere than for "
            "others: what no other run tells is of another state of this machine."
        )
    if away := [_NAMES[one.role] for one in plan.layouts if one.elsewhere]:
        note += (
            f" While {', '.join(away)} or the reference ran, the hypervisor had the lcores "
            "elsewhere than when costs were taken: no prediction is held against that."
        )
    if late := [_NAMES[one.role] for one in plan.layouts if one.latency_elsewhere]:
        note += (
            f" Latency of {', '.join(late)} could be measured only with lcores elsewhere: no "
            "predicted latency is held against that."
        )
    return note


def _many_replicas(plan: ChainPlan) -> str:
    """Costs are of one replica and of two at once (profile/pricing.py)."""
    several = [
        _NAMES[one.role]
        for one in plan.layouts
        if any(len(segment.lcores) > _REPLICAS_PRICED for segment in one.segments)
    ]
    if not several:
        return ""
    return (
        f" In {', '.join(several)} a segment has three replicas or more, each priced as one of "
        "two: what more of them take from each other (the last-level cache, the way to memory, "
        "the length of bursts) is in no cost, so that they may carry less than is predicted."
    )


def _layouts(plan: ChainPlan) -> Section:
    rows: list[tuple[Cell, ...]] = []
    for one in plan.layouts:
        loads = ", ".join(f"{cpu}: {significant(c)}" for cpu, c in one.cycles_per_lcore.items())
        spread = NOT_KNOWN
        if one.measured_min_pps and one.measured_max_pps:
            spread = f"{pps(one.measured_min_pps)}–{pps(one.measured_max_pps)}"
        rows.append(
            (
                _NAMES[one.role] + (", costs taken from it" if one.taken else ""),
                text(one),
                loads,
                one.predicted_pps,
                one.measured_pps,
                spread,
                one.paced_pps,
                one.error,
                _over_chosen(one),
            )
        )
    note = (
        f"{plan.workload}; {plan.how}; no layout is predicted to do more than "
        f"{pps(plan.bound_pps)}. Traffic is made on lcore {plan.generator} and measured on "
        f"{plan.measure}; that work is in their cycles. Predictions are {percent(plan.kept, 3)} of "
        "what those cycles alone would allow, as the functions' own runs were."
    )
    if plan.reference is not None:
        note += f" {_pace(plan.reference)}"
    if any(one.over_chosen is not None for one in plan.layouts):
        note += " Lead: times what the chosen layout carries, in rounds that both were in."
    note += _many_replicas(plan) + _where(plan)
    columns: tuple[Column | str, ...] = (
        "",
        Column("segments @lcores", "text"),
        Column("cycles per lcore", "text"),
        Column("predicted", "own-rate"),
        Column("measured", "own-rate"),
        Column("least to most", "text"),
        Column("at the costs' pace", "own-rate"),
        Column("error", "change"),
        Column("lead", "text"),
    )
    if plan.rate_pps is not None:
        note += (
            f" Asked for: {_asked(plan)}. Latency is at that load; measured ones are medians of "
            "slices of 10 ms, once caches were warm, in which nothing kept an lcore from working "
            "for over 0.1 ms. What interrupts it for less is in measured and predicted ones."
        )
    blocks: tuple[Block, ...] = (_picture(plan), Table(columns, tuple(rows)))
    if plan.rate_pps is not None:
        latencies = tuple((_NAMES[one.role], *_latencies(one)) for one in plan.layouts)
        blocks += (Heading(f"Latency at {pps(plan.rate_pps)}"), Table(_LATENCIES, latencies))
    return Section(plan.chain, note, blocks)


def _over_chosen(one: LayoutPlan) -> str:
    ahead = one.over_chosen
    if ahead is None or one.role == "best":
        return NOT_KNOWN if ahead is None else ""
    return f"{ahead.over:.3f} ({ahead.least:.3f}–{ahead.most:.3f})"


def _pace(ref: Reference) -> str:
    return (
        f"Pace: {ref.what}, did {pps(ref.then_pps)}{_speed(ref.speed_then)} when costs were "
        f"taken, and {pps(ref.now_pps)} ({pps(ref.now_min_pps)}–{pps(ref.now_max_pps)})"
        f"{_speed(ref.speed_now)} in turn with what was verified. Errors are of rates at the "
        "costs' pace: each round's, over the reference's of that round."
    )


def _speed(speed: Speed | None) -> str:
    if speed is None or speed.mhz is None:
        return ""
    beside = "" if speed.at_once is None else f", {speed.at_once:.1f} of 4 additions at once"
    return f" at {speed.mhz:.0f} MHz{beside}"


def _asked(plan: ChainPlan) -> str:
    assert plan.rate_pps is not None
    within = "" if plan.within_us is None else f" within {significant(plan.within_us)} µs"
    aims = {
        "throughput": f"the highest throughput, and what latency it has at {pps(plan.rate_pps)}",
        "latency": f"the lowest latency at {pps(plan.rate_pps)}",
        "lcores": f"{pps(plan.rate_pps)}{within} on as few lcores as do it",
    }
    return aims[plan.aim]


def _latencies(one: LayoutPlan) -> tuple[str, str, str, str, str, str]:
    def us(value: float | None) -> str:
        return NOT_KNOWN if value is None else f"{significant(value)} µs"

    predicted = us(one.predicted_latency_us)
    return (
        predicted if one.predicted_latency_us else "overload",
        us(one.measured_latency_us),
        us(one.predicted_p99_us),
        us(one.measured_p99_us),
        NOT_KNOWN if one.quiet_share is None else percent(one.quiet_share),
        us(one.whole_p99_us),
    )


def _costs(plan: ChainPlan) -> Section:
    def pair(values: tuple[float, float]) -> str:
        return f"{significant(values[0])} / {significant(values[1])}"

    rows: list[tuple[Cell, ...]] = [
        (
            f.name,
            pair(f.work),
            f.replicated,
            pair(f.receive),
            pair(f.send),
            f.loop if f.loop >= NOISE else 0.0,
            f.poll,
            f.share,
        )
        for f in plan.functions
    ]
    rows += [
        ("source", pair(plan.source), *[""] * 6),
        ("sink", pair(plan.sink), *[""] * 6),
    ]
    how = (
        "By their stored profiles"
        if plan.costs == "profiles"
        else "Measured here, the whole chain in layouts that have each function in every place"
    )
    return Section(
        title=f"{plan.chain}: what the parts cost",
        note=f"{how}; cycles per packet; packets from or to the same lcore / another.",
        blocks=(
            Table(
                (
                    "function",
                    "itself",
                    "in a replica",
                    "receive",
                    "send",
                    "loop",
                    "a poll, once",
                    Column("of the packets", "share"),
                ),
                tuple(rows),
            ),
        ),
    )
