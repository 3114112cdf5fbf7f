# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from headrace.layout import compiled
from headrace.layout.events import NEVER, Pauses, PolledLcores, Queue, Traversal, follow
from headrace.layout.layout import Hop, Layout, NfCost, Problem, Traffic
from headrace.layout.predicted_latency import QueueStage, latency_s, stages, straight


def queue(position: int, cpu: int, cycles: float, **more: float) -> Queue:
    return Queue(QueueStage(position, cpu, 0.0, straight(0.0, cycles), 10.0), **more)  # type: ignore[arg-type]


def chain(cycles: float, **more: float) -> list[list[Queue]]:
    return [[queue(0, 0, 1.0)], [queue(1, 1, cycles, **more)], [queue(2, 2, 1.0)]]


def test_an_lcore_carries_what_its_cycles_allow_and_the_rest_is_lost() -> None:
    """100 cycles a packet, one packet every 80: four in five are carried, and what the ring has."""
    followed = follow(Traversal(chain(100.0), 1 / 80), 200_000)
    assert followed.lost == pytest.approx(0.2 * followed.sent - 4096, abs=100)
    assert len(followed.latencies) + followed.lost == followed.sent
    assert followed.dropped[0] == followed.dropped[2] == 0


def test_a_full_ring_makes_packets_wait_for_all_that_is_in_it() -> None:
    followed = follow(Traversal(chain(100.0, room=512), 1 / 80), 100_000)
    assert np.median(followed.steady) == pytest.approx(512 * 100, rel=0.1)


def test_processes_that_poll_on_one_lcore_have_half_of_it_each() -> None:
    """Slices of 100,000 cycles, and 100 cycles a packet: half of 1/100 packets per cycle."""
    ways = [
        [queue(0, 0, 1.0)],
        [queue(1, 1, 100.0, task=0), queue(1, 1, 100.0, task=1)],
        [queue(2, 2, 1.0)],
    ]
    lcores = PolledLcores(slice_cycles=100_000.0)
    carried = follow(Traversal(ways, 0.9 / 100, lcores), 100_000)
    assert carried.lost == 0  # their rings hold what comes meanwhile
    assert np.max(carried.steady) > 90_000  # and packets wait for a slice of the other one
    alone = [[queue(0, 0, 1.0)], [queue(1, 1, 100.0), queue(3, 1, 0.0, task=1, share=0.0)],
             [queue(2, 2, 1.0)]]  # fmt: skip
    idle = follow(Traversal(alone, 0.9 / 100, lcores), 400_000)
    assert idle.lost == pytest.approx((1 - 0.5 / 0.9) * idle.sent - 4096, rel=0.03)


def test_pauses_are_what_the_slowest_packets_wait_for() -> None:
    """One of 100,000 cycles in a million: a tenth of the packets meet it, up to 100,000 each."""
    pauses = PolledLcores(pauses=Pauses(1e-6, (100_000.0,)))
    calm = follow(Traversal(chain(10.0, room=65536), 1 / 100), 400_000)
    followed = follow(Traversal(chain(10.0, room=65536), 1 / 100, pauses), 400_000)
    assert np.quantile(calm.steady, 0.99) < 500
    assert 50_000 < np.quantile(followed.steady, 0.99) < 250_000
    assert np.median(followed.steady) < 1_000


def test_pauses_of_an_lcore_that_waits_pass_without_a_packet() -> None:
    """One of 1,000 cycles in 10,000, and a packet each million: each of three lcores is in a pause
    for a tenth of the time, and only what comes then waits."""
    pauses = PolledLcores(pauses=Pauses(1e-4, (1_000.0,)))
    calm = follow(Traversal(chain(10.0), 1e-6), 4_000)
    followed = follow(Traversal(chain(10.0), 1e-6, pauses), 4_000)
    waited = np.mean(followed.steady > np.max(calm.steady) + 10)
    assert waited == pytest.approx(1 - (1 - 1 / 11) ** 3, abs=0.03)


def test_a_task_sleeps_after_so_many_polls() -> None:
    """Ten of ten cycles are less than the 245 that are left of a gap, and more than one of 80."""
    lcores = PolledLcores(wake_cycles=3_000.0)

    def woken(gap: float) -> bool:
        followed = follow(Traversal(chain(5.0, patience=10), 1 / gap, lcores), 2_000)
        return bool(np.median(followed.steady) > 2_000)

    assert woken(3_250.0) and not woken(80.0)


