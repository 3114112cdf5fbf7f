# SPDX-License-Identifier: Apache-2.0
"""All cuts of a chain on lcores: each of them, those that a step away, and the usual ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from headrace.layout.layout import Beside, Layout, Lcores, Problem, Run, throughput

EXHAUSTIVE_MAX = 200_000


@dataclass(frozen=True)
class Choice:
    """`bound_pps`: no layout does better, by the same costs. `latency_s`: predicted, at the load
    that was asked for."""

    layout: Layout
    predicted_pps: float
    bound_pps: float
    how: str
    latency_s: float | None = None

    @property
    def gap(self) -> float:
        return max(0.0, self.bound_pps / self.predicted_pps - 1)


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


def with_beside(problem: Problem, layout: Layout) -> Iterator[Layout]:
    """The same with functions side by side that may be, where a segment of one replica holds
    them: those behind the first on other lcores than its own."""
    first = 0
    for size, on in zip(layout.cuts, layout.lcores, strict=True):
        inside = [run for run in problem.runs if _holds(first, size, run)]
        first += size
        others = [cpu for cpu in problem.lcores if cpu != on[0]]
        for run in inside if len(on) == 1 else ():
            for lcores in itertools.product(others, repeat=run.size - 1):
                yield replace(layout, beside=Beside(run, lcores))


def _holds(first: int, size: int, run: Run) -> bool:
    return first <= run.first and run.first + run.size <= first + size


def improved(problem: Problem, layout: Layout, cost: Callable[[Layout], float]) -> Layout:
    """The best neighbour, as long as there is a better one."""
    least = cost(layout)
    while True:
        candidates = [(cost(one), i, one) for i, one in enumerate(neighbours(problem, layout))]
        load, _, following = min(candidates, default=(least, 0, layout))
        if load >= least * (1 - 1e-9):
            return layout
        layout, least = following, load


def neighbours(problem: Problem, layout: Layout) -> Iterator[Layout]:
    """One cut moved, removed or added; one segment on one lcore more, less, or another; functions
    put side by side, or no longer."""
    cuts, lcores = layout.cuts, layout.lcores
    if layout.beside:
        yield replace(layout, beside=None)
    yield from with_beside(problem, replace(layout, beside=None))
    for i, on in enumerate(lcores):
        for other in _changed(problem.lcores, on):
            yield Layout(cuts, (*lcores[:i], other, *lcores[i + 1 :]))
        for size in range(1, cuts[i]):
            split = (*cuts[:i], size, cuts[i] - size, *cuts[i + 1 :])
            for cpu in problem.lcores:
                yield Layout(split, (*lcores[:i], on, (cpu,), *lcores[i + 1 :]))
                yield Layout(split, (*lcores[:i], (cpu,), on, *lcores[i + 1 :]))
    for i, (a, b) in enumerate(itertools.pairwise(cuts)):
        for on in dict.fromkeys((lcores[i], lcores[i + 1])):
            yield Layout((*cuts[:i], a + b, *cuts[i + 2 :]), (*lcores[:i], on, *lcores[i + 2 :]))
        for step in (-1, 1):
            if a + step and b - step:
                yield Layout((*cuts[:i], a + step, b - step, *cuts[i + 2 :]), lcores)


def _changed(lcores: Lcores, on: Lcores) -> Iterator[Lcores]:
    for cpu in lcores:
        if cpu not in on:
            yield tuple(sorted((*on, cpu)))
            for gone in on:
                yield tuple(sorted((*(c for c in on if c != gone), cpu)))
        elif len(on) > 1:
            yield tuple(c for c in on if c != cpu)


def usual(problem: Problem) -> tuple[Layout, Layout]:
    return run_to_completion(problem), pipeline(problem)
