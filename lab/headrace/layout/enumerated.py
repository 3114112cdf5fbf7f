# SPDX-License-Identifier: Apache-2.0
"""Every placement of a small problem, counted and made one digest of, for a certificate."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator

from headrace.layout.placing import areas_of, compositions, lcores_of, up, value_of
from headrace.spec.placement import (
    WHOLE,
    ChainLoads,
    ChosenPlacement,
    ChosenSegment,
    ChosenWay,
    Enumerated,
    PlacementProblem,
    ThreadMode,
)

ENUMERATED_MAX = 20_000


def how_many(problem: PlacementProblem) -> int:
    """Placements; not all of them meet the goals."""
    return sum(
        math.prod(_ways_of(problem, chain, mode) for chain in problem.chains)
        for mode in problem.modes
    )


def _ways_of(problem: PlacementProblem, chain: ChainLoads, mode: ThreadMode) -> int:
    total = 0
    for door in chain.doors:
        each = sum(
            math.comb(lcores_of(problem, mode, area), k)
            for area in areas_of(problem, door.server)
            for k in range(1, min(len(chain.spread), lcores_of(problem, mode, area)) + 1)
        )
        total += each * (1 + each) ** (len(chain.functions) - 1)
    return total


def enumerate_all(problem: PlacementProblem) -> tuple[ChosenPlacement | None, Enumerated, int]:
    """The best one, what the certificate says of all, and the best one's value."""
    best: ChosenPlacement | None = None
    value, count, digest = 0, 0, 0
    for number, mode in enumerate(problem.modes):
        ways = [list(_ways(problem, chain, mode)) for chain in problem.chains]
        for several in itertools.product(*ways):
            count += 1
            placement = ChosenPlacement.model_construct(mode=number, ways=several)
            here = value_of(problem, placement)
            if here is None:
                continue
            text = f"{number}|{'|'.join(map(_text, several))}={here}"
            digest += int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
            if best is None or here < value:
                best, value = placement, here
    return best, Enumerated(placements=count, digest=f"{digest % (1 << 256):064x}"), value


def _ways(problem: PlacementProblem, chain: ChainLoads, mode: ThreadMode) -> Iterator[ChosenWay]:
    for number, door in enumerate(chain.doors):
        places = [
            (area, lcores)
            for area in areas_of(problem, door.server)
            for k in range(1, min(len(chain.spread), lcores_of(problem, mode, area)) + 1)
            for lcores in itertools.combinations(range(lcores_of(problem, mode, area)), k)
        ]
        for cuts in compositions(len(chain.functions)):
            for chosen in itertools.product(places, repeat=len(cuts)):
                segments = tuple(
                    ChosenSegment.model_construct(first=a, end=b, area=area, lcores=lcores)
                    for (a, b), (area, lcores) in zip(cuts, chosen, strict=True)
                )
                yield ChosenWay.model_construct(door=number, segments=segments)


def _text(way: ChosenWay) -> str:
    """`door:first-end@area/lcore,lcore;...`, as the checker has it."""
    segments = (f"{s.first}-{s.end}@{s.area}/{','.join(map(str, s.lcores))}" for s in way.segments)
    return f"{way.door}:{';'.join(segments)}"


def port_choices(problem: PlacementProblem) -> int:
    return math.prod(len(chain.doors) for chain in problem.chains)


def least_busy_ports(problem: PlacementProblem) -> int:
    """How busy the busiest port is at least, whatever port each chain has: chain by chain, as long
    as it may be less than the least so far."""
    used, best = [0] * len(problem.limits), 1 << 60
    chains = sorted(problem.chains, key=lambda one: -one.rate_pps)

    def choose(number: int, busy: int) -> None:
        nonlocal best
        if number == len(chains):
            best = busy
            return
        for door in chains[number].doors:
            most = busy
            for limit, amount in door.uses:
                used[limit] += amount
                most = max(most, up(used[limit] * WHOLE, problem.limits[limit].capacity))
            if most < best:
                choose(number + 1, most)
            for limit, amount in door.uses:
                used[limit] -= amount

    choose(0, 0)
    return best
