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


class Polled:
    """The same where every poll is done, in vain as well, and packets stay in their lane: what
    layout/compiled.py has to say of polls that it leaves out."""

    def __init__(self, way: Traversal, packets: int) -> None:
        self.way, self.packets, self.lcores = way, packets, way.lcores
        self.flat = [(stage, one) for stage, several in enumerate(way.stages) for one in several]
        self.firsts = np.cumsum([0, *map(len, way.stages)])
        self.rings: list[list[tuple[float, float]]] = [[] for _ in self.flat]
        self.rings[0] = [(due, due) for due in map(float, way.planned(packets, 1))]
        self.cpus = sorted({one.stage.cpu for _, one in self.flat})
        self.clocks = dict.fromkeys(self.cpus, 0.0)
        self.ends = dict.fromkeys(self.cpus, self.lcores.slice_cycles)
        self.began, self.quiet = dict.fromkeys(self.cpus, 0.0), dict.fromkeys(self.cpus, 0)
        self.at = {cpu: self.of(cpu, 0)[0] for cpu in self.cpus}
        self.asleep, self.ready = set[int](), [0.0] * len(self.flat)
        self.given = [0] * len(way.stages)
        self.latencies, self.events, self.lost = list[float](), 0, 0

    def of(self, cpu: int, task: int) -> list[int]:
        """Queues of a task."""
        places = [(one.stage.cpu, one.task) for _, one in self.flat]
        return [q for q, place in enumerate(places) if place == (cpu, task)]

    def run(self) -> None:
        while len(self.latencies) + self.lost < self.packets:
            cpu = min(self.cpus, key=lambda one: self.clocks[one])
            q, now = self.at[cpu], self.clocks[cpu]
            stage, one = self.flat[q]
            several = any(other.task and other.stage.cpu == cpu for _, other in self.flat)
            if several and now >= self.ends[cpu]:
                self.switch(cpu, now)
                continue
            mates = self.of(cpu, one.task)
            self.at[cpu] = mates[(mates.index(q) + 1) % len(mates)]
            taken = [due for when, due in self.rings[q][:32] if when <= now]
            self.rings[q] = self.rings[q][len(taken) :]
            if taken:
                self.quiet[cpu] = 0
                self.work(cpu, q, stage, taken)
                continue
            self.quiet[cpu] += 1
            self.clocks[cpu] += one.stage.idle
            if self.quiet[cpu] >= one.patience:
                if self.rings[q]:
                    self.ready[q] = self.rings[q][0][0] + self.lcores.wake_cycles
                else:
                    self.asleep.add(q)
                self.switch(cpu, self.clocks[cpu])

    def work(self, cpu: int, q: int, stage: int, taken: list[float]) -> None:
        once, each = self.flat[q][1].stage.line
        now = self.clocks[cpu]
        done = self.clocks[cpu] = now + once + len(taken) * each
        self.events += len(taken)
        for due in taken:
            if stage == len(self.way.stages) - 1:
                self.latencies.append(now + once - due)
                continue
            here, there = (len(self.way.stages[stage + more]) for more in (0, 1))
            lane = q - self.firsts[stage] if here == there else self.given[stage] % there
            self.given[stage] += 1
            to = int(self.firsts[stage + 1] + lane)
            if len(self.rings[to]) >= self.flat[to][1].room:
                self.lost += 1
            else:
                self.rings[to].append((done, due))
            self.rouse(cpu, to, done)

    def rouse(self, by: int, q: int, when: float) -> None:
        if q not in self.asleep:
            return
        self.asleep.remove(q)
        cpu = self.flat[q][1].stage.cpu
        self.ready[q] = when + self.lcores.wake_cycles
        if self.clocks[cpu] == NEVER:
            self.at[cpu], self.quiet[cpu] = q, 0
            self.clocks[cpu] = self.began[cpu] = self.ready[q]
            self.ends[cpu] = self.ready[q] + self.lcores.slice_cycles
        else:
            kept = max(self.ready[q], self.began[cpu] + self.lcores.kept_cycles)
            self.ends[cpu] = min(self.ends[cpu], kept)
        self.clocks[by] += self.lcores.rouse_cycles

    def switch(self, cpu: int, now: float) -> None:
        before = self.flat[self.at[cpu]][1].task
        self.quiet[cpu] = 0
        awake = [
            (one.task, q) for q, (_, one) in enumerate(self.flat)
            if one.stage.cpu == cpu and q not in self.asleep
        ]  # fmt: skip
        up = [(task <= before, task, q) for task, q in awake if self.ready[q] <= now]
        later = [(self.ready[q], task, q) for task, q in awake if self.ready[q] > now]
        if not awake:
            self.clocks[cpu] = NEVER
            return
        _, task, q = min(up) if up else min(later)
        self.at[cpu] = q
        start = max(now, self.ready[q]) + self.lcores.switch_cycles * (task != before)
        self.clocks[cpu] = self.began[cpu] = start
        self.ends[cpu] = start + self.lcores.slice_cycles


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
    _alike(way, 400)


