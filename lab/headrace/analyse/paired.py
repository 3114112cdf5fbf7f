# SPDX-License-Identifier: Apache-2.0
"""How much one execution carries more than another: by the ratio of capacities that were measured
beside each other in time, so that what the machine did to one it did to the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Literal

from headrace.record.estimates import Capacity, Interval, Paired
from headrace.record.rows import Trial

# Student's t at 97.5 %, for 1, 2, 3 ... degrees of freedom; beyond them the normal distribution's.
_T = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
      2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086)  # fmt: skip
_NORMAL = 1.96
# Execution: its capacity in each turn, in packets per cycle of its cores.
Turns = Mapping[str, Sequence[float | None]]


def turns_of(trials: Sequence[Trial], chain: str, workload: str) -> dict[str, list[float | None]]:
    """From the comparison in turn; None: too little of that turn was left alone."""
    last: dict[tuple[str, int], float | None] = {}
    turn: dict[str, int] = {}
    order: list[str] = []
    for one in sorted(trials, key=lambda t: t.trial):
        if one.phase != "capacity" or (one.chain, one.workload) != (chain, workload):
            continue
        if not order or order[-1] != one.execution:
            turn[one.execution] = turn.get(one.execution, 0) + 1
            order.append(one.execution)
        rate = None if one.capacity is None else _per_cycle(one.capacity)
        last[one.execution, turn[one.execution]] = rate
    return {name: [last[name, n] for n in range(1, count + 1)] for name, count in turn.items()}


def quietest_of(trials: Sequence[Trial], chain: str, workload: str) -> dict[str, Trial]:
    """For each execution the trial of the comparison whose lcores others took least."""
    quietest: dict[str, Trial] = {}
    for one in trials:
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
    """By the turns that both have; with fewer than two of them by the capacities themselves."""
    pairs = [
        (a, b)
        for a, b in zip(turns.get(name, ()), turns.get(base, ()), strict=False)
        if a is not None and b is not None
    ]
    ratio = _over(pairs) if len(pairs) > 1 else _apart(alone[name], alone[base])
    verdict: Literal["faster", "slower", "tie"] = "tie"
    if ratio.low > 1:
        verdict = "faster"
    elif ratio.high < 1:
        verdict = "slower"
    return Paired(name=name, base=base, ratio=ratio, pairs=max(1, len(pairs)), verdict=verdict)


def _over(pairs: Sequence[tuple[float, float]]) -> Interval:
    logs = [math.log(a / b) for a, b in pairs]
    middle, n = fmean(logs), len(logs)
    t = _T[n - 2] if n - 2 < len(_T) else _NORMAL
    half = t * stdev(logs) / math.sqrt(n)
    return Interval(
        value=math.exp(middle), low=math.exp(middle - half), high=math.exp(middle + half)
    )


def _per_cycle(one: Capacity) -> float:
    """Packets per cycle of a core: each trial had its own clock."""
    return one.pps.value / one.clock_hz


def _apart(a: Capacity, b: Capacity) -> Interval:
    """Two that were measured by themselves: their relative half widths in quadrature."""
    value = _per_cycle(a) / _per_cycle(b)
    half = value * math.hypot(a.pps.half / a.pps.value, b.pps.half / b.pps.value)
    return Interval(value=value, low=value - half, high=value + half)
