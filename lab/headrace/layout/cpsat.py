# SPDX-License-Identifier: Apache-2.0
"""Layouts of long chains on many lcores, by OR-tools' CP-SAT.

The solver's problem has every layout, each at no more than its own cost, so that its bound is one
of all layouts. What source and sink cost, and what the chain's ends pay for packets from the one
and to the other, is exact: it follows from where the first and the last segment run. Between
segments a ring is at its dearer cost but where both of its ends run on one lcore; what that saves
there is the most that it can. A segment has its lcore's tables to itself. From the solver's layout
and the usual ones a local search by the exact costs goes on; the best of what it finds is the
choice, and the bound says how far it can be from the best of all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ortools.sat.python import cp_model

from headrace.errors import HeadraceError
from headrace.layout.cuts import Choice, improved, usual
from headrace.layout.layout import SOURCE, Edge, Layout, Lcores, Problem, receiving, sending
from headrace.layout.layout import throughput as exact

_SCALE = 100  # CP-SAT counts in integers: hundredths of a cycle
_TIME_S = 5.0


@dataclass(frozen=True)
class _Item:
    """Functions first to end - 1 in one segment with so many replicas."""

    first: int
    end: int
    replicas: int
    chosen: Any
    on: dict[int, Any]


@dataclass(frozen=True)
class _Solved:
    layout: Layout
    load_bound: float  # cycles per packet of the source on the busiest lcore, at least


def solve(problem: Problem, time_s: float = _TIME_S) -> Choice:
    choice = _solve(problem, time_s)

    def cost(layout: Layout) -> float:
        return 1 / exact(problem, layout)

    starts = (choice.layout, *usual(problem))
    layout = min((improved(problem, one, cost) for one in starts), key=cost)
    bound = problem.tsc_hz * problem.kept * problem.delivered / choice.load_bound
    return Choice(layout, exact(problem, layout), bound, "CP-SAT and local search")


def _solve(problem: Problem, time_s: float) -> _Solved:
    model = cp_model.CpModel()
    items = list(_items(problem, model))
    traffic = problem.traffic
    loads: dict[int, list[Any]] = {
        cpu: [] for cpu in (*problem.lcores, traffic.generator, traffic.measure)
    }
    for item in items:
        for cpu, here in item.on.items():
            loads[cpu].append(_scaled(_own(problem, item, cpu)) * here)
        if item.first == 0:
            loads[traffic.generator] += _end(problem, item, Edge(SOURCE, 0, 1.0))
        for edge in _outward(problem, item):
            loads[traffic.measure] += _end(problem, item, edge)
    for cut in range(1, len(problem.nfs)):
        left = [item for item in items if item.end == cut]
        right = [item for item in items if item.first == cut]
        for cpu in problem.lcores:
            both = model.new_bool_var(f"both sides of {cut} @{cpu}")
            model.add(both <= sum(item.on[cpu] for item in left))
            model.add(both <= sum(item.on[cpu] for item in right))
            most = max(_saved(problem, a, cpu, cut) for a in left)
            most += max(_saved(problem, b, cpu, cut) for b in right)
            loads[cpu].append(-math.ceil(most * _SCALE) * both)
    worst = model.new_int_var(0, 1 << 40, "worst")
    for terms in loads.values():
        model.add(sum(terms) <= worst)
    # Implied, but not by what the solver relaxes the problem to: the busiest has the mean at least.
    model.add(worst >= math.floor(_mean(problem, items) * _SCALE))
    model.minimize(worst)
    return _answer(model, items, problem, time_s)


def _items(problem: Problem, model: Any) -> Iterator[_Item]:
    n = len(problem.nfs)
    covering: list[list[Any]] = [[] for _ in problem.nfs]
    for first in range(n):
        for end in range(first + 1, n + 1):
            for replicas in range(1, len(problem.lcores) + 1):
                name = f"{first}-{end}x{replicas}"
                chosen = model.new_bool_var(name)
                on = {cpu: model.new_bool_var(f"{name}@{cpu}") for cpu in problem.lcores}
                model.add(sum(on.values()) == replicas * chosen)
                # Somewhere to begin: run to completion, on all.
                whole = (first, end, replicas) == (0, n, len(problem.lcores))
                for variable in (chosen, *on.values()):
                    model.add_hint(variable, whole)
                for i in range(first, end):
                    covering[i].append(chosen)
                yield _Item(first, end, replicas, chosen, on)
    for each in covering:
        model.add_exactly_one(each)


def _own(problem: Problem, item: _Item, cpu: int) -> float:
    """What the segment costs one of its lcores, packets of other segments coming from elsewhere."""
    own, home = _replicas(problem, item, cpu), _home(problem, item)
    traffic, total = problem.traffic, 0.0
    for edge in problem.ways:
        enters, leaves = (item.first <= at < item.end for at in (edge.target, edge.origin))
        if enters and not leaves:
            of = (traffic.generator,) if edge.origin == SOURCE else ()
            near: list[Lcores] = [of] if edge.origin in (SOURCE, item.first - 1) else [(), own]
            total += edge.share * min(receiving(problem, home, edge, cpu, o, own) for o in near)
        if leaves and not enters:
            to = (traffic.measure,) if edge.target == len(problem.nfs) else ()
            far: list[Lcores] = [to] if edge.target >= item.end and to else [()]
            if not to and edge.target != item.end:
                far.append(own)
            total += edge.share * min(sending(problem, edge, cpu, own, t) for t in far)
    crowd = None
    if problem.tables:
        crowd = sum(problem.nfs[i].relief for i in range(item.first, item.end)) / problem.tables
        crowd /= item.replicas
    for i in range(item.first, item.end):
        inside = problem.on(cpu)[i].inside(item.replicas > 1, crowd)
        total += problem.visits[i] * inside
    return total / item.replicas


def _saved(problem: Problem, item: _Item, cpu: int, cut: int) -> float:
    """The most that its lcore is spared where what is at the other side of a cut is there, too."""
    own, home, total = _replicas(problem, item, cpu), _home(problem, item), 0.0
    others: list[Lcores] = [(), (cpu,), own]
    for edge in problem.ways:
        if (edge.origin, edge.target) == (cut - 1, cut):
            if item.first == cut:
                costs = [receiving(problem, home, edge, cpu, o, own) for o in others]
            else:
                costs = [sending(problem, edge, cpu, own, o) for o in others]
            total += edge.share * max(0.0, costs[0] - min(costs))
    return total / item.replicas


def _mean(problem: Problem, items: Sequence[_Item]) -> float:
    """Mean load of all lcores, when the chain is cut so that they have the least to do together."""
    n, traffic = len(problem.nfs), problem.traffic
    least = [0.0] + [float("inf")] * n
    for item in sorted(items, key=lambda one: one.first):
        each = min(
            _own(problem, item, cpu)
            - (_saved(problem, item, cpu, item.first) if item.first else 0.0)
            - (_saved(problem, item, cpu, item.end) if item.end < n else 0.0)
            for cpu in problem.lcores
        )
        total = each * item.replicas + sum(
            edge.share * min(_at_ends(problem, item, edge))
            for edge in ([Edge(SOURCE, 0, 1.0)] if item.first == 0 else [])
            + _outward(problem, item)
        )
        least[item.end] = min(least[item.end], least[item.first] + total)
    return least[n] / len({*problem.lcores, traffic.generator, traffic.measure})


def _end(problem: Problem, item: _Item, edge: Edge) -> list[Any]:
    """The source's, or the sink's, cost of packets to or from this segment."""
    traffic = problem.traffic
    cpu = traffic.generator if edge.origin == SOURCE else traffic.measure
    apart, here = (_scaled(edge.share * cycles) for cycles in _at_ends(problem, item, edge))
    terms = [apart * item.chosen]
    return [*terms, (here - apart) * item.on[cpu]] if cpu in item.on else terms


def _at_ends(problem: Problem, item: _Item, edge: Edge) -> tuple[float, float]:
    """Apart from each of the segment's lcores, and on one of them."""
    hop = problem.traffic.source if edge.origin == SOURCE else problem.traffic.sink
    several = item.replicas > 1
    return hop.mixed(0.0, several), hop.mixed(1 / item.replicas, several)


