# SPDX-License-Identifier: Apache-2.0
"""How much one thing carries more than another: by the ratio of rates or capacities that were
measured beside each other in time, so that what the machine did to one it did to the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Literal

from headrace.model.lines_between import same_state
from headrace.model.usual_trials import cpus_of, usual_trials
from headrace.record.estimates import Capacity, Interval, Paired
from headrace.record.rows import Trial

# Student's t at 97.5 %, by degrees of freedom; beyond 30 that of 30, which is wider.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
# Two are said to tie where the interval of their ratio leaves room for no more difference than
# this, one way or the other. One that is wider and contains 1 has not shown them to be equal.
TIE_WITHIN = 0.1
PRECISE = 0.03  # half of a ratio's interval: narrow enough to stop at, whatever it says
Rates = Mapping[str, Sequence[float]]  # of an execution in each turn, packets per cycle of a core


@dataclass(frozen=True)
class Rounds:
    """Capacities of executions that were started one after the other. `every`: also turns in
    another state of the machine, each of one; their ratios differ by more, as a line between
    lcores is not as dear to each execution."""

    rates: Rates
    every: Rates = field(default_factory=dict)

    def pairs(self, name: str, base: str) -> tuple[list[tuple[float, float]], ...]:
        """Those of the one state, and those of all."""
        each = (self.rates, self.every)
        return tuple(list(zip(r.get(name, ()), r.get(base, ()), strict=False)) for r in each)


def turns_of(trials: Sequence[Trial], chain: str, workload: str) -> Rounds:
    """Takes them from the comparison in turn. A turn is a start of each execution with as little
    time between them as there may be, as lcores that are elsewhere for some seconds change all of
    them. What left too little alone is in none: it was made again, beside the others."""
    in_turn = (one for one in trials if one.phase == "capacity")
    own = [one for one in in_turn if (one.chain, one.workload) == (chain, workload)]
    names = list(dict.fromkeys(one.execution for one in own))
    told = sorted((t for t in own if t.capacity is not None), key=lambda t: t.trial)
    usual = usual_trials(trials)
    states: list[list[Trial]] = []
    for one in told:
        own_state = next((some for some in states if _same_state(one, some[0])), None)
        if own_state is None:
            states.append([one])
        else:
            own_state.append(one)
    each = [_rounds(names, some) for some in states]
    every = {name: [rate for rounds in each for rate in rounds[name]] for name in names}
    return Rounds(_rounds(names, [one for one in told if one.trial in usual]), every)


def _rounds(names: Sequence[str], told: Sequence[Trial]) -> dict[str, list[float]]:
    turns: dict[str, list[float]] = {name: [] for name in names}
    latest: dict[str, Trial] = {}
    for one in told:
        latest[one.execution] = one
        if len(latest) == len(names):
            for name, trial in latest.items():
                assert trial.capacity is not None  # it would have told nothing
                turns[name].append(trial.capacity.per_cycle)
            latest.clear()
    return turns


def _same_state(one: Trial, other: Trial) -> bool:
    """Whether lines cost the same; between other lcores they do not tell."""
    apart = cpus_of(one) != cpus_of(other)
    return apart or same_state(one.line_cycles, other.line_cycles)


def quietest_of(trials: Sequence[Trial], chain: str, workload: str) -> dict[str, Trial]:
    """Finds for each execution the trial of the comparison, in the machine's commonest state, whose
    lcores others took least."""
    quietest: dict[str, Trial] = {}
    usual = usual_trials(trials)
    for one in trials:
        if one.trial not in usual:
            continue
        if one.phase != "capacity" or (one.chain, one.workload) != (chain, workload):
            continue
        if one.counters is not None and _away(one) < _away(quietest.get(one.execution)):
            quietest[one.execution] = one
    return quietest


def _away(one: Trial | None) -> float:
    """The largest share of a chain's lcore that others took; of no trial more than any."""
    if one is None or one.counters is None:
        return math.inf
    cpus = {cpu for s in one.segments if s.role == "chain" for cpu in s.cpus}
    return max((w.away for w in one.counters.workers if w.cpu in cpus), default=1.0)


def paired(name: str, base: str, turns: Rounds, alone: Mapping[str, Capacity]) -> Paired:
    """Goes by the turns that both have in the state of the machine that capacities are of; where
    these do not tell, by those in every state, if there are more; with fewer than two of them by
    the capacities themselves."""
    pairs, every = turns.pairs(name, base)
    judged = over(name, base, pairs) if len(pairs) > 1 else None
    if (judged is None or judged.verdict == "unknown") and len(every) > max(1, len(pairs)):
        return over(name, base, every).model_copy(update={"mixed": True})
    return judged or _judged(name, base, _apart(alone[name], alone[base]), 1)


def decided(turns: Rounds, asked: int) -> bool:
    """Whether a comparison may stop: each of the others is behind what carries most, or its ratio
    to it is known precisely. After as many turns as were `asked` for, 1 has to be outside of the
    interval; who looks again after each further turn until it is finds differences that are none,
    so from then on it goes by how wide the interval is (Chow and Robbins 1965, On the asymptotic
    theory of fixed-width sequential confidence intervals for the mean), and by half of the
    difference where that is more."""
    if asked < 2 or not any(turns.every.values()):
        return True  # no interval is to be had
    pairs = min(map(len, turns.rates.values()))
    rates = turns.rates if pairs > 1 else turns.every
    if min(map(len, rates.values())) < 2:
        return False
    first = max(rates, key=lambda name: fmean(map(math.log, rates[name])))
    ratios = [paired(first, name, turns, {}) for name in rates if name != first]
    if all(one.verdict == "faster" and one.pairs <= asked for one in ratios):
        return True
    far = (max(PRECISE, (one.ratio.value - 1) / 2) for one in ratios)
    return all(one.ratio.half <= most for one, most in zip(ratios, far, strict=True))


def over(name: str, base: str, pairs: Sequence[tuple[float, float]]) -> Paired:
    """The geometric mean of the ratios of two or more pairs (`name`'s figure, `base`'s; above 0),
    with Student's interval of the logarithms. A machine that is slower for both of a pair changes
    neither."""
    logs = [math.log(ours / theirs) for ours, theirs in pairs]
    middle, n = fmean(logs), len(logs)
    half = _T[min(n - 1, len(_T)) - 1] * stdev(logs) / math.sqrt(n)
    bounds = (math.exp(middle + side) for side in (0.0, -half, half))
    value, low, high = bounds
    return _judged(name, base, Interval(value=value, low=low, high=high), n)


def _judged(name: str, base: str, ratio: Interval, pairs: int) -> Paired:
    verdict: Literal["faster", "slower", "tie", "unknown"] = "unknown"
    if ratio.low > 1:
        verdict = "faster"
    elif ratio.high < 1:
        verdict = "slower"
    elif ratio.low >= 1 / (1 + TIE_WITHIN) and ratio.high <= 1 + TIE_WITHIN:
        verdict = "tie"
    return Paired(name=name, base=base, ratio=ratio, pairs=pairs, verdict=verdict)


def _apart(a: Capacity, b: Capacity) -> Interval:
    """Two that were measured by themselves: their relative half widths in quadrature."""
    value = a.per_cycle / b.per_cycle
    half = value * math.hypot(a.pps.half / a.pps.value, b.pps.half / b.pps.value)
    return Interval(value=value, low=value - half, high=value + half)
