# SPDX-License-Identifier: Apache-2.0
"""What a placement of chains on servers comes to: loads of lcores and of limits, latencies, value.

All in whole numbers, as the problem is (spec/placement.py), so that a bound can meet a value."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from headrace.spec.placement import (
    FINE,
    WHOLE,
    ChainLoads,
    ChosenPlacement,
    ChosenSegment,
    ChosenWay,
    Door,
    PlacementProblem,
    ThreadMode,
)

SAME, NEAR, FAR = 0, 1, 2  # where packets come from: the area, its node, another node


@dataclass(frozen=True)
class PlacedLoads:
    """`lcores`: by (area, lcore); `limits`: by index; `latency_ns`: by chain."""

    lcores: dict[tuple[int, int], int]
    polled: dict[tuple[int, int], int]  # segments
    limits: list[int]
    latency_ns: list[int]


@dataclass
class _Sums:
    lcores: dict[tuple[int, int], int] = field(default_factory=dict)
    polled: dict[tuple[int, int], int] = field(default_factory=dict)


def up(dividend: int, divisor: int) -> int:
    """Divided, rounded up."""
    return -(-dividend // divisor)


def lcores_of(problem: PlacementProblem, mode: ThreadMode, area: int) -> int:
    return problem.areas[area].cores * mode.threads


def from_door(problem: PlacementProblem, door: Door, area: int) -> int:
    return SAME if problem.areas[area].node == door.node else FAR


def between(problem: PlacementProblem, before: int, area: int) -> int:
    if before == area:
        return SAME
    return NEAR if problem.areas[before].node == problem.areas[area].node else FAR


def origins(problem: PlacementProblem, chain: ChainLoads, way: ChosenWay) -> list[int]:
    """Where each segment's packets come from."""
    areas = [segment.area for segment in way.segments]
    first = from_door(problem, chain.doors[way.door], areas[0])
    return [first, *(between(problem, a, b) for a, b in itertools.pairwise(areas))]


def segment_work(chain: ChainLoads, first: int, end: int, area: int, origin: int) -> int:
    """Work in parts of FINE of a load."""
    inside = sum(chain.functions[i].work[area] for i in range(first, end))
    apart = chain.apart[area] if chain.apart else 0
    return chain.functions[first].enter[origin] + inside + chain.functions[end - 1].leave + apart


def share(chain: ChainLoads, work: int, replicas: int) -> int:
    """The load of the busiest replica's lcore."""
    return up(work * chain.spread[replicas - 1], replicas * FINE * FINE)


def segment_ns(chain: ChainLoads, segment: ChosenSegment, origin: int) -> int:
    inside = range(segment.first, segment.end)
    entering = chain.functions[segment.first].enter_ns[origin]
    return entering + sum(chain.functions[i].delay_ns[segment.area] for i in inside)


def loads_of(problem: PlacementProblem, placement: ChosenPlacement) -> PlacedLoads:
    limits = [0] * len(problem.limits)
    sums, latency = _Sums(), []
    for chain, way in zip(problem.chains, placement.ways, strict=True):
        for limit, amount in chain.doors[way.door].uses:
            limits[limit] += amount
        total = 0
        for segment, origin in zip(way.segments, origins(problem, chain, way), strict=True):
            total += segment_ns(chain, segment, origin)
            _add(sums, chain, segment, origin)
            for limit, amount in segment_uses(problem, chain, segment, origin):
                limits[limit] += amount
        latency.append(total)
    return PlacedLoads(sums.lcores, sums.polled, limits, latency)


def _add(sums: _Sums, chain: ChainLoads, segment: ChosenSegment, origin: int) -> None:
    work = segment_work(chain, segment.first, segment.end, segment.area, origin)
    each = share(chain, work, len(segment.lcores))
    for lcore in segment.lcores:
        key = segment.area, lcore
        sums.lcores[key] = sums.lcores.get(key, 0) + each
        sums.polled[key] = sums.polled.get(key, 0) + 1


def segment_uses(
    problem: PlacementProblem, chain: ChainLoads, segment: ChosenSegment, origin: int
) -> list[tuple[int, int]]:
    """What it takes of the memory of its node, of the way between nodes, and of the switch."""
    area = problem.areas[segment.area]
    uses = []
    if area.limit is not None:
        inside = range(segment.first, segment.end)
        uses.append((area.limit, sum(chain.functions[i].memory[segment.area] for i in inside)))
    crossing = problem.servers[area.server].crossing
    if origin == FAR and crossing is not None:
        uses.append((crossing, chain.crossing))
    if chain.switch is not None:
        uses.append((chain.switch, chain.switched[segment.area]))
    return uses


def busiest(problem: PlacementProblem, mode: ThreadMode, loads: PlacedLoads) -> int:
    """The highest load of all lcores and limits, WHOLE being all that there is."""
    lcores = max(up(load * WHOLE, mode.speed) for load in loads.lcores.values())
    pairs = zip(loads.limits, problem.limits, strict=True)
    return max([lcores, *(up(used * WHOLE, limit.capacity) for used, limit in pairs)])


def value_of(problem: PlacementProblem, placement: ChosenPlacement) -> int | None:
    """What the aim counts; None: a goal or a limit is not met."""
    mode = problem.modes[placement.mode]
    loads = loads_of(problem, placement)
    for chain, latency in zip(problem.chains, loads.latency_ns, strict=True):
        if chain.within_ns is not None and latency > chain.within_ns:
            return None
    if max(loads.polled.values()) > problem.lcore_segments:
        return None
    most = busiest(problem, mode, loads)
    if problem.aim == "rate":
        return most
    return None if most > problem.full else counted(problem, loads)


def counted(problem: PlacementProblem, loads: PlacedLoads) -> int:
    owner = [problem.areas[area].server for area, _ in loads.lcores]
    lcores = sum(problem.servers[server].each for server in owner)
    fixed = sum(problem.servers[server].fixed for server in set(owner))
    return lcores + fixed + problem.weight_ns * sum(loads.latency_ns)


def capacity(problem: PlacementProblem, mode: ThreadMode, full: int) -> int:
    """Load that an lcore may have."""
    return full * mode.speed // WHOLE


@cache
def compositions(functions: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """All cuts of a chain, each as (first, end) of its segments."""
    if functions == 0:
        return ((),)
    return tuple(
        (*rest, (first, functions)) for first in range(functions) for rest in compositions(first)
    )


def areas_of(problem: PlacementProblem, server: int) -> Sequence[int]:
    return [i for i, area in enumerate(problem.areas) if area.server == server]
