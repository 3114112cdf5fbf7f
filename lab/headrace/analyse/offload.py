# SPDX-License-Identifier: Apache-2.0
"""What offloaded forwarding costs, by its modes' results: each beside a plain router's, beside
the best of those where VNFs forward themselves, and beside itself without route changes."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from headrace.record.frozen import Record
from headrace.record.rows import Result
from headrace.record.text import all_of
from headrace.record.verdict import Audit, Finding, Verdict, worst

BARE, STILL, UPDATED = "bare-metal", "offload", "offload-updates"
_CONVENTIONAL = "conventional-"
MAX, LOAD = "max", "fixed"
DISAGREE = 0.25  # of the median: the machine's doing

Rows = Mapping[str, Sequence[Result]]  # mode: one for each repetition


class Aim(NamedTuple):
    """What offloading is to keep or gain: the mode's throughput over another's."""

    mode: str
    other: str  # how its name, or theirs, begins
    key: str
    at_least: float
    text: str


AIMS = (
    Aim(STILL, BARE, "of_bare_metal", 0.95, "of bare metal's"),
    Aim(STILL, _CONVENTIONAL, "times_conventional", 5.0, "times the best conventional mode's"),
    Aim(UPDATED, STILL, "of_still", 0.80, "of the same without updates"),
)


class ModeRate(Record):
    """What a mode reached for one goal: the median over its repetitions."""

    goal: str
    loss_ratio: float | None  # that the goal allows
    pps: float
    spread: float | None  # of the median; None: a single measurement
    generator_bound: bool
    of_bare_metal: float | None
    times_conventional: float | None
    of_still: float | None


class ModeDelay(Record):
    """What it is at one load."""

    load_pps: float
    loss_ratio: float
    p50_ns: float | None
    p99_ns: float | None
    ipdv_ns: float | None


class OffloadMode(Record):
    mode: str
    verdict: Verdict
    cycles_per_packet: float | None  # of the router's lcore
    updates_per_s: float
    rates: tuple[ModeRate, ...]
    delays: tuple[ModeDelay, ...]
    audits: tuple[Audit, ...]


def offload_modes(results: Sequence[Result]) -> list[OffloadMode]:
    """Modes in the order in which they were measured."""
    modes: dict[str, list[Result]] = {}
    for one in results:
        modes.setdefault(one.execution, []).append(one)
    goals = list(dict.fromkeys(r.goal for r in results if r.goal != LOAD))
    by_goal = {
        goal: {mode: [r for r in rows if r.goal == goal] for mode, rows in modes.items()}
        for goal in goals
    }
    return [
        _mode(
            mode, rows, [_rate(mode, goal, by_goal[goal]) for goal in goals if by_goal[goal][mode]]
        )
        for mode, rows in modes.items()
    ]


def _mode(mode: str, rows: Sequence[Result], rates: Sequence[ModeRate]) -> OffloadMode:
    cycles = [c for r in rows if r.goal == MAX and (c := _cycles(r)) is not None]
    updates = [u for r in rows if r.goal == MAX and (u := _updates(r)) is not None]
    loads = dict.fromkeys(r.load_pps for r in rows if r.goal == LOAD)
    return OffloadMode(
        mode=mode,
        verdict=worst(r.audit.verdict for r in rows),
        cycles_per_packet=statistics.median(cycles) if cycles else None,
        updates_per_s=statistics.median(updates) if updates else 0.0,
        rates=tuple(rates),
        delays=tuple(
            _delay([r for r in rows if r.goal == LOAD and r.load_pps == load]) for load in loads
        ),
        audits=tuple(r.audit for r in rows),
    )


def _cycles(result: Result) -> float | None:
    """What the router's lcore, or the switch's poller, took for each packet, polling and all. VNFs
    that forward themselves are many, and no one lcore's."""
    chain = [s.name for s in result.segments if s.role == "chain"]
    hosted = any(s.hosting != "inline" for s in result.segments)
    if result.counters is None:
        return None
    if came := result.counters.dut.get("received"):
        return result.counters.dut["cycles"] / came
    if hosted or len(chain) != 1:
        return None
    replicas = [r for r in result.counters.replicas if r.segment == chain[0]]
    packets = sum(r.packets_in for r in replicas)
    return sum(r.ops_cycles for r in replicas) / packets if packets else None


def _updates(result: Result) -> float | None:
    return next((f.value for f in result.audit.findings if f.check == "updates"), None)


