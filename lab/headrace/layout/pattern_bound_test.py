# SPDX-License-Identifier: Apache-2.0
"""Patterns against all sets of items, and what is proved by them against known answers."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from headrace.layout import check_placement
from headrace.layout.cheapest import WayTables
from headrace.layout.lagrange import relax
from headrace.layout.pattern_bound import PatternBound
from headrace.layout.patterns import ItemKind, KindPrices, Knapsack, any_kind, rising
from headrace.layout.provable_test import by_hand
from headrace.layout.relaxation import Relaxation
from headrace.spec.placement import ModeBound, PlacementProblem


def drawn_kinds(seed: int) -> dict[ItemKind, dict[int, int]]:
    """Two chains of three functions, and one for all others."""
    draw = random.Random(seed)
    segments = [(0, 3), (0, 1), (1, 3), (1, 2)]
    kinds = [ItemKind(0, c, *one) for c in (0, 1) for one in draw.sample(segments, 3)]
    return {
        kind: {draw.randint(1, 12): draw.randint(1, 30) for _ in range(2)}
        for kind in (*kinds, any_kind(0))
    }


def most_by_hand(kinds: KindPrices, units: int, most: int) -> int:
    items = [(kind, *pair) for kind, steps in kinds.items() for pair in steps.pairs()]
    best = 0
    for count in range(1, most + 1):
        for some in itertools.combinations_with_replacement(items, count):
            if sum(size for _, size, _ in some) <= units and not _twice([k for k, *_ in some]):
                best = max(best, sum(price for *_, price in some))
    return best


def _twice(kinds: list[ItemKind]) -> bool:
    """A function of a chain that has kinds of its own."""
    own = [(k.chain, i) for k in kinds if k != any_kind(0) for i in range(k.first, k.end)]
    return len(set(own)) < len(own)


@pytest.mark.parametrize("seed", range(12))
def test_the_dearest_pattern_is_that_of_all_sets_of_items(seed: int) -> None:
    kinds = {kind: rising(prices) for kind, prices in drawn_kinds(seed).items()}
    sack = Knapsack(0, kinds, units=17, most=3)
    assert sack.worth == most_by_hand(kinds, 17, 3)
    pattern = sack.pattern(3)
    assert sum(size for _, size in pattern) <= 17
    assert not _twice([kind for kind, _ in pattern])
    prices = [dict(kinds[kind].pairs())[size] for kind, size in pattern]
    assert sum(prices) == sack.worth
    floats = {k: rising({s: float(p) for s, p in v.pairs()}) for k, v in kinds.items()}
    assert Knapsack(0, floats, units=17, most=3).worth == sack.worth


def three_halves() -> PlacementProblem:
    """Three chains of 3150 that one lcore each must take whole, on two lcores."""
    problem = by_hand()
    chain = problem.chains[0].model_copy(update={"spread": (10_000,)})
    chains = tuple(chain.model_copy(update={"name": name}) for name in "cde")
    return problem.model_copy(update={"chains": chains})


def bound_of(problem: PlacementProblem, full: int) -> ModeBound | None:
    relaxation = Relaxation(WayTables(problem, problem.modes[0]), full)
    patterns = PatternBound(relaxation, relax(relaxation, 1e12).prices)
    patterns.solve(1e12, 1e9)
    return patterns.certified(0, full)


def test_two_of_three_whole_chains_share_an_lcore_by_hand() -> None:
    """By load alone 4725 would do; one of the lcores has two chains, 6300."""
    bound = bound_of(three_halves(), 6299)
    assert bound is not None and bound.surplus is not None and bound.surplus > 0
    assert (bound.bound, bound.grain) == (6300, 2)
    given, problem = (
        json.loads(bound.model_dump_json()),
        json.loads(three_halves().model_dump_json()),
    )
    check_placement.check_mode(problem, given)
    weaker = bound_of(three_halves(), 6300)
    assert weaker is not None and weaker.surplus is not None and weaker.surplus <= 0


def test_items_that_are_worth_more_than_their_lcore_are_rejected() -> None:
    bound = bound_of(three_halves(), 6299)
    assert bound is not None
    problem = json.loads(three_halves().model_dump_json())
    for number in range(len(bound.items)):
        given = json.loads(bound.model_dump_json())
        prices = given["items"][number]["prices"]
        prices[-1] += sum(prices) + given["scale"]
        with pytest.raises(check_placement.Rejected, match="are worth"):
            check_placement.check_mode(problem, given)
        given["items"][number]["prices"] = [-1 for _ in prices]
        with pytest.raises(check_placement.Rejected, match="do not ascend"):
            check_placement.check_mode(problem, given)
