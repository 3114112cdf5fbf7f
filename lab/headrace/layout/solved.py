# SPDX-License-Identifier: Apache-2.0
"""The placement of some ways' segments by CP-SAT: exactly, where all ways are given.

Each chain's way is a path over (functions done, area); a segment of it has one number of replicas,
each on an lcore of its own. Lcores of an area are alike: the fuller one comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ortools.sat.python import cp_model

from headrace.layout.cheapest import ChainWay, SegmentKey
from headrace.layout.packed import Draft, PackedArea, Packer
from headrace.layout.placing import areas_of, between, capacity, from_door, segment_uses
from headrace.spec.placement import WHOLE, ChosenSegment

_WORKERS = 2


@dataclass(frozen=True)
class Arc:
    """`before`: the area of the segment before, or minus one and the door's number."""

    chain: int
    before: int
    segment: SegmentKey


@dataclass
class _PlacementModel:
    packer: Packer
    model: Any
    arcs: dict[Arc, Any] = field(default_factory=dict)
    segments: dict[tuple[int, SegmentKey], Any] = field(default_factory=dict)
    replicas: dict[tuple[int, SegmentKey, int], Any] = field(default_factory=dict)
    on: dict[tuple[int, SegmentKey, int], list[Any]] = field(default_factory=dict)


def all_arcs(packer: Packer) -> list[Arc]:
    """All that any way has."""
    problem, arcs = packer.problem, []
    for c, chain in enumerate(problem.chains):
        n = len(chain.functions)
        for d, door in enumerate(chain.doors):
            areas = areas_of(problem, door.server)
            for a in areas:
                come = from_door(problem, door, a)
                arcs += [Arc(c, -1 - d, SegmentKey(0, end, a, come)) for end in range(1, n + 1)]
        for server in {door.server for door in chain.doors}:
            areas = areas_of(problem, server)
            arcs += [
                Arc(c, b, SegmentKey(first, end, a, between(problem, b, a)))
                for b in areas
                for a in areas
                for first in range(1, n)
                for end in range(first + 1, n + 1)
            ]
    return arcs


def size(packer: Packer, arcs: Sequence[Arc]) -> int:
    """Variables that the model would have."""
    segments = {(arc.chain, arc.segment) for arc in arcs}
    return sum(packer.most(c, key) * (packer.areas[key.area] + 1) for c, key in segments)