def _delay(rows: Sequence[Result]) -> ModeDelay:
    delays = [r.latency_ns for r in rows if r.latency_ns is not None]
    ipdv = [r.ipdv_ns_mean for r in rows if r.ipdv_ns_mean is not None]
    return ModeDelay(
        load_pps=rows[0].load_pps,
        loss_ratio=statistics.median(r.loss_ratio for r in rows),
        p50_ns=statistics.median(d.p50 for d in delays) if delays else None,
        p99_ns=statistics.median(d.p99 for d in delays) if delays else None,
        ipdv_ns=statistics.median(ipdv) if ipdv else None,
    )


def _rate(mode: str, goal: str, rows: Rows) -> ModeRate:
    own = rows[mode]
    rates = [_pps(r) for r in own]
    parameters = next((r.goal_parameters for r in own if r.goal_parameters), None)
    return ModeRate(
        goal=goal,
        loss_ratio=parameters.loss_ratio if parameters else None,
        pps=statistics.median(rates),
        spread=_spread(rates),
        generator_bound=any(_generator_bound(r) for r in own),
        of_bare_metal=ratio(own, rows.get(BARE)),
        times_conventional=_best_conventional(own, rows),
        of_still=ratio(own, rows.get(STILL)) if mode == UPDATED else None,
    )


def _pps(result: Result) -> float:
    """The load that a search found to be carried; else what came through."""
    if result.bounds is not None:
        return result.bounds.lower_pps or 0.0
    return result.throughput_pps


def _generator_bound(result: Result) -> bool:
    stopped = result.bounds is not None and result.bounds.stopped_by == "max-load"
    return stopped or result.audit.verdict == "generator-bound"


def _spread(rates: Sequence[float]) -> float | None:
    median = statistics.median(rates) if rates else 0.0
    return (max(rates) - min(rates)) / median if median and len(rates) > 1 else None


def ratio(rows: Sequence[Result], base: Sequence[Result] | None) -> float | None:
    """The median over repetitions, each against the one measured beside it: what the machine does
    meanwhile changes slowly."""
    beside = {r.repetition: _pps(r) for r in base or ()}
    ratios = [_pps(r) / other for r in rows if (other := beside.get(r.repetition, 0.0))]
    return statistics.median(ratios) if ratios else None


def _best_conventional(own: Sequence[Result], rows: Rows) -> float | None:
    """Compares with the best mode of the conventional ones."""
    ratios = [ratio(own, base) for mode, base in rows.items() if mode.startswith(_CONVENTIONAL)]
    return min((one for one in ratios if one is not None), default=None)


def verdicts(modes: Sequence[OffloadMode]) -> Iterator[str]:
    """What saturation and each goal come to."""
    by_mode = {one.mode: one for one in modes}
    for aim in AIMS:
        mode = by_mode.get(aim.mode)
        for rate in mode.rates if mode else ():
            value: float | None = getattr(rate, aim.key)
            if value is not None:
                met = "met" if value >= aim.at_least else "missed"
                sides = [m for m in modes if m is mode or m.mode.startswith(aim.other)]
                met += _doubt(rate.spread, all(one.verdict == "ok" for one in sides))
                name = "saturation" if rate.goal == MAX else rate.goal
                yield f"{aim.mode}, {name}: {value:.3g} {aim.text} (goal {aim.at_least:g}: {met})"


def _doubt(spread: float | None, trusted: bool) -> str:
    doubts = [] if trusted else ["that the audit doubts"]
    if spread is None:
        return ", by a single measurement" + "".join(f" {one}" for one in doubts)
    if spread > DISAGREE:
        doubts.insert(0, f"that spread by {spread:.0%}")
    return f", by measurements {all_of(doubts)}" if doubts else ""


def remarks(modes: Sequence[OffloadMode]) -> Iterator[str]:
    if any(rate.generator_bound for one in modes for rate in one.rates):
        yield "'≥': the generator made no more; the cycles of the router's lcore tell modes apart"
    for one in modes:
        for check, text in _worst_of(one.audits).items():
            times = sum(any(f.check == check for f in a.failed) for a in one.audits)
            yield f"{one.mode}: {one.verdict}, {times} of {len(one.audits)} trials: {text}"


def _worst_of(audits: Sequence[Audit]) -> dict[str, str]:
    """Failed checks, each in the words of the trial that failed it most. That the generator made no
    more is said by the figures' own sign."""
    by_check: dict[str, Finding] = {}
    for finding in (f for one in audits for f in one.failed if f.check != "generator-limit"):
        if (finding.value or 0) >= (by_check.get(finding.check, finding).value or 0):
            by_check[finding.check] = finding
    return {check: finding.text for check, finding in by_check.items()}
