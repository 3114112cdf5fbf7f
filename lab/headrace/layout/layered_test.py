# SPDX-License-Identifier: Apache-2.0
"""Layered layouts against all that there are."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator

import pytest

from headrace.layout.cheapest import SegmentKey
from headrace.layout.layered import LayeredFiller
from headrace.layout.packed import Packer, cut_once, everywhere
from headrace.layout.placing import value_of
from headrace.layout.provable_test import by_hand
from headrace.spec.placement import FINE, Area, PlacementProblem, SharedLimit

Sets = tuple[tuple[int, ...], ...]


def chains_on(works: list[int], lcores: int, spread: tuple[int, ...], caches: int = 1) -> (
    PlacementProblem
):  # fmt: skip
    given = by_hand()
    [function] = given.chains[0].functions
    chains = tuple(
        given.chains[0].model_copy(update={
            "name": f"c{i}",
            "spread": spread,
            "functions": (function.model_copy(update={
                "work": (work * FINE,) * caches, "memory": (0,) * caches, "delay_ns": (0,) * caches,
            }),),
        })
        for i, work in enumerate(works)
    )  # fmt: skip
    areas = tuple(Area(name=f"cache {i}", server=0, node=0, cores=lcores) for i in range(caches))
    limits = (SharedLimit(name="port", capacity=100_000),)
    return given.model_copy(update={"chains": chains, "areas": areas, "limits": limits})


def layered_layouts(count: int, lcores: int, polled: int) -> Iterator[Sets]:
    """Sets of lcores for all segments, of which any two are apart, or one is in the other."""
    sets = [some for k in range(1, lcores + 1) for some in itertools.combinations(range(lcores), k)]
    for chosen in itertools.product(sets, repeat=count):
        pairs = itertools.combinations(map(set, chosen), 2)
        if all(a <= b or b <= a or not a & b for a, b in pairs) and all(
            sum(i in some for some in chosen) <= polled for i in range(lcores)
        ):
            yield chosen


@pytest.mark.parametrize(
    ("count", "lcores", "polled"), [(2, 4, 4), (3, 3, 4), (3, 4, 2), (4, 2, 3), (3, 3, 1)]
)
def test_the_best_of_all_layered_layouts(count: int, lcores: int, polled: int) -> None:
    """Works drawn, and spreads by which more replicas cost more in all."""
    draw = random.Random(count * 100 + lcores * 10 + polled)
    for _ in range(4):
        works = [draw.randrange(500, 5000) for _ in range(count)]
        spread = tuple(FINE + draw.randrange(1, 2000) * k for k in range(lcores))
        problem = chains_on(works, lcores, spread).model_copy(update={"lcore_segments": polled})
        packer = Packer(problem, 0, [[] for _ in works])
        placed = [((c, 0), SegmentKey(0, 1, 0, 0)) for c in range(count)]
        least = min(
            max(
                sum(
                    packer.item(c, placed[c][1], len(some))
                    for c, some in enumerate(chosen)
                    if i in some
                )
                for i in range(lcores)
            )
            for chosen in layered_layouts(count, lcores, polled)
        )
        filler = LayeredFiller(packer)
        area = filler.filled(0, placed)
        assert area is not None and filler.level(0, placed) == area.most == least
        loads = [0] * lcores
        for (c, _), on in area.lcores.items():
            for lcore in on:
                loads[lcore] += packer.item(c, placed[c][1], len(on))
        assert max(loads) == least
        assert all(sum(i in on for on in area.lcores.values()) <= polled for i in range(lcores))


def test_more_segments_than_lcores_may_poll_are_none() -> None:
    problem = chains_on([1000] * 3, 1, (FINE,)).model_copy(update={"lcore_segments": 2})
    packer = Packer(problem, 0, [[], [], []])
    placed = [((c, 0), SegmentKey(0, 1, 0, 0)) for c in range(3)]
    assert LayeredFiller(packer).filled(0, placed) is None
    assert LayeredFiller(packer).filled(0, placed[:2]) is not None


def test_chains_change_places_until_caches_are_as_even_as_can_be() -> None:
    """Five chains on two caches of one lcore each: 8 and 7 beside 6, 5 and 4 are even. The largest
    first, each where least is, has 17 beside 13."""
    works = [800, 700, 600, 500, 400]
    problem = chains_on(works, 1, (FINE,), caches=2)
    pool = [everywhere(problem, c, cut_once(problem, c)) for c in range(len(works))]
    packer = Packer(problem, 0, pool)
    draft = LayeredFiller(packer).met(0, time.monotonic() + 1.0)
    assert draft is not None
    halves = [
        {works[c] for c, way in enumerate(draft.ways) if way.segments[0].area == area}
        for area in (0, 1)
    ]
    assert {700, 800} in halves
    loads = [sum(packer.item(c, draft.ways[c].segments[0], 1) for c in some) for some in (
        (0, 1), (2, 3, 4),
    )]  # fmt: skip
    assert value_of(problem, packer.placement(draft)) == draft.score[0] == max(loads)


def test_chains_leave_a_cache_that_has_too_many() -> None:
    """An lcore polls one segment: the large chain fills a cache of two lcores by load, and three
    small ones are too many for the other. One has to go beside the large one."""
    works = [3000, 100, 100, 100]
    problem = chains_on(works, 2, (FINE, FINE), caches=2)
    problem = problem.model_copy(update={"lcore_segments": 1})
    pool = [everywhere(problem, c, cut_once(problem, c)) for c in range(len(works))]
    packer = Packer(problem, 0, pool)
    draft = LayeredFiller(packer).met(0, time.monotonic() + 1.0)
    assert draft is not None
    large = packer.item(0, draft.ways[0].segments[0], 1)
    assert value_of(problem, packer.placement(draft)) == draft.score[0] == large
