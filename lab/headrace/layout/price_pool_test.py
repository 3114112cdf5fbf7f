# SPDX-License-Identifier: Apache-2.0
"""What prices prove of a part of the placements, against the checker, which shares no code."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headrace.layout import check_placement
from headrace.layout.cheapest import NEVER, Array, Begin, Begins, Prices, SomeSegments, WayTables
from headrace.layout.patterns import ItemKind, any_kind
from headrace.layout.price_pool import LoadTables, PricePool, PricesAt, WholePrices, lifted
from headrace.layout.provable_test import instance
from headrace.layout.relaxation import SCALE
from headrace.spec.placement import PlacementProblem

SEEDS = (0, 5, 10, 15, 30)  # of the aim `rate`
FULL = 2500


def drawn_prices(problem: PlacementProblem, draw: random.Random, items: bool) -> WholePrices:
    areas, limits = len(problem.areas), len(problem.limits)
    paid = np.array([draw.random() * 1e-4 for _ in range(limits)])
    goals = np.array(
        [draw.random() * 1e-4 * (chain.within_ns is not None) for chain in problem.chains]
    )
    if not items:
        lcores = np.array([draw.random() for _ in range(areas)])
        return WholePrices.by_load(Prices(lcores, paid, goals), 10**8)
    kinds = {}
    for area in range(areas):
        kinds[any_kind(area)] = {s: draw.random() for s in (300, 900, 2000)}
        kinds[ItemKind(area, 0, 0, 1)] = {s: draw.random() for s in (100, 700, 1500)}
    return replace(WholePrices.by_items(kinds, problem), limits=whole(paid), chains=whole(goals))


def whole(values: Array) -> Array:
    rounded: Array = np.round(values * SCALE)
    return rounded


def drawn_begins(problem: PlacementProblem, draw: random.Random) -> Begins:
    """Draws what first segments of some chains may be, and the ones behind."""
    begins: dict[int, Begin] = {}
    for c, chain in enumerate(problem.chains):
        n = len(chain.functions)
        while draw.random() < 0.7 and len(begins.get(c, ())) < n:
            places = [(e, a) for e in range(1, n + 1) for a in (0, 1)]
            some = frozenset(draw.sample(places, draw.randrange(1, len(places) + 1)))
            replicas = draw.choice((None, (1, 1), (2, 2), (1, 2)))
            begins[c] = (*begins.get(c, ()), SomeSegments(some, replicas))
    return begins


def checked(problem: PlacementProblem, one: PricesAt, begins: Begins) -> int | None:
    """The surplus as the checker has it; None: some chain has no way."""
    bound: dict[str, Any] = {
        "mode": 0, "part": "all", "bound": FULL + 1, "surplus": -1, "step": 0,
        "scale": one.prices.scale, "areas": [int(p) for p in one.areas],
        "limits": [int(p) for p in one.prices.limits],
        "chains": [int(p) for p in one.prices.chains], "grain": 0, "items": [],
    }  # fmt: skip
    if one.prices.kinds is not None:
        bound["grain"] = 1
        bound["items"] = [
            {
                "area": kind.area, "chain": None if kind.chain < 0 else kind.chain,
                "first": kind.first, "end": kind.end, "sizes": list(steps.sizes),
                "prices": [int(p) for p in steps.prices],
            }
            for kind, steps in one.prices.kinds.items()
        ]  # fmt: skip
    given = json.loads(problem.model_dump_json())
    there = {
        c: tuple((s.places, s.replicas or (1, len(problem.chains[c].spread))) for s in begin)
        for c, begin in begins.items()
    }
    with pytest.raises(check_placement.Rejected) as error:
        check_placement.check_mode(given, bound, there)
    match = re.search(r"the surplus is (-?\d+)", str(error.value))
    if match is None:
        assert "no way at all" in str(error.value)
        return None
    return int(match[1])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("items", [False, True])
def test_the_surplus_is_the_checkers(seed: int, items: bool) -> None:
    """To its last digit, for segments and numbers of replicas that are drawn, by prices as they are
    drawn, and where whole chains' are lifted."""
    problem, draw = instance(seed), random.Random(seed)
    at = LoadTables(WayTables(problem, problem.modes[0]), FULL)
    for _ in range(12):
        one = PricesAt(drawn_prices(problem, draw, items), at)
        assert one.exact
        if items and draw.random() < 0.5:
            higher = PricesAt(lifted(one), at)
            assert list(higher.areas) == list(one.areas)  # no pattern is worth more by it
            one = higher
        begins = drawn_begins(problem, draw)
        surplus, told = one.surplus(begins), checked(problem, one, begins)
        if told is None:
            assert surplus >= NEVER
        else:
            assert surplus == told
            pool = PricePool(at)
            assert pool.add(one.prices) is not None
            least = sum(pool.costs(c, begins.get(c, ()))[0] for c in range(len(problem.chains)))
            assert least - pool.worth[0] <= surplus  # with any number of replicas


def test_a_lifted_price_is_what_the_dearest_pattern_leaves_by_hand() -> None:
    """Two items of chain 0 do not fit on an lcore of 2500, one of 1500 is worth one; so chain 1,
    where it leaves no room for that, may cost as much, and nothing where it does."""
    problem = next(
        one for one in map(instance, range(0, 200, 5))
        if len(one.chains) == 2 and one.lcore_segments > 1
    )  # fmt: skip
    at = LoadTables(WayTables(problem, problem.modes[0]), FULL)
    n = len(problem.chains[0].functions)
    prices = WholePrices.by_items({ItemKind(0, 0, 0, n): {1500: 1.0}}, problem, 1000)
    one = PricesAt(lifted(PricesAt(prices, at)), at)
    kind = ItemKind(0, 1, 0, len(problem.chains[1].functions))
    assert one.prices.kinds is not None
    for size, price in one.prices.kinds[kind].pairs():
        assert price == (1000.0 if size > FULL - 1500 else 0.0)
