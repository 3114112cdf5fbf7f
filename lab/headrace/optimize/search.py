# SPDX-License-Identifier: Apache-2.0
"""The layout with the highest predicted throughput: all of them tried where they are few, CP-SAT
beyond."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.optimize.layout import Layout, Lcores, Problem, throughput

EXHAUSTIVE_MAX = 200_000


@dataclass(frozen=True)
class Choice:
    """`bound_pps`: no layout does better, by the same costs."""

    layout: Layout
    predicted_pps: float
    bound_pps: float
    how: str

    @property
    def gap(self) -> float:
        return max(0.0, self.bound_pps / self.predicted_pps - 1)


def count(problem: Problem) -> int:
    """Layouts: compositions of the chain, each segment on some of the lcores."""
    some = (1 << len(problem.lcores)) - 1
    return some * int((1 + some) ** (len(problem.nfs) - 1))


def best(problem: Problem, limit: int = EXHAUSTIVE_MAX) -> Choice:
    if count(problem) <= limit:
        return exhaustive(problem)
    from headrace.optimize.cpsat import solve  # a large library that few chains need

    return solve(problem)


def exhaustive(problem: Problem) -> Choice:
    found, rate = None, 0.0
    for layout in layouts(problem):
        predicted = throughput(problem, layout)
        # Of equals the simpler one: fewer rings, fewer lcores.
        if found is None or predicted > rate * (1 + 1e-9):
            found, rate = layout, predicted
    assert found is not None
    return Choice(found, rate, rate, f"all {count(problem)} layouts")


def layouts(problem: Problem) -> Iterator[Layout]:
    """The fewer segments and lcores the earlier."""
    choices = subsets(problem.lcores)
    n = len(problem.nfs)
    for segments in range(1, n + 1):
        for cuts in compositions(n, segments):
            for on in itertools.product(choices, repeat=segments):
                yield Layout(cuts, on)


def subsets(lcores: Lcores) -> list[Lcores]:
    sizes = range(1, len(lcores) + 1)
    return [c for size in sizes for c in itertools.combinations(lcores, size)]


def compositions(n: int, parts: int) -> Iterator[tuple[int, ...]]:
    """n as an ordered sum of so many numbers, each at least 1."""
    for bars in itertools.combinations(range(1, n), parts - 1):
        edges = (0, *bars, n)
        yield tuple(b - a for a, b in itertools.pairwise(edges))


def run_to_completion(problem: Problem) -> Layout:
    return Layout((len(problem.nfs),), (problem.lcores,))


def pipeline(problem: Problem) -> Layout:
    """One segment per function, one replica each, on the lcores that suit best. Few enough are
    tried one by one; otherwise each function goes where the load is least so far."""
    n = len(problem.nfs)
    cuts = (1,) * n
    if len(problem.lcores) ** n <= EXHAUSTIVE_MAX:
        candidates = (
            Layout(cuts, tuple((cpu,) for cpu in on))
            for on in itertools.product(problem.lcores, repeat=n)
        )
        return max(candidates, key=lambda layout: throughput(problem, layout))
    burden = dict.fromkeys(problem.lcores, 0.0)
    if problem.traffic.generator in burden:
        burden[problem.traffic.generator] += problem.traffic.source.apart
    if problem.traffic.measure in burden:
        burden[problem.traffic.measure] += problem.traffic.sink.apart
    on = []
    for nf in problem.nfs:
        cpu = min(burden, key=lambda c: burden[c])
        burden[cpu] += nf.rx.apart + nf.work.apart + nf.tx.apart + nf.loop
        on.append((cpu,))
    return Layout(cuts, tuple(on))


def fewest(problem: Problem, rate_pps: float) -> Choice | None:
    """On as few lcores as reach the rate; None when all of them do not."""
    for used in range(1, len(problem.lcores) + 1):
        part = Problem(problem.nfs, problem.traffic, problem.lcores[:used], problem.tsc_hz)
        choice = best(part)
        if choice.predicted_pps >= rate_pps:
            return choice
    return None