def test_a_task_that_slept_is_up_when_it_was_roused() -> None:
    """A packet every 10,000 cycles, asleep after ten polls of ten: each pays for waking it."""
    lcores = PolledLcores(wake_cycles=3_000.0, rouse_cycles=700.0)
    polled = follow(Traversal(chain(100.0), 1e-4, lcores), 5_000)
    slept = follow(Traversal(chain(100.0, patience=10), 1e-4, lcores), 5_000)
    assert np.median(slept.steady) - np.median(polled.steady) == pytest.approx(3_000, abs=10)
    awake = follow(Traversal(chain(100.0, patience=2_000), 1e-4, lcores), 5_000)
    assert np.array_equal(awake.steady, polled.steady)
    dear = PolledLcores(wake_cycles=3_000.0, rouse_cycles=10_100.0)
    assert follow(Traversal(chain(100.0, patience=10), 1e-4, dear), 5_000).behind > slept.behind


def test_a_task_that_sleeps_while_its_packet_is_under_way_gets_it() -> None:
    """A source that works for 5,000 cycles on each, and a task that sleeps after 100."""
    ways = [[queue(0, 0, 5_000.0)], [queue(1, 1, 100.0, patience=10)], [queue(2, 2, 1.0)]]
    followed = follow(Traversal(ways, 1e-4, PolledLcores(wake_cycles=3_000.0)), 1_000)
    assert len(followed.latencies) == 1_000
    assert np.median(followed.steady) == pytest.approx(5_000 + 3_000 + 100, abs=20)


def test_sleepers_leave_their_lcore_to_who_has_packets() -> None:
    """Three chains on one lcore, of which one has packets: where the others poll it has a third."""
    shares = (1.0, 0.0, 0.0)

    def lost(patience: float) -> int:
        vnfs = [queue(1, 1, 100.0, task=i, share=one, patience=patience)
                for i, one in enumerate(shares)]  # fmt: skip
        ways = [[queue(0, 0, 1.0)], vnfs, [queue(2, 2, 1.0, share=one) for one in shares]]
        lcores = PolledLcores(slice_cycles=200_000.0)
        return follow(Traversal(ways, 0.5 / 100, lcores, lanes=True), 100_000).lost

    assert lost(50) == 0
    assert lost(NEVER) == pytest.approx(100_000 * (1 - 1 / 3 / 0.5) - 4096, rel=0.05)


def test_each_sleeper_is_up_as_soon_as_its_packet() -> None:
    """Six chains in turn, each asleep when its packet comes: 1,000 cycles until it is up, 100 of
    work. Who was roused goes on when its time has come, whichever of the lcores it is."""
    replicas = [queue(1, 1 + i, 100.0, patience=2.0) for i in range(6)]
    ways = [[queue(0, 0, 1.0)], replicas, [queue(2, 7, 1.0)]]
    lcores = PolledLcores(wake_cycles=1000.0)
    followed = follow(Traversal(ways, 1 / 10_000, lcores, lanes=True), 600)
    assert followed.lost == 0
    assert np.min(followed.steady) >= 1_100 and np.max(followed.steady) < 1_200


def polled(way: Traversal, packets: int) -> tuple[list[float], int]:
    """Latencies in order of arrival, and packets that were worked on, where every lcore polls all
    its queues in turn, in vain as well, and packets stay in their lane."""
    flat = [(stage, one) for stage, several in enumerate(way.stages) for one in several]
    rings: list[list[tuple[float, float]]] = [[] for _ in flat]
    cpus = sorted({one.stage.cpu for _, one in flat})
    own = {cpu: [i for i, (_, one) in enumerate(flat) if one.stage.cpu == cpu] for cpu in cpus}
    firsts = np.cumsum([0, *map(len, way.stages)])
    clocks, turns, given = dict.fromkeys(cpus, 0.0), dict.fromkeys(cpus, 0), [0] * len(way.stages)
    rings[0] = [(due, due) for due in map(float, way.planned(packets, 1))]
    latencies, events = list[float](), 0
    while len(latencies) < packets:
        cpu = min(cpus, key=lambda one: clocks[one])
        now, q = clocks[cpu], own[cpu][turns[cpu] % len(own[cpu])]
        turns[cpu] += 1
        stage, one = flat[q]
        taken = [due for when, due in rings[q][:32] if when <= now]
        rings[q] = rings[q][len(taken) :]
        each = one.stage.line[1]
        clocks[cpu] += one.stage.line[0] + len(taken) * each if taken else one.stage.idle
        events += len(taken)
        for due in taken:
            if stage == len(way.stages) - 1:
                latencies.append(now + one.stage.line[0] - due)
                continue
            here, there = (len(way.stages[stage + more]) for more in (0, 1))
            lane = q - firsts[stage] if here == there else given[stage] % there
            given[stage] += 1
            rings[firsts[stage + 1] + lane].append((clocks[cpu], due))
    return latencies, events


