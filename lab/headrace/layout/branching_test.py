# SPDX-License-Identifier: Apache-2.0
"""Chains told apart by where they are, and areas filled exactly, against known answers."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from headrace.layout import check_placement
from headrace.layout.cheapest import SegmentKey
from headrace.layout.filled import AreaFiller
from headrace.layout.packed import Packer
from headrace.layout.provable import Placing
from headrace.layout.provable_test import by_hand
from headrace.spec.placement import FINE, Area, PlacementAnswer, PlacementProblem

WORKS = (3000, 2100, 1300)


def three_on_two_caches() -> PlacementProblem:
    """Three chains of 3150, each by itself even over the two lcores of one of two caches."""
    given = by_hand()
    [function] = given.chains[0].functions
    wide = {name: getattr(function, name) * 2 for name in ("work", "memory", "delay_ns")}
    function = function.model_copy(update=wide)
    chains = tuple(
        given.chains[0].model_copy(update={"name": name, "functions": (function,)})
        for name in "cde"
    )
    areas = tuple(Area(name=f"cache {i}", server=0, node=0, cores=2) for i in range(2))
    return given.model_copy(update={"chains": chains, "areas": areas})


@pytest.fixture(scope="module")
def answer() -> PlacementAnswer:
    return Placing(three_on_two_caches(), 4.0).answer()


def test_one_of_two_caches_has_two_of_three_chains_by_hand(answer: PlacementAnswer) -> None:
    """9450 on four lcores are 2363 each, and no price says more; but a cache has two chains."""
    [bound] = answer.certificate.modes
    assert bound.bound <= 2363
    assert (answer.value, answer.certificate.bound, answer.word) == (3150, 3150, "optimal")
    check_placement.check(json.loads(answer.model_dump_json()))


def altered(answer: PlacementAnswer) -> tuple[dict[str, Any], dict[str, Any]]:
    given = json.loads(answer.model_dump_json())
    [tree] = given["certificate"]["trees"]
    return given, tree


def rejected(given: dict[str, Any], words: str) -> None:
    given["certificate"]["seal"] = check_placement.seal(given["certificate"])
    with pytest.raises(check_placement.Rejected, match=words):
        check_placement.check(given)


def leaves(node: dict[str, Any]) -> list[dict[str, Any]]:
    if node["chain"] is None:
        return [node]
    return [leaf for branch in node["branches"] for leaf in leaves(branch["node"])]


def test_a_tree_altered_is_rejected(answer: PlacementAnswer) -> None:
    """A branch less, one for another, a leaf's bound or its surplus by one, the tree's bound."""
    given, tree = altered(answer)
    tree["node"]["branches"].pop()
    rejected(given, "no branch has segments")
    given, tree = altered(answer)
    several = tree["node"]["branches"]
    for number, other in itertools.permutations(range(len(several)), 2):
        given, tree = altered(answer)
        tree["node"]["branches"][number]["places"] = several[other]["places"]
        rejected(given, "no branch has segments|the surplus is|is not refuted")
    given, tree = altered(answer)
    tree["node"]["chain"] = 3
    rejected(given, "no such chain")
    given, tree = altered(answer)
    tree["bound"] += 1
    given["certificate"]["bound"] += 1
    rejected(given, "above the value|a leaf of")
    for number, by in itertools.product(range(len(leaves(tree["node"]))), (-1, 1)):
        given, tree = altered(answer)
        leaf = leaves(tree["node"])[number]["refuted"]
        if leaf["surplus"] is not None:
            leaf["surplus"] += by
            rejected(given, "the surplus is")
        given, tree = altered(answer)
        leaf = leaves(tree["node"])[number]["refuted"]
        tree["prices"][leaf["prices"]]["bound"] += by
        rejected(given, "a leaf of|the surplus is|is not refuted|a chain has no way")
        given, tree = altered(answer)
        leaves(tree["node"])[number]["refuted"]["prices"] = len(tree["prices"])
        rejected(given, "a leaf without prices")
    given, tree = altered(answer)
    given["certificate"]["trees"] = []
    rejected(given, "only .* is proven")


def test_a_segment_that_not_all_ways_have_is_no_branch(answer: PlacementAnswer) -> None:
    """Behind a whole chain there is none: what is nowhere would be refuted there by anything."""
    given, tree = altered(answer)
    for number, branch in enumerate(tree["node"]["branches"]):
        given, tree = altered(answer)
        branch = tree["node"]["branches"][number]
        nowhere: dict[str, Any] = {"chain": None, "segment": 0, "branches": [], "refuted": {
            "prices": 0, "surplus": None,
        }}  # fmt: skip
        for places in ([[0, 0]], [[2, 0]], []):
            branch["node"] = {
                "chain": tree["node"]["chain"], "segment": 1, "refuted": None,
                "branches": [{"places": places, "replicas": None, "node": nowhere}],
            }  # fmt: skip
            rejected(given, "no segment in all ways there")
            branch["node"]["segment"] = 2
            rejected(given, "have no place")


def least_by_hand(sizes: list[list[int]], lcores: int) -> int:
    """The least load of the fullest of so many lcores: all sets of lcores for all segments."""
    sets = [some for k in range(1, lcores + 1) for some in itertools.combinations(range(lcores), k)]
    best = 1 << 60
    for chosen in itertools.product(sets, repeat=len(sizes)):
        loads = [0] * lcores
        for each, some in zip(sizes, chosen, strict=True):
            for lcore in some:
                loads[lcore] += each[len(some) - 1]
        best = min(best, max(loads))
    return best


@pytest.mark.parametrize("uneven", [FINE, 10_500, 12_000])
def test_an_area_is_filled_as_the_best_of_all_ways_to_do_it(uneven: int) -> None:
    given = by_hand()
    [function] = given.chains[0].functions
    chains = tuple(
        given.chains[0].model_copy(update={
            "name": f"c{i}",
            "spread": (FINE, uneven, uneven + 300),
            "functions": (function.model_copy(update={"work": (work * FINE,)}),),
        })
        for i, work in enumerate(WORKS)
    )  # fmt: skip
    area = given.areas[0].model_copy(update={"cores": 3})
    problem = given.model_copy(update={"chains": chains, "areas": (area,)})
    packer = Packer(problem, 0, [[], [], []])
    placed = [((c, 0), SegmentKey(0, 1, 0, 0)) for c in range(3)]
    sizes = [[packer.item(c, key, k) for k in (1, 2, 3)] for (c, _), key in placed]
    least = least_by_hand(sizes, 3)
    filler = AreaFiller(packer)
    packed = filler.filled(0, placed, 10_000, 1e12)
    assert packed is not None and packed.most == least
    loads = [0] * 3
    for (c, _), on in packed.lcores.items():
        for lcore in on:
            loads[lcore] += sizes[c][len(on) - 1]
    assert max(loads) == least
    assert filler.filled(0, placed, least, 1e12) is None