def solve(
    packer: Packer, arcs: Sequence[Arc], start: Draft | None, bound: int, seconds: float
) -> tuple[Draft | None, bool]:
    """The best draft of these arcs, and whether it is proved to be that."""
    built = _PlacementModel(packer, cp_model.CpModel())
    _paths(built, arcs)
    loads = _lcores(built)
    _counts(built, loads, bound, start)
    if start is not None:
        _hint(built, start)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(0.1, seconds)
    solver.parameters.num_workers = _WORKERS
    solver.parameters.random_seed = 1
    status = solver.solve(built.model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, status == cp_model.INFEASIBLE
    return _read(built, solver), status == cp_model.OPTIMAL


def _paths(built: _PlacementModel, arcs: Sequence[Arc]) -> None:
    model, problem = built.model, built.packer.problem
    enter: dict[tuple[int, int, int], list[Any]] = {}
    leave: dict[tuple[int, int, int], list[Any]] = {}
    begun: dict[int, list[Any]] = {}
    ended: dict[int, list[Any]] = {}
    by_segment: dict[tuple[int, SegmentKey], list[Any]] = {}
    for arc in arcs:
        key, variable = arc.segment, model.new_bool_var("")
        built.arcs[arc] = variable
        by_segment.setdefault((arc.chain, key), []).append(variable)
        if arc.before < 0:
            begun.setdefault(arc.chain, []).append(variable)
        else:
            leave.setdefault((arc.chain, key.first, arc.before), []).append(variable)
        if key.end == len(problem.chains[arc.chain].functions):
            ended.setdefault(arc.chain, []).append(variable)
        else:
            enter.setdefault((arc.chain, key.end, key.area), []).append(variable)
    for c in range(len(problem.chains)):
        model.add_exactly_one(begun[c])
        model.add_exactly_one(ended[c])
    for node in enter.keys() | leave.keys():
        model.add(sum(enter.get(node, [])) == sum(leave.get(node, [])))
    for name, several in by_segment.items():
        built.segments[name] = model.new_bool_var("")
        model.add(built.segments[name] == sum(several))


def _lcores(built: _PlacementModel) -> list[list[Any]]:
    """Loads of lcores; the fuller one of an area comes first."""
    model, packer = built.model, built.packer
    loads: list[list[list[Any]]] = [[[] for _ in range(n)] for n in packer.areas]
    polled: list[list[list[Any]]] = [[[] for _ in range(n)] for n in packer.areas]
    for (c, key), used in built.segments.items():
        options = []
        for k in range(1, packer.most(c, key) + 1):
            variable, item = model.new_bool_var(""), packer.item(c, key, k)
            built.replicas[c, key, k] = variable
            options.append(variable)
            lcores = packer.areas[key.area]
            on = (
                [variable] * lcores
                if k == lcores
                else [model.new_bool_var("") for _ in range(lcores)]
            )
            if k < lcores:
                model.add(sum(on) == k * variable)
            built.on[c, key, k] = on
            for i, here in enumerate(on):
                loads[key.area][i].append(item * here)
                polled[key.area][i].append(here)
        model.add(sum(options) == used)
    most = packer.problem.lcore_segments
    for area in range(len(packer.areas)):
        sums = [sum(terms) for terms in loads[area]]
        for i, terms in enumerate(polled[area]):
            model.add(sum(terms) <= most)
            if i:
                model.add(sums[i - 1] >= sums[i])
        loads[area] = sums
    return loads


def _uses(built: _PlacementModel) -> tuple[list[list[Any]], list[list[Any]]]:
    """Terms of what each limit has, and of each chain's latency."""
    problem, tables = built.packer.problem, built.packer.tables
    limits: list[list[Any]] = [[] for _ in problem.limits]
    latency: list[list[Any]] = [[] for _ in problem.chains]
    for arc, variable in built.arcs.items():
        if arc.before < 0:
            for limit, amount in problem.chains[arc.chain].doors[-1 - arc.before].uses:
                limits[limit].append(amount * variable)
    for (c, key), variable in built.segments.items():
        segment = ChosenSegment.model_construct(
            first=key.first, end=key.end, area=key.area, lcores=()
        )
        for limit, amount in segment_uses(problem, problem.chains[c], segment, key.origin):
            limits[limit].append(amount * variable)
        ns = int(tables.ns[c, key.first, key.end, key.area, key.origin])
        latency[c].append(ns * variable)
    return limits, latency


def _counts(
    built: _PlacementModel, loads: list[list[Any]], bound: int, start: Draft | None
) -> None:
    model, problem = built.model, built.packer.problem
    mode = problem.modes[built.packer.mode]
    limits, latency = _uses(built)
    for chain, terms in zip(problem.chains, latency, strict=True):
        if chain.within_ns is not None:
            model.add(sum(terms) <= chain.within_ns)
    if problem.aim == "rate":
        top = int(start.score[0]) if start is not None and start.score[0] < 1e9 else 1 << 30
        level = model.new_int_var(bound, max(bound, top), "level")
        for area in loads:
            model.add(area[0] * WHOLE <= level * mode.speed)
        for limit, terms in zip(problem.limits, limits, strict=True):
            model.add(sum(terms) * WHOLE <= level * limit.capacity)
        model.minimize(level)
        return
    room = capacity(problem, mode, problem.full)
    for limit, terms in zip(problem.limits, limits, strict=True):
        model.add(sum(terms) * WHOLE <= problem.full * limit.capacity)
    total: list[Any] = [problem.weight_ns * sum(sum(terms) for terms in latency)]
    on = [model.new_bool_var("") for _ in problem.servers]
    total += [server.fixed * one for server, one in zip(problem.servers, on, strict=True)]
    for number, sums in enumerate(loads):
        server = problem.areas[number].server
        used = [model.new_bool_var("") for _ in sums]
        for i, (load, one) in enumerate(zip(sums, used, strict=True)):
            model.add(load <= room * one)
            model.add_implication(one, on[server])
            if i:
                model.add_implication(one, used[i - 1])
        total.append(problem.servers[server].each * sum(used))
    model.add(sum(total) >= bound)
    model.minimize(sum(total))


def _hint(built: _PlacementModel, start: Draft) -> None:
    chosen = {
        (c, key, start.replicas[c, s])
        for c, way in enumerate(start.ways)
        for s, key in enumerate(way.segments)
    }
    for name, variable in built.replicas.items():
        built.model.add_hint(variable, name in chosen)
    for (c, key), variable in built.segments.items():
        built.model.add_hint(variable, any((c, key) == one[:2] for one in chosen))


def _read(built: _PlacementModel, solver: Any) -> Draft:
    packer, draft = built.packer, Draft([], {})
    areas: dict[int, dict[tuple[int, int], tuple[int, ...]]] = {}
    for c, chain in enumerate(packer.problem.chains):
        taken = [arc for arc, v in built.arcs.items() if arc.chain == c and solver.value(v)]
        taken.sort(key=lambda arc: arc.segment.first)
        assert taken[-1].segment.end == len(chain.functions)
        draft.ways.append(ChainWay(-1 - taken[0].before, tuple(arc.segment for arc in taken)))
        for s, arc in enumerate(taken):
            for k in range(1, packer.most(c, arc.segment) + 1):
                name = c, arc.segment, k
                if solver.value(built.replicas[name]):
                    on = tuple(i for i, v in enumerate(built.on[name]) if solver.value(v))
                    draft.replicas[c, s] = k
                    areas.setdefault(arc.segment.area, {})[c, s] = on
    draft.areas = {area: PackedArea(lcores, 0, 0, 0.0) for area, lcores in areas.items()}
    return draft
