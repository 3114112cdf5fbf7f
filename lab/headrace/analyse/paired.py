# SPDX-License-Identifier: Apache-2.0
"""How much one thing carries more than another: by the ratio of rates or capacities that were
measured beside each other in time, so that what the machine did to one it did to the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Literal

from headrace.analyse.lcores_moved import usual_trials
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
# Execution: its capacity in each turn, in packets per cycle of its cores.
Turns = Mapping[str, Sequence[float]]


def turns_of(trials: Sequence[Trial], chain: str, workload: str) -> dict[str, list[float]]:
    """Takes them from the comparison in turn. What left too little alone, or ran while the machine
    was in another state than in most, is in none: it was made again, beside the others."""
    usual = usual_trials(trials)
    turns: dict[str, list[float]] = {}
    for one in sorted(trials, key=lambda t: t.trial):
        if one.phase != "capacity" or (one.chain, one.workload) != (chain, workload):
            continue
        rates = turns.setdefault(one.execution, [])
        if one.capacity is not None and one.trial in usual:
            rates.append(one.capacity.per_cycle)
    return turns


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


def paired(name: str, base: str, turns: Turns, alone: Mapping[str, Capacity]) -> Paired:
    """Goes by the turns that both have; with fewer than two of them by the capacities
    themselves."""
    pairs = list(zip(turns.get(name, ()), turns.get(base, ()), strict=False))
    if len(pairs) > 1:
        return over(name, base, pairs)
    return _judged(name, base, _apart(alone[name], alone[base]), 1)


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
