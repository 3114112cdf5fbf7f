# SPDX-License-Identifier: Apache-2.0
"""Why chains have no placement, as far as one of them alone says it."""

from __future__ import annotations

import numpy as np

from headrace.layout.cheapest import NEVER, PricedWays, Prices, WayTables
from headrace.layout.placing import capacity
from headrace.spec.placement import WHOLE, ChainLoads, PlacementProblem


def why_unmet(problem: PlacementProblem) -> str | None:
    """The first reason that holds whatever the others do; None: no chain is too much by itself."""
    for number, chain in enumerate(problem.chains):
        reason = _port(problem, chain) or _lcores(problem, number) or _latency(problem, number)
        if reason is not None:
            return f"chain {chain.name} {reason}"
    return None


def _port(problem: PlacementProblem, chain: ChainLoads) -> str | None:
    least, named = float("inf"), ""
    for door in chain.doors:
        most, name = 0.0, ""
        for limit, amount in door.uses:
            part = amount / problem.limits[limit].capacity
            if part > most:
                most, name = part, problem.limits[limit].name
        if most < least:
            least, named = most, name
    if least <= problem.full / WHOLE:
        return None
    return f"takes {least:.0%} of {named}, of which {problem.full / WHOLE:.0%} may be used"


def _ways(problem: PlacementProblem, number: int) -> list[float]:
    """The least latency in each mode; NEVER: a function is too much for the lcores of a cache."""
    one = problem.model_copy(update={"chains": (problem.chains[number],)})
    least = []
    for mode in problem.modes:
        tables = WayTables(one, mode)
        fits = tables.shares(capacity(problem, mode, problem.full), 0) < NEVER
        nothing = np.zeros(len(problem.areas)), np.zeros(len(problem.limits))
        prices = Prices(*nothing, np.ones(1))
        ways = PricedWays.of(tables, np.where(fits, 0.0, NEVER), prices, 1.0)
        least.append(float(ways.least()[0]))
    return least


def _lcores(problem: PlacementProblem, number: int) -> str | None:
    if min(_ways(problem, number)) < NEVER:
        return None
    return (
        "has a function that is too much for all lcores of one last-level cache, "
        f"{problem.full / WHOLE:.0%} busy"
    )


def _latency(problem: PlacementProblem, number: int) -> str | None:
    within, least = problem.chains[number].within_ns, min(_ways(problem, number))
    if within is None or least <= within:
        return None
    return f"takes {least / 1e3:.3g} us at least, and its goal is {within / 1e3:.3g} us"