def _alike(way: Traversal, packets: int) -> Polled:
    every, followed = Polled(way, packets), follow(way, packets)
    every.run()
    assert followed.events == every.events and followed.lost == every.lost
    assert np.array_equal(followed.latencies, every.latencies)
    return every


@pytest.mark.parametrize(
    ("patience", "gap", "lost"),
    [
        (NEVER, 512, False),  # they poll: each has its slices, whoever has packets
        (NEVER, 24, True),
        (9.0, 512, False),  # each is roused for its packets
        (9.0, 64, False),
        (60.0, 24, True),
        (400.0, 1024, False),  # who is roused has the lcore before the other one sleeps
    ],
)
def test_polls_in_vain_of_tasks_that_share_an_lcore(patience: float, gap: int, lost: bool) -> None:
    """Two lcores of three tasks each, and a second row of them on the same lcores."""

    def at(position: int, cpu: int, cycles: float, idle: float, **more: float) -> Queue:
        stage = QueueStage(position, cpu, 0.0, straight(40.0, cycles), idle)
        return Queue(stage, **more)  # type: ignore[arg-type]

    def row(position: int, tasks: int) -> list[Queue]:
        return [
            at(
                position,
                1 + i % 2,
                61.0 + i,
                13.625,
                task=tasks + i // 2,
                room=64,
                patience=patience,
            )
            for i in range(6)
        ]

    back = [at(4, 0, 9.0, 5.25) for _ in range(6)]
    ways = [[at(0, 0, 17.0, 7.875)], [at(1, 0, 21.0, 4.75)], row(2, 0), row(3, 3), back,
            [at(5, 0, 8.0, 6.125)]]  # fmt: skip
    lcores = PolledLcores(6_000.0, 2_500.0, 300.0, 800.0, 50.0)
    every = _alike(Traversal(ways, 1 / gap, lcores, lanes=True), 1_500)
    assert bool(every.lost) is lost


def test_the_lcore_to_go_on_with_is_the_one_behind() -> None:
    draw = np.random.default_rng(1)
    for lcores in (1, 2, 3, 5, 8, 33):
        clocks, leaves = np.zeros((lcores, 5)), 1 << (lcores - 1).bit_length()
        tree = np.zeros(2 * leaves, np.int64)
        tree[leaves:] = np.minimum(np.arange(leaves), lcores - 1)
        for above in range(1, leaves):
            tree[leaves - above] = compiled._behind(clocks, tree, leaves - above)
        for here in map(int, draw.integers(0, lcores, 200)):
            # The one that goes on is told last: what it hands on is told before.
            first = int(tree[1])
            clocks[first, compiled.CLOCK] += draw.integers(3)
            clocks[here, compiled.CLOCK] = draw.integers(5) if draw.random() < 0.8 else NEVER
            compiled._moved(clocks, tree, here)
            compiled._moved(clocks, tree, first)
            # Of two that are equal it is the first.
            assert tree[1] == np.argmin(clocks[:, compiled.CLOCK])


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
