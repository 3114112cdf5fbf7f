# SPDX-License-Identifier: Apache-2.0
"""The latency of a layout against lcores that are polled step by step."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import mean

import pytest

from headrace.layout.latency import QueueStage, latency_s, sides, stages, turn
from headrace.layout.layout import (
    Beside,
    Edge,
    Hop,
    Layout,
    NfCost,
    Problem,
    Run,
    Traffic,
    lead_extra,
    loads,
    parts,
    side,
    throughput,
    transitions,
)
from headrace.layout.polled import simulated, took

HZ = 1e9


def problem(seed: int) -> Problem:
    draw = random.Random(seed)
    nfs = tuple(
        NfCost(str(i), Hop(10, 30), Hop(w := draw.uniform(20, 120), w + 10), Hop(5, 15), 5, None, p)
        for i, p in enumerate((100.0, 300.0, 200.0))
    )
    return Problem(nfs, Traffic(Hop(30, 40), Hop(20, 40), 0, 1, 0.0, 120.0, 25.0), (0, 1), HZ)


def mean_of(way: list[tuple[QueueStage, ...]], rate_pps: float, packets: int) -> float:
    """Seconds; each lcore polls its stages in turn, and a burst leaves when it is done."""
    onwards = [{i + 1: 1.0} for i in range(len(way) - 1)] + [{}]
    took = simulated(way, onwards, rate_pps / HZ, packets, seed=7)
    assert len(took) == packets
    return mean(took[packets // 5 :]) / HZ


LAYOUTS = {
    "one segment": Layout((3,), ((1,),)),
    "pipeline": Layout((1, 1, 1), ((0,), (1,), (1,))),
    "hybrid": Layout((2, 1), ((0,), (1,))),
    "replicas": Layout((3,), ((0, 1),)),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("load", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("seed", [1, 2])
def test_it_is_what_polled_lcores_take(name: str, load: float, seed: int) -> None:
    given, layout = problem(seed), LAYOUTS[name]
    rate = throughput(given, layout) * load
    predicted = latency_s(given, layout, rate)
    assert predicted is not None
    assert predicted == pytest.approx(mean_of(stages(given, layout, rate), rate, 4_000), rel=0.35)


SIDE_BY_SIDE = Layout((3,), ((0,),), Beside(Run(0, 2), (1,)))


def _as_stages(given: Problem, layout: Layout, rate: float) -> list[tuple[QueueStage, ...]]:
    """The lead's work in two parts, on both sides of the other function's; polled one after the
    other, as the lead looks for what is through when it has handed out what came in."""
    source, [lead], sink = stages(given, layout, rate)
    [beside] = sides(given, layout, rate)
    first = given.nfs[0]
    own = first.rx.apart + first.work.apart + first.tx.apart
    fork = QueueStage(1, lead.cpu, lead.rate, own, lead.poll, lead.idle)
    other = QueueStage(2, beside.cpu, beside.rate, beside.cycles, beside.poll, beside.idle)
    rest = QueueStage(3, lead.cpu, lead.rate, max(1.0, lead.cycles - own), 0.0, 0.0)
    end = QueueStage(4, sink[0].cpu, sink[0].rate, sink[0].cycles, sink[0].poll, sink[0].idle)
    return [source, (fork,), (other,), (rest,), (end,)]


@pytest.mark.parametrize("load", [0.2, 0.7])
@pytest.mark.parametrize("seed", [1, 2])
def test_side_by_side_is_what_polled_lcores_take(load: float, seed: int) -> None:
    given = problem(seed)
    rate = throughput(given, SIDE_BY_SIDE) * load
    predicted = latency_s(given, SIDE_BY_SIDE, rate)
    assert predicted is not None
    way = _as_stages(given, SIDE_BY_SIDE, rate)
    assert predicted == pytest.approx(mean_of(way, rate, 1_500), rel=0.4)


def test_side_by_side_moves_work_to_the_other_lcore() -> None:
    given = problem(1)
    alone, both = loads(given, Layout((3,), ((0,),))), loads(given, SIDE_BY_SIDE)
    here = SIDE_BY_SIDE.beside
    assert here is not None
    assert both[1] - alone[1] == pytest.approx(side(given.nfs[1]))
    assert both[0] - alone[0] == pytest.approx(lead_extra(given, here))


def test_two_slow_functions_side_by_side_take_the_time_of_one() -> None:
    slow = NfCost("slow", Hop(10, 30), Hop(10_000, 10_000), Hop(5, 15), 5, None, 100.0)
    ends = Traffic(Hop(30, 40), Hop(20, 40), 0, 1, 0.0, 120.0, 25.0)
    given = Problem((slow, slow), ends, (0, 1), HZ)
    one_by_one = latency_s(given, Layout((2,), ((1,),)), 1e4)
    beside = latency_s(given, Layout((2,), ((1,),), Beside(Run(0, 2), (0,))), 1e4)
    assert one_by_one is not None and beside is not None
    assert 0.5 < beside / one_by_one < 0.7


def test_overload_has_no_latency() -> None:
    given = problem(1)
    for layout in LAYOUTS.values():
        most = throughput(given, layout)
        assert latency_s(given, layout, most * 0.9) is not None
        assert latency_s(given, layout, most * 1.05) is None


def test_more_load_takes_longer() -> None:
    given, layout = problem(3), LAYOUTS["one segment"]
    most = throughput(given, layout)
    latencies = [latency_s(given, layout, most * share) or 0.0 for share in (0.3, 0.6, 0.9)]
    assert latencies == sorted(latencies)


def test_a_turn_of_one_segment_by_hand() -> None:
    """Idle but for one packet in ten turns: C = 20 + 0.1 (200 - 20) + 0.1 * 50, in the limit."""
    one = QueueStage(0, 0, 0.002, 50.0, 200.0, 20.0)
    length = turn([one])
    assert length is not None
    expected = 0.002 * length
    assert length == pytest.approx(20 + expected * 180 + expected * 50)


def test_one_lcore_that_does_all_in_turn_by_hand() -> None:
    """One packet at a time, long before the next: all polls and all work, and half an idle turn."""
    way = [
        (QueueStage(0, 0, 1e-6, 30.0, 100.0, 10.0),),
        (QueueStage(1, 0, 1e-6, 70.0, 500.0, 10.0),),
        (QueueStage(2, 0, 1e-6, 0.0, 100.0, 10.0),),
    ]
    took = simulated(way, [{1: 1.0}, {2: 1.0}, {}], 1e-6, 200)
    assert len(took) == 200
    assert all(130 + 570 + 100 <= one <= 130 + 570 + 100 + 30 for one in took)


def test_bursts_wait_for_each_other() -> None:
    """At most of the load the 99th percentile is a few turns, and an overload has none."""
    given = problem(1)
    layout = LAYOUTS["hybrid"]
    most = throughput(given, layout)
    low, high = (took(given, layout, most * share) for share in (0.2, 0.8))
    assert low is not None and high is not None
    assert low.p99_s is not None and high.p99_s is not None
    assert low.median_s < high.median_s < high.p99_s < 5 * high.median_s
    assert took(given, layout, most * 1.1) is None


def test_small_bursts_have_costs_of_their_own() -> None:
    """Where they were measured, it is they that a poll with one packet costs."""
    given, layout = problem(1), LAYOUTS["one segment"]
    slow = replace(
        given, nfs=tuple(replace(nf, work=Hop(900, 1_000)) for nf in given.nfs), at_less=None
    )
    both = replace(given, at_less=slow)
    [chain] = stages(both, layout, 1e3)[1]
    [full] = parts(given, layout)[1]
    [small] = parts(slow, layout)[1]
    assert chain.poll + chain.cycles == pytest.approx(small.cycles, rel=1e-9)
    assert chain.poll / 32 + chain.cycles == pytest.approx(full.cycles, rel=1e-9)
    delays = took(both, layout, 1e3)
    assert delays is not None and delays.median_s * HZ == pytest.approx(small.cycles, rel=0.2)


def test_a_branch_has_the_latency_of_those_that_take_it() -> None:
    """Nine of ten packets leave after the first function; the typical packet is one of them."""
    given = problem(1)
    slow = replace(given.nfs[2], work=Hop(50_000, 50_000))
    edges = (Edge(-1, 0, 1.0), Edge(0, 3, 0.9), Edge(0, 1, 0.1), Edge(1, 2, 0.1), Edge(2, 3, 0.1))
    layout = LAYOUTS["pipeline"]
    branched = replace(given, nfs=(*given.nfs[:2], slow), edges=edges)
    straight = replace(branched, edges=())
    assert transitions(branched, layout)[1] == pytest.approx({2: 0.1, 4: 0.9})
    quick, long = (took(one, layout, 1e3) for one in (branched, straight))
    assert quick is not None and long is not None
    assert long.median_s * HZ > 50_000 and quick.median_s < long.median_s / 10
    assert quick.p99_s is not None and quick.p99_s * HZ > 50_000


@pytest.mark.parametrize("name", ["one segment", "replicas"])
def test_polls_cost_what_was_measured_at_both_bursts(name: str) -> None:
    """A packet alone, and in a full burst, of which each of two replicas gets half."""
    full, layout = problem(1), LAYOUTS[name]
    nfs = tuple(replace(nf, work=Hop(nf.work.same + 200, nf.work.apart + 200)) for nf in full.nfs)
    given = replace(full, at_less=replace(full, nfs=nfs))
    burst = 32 / len(layout.lcores[0])
    for one, dense, sparse in zip(
        stages(given, layout, 1e5)[1],
        parts(given, layout)[1],
        parts(replace(full, nfs=nfs), layout)[1],
        strict=True,
    ):
        in_full = (one.poll + burst * one.cycles) / burst
        assert in_full == pytest.approx(dense.cycles / dense.packets)
        assert one.poll + one.cycles == pytest.approx(sparse.cycles / sparse.packets)
