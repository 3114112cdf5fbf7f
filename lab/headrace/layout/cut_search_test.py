# SPDX-License-Identifier: Apache-2.0
"""Layouts against brute force of another kind, and CP-SAT against all layouts."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from headrace.layout.cut_search import best, count, exhaustive, expected, fewest, quickest
from headrace.layout.cuts import (
    EXHAUSTIVE_MAX,
    compositions,
    improved,
    layouts,
    neighbours,
    pipeline,
    run_to_completion,
    with_beside,
)
from headrace.layout.layout import (
    Beside,
    Edge,
    Hop,
    Layout,
    NfCost,
    Problem,
    Run,
    Traffic,
    loads,
    parts,
    throughput,
)
from headrace.layout.predicted_latency import latency_s


def problem(seed: int, n: int, lcores: int, hop: float = 40.0) -> Problem:
    draw = random.Random(seed)

    def work() -> Hop:
        same = draw.uniform(10, 150)
        return Hop(same, same + draw.uniform(0, 30))

    nfs = tuple(
        NfCost(f"nf{i}", Hop(10, 10 + hop), work(), Hop(6, 6 + hop / 4), 5, poll=200)
        for i in range(n)
    )
    traffic = Traffic(Hop(30, 50), Hop(25, 60), 0, lcores - 1, poll=100, idle=20)
    return Problem(nfs, traffic, tuple(range(lcores)), 2e9)


def test_all_layouts_are_enumerated_once() -> None:
    given = problem(1, 4, 2)
    every = list(layouts(given))
    assert len(every) == len(set(every)) == count(given) == 3 * 4**3
    assert list(compositions(4, 2)) == [(1, 3), (2, 2), (3, 1)]


def test_loads_of_run_to_completion_by_hand() -> None:
    one = NfCost("a", Hop(10, 50), Hop(100, 120), Hop(5, 15), 3)
    given = Problem((one,), Traffic(Hop(30, 40), Hop(20, 60), 0, 1), (0, 1), 1e9)
    loaded = loads(given, run_to_completion(given))
    # Half of what a replica gets comes from its own lcore when the generator is there, else none.
    assert loaded[0] == pytest.approx(35 + (10 + 100 + 15 + 3) / 2)
    assert loaded[1] == pytest.approx(40 + (50 + 120 + 5 + 3) / 2)


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
    given = problem(seed, 4, 3, hop=10)
    exact, solved = exhaustive(given), best(given, limit=0)
    assert solved.how == "CP-SAT and local search"
    assert solved.bound_pps >= exact.predicted_pps * (1 - 1e-6)
    assert solved.predicted_pps <= exact.predicted_pps * (1 + 1e-6)
    assert solved.predicted_pps >= exact.predicted_pps * 0.95
    assert throughput(given, solved.layout) == solved.predicted_pps


def test_fewest_lcores() -> None:
    given = problem(5, 3, 3)
    most = best(given).predicted_pps
    assert fewest(given, most * 2) is None
    reached = fewest(given, most / 3)
    assert reached is not None and len(reached.layout.used) <= 2


@pytest.mark.long
def test_cp_sat_where_layouts_are_too_many_to_try() -> None:
    given = problem(2, 7, 4, hop=10)
    assert count(given) > EXHAUSTIVE_MAX
    choice = best(given)
    assert choice.how == "CP-SAT and local search"
    for other in (run_to_completion(given), pipeline(given)):
        assert choice.predicted_pps >= throughput(given, other)
    assert choice.predicted_pps <= choice.bound_pps * (1 + 1e-9)
    assert choice.gap < 0.5


def test_local_search_ends_at_a_layout_whose_neighbours_are_no_better() -> None:
    given = problem(4, 5, 3, hop=10)

    def cost(layout: Layout) -> float:
        return 1 / throughput(given, layout)

    local = improved(given, pipeline(given), cost)
    assert all(cost(one) >= cost(local) * (1 - 1e-9) for one in neighbours(given, local))
    everything = set(layouts(given))
    assert set(neighbours(given, local)) <= everything


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_the_quickest_of_all_layouts(seed: int) -> None:
    given = problem(seed, 3, 2)
    rate = best(given).predicted_pps * 0.6
    choice = quickest(given, rate)
    assert choice is not None and choice.latency_s is not None
    others = [expected(given, one, rate) for one in layouts(given)]
    # Those that are quick by the turns of their lcores are simulated; it may miss by a little.
    assert choice.latency_s <= 1.05 * min(one.median_s for one in others if one is not None)
    assert quickest(given, best(given).predicted_pps * 1.1) is None


@pytest.mark.long
def test_the_local_search_for_latency_is_near_the_quickest() -> None:
    given = problem(1, 4, 2)
    rate = best(given).predicted_pps * 0.5
    exact, local = quickest(given, rate), quickest(given, rate, limit=0)
    assert exact is not None and exact.latency_s is not None
    assert local is not None and local.latency_s is not None
    assert exact.latency_s <= local.latency_s <= exact.latency_s * 1.3
    assert "not proven" in local.how


@pytest.mark.long
def test_fewest_lcores_within_a_latency() -> None:
    given = problem(5, 3, 3)
    rate = best(given).predicted_pps / 2
    quick = quickest(given, rate)
    assert quick is not None and quick.latency_s is not None
    assert fewest(given, rate, quick.latency_s / 2) is None
    reached = fewest(given, rate, quick.latency_s * 3)
    assert reached is not None and reached.latency_s is not None
    assert reached.latency_s <= quick.latency_s * 3


def _slow(runs: tuple[Run, ...]) -> Problem:
    cheap, slow = (Hop(cycles, cycles + 10) for cycles in (30.0, 8_000.0))
    nfs = tuple(
        NfCost(name, Hop(10, 30), work, Hop(5, 15), 5, poll=100)
        for name, work in (("a", cheap), ("b", slow), ("c", slow))
    )
    return Problem(nfs, Traffic(Hop(30, 40), Hop(20, 40), 0, 1, 0, 100, 20), (0, 1), 1e9, runs)


@pytest.mark.long
def test_functions_side_by_side_are_chosen_where_they_may_be() -> None:
    """Two slow ones at the same time, on both lcores: nothing in sequence is as quick."""
    alone, beside = quickest(_slow(()), 1e4), quickest(_slow((Run(1, 2),)), 1e4)
    assert alone is not None and beside is not None
    assert alone.layout.beside is None and "side by side" not in alone.how
    assert beside.layout.beside is not None and "side by side" in beside.how
    assert beside.layout.beside.run == Run(1, 2)
    assert beside.latency_s is not None and alone.latency_s is not None
    assert beside.latency_s < 0.7 * alone.latency_s
    assert "b||c @" in beside.layout.text(["a", "b", "c"])
    # A search step by step finds it, too.
    given = _slow((Run(1, 2),))

    def cost(layout: Layout) -> float:
        return latency_s(given, layout, 1e4) or float("inf")

    assert improved(given, run_to_completion(given), cost).beside is not None


def test_side_by_side_only_with_one_replica_and_on_other_lcores() -> None:
    given = _slow((Run(1, 2), Run(0, 2), Run(0, 3)))
    assert not list(with_beside(given, Layout((3,), ((0, 1),))))
    assert not list(with_beside(given, Layout((1, 1, 1), ((0,), (1,), (0,)))))
    assert [x.beside for x in with_beside(given, Layout((1, 2), ((1,), (0,))))] == [
        Beside(Run(1, 2), (1,))
    ]
    whole = list(with_beside(given, Layout((3,), ((0,),))))
    assert [one.beside for one in whole] == [
        Beside(Run(1, 2), (1,)),
        Beside(Run(0, 2), (1,)),
        Beside(Run(0, 3), (1, 1)),
    ]
    for one in whole:
        assert one.used == (0, 1)


def _segment_costs(names: str, *, near: bool) -> float:
    known = {
        "p": NfCost("l2fwd", Hop(2, 4), Hop(7, 19), Hop(2, 4), 0),
        "a": NfCost("acl", Hop(22, 30), Hop(60, 62), Hop(2, 4), 0),
    }
    nfs = tuple(known[name] for name in names)
    given = Problem(nfs, Traffic(Hop(0, 0), Hop(0, 0), 0, 0), (0, 1), 1e9)
    [part] = parts(given, Layout((len(names),), ((0,) if near else (1,),)))[1]
    return part.cycles


def test_a_segment_classifies_once_for_all_of_its_functions() -> None:
    # Alone it touches the header first; behind a classification, in which the header has come, not.
    assert _segment_costs("p", near=False) == 4 + 19 + 4
    assert _segment_costs("pa", near=False) == 30 + 7 + 60 + 4
    assert _segment_costs("ap", near=False) == 30 + 62 + 7 + 4
    assert _segment_costs("pa", near=True) == 22 + 7 + 60 + 2


def test_a_branch_is_priced_by_where_its_packets_go() -> None:
    """By hand: half of the packets go past the second function, which drops a quarter of them."""
    nfs = tuple(NfCost(name, Hop(2, 10), Hop(100, 105), Hop(1, 4), 0) for name in "abc")
    shares = {(-1, 0): 1.0, (0, 1): 0.5, (0, 2): 0.5, (1, 2): 0.375, (2, 3): 0.8}
    edges = tuple(Edge(*way, share) for way, share in shares.items())
    ends = Traffic(Hop(7, 7), Hop(9, 9), 0, 0)
    given = Problem(nfs, ends, (0, 1), 1e9, edges=edges)
    assert given.visits == (1.0, 0.5, 0.875) and given.delivered == 0.8
    in_one = loads(given, Layout((3,), ((0,),)))
    assert in_one[0] == pytest.approx(7 + 2 + 100 * (1 + 0.5 + 0.875) + 0.8 * (1 + 9))
    cut = loads(given, Layout((1, 1, 1), ((0,), (1,), (0,))))
    # To b and back over the ring; what skips it stays on the lcore, through a ring of its own.
    b = 0.5 * (10 + 105) + 0.375 * 4
    assert cut[1] == pytest.approx(b)
    a = 2 + 100 + 0.5 * 4 + 0.5 * 1
    c = 0.375 * (10 + 105) + 0.5 * (2 + 100) + 0.8 * 1
    assert cut[0] == pytest.approx(7 + a + c + 0.8 * 9)
    assert throughput(given, Layout((3,), ((0,),))) == pytest.approx(0.8e9 / in_one[0])
    # As a chain in which all go through all, which it was priced as before, it looks far slower.
    straight = replace(given, edges=())
    assert loads(straight, Layout((3,), ((0,),)))[0] > 1.2 * in_one[0]


def test_replicas_find_tables_that_are_a_part_of_all() -> None:
    """Two functions whose tables push each other out: apart, each costs a halving's relief less."""
    nfs = tuple(
        NfCost(n, Hop(0, 0), Hop(100, 100, (130, 130)), Hop(0, 0), 0, 130, relief=20) for n in "ab"
    )
    given = Problem(nfs, Traffic(Hop(0, 0), Hop(0, 0), 0, 1), (0, 1), 1e9)
    assert loads(given, Layout((2,), ((0,),)))[0] == pytest.approx(200)
    assert loads(given, Layout((1, 1), ((0,), (1,)))) == pytest.approx({0: 80, 1: 80})
    # As replicas both have half of all flows, as where that was measured.
    assert loads(given, Layout((2,), ((0, 1),))) == pytest.approx({0: 130, 1: 130})
    # One is spread and the other is not: a quarter of all tables here, three quarters there.
    loaded = loads(given, Layout((1, 1), ((0, 1), (0,))))
    assert loaded[1] == pytest.approx((130 - 20) / 2)
    assert loaded[0] == pytest.approx((130 + 20 * 0.585) / 2 + 100 - 20 * 0.415, rel=1e-3)
