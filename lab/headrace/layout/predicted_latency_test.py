# SPDX-License-Identifier: Apache-2.0
"""The latency of a layout against lcores that are polled step by step."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import mean

import pytest

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
from headrace.layout.predicted_latency import (
    QueueStage,
    at_bursts,
    latency_s,
    sides,
    stages,
    straight,
    turn,
)

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
    source, [lead], [sink] = stages(given, layout, rate)
    [beside] = sides(given, layout, rate)
    first = given.nfs[0]
    own = first.rx.apart + first.work.apart + first.tx.apart
    each = lead.takes(2) - lead.takes(1)
    fork = replace(lead, knots=straight(lead.takes(1) - each, own))
    rest = replace(lead, position=3, knots=straight(0.0, max(1.0, each - own)), idle=0.0)
    return [source, (fork,), (replace(beside, position=2),), (rest,), (replace(sink, position=4),)]


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
    one = QueueStage(0, 0, 0.002, straight(200.0, 50.0), 20.0)
    length = turn([one])
    assert length is not None
    expected = 0.002 * length
    assert length == pytest.approx(20 + expected * 180 + expected * 50)


def test_where_idle_polls_cost_nothing_no_lcore_is_busy_for_more_than_all_of_the_time() -> None:
    """One packet a poll would take 1.6 times the cycles that there are: C = 150 + 50 * 0.008 C."""
    one = QueueStage(0, 0, 0.008, straight(150.0, 50.0), 0.0)
    assert turn([one]) == pytest.approx(250)
    [[each]] = at_bursts([(one,)])
    assert each == pytest.approx(1 / one.rate)
    slower = replace(one, rate=0.004)
    [[each]] = at_bursts([(slower,)])
    assert turn([slower]) == 0 and each == pytest.approx(200)
    assert turn([replace(one, rate=0.02)]) is None  # 32 packets take 1750 cycles, and come in 1600


def test_one_lcore_that_does_all_in_turn_by_hand() -> None:
    """One packet at a time, long before the next: all polls and all work, and half an idle turn."""
    way = [
        (QueueStage(0, 0, 1e-6, straight(100.0, 30.0), 10.0),),
        (QueueStage(1, 0, 1e-6, straight(500.0, 70.0), 10.0),),
        (QueueStage(2, 0, 1e-6, straight(90.0, 60.0), 10.0, 100.0),),
    ]
    took = simulated(way, [{1: 1.0}, {2: 1.0}, {}], 1e-6, 200)
    assert len(took) == 200
    assert all(130 + 570 + 100 <= one <= 130 + 570 + 100 + 30 for one in took)


def test_what_one_lcore_hands_over_another_finds_whole() -> None:
    """The first lcore is busy for long: eight packets come in a turn, and the next one, which has
    little to do, finds them all at once; two replicas find half of them each."""
    rate = 0.01
    slow = QueueStage(0, 0, rate, straight(400.0, 50.0), 1.0)  # C = 400 + 50 C / 100
    quick = QueueStage(1, 1, rate, straight(80.0, 10.0), 1.0)
    [[first], [second]] = at_bursts([(slow,), (quick,)])
    assert (first, second) == pytest.approx((400 / 8 + 50, 80 / 8 + 10))
    halves = [replace(quick, cpu=cpu, rate=rate / 2) for cpu in (1, 2)]
    assert at_bursts([(slow,), halves])[1] == pytest.approx([80 / 4 + 10] * 2)
    # A burst that has come while the lcore was another task's.
    assert at_bursts([(replace(slow, rate=1e-6),), (quick,)], {1: 16.0})[1] == pytest.approx([15.0])


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


def test_a_poll_takes_what_it_did_at_each_burst() -> None:
    """Along straight lines between the bursts that it was measured at, and on beyond them."""
    one = QueueStage(0, 0, 1.0, ((1.0, 1_000.0), (4.0, 1_060.0), (32.0, 3_300.0)), 20.0)
    assert [one.takes(n) for n in (1, 2, 4, 5, 18, 32)] == [
        1_000,
        1_020,
        1_060,
        1_140,
        2_180,
        3_300,
    ]
    assert one.takes(40) == pytest.approx(3_940)


@pytest.mark.parametrize("name", ["one segment", "replicas"])
def test_bursts_have_costs_of_their_own(name: str) -> None:
    """Where they were measured, it is they that a poll costs; each of two replicas has its own."""
    full, layout = problem(1), LAYOUTS[name]
    costs = {1: 900.0, 4: 300.0, 32: 80.0}
    bursts = {
        n: replace(full, nfs=tuple(replace(nf, work=Hop(x, x + 100)) for nf in full.nfs))
        for n, x in costs.items()
    }
    given = replace(full, at_bursts=bursts)
    for i, one in enumerate(stages(given, layout, 1e3)[1]):
        for n, each in bursts.items():
            part = parts(each, layout)[1][i]
            assert one.takes(n) == pytest.approx(n * part.cycles / part.packets)
    delays = took(given, layout, 1e3)
    assert delays is not None
    alone = parts(bursts[1], layout)[1][0]
    assert delays.median_s * HZ == pytest.approx(alone.cycles / alone.packets, rel=0.2)


def test_the_sink_reads_the_clock_when_it_has_received() -> None:
    full, layout = problem(1), LAYOUTS["one segment"]
    received = replace(full, traffic=replace(full.traffic, receive=Hop(70.0, 500.0)))
    given = replace(full, at_bursts={1: received, 32: full})
    clocks = [stages(given, one, 1e3)[-1][0].clock for one in (layout, LAYOUTS["hybrid"])]
    assert clocks == [70.0, 70.0]
    near = Layout((3,), ((0,),))
    assert stages(given, near, 1e3)[-1][0].clock == 500.0


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
