# SPDX-License-Identifier: Apache-2.0
"""Layouts of long chains on many lcores, by OR-tools' CP-SAT.

What a ring costs depends on whether its two ends are on one lcore, which would make the loads
products of decisions. Two linear problems stand in: with every hop at its cheaper cost, whose bound
no layout exceeds, and with every hop at its dearer one. From their layouts and the usual ones a
local search by the exact costs goes on; the best of what it finds is the choice, and the bound says
how far it can be from the best of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ortools.sat.python import cp_model

from headrace.errors import HeadraceError
from headrace.optimize.layout import Hop, Layout, Problem, segment, throughput
from headrace.optimize.search import Choice, improved, usual

_SCALE = 100  # CP-SAT counts in integers: hundredths of a cycle
_TIME_S = 5.0


@dataclass(frozen=True)
class _Solved:
    layout: Layout
    load_bound: float  # cycles per packet of the busiest lcore, at least


def solve(problem: Problem, time_s: float = _TIME_S) -> Choice:
    low, high = _solve(problem, True, time_s), _solve(problem, False, time_s)

    def cost(layout: Layout) -> float:
        return 1 / throughput(problem, layout)

    starts = (low.layout, high.layout, *usual(problem))
    layout = min((improved(problem, one, cost) for one in starts), key=cost)
    bound = problem.tsc_hz * problem.kept / low.load_bound
    return Choice(layout, throughput(problem, layout), bound, "CP-SAT and local search")


def _solve(problem: Problem, cheap: bool, time_s: float) -> _Solved:
    model = cp_model.CpModel()
    n, lcores = len(problem.nfs), problem.lcores
    loads: dict[int, list[Any]] = {cpu: [] for cpu in lcores}
    covering: list[list[Any]] = [[] for _ in range(n)]
    items = []
    for first in range(n):
        for end in range(first + 1, n + 1):
            for replicas in range(1, len(lcores) + 1):
                chosen = model.new_bool_var(f"{first}-{end}x{replicas}")
                on = [model.new_bool_var(f"{first}-{end}x{replicas}@{c}") for c in lcores]
                model.add(sum(on) == replicas * chosen)
                share = _cost(problem, first, end, replicas > 1, cheap) / replicas
                cycles = int(share * _SCALE) if cheap else int(share * _SCALE) + 1
                for cpu, here in zip(lcores, on, strict=True):
                    loads[cpu].append(cycles * here)
                for i in range(first, end):
                    covering[i].append(chosen)
                items.append((first, end, chosen, on))
    for each in covering:
        model.add_exactly_one(each)
    fixed = _fixed(problem, cheap)
    worst = model.new_int_var(0, 1 << 40, "worst")
    for cpu, terms in loads.items():
        model.add(sum(terms) + int(fixed.get(cpu, 0.0) * _SCALE) <= worst)
    for cpu, cycles_alone in fixed.items():
        if cpu not in loads:
            model.add(worst >= int(cycles_alone * _SCALE))
    # Implied, but not by what the solver relaxes the problem to: with it a bound is there at once.
    model.add(worst >= int(_least(problem, fixed, cheap) * _SCALE))
    model.minimize(worst)
    for first, end, chosen, on in items:  # somewhere to begin: run to completion, on all
        whole = end - first == n and chosen.name == f"0-{n}x{len(lcores)}"
        for variable in (chosen, *on):
            model.add_hint(variable, whole)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = time_s
    solver.parameters.num_workers = 2
    solver.parameters.random_seed = 1
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise HeadraceError(f"plan: the solver found no layout within {time_s:g} s")
    taken = sorted((item for item in items if solver.value(item[2])), key=lambda item: item[0])
    layout = Layout(
        tuple(end - first for first, end, *_ in taken),
        tuple(
            tuple(cpu for cpu, here in zip(lcores, on, strict=True) if solver.value(here))
            for *_, on in taken
        ),
    )
    return _Solved(layout, max(1.0, solver.best_objective_bound) / _SCALE)


def _least(problem: Problem, fixed: dict[int, float], cheap: bool) -> float:
    """No lcore can have less than the mean when all work is at its cheapest: the shortest way over
    the chain's cuts, shared by all lcores."""
    n = len(problem.nfs)
    least = [0.0] + [float("inf")] * n
    for end in range(1, n + 1):
        for first in range(end):
            each = min(_cost(problem, first, end, several, cheap) for several in (False, True))
            least[end] = min(least[end], least[first] + each)
    shared = sum(cycles for cpu, cycles in fixed.items() if cpu in problem.lcores)
    return (least[n] + shared) / len(problem.lcores)


def _cost(problem: Problem, first: int, end: int, replicated: bool, cheap: bool) -> float:
    nfs = problem.nfs[first:end]
    costs = [segment(nfs, a, b, replicated, first > 0) for a in (0.0, 1.0) for b in (0.0, 1.0)]
    return min(costs) if cheap else max(costs) + problem.traffic.steer


def _fixed(problem: Problem, cheap: bool) -> dict[int, float]:
    traffic = problem.traffic
    found: dict[int, float] = {}
    for cpu, hop in ((traffic.generator, traffic.source), (traffic.measure, traffic.sink)):
        found[cpu] = found.get(cpu, 0.0) + _hop(hop, cheap)
    return found


def _hop(hop: Hop, cheap: bool) -> float:
    costs: list[float] = [hop.same, hop.apart, *([] if hop.spread is None else [hop.spread])]
    return min(costs) if cheap else max(costs)
