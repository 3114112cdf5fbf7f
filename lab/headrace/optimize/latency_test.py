# SPDX-License-Identifier: Apache-2.0
"""The latency of a layout against lcores that are polled step by step."""

from __future__ import annotations

import random
from collections import deque
from statistics import mean

import pytest

from headrace.optimize.latency import BURST, Stage, latency_s, sides, stages, turn
from headrace.optimize.layout import (
    Beside,
    Hop,
    Layout,
    NfCost,
    Problem,
    Run,
    Traffic,
    lead_extra,
    loads,
    side,
    throughput,
)

HZ = 1e9


def problem(seed: int) -> Problem:
    draw = random.Random(seed)
    nfs = tuple(
        NfCost(str(i), Hop(10, 30), Hop(w := draw.uniform(20, 120), w + 10), Hop(5, 15), 5, None, p)
        for i, p in enumerate((100.0, 300.0, 200.0))
    )
    return Problem(nfs, Traffic(Hop(30, 40), Hop(20, 40), 0, 1, 0.0, 120.0, 25.0), (0, 1), HZ)


def simulated(way: list[tuple[Stage, ...]], rate_pps: float, packets: int) -> float:
    """Mean seconds; each lcore polls its stages in turn, and a burst leaves when it is done."""
    queues: dict[Stage, deque[tuple[float, float]]] = {s: deque() for one in way for s in one}
    clocks = {s.cpu: 0.0 for s in queues}
    begun = [i * HZ / rate_pps for i in range(packets)]
    queues[way[0][0]].extend((t, t) for t in begun)
    latencies: list[float] = []
    turn_of: dict[int, list[Stage]] = {
        cpu: sorted((s for s in queues if s.cpu == cpu), key=lambda s: s.position) for cpu in clocks
    }
    at = dict.fromkeys(clocks, 0)
    choose = random.Random(7)
    while len(latencies) < packets:
        cpu = min(clocks, key=lambda c: clocks[c])
        stage = turn_of[cpu][at[cpu]]
        at[cpu] = (at[cpu] + 1) % len(turn_of[cpu])
        now, queue = clocks[cpu], queues[stage]
        burst: list[tuple[float, float]] = []
        while queue and queue[0][0] <= now and len(burst) < BURST:
            burst.append(queue.popleft())
        if not burst:
            clocks[cpu] += stage.idle
            continue
        clocks[cpu] += stage.poll + len(burst) * stage.cycles
        if stage.position == len(way) - 1:
            latencies += [now + stage.poll - start for _, start in burst]
            continue
        for _, start in burst:
            queues[choose.choice(way[stage.position + 1])].append((clocks[cpu], start))
    return mean(latencies[packets // 5 :]) / HZ


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
    assert predicted == pytest.approx(simulated(stages(given, layout, rate), rate, 4_000), rel=0.35)


SIDE_BY_SIDE = Layout((3,), ((0,),), Beside(Run(0, 2), (1,)))


def _as_stages(given: Problem, layout: Layout, rate: float) -> list[tuple[Stage, ...]]:
    """The lead's work in two parts, on both sides of the other function's; polled one after the
    other, as the lead looks for what is through when it has handed out what came in."""
    source, [lead], sink = stages(given, layout, rate)
    [beside] = sides(given, layout, rate)
    first = given.nfs[0]
    own = first.rx.apart + first.work.apart + first.tx.apart
    fork = Stage(1, lead.cpu, lead.rate, own, lead.poll, lead.idle)
    other = Stage(2, beside.cpu, beside.rate, beside.cycles, beside.poll, beside.idle)
    rest = Stage(3, lead.cpu, lead.rate, max(1.0, lead.cycles - own), 0.0, 0.0)
    end = Stage(4, sink[0].cpu, sink[0].rate, sink[0].cycles, sink[0].poll, sink[0].idle)
    return [source, (fork,), (other,), (rest,), (end,)]


@pytest.mark.parametrize("load", [0.2, 0.7])
@pytest.mark.parametrize("seed", [1, 2])
def test_side_by_side_is_what_polled_lcores_take(load: float, seed: int) -> None:
    given = problem(seed)
    rate = throughput(given, SIDE_BY_SIDE) * load
    predicted = latency_s(given, SIDE_BY_SIDE, rate)
    assert predicted is not None
    way = _as_stages(given, SIDE_BY_SIDE, rate)
    assert predicted == pytest.approx(simulated(way, rate, 1_500), rel=0.4)


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
    found = [latency_s(given, layout, most * share) or 0.0 for share in (0.3, 0.6, 0.9)]
    assert found == sorted(found)


def test_a_turn_of_one_segment_by_hand() -> None:
    """Idle but for one packet in ten turns: C = 20 + 0.1 (200 - 20) + 0.1 * 50, in the limit."""
    one = Stage(0, 0, 0.002, 50.0, 200.0, 20.0)
    length = turn([one])
    assert length is not None
    expected = 0.002 * length
    assert length == pytest.approx(20 + expected * 180 + expected * 50)
