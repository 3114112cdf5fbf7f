# SPDX-License-Identifier: Apache-2.0
"""Layouts against brute force of another kind, and CP-SAT against all layouts."""

from __future__ import annotations

import random

import pytest

from headrace.optimize.layout import Hop, Layout, NfCost, Problem, Traffic, loads, throughput
from headrace.optimize.search import (
    best,
    compositions,
    count,
    exhaustive,
    fewest,
    layouts,
    pipeline,
    run_to_completion,
)


def problem(seed: int, n: int, lcores: int, hop: float = 40.0) -> Problem:
    draw = random.Random(seed)

    def work() -> Hop:
        same = draw.uniform(10, 150)
        return Hop(same, same + draw.uniform(0, 30))

    nfs = tuple(
        NfCost(f"nf{i}", Hop(10, 10 + hop), work(), Hop(6, 6 + hop / 4), 5) for i in range(n)
    )
    traffic = Traffic(Hop(30, 50), Hop(25, 60), 0, lcores - 1)
    return Problem(nfs, traffic, tuple(range(lcores)), 2e9)


def test_all_layouts_are_enumerated_once() -> None:
    given = problem(1, 4, 2)
    found = list(layouts(given))
    assert len(found) == len(set(found)) == count(given) == 3 * 4**3
    assert list(compositions(4, 2)) == [(1, 3), (2, 2), (3, 1)]


def test_loads_of_run_to_completion_by_hand() -> None:
    one = NfCost("a", Hop(10, 50), Hop(100, 120), Hop(5, 15), 3)
    given = Problem((one,), Traffic(Hop(30, 40), Hop(20, 60), 0, 1), (0, 1), 1e9)
    found = loads(given, run_to_completion(given))
    # Half of what a replica gets comes from its own lcore when the generator is there, else none.
    assert found[0] == pytest.approx(35 + (10 + 100 + 15 + 3) / 2)
    assert found[1] == pytest.approx(40 + (50 + 120 + 5 + 3) / 2)


def test_all_work_is_somewhere() -> None:
    """With hops that cost nothing the loads sum to the chain's work, however it is cut."""
    nfs = tuple(NfCost(str(i), Hop(0, 0), Hop(10, 10), Hop(0, 0), 0) for i in range(4))
    given = Problem(nfs, Traffic(Hop(7, 7), Hop(9, 9), 0, 1), (0, 1), 1e9)
    for layout in layouts(given):
        assert sum(loads(given, layout).values()) == pytest.approx(56)


@pytest.mark.parametrize("seed", range(6))
def test_the_best_is_at_least_as_good_as_the_usual_ones(seed: int) -> None:
    given = problem(seed, 4, 2)
    chosen = exhaustive(given)
    for other in (run_to_completion(given), pipeline(given)):
        assert chosen.predicted_pps >= throughput(given, other)
    assert chosen.gap == 0


def test_a_dear_hop_makes_one_segment_and_a_free_one_need_not() -> None:
    alone = problem(3, 3, 1)
    assert best(alone).layout == Layout((3,), ((0,),))


@pytest.mark.parametrize("seed", range(3))
def test_cp_sat_is_within_its_bound_of_the_best(seed: int) -> None:
    pytest.importorskip("ortools", reason="OR-tools is not installed")
    given = problem(seed, 4, 3, hop=10)
    exact, found = exhaustive(given), best(given, limit=0)
    assert found.how == "CP-SAT"
    assert found.bound_pps >= exact.predicted_pps * (1 - 1e-6)
    assert found.predicted_pps <= exact.predicted_pps * (1 + 1e-6)
    assert found.predicted_pps >= exact.predicted_pps * 0.9
    assert throughput(given, found.layout) == found.predicted_pps


def test_fewest_lcores() -> None:
    given = problem(5, 3, 3)
    most = best(given).predicted_pps
    assert fewest(given, most * 2) is None
    reached = fewest(given, most / 3)
    assert reached is not None and len(reached.layout.used) <= 2