def _outward(problem: Problem, item: _Item) -> list[Edge]:
    n = len(problem.nfs)
    return [e for e in problem.ways if e.target == n and item.first <= e.origin < item.end]


def _replicas(problem: Problem, item: _Item, cpu: int) -> Lcores:
    """Some lcores that it can be on, this one among them."""
    return (cpu, *(c for c in problem.lcores if c != cpu))[: item.replicas]


def _home(problem: Problem, item: _Item) -> dict[int, int]:
    return {i: int(item.first <= i < item.end) for i in range(-1, len(problem.nfs) + 1)}


def _scaled(cycles: float) -> int:
    return math.floor(cycles * _SCALE)


def _answer(model: Any, items: list[_Item], problem: Problem, time_s: float) -> _Solved:
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = time_s
    solver.parameters.num_workers = 2
    solver.parameters.random_seed = 1
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise HeadraceError(f"plan: the solver found no layout within {time_s:g} s")
    taken = sorted((i for i in items if solver.value(i.chosen)), key=lambda item: item.first)
    layout = Layout(
        tuple(item.end - item.first for item in taken),
        tuple(tuple(c for c in problem.lcores if solver.value(item.on[c])) for item in taken),
    )
    return _Solved(layout, max(1.0, solver.best_objective_bound) / _SCALE)