@pytest.mark.parametrize("gap", [4096, 512, 128])
def test_polls_in_vain_are_left_out_and_change_nothing(gap: int) -> None:
    """Source, switch and sink on one lcore, whose polls take unlike times, and lanes on others.
    All times are eighths, of which sums and products are exact: elsewhere the last bits differ, as
    one product stands for many sums, and a packet that comes with a poll may meet the next one."""

    def at(position: int, cpu: int, cycles: float, idle: float) -> Queue:
        return Queue(QueueStage(position, cpu, 0.0, straight(40.0, cycles), idle))

    lanes = [at(2, 1 + i, 61.0 + i, 13.625 + i) for i in range(5)]
    back = [at(3, 0, 9.0, 5.25) for _ in range(5)]
    ways = [[at(0, 0, 17.0, 7.875)], [at(1, 0, 21.0, 4.75)], lanes, back, [at(4, 7, 11.0, 3.125)],
            [at(5, 0, 8.0, 6.125)]]  # fmt: skip
    way = Traversal(ways, 1 / gap, lanes=True)
    latencies, events = polled(way, 400)
    followed = follow(way, 400)
    assert followed.events == events
    assert np.array_equal(followed.latencies, latencies)


def test_the_lcore_to_go_on_with_is_the_one_behind() -> None:
    draw = np.random.default_rng(1)
    for lcores in (1, 2, 3, 5, 8, 33):
        clocks, leaves = np.zeros((lcores, 5)), 1 << (lcores - 1).bit_length()
        tree = np.zeros(2 * leaves, np.int64)
        tree[leaves:] = np.minimum(np.arange(leaves), lcores - 1)
        for leaf in range(leaves):
            compiled._moved(clocks, tree, leaf)
        for here in map(int, draw.integers(0, lcores, 200)):
            clocks[here, compiled.CLOCK] = draw.integers(5) if draw.random() < 0.8 else NEVER
            compiled._moved(clocks, tree, here)
            # Of two that are equal it is the first.
            assert tree[1] == np.argmin(clocks[:, compiled.CLOCK])


def test_queues_that_hold_packets_are_those_listed() -> None:
    draw, holding = np.random.default_rng(1), set[int]()
    total, listed = np.zeros(5, np.int64), np.zeros((2, 9), np.int64)
    for q in map(int, draw.integers(0, 9, 500)):
        change = compiled._empty if q in holding else compiled._fill
        change(total, listed, q)
        holding ^= {q}
        assert sorted(listed[0, : total[compiled.FILLED]]) == sorted(holding)


def test_packets_stay_in_their_chain() -> None:
    """The second of two chains is slow: it alone loses what the first would have room for."""
    vnfs = [queue(1, 1, 50.0, room=64), queue(1, 2, 400.0, room=64)]
    behind = [queue(2, 3, 10.0), queue(2, 4, 10.0)]
    ways = [[queue(0, 0, 1.0)], vnfs, behind, [queue(3, 5, 1.0)]]
    followed = follow(Traversal(ways, 1 / 100, lanes=True), 20_000)
    assert followed.dropped[1] == 0 and followed.dropped[2] == pytest.approx(5_000, abs=150)


def test_a_killed_replica_loses_its_ring_and_the_other_takes_all() -> None:
    replicas = [queue(1, 1, 50.0, ends=500_000.0), queue(1, 3, 50.0)]
    ways = [[queue(0, 0, 1.0)], replicas, [queue(2, 2, 1.0)]]
    followed = follow(Traversal(ways, 1 / 60), 50_000)
    assert len(followed.latencies) + followed.lost == followed.sent
    assert followed.lost <= 64  # what its ring and its burst held
    assert replicas[0].ends < NEVER


def test_both_engines_say_the_same_of_a_typical_packet() -> None:
    hop = Hop(20.0, 40.0)
    nfs = tuple(NfCost(name, hop, Hop(50.0, 50.0), Hop(8.0, 8.0), 4.0, 60.0) for name in "ab")
    traffic = Traffic(Hop(20.0, 20.0), Hop(15.0, 25.0), 0, 3, poll=40.0, idle=20.0)
    problem = Problem(nfs, traffic, (1, 2), 1e9)
    layout = Layout((1, 1), ((1,), (2,)))
    for rate in (1e6, 3e6, 5e6):
        typical = latency_s(problem, layout, rate)
        assert typical is not None
        ways = [[Queue(one) for one in several] for several in stages(problem, layout, rate)]
        followed = follow(Traversal(ways, rate / 1e9), 40_000)
        assert np.median(followed.steady) == pytest.approx(typical * 1e9, rel=0.15)
