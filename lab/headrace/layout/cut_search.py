# SPDX-License-Identifier: Apache-2.0
"""The layout with the highest predicted throughput, the lowest latency at a load, or the fewest
lcores that meet both: all layouts tried where they are few, CP-SAT beyond."""

from __future__ import annotations

import heapq
from dataclasses import replace

from headrace.layout import polled
from headrace.layout.cuts import (
    EXHAUSTIVE_MAX,
    Choice,
    improved,
    layouts,
    neighbours,
    usual,
    with_beside,
)
from headrace.layout.layout import Layout, Problem, throughput
from headrace.layout.polled import Took
from headrace.layout.predicted_latency import latency_s

_SIMULATED = 12  # of the layouts that are quickest by the turns of their lcores


def count(problem: Problem) -> int:
    """Layouts: compositions of the chain, each segment on some of the lcores."""
    some = (1 << len(problem.lcores)) - 1
    return some * int((1 + some) ** (len(problem.nfs) - 1))


def best(problem: Problem, limit: int = EXHAUSTIVE_MAX) -> Choice:
    if count(problem) <= limit:
        return exhaustive(problem)
    from headrace.layout.cpsat import solve  # a large library that few chains need

    return solve(problem)


def exhaustive(problem: Problem) -> Choice:
    best, rate = None, 0.0
    for layout in layouts(problem):
        predicted = throughput(problem, layout)
        # Of equals the simpler one: fewer rings, fewer lcores.
        if best is None or predicted > rate * (1 + 1e-9):
            best, rate = layout, predicted
    assert best is not None
    return Choice(best, rate, rate, f"all {count(problem)} layouts")


def leading(
    problem: Problem, choice: Choice, many: int, limit: int = EXHAUSTIVE_MAX
) -> list[Layout]:
    """The choice and those next to it by prediction; of many layouts, those that a step away."""
    near = layouts(problem) if count(problem) <= limit else neighbours(problem, choice.layout)
    fastest = heapq.nlargest(many, near, key=lambda one: throughput(problem, one))
    return list(dict.fromkeys((choice.layout, *fastest)))[:many]


def quickest(problem: Problem, rate_pps: float, limit: int = EXHAUSTIVE_MAX) -> Choice | None:
    """The lowest predicted latency at this load; None when no layout that was tried carries it."""
    fastest = best(problem, limit)
    if fastest.bound_pps < rate_pps * problem.delivered:
        return None

    def cost(layout: Layout) -> float:
        latency = latency_s(problem, layout, rate_pps)
        return float("inf") if latency is None else latency

    if count_beside(problem) <= limit:
        candidates = list(layouts(problem))
        candidates += [with_it for one in candidates for with_it in with_beside(problem, one)]
        how = f"all {len(candidates)} layouts"
        if problem.runs:
            how += ", functions side by side among them"
        leaders = heapq.nsmallest(_SIMULATED, candidates, key=cost)  # of equals the simplest first
    else:
        how = "the best of a search from several layouts; not proven"
        starts = (fastest.layout, *usual(problem))
        leaders = [improved(problem, one, cost) for one in starts]
    leaders = [one for one in leaders if cost(one) < float("inf")]
    expectations = [
        (at, one) for one in leaders if (at := expected(problem, one, rate_pps)) is not None
    ]
    if not expectations:
        return None
    took, chosen = min(expectations, key=lambda pair: pair[0].median_s)
    return Choice(chosen, throughput(problem, chosen), fastest.bound_pps, how, took.median_s)


def expected(problem: Problem, layout: Layout, rate_pps: float) -> Took | None:
    """The simulated latency; of functions side by side, which are not simulated, by their turns."""
    if layout.beside is None:
        return polled.took(problem, layout, rate_pps)
    typical = latency_s(problem, layout, rate_pps)
    return None if typical is None else Took(typical, None)


def count_beside(problem: Problem) -> int:
    """No fewer than the layouts with functions side by side, and without."""
    ways = sum(len(problem.lcores) ** (run.size - 1) for run in problem.runs)
    return int(count(problem) * (1 + ways))


def fewest(problem: Problem, rate_pps: float, within_s: float | None = None) -> Choice | None:
    """Cuts for as few lcores as reach the rate, and that within the latency; None when all do
    not."""
    for used in range(1, len(problem.lcores) + 1):
        part = replace(problem, lcores=problem.lcores[:used])
        if within_s is None:
            choice = best(part)
            if choice.predicted_pps >= rate_pps * problem.delivered:
                return choice
            continue
        quick = quickest(part, rate_pps)
        if quick is not None and quick.latency_s is not None and quick.latency_s <= within_s:
            return quick
    return None
