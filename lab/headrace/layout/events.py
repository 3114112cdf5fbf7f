# SPDX-License-Identifier: Apache-2.0
"""Packets through polling lcores, burst by burst: what each waits for, which are lost.

Where layout/predicted_latency.py has a closed form of the typical packet, this follows all of them:
an lcore polls the queues of its task in turn, takes up to a burst of what has come, works on it and
hands it on. Tasks that share an lcore have slices of it, as the kernel's fair scheduler gives them
to processes that never sleep; one that found nothing for long sleeps until a packet comes. Lcores
stand still for pauses drawn from a measured distribution. A queue that is full drops.

numba compiles the loop, as Python's own would need a minute for what it does in a second; the first
call of a machine takes some seconds for that, later ones read what was compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headrace.layout.predicted_latency import BURST, QueueStage

Floats = NDArray[np.float64]
NEVER = float("inf")
_WARM = 0.2  # of the packets: the first ones find queues emptier than the others do


@dataclass(frozen=True)
class Queue:
    """A segment's replica, and the ring in front of it. Cycles; `share`: of its stage's packets;
    `begins`, `ends`: when it is added, and when it is killed with what its ring holds. `patience`:
    after so many polls that found nothing its task sleeps until a packet comes; a task that sleeps
    has one queue."""

    stage: QueueStage
    task: int = 0  # of its lcore
    room: int = 4096  # packets
    share: float = 1.0
    begins: float = 0.0
    ends: float = NEVER
    patience: float = NEVER


@dataclass(frozen=True)
class Pauses:
    """How often an lcore stands still, and for how long: cycles, each as likely as the others."""

    per_cycle: float
    lengths: tuple[float, ...]


@dataclass(frozen=True)
class PolledLcores:
    """`slice_cycles`: of a task where several share an lcore; `switch_cycles`: to the next one.
    `kept_cycles`: so long it keeps the lcore at the least, where another one was roused.
    `wake_cycles`: until a task that slept is up, of which `rouse_cycles` are spent by who sends.
    `outside`: packets come by themselves, and no lcore makes them."""

    slice_cycles: float = NEVER
    kept_cycles: float = NEVER
    switch_cycles: float = 0.0
    wake_cycles: float = 0.0
    rouse_cycles: float = 0.0
    outside: bool = False
    pauses: Pauses | None = None


@dataclass(frozen=True)
class Followed:
    """`latencies`: cycles from when a packet was due until the sink had it, in order of arrival;
    `came`: when that was. `events`: packets that were worked on, by any stage."""

    latencies: Floats
    came: Floats
    sent: int
    dropped: tuple[int, ...]  # by queue
    events: int
    behind: float  # cycles that the source is behind its schedule at the end

    @property
    def lost(self) -> int:
        return sum(self.dropped)

    @property
    def steady(self) -> Floats:
        return self.latencies[int(len(self.latencies) * _WARM) :]


@dataclass(frozen=True)
class Traversal:
    """Queues of each stage, source first and sink last. `rate`: packets per cycle, evenly; with a
    `burst` of more than one they come so many at a time, `spacing` cycles apart, at random times
    (Poisson). `lanes`: stages of several queues have one for each of parallel chains, in which
    packets stay: behind a stage of one queue they go to each in turn. Otherwise a queue is drawn by
    its share."""

    stages: Sequence[Sequence[Queue]]
    rate: float
    lcores: PolledLcores = field(default_factory=PolledLcores)
    burst: float = 1.0
    spacing: float = 0.0
    lanes: bool = False

    def planned(self, packets: int, seed: int) -> Floats:
        """When each packet is due."""
        if self.burst <= 1:
            return np.arange(packets) / self.rate
        draw = np.random.default_rng(seed)
        # A mean burst of 12.5 is made of those of 12 and 13.
        bursts = int(packets / self.burst) + 2
        sizes = np.floor(self.burst + draw.random(bursts)).astype(np.int64)
        between = draw.exponential(self.burst / self.rate, bursts)
        begins = np.repeat(np.cumsum(between), sizes)
        inside = np.arange(len(begins)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        due: Floats = np.maximum.accumulate(begins + inside * self.spacing)[:packets]
        if len(due) < packets:
            more = due[-1] + np.arange(1, packets - len(due) + 1) / self.rate
            due = np.concatenate([due, more])
        return due


def follow(way: Traversal, packets: int, seed: int = 1) -> Followed:
    """Send so many packets."""
    from headrace.layout import compiled as c

    flat = [queue for several in way.stages for queue in several]
    cpus = sorted({queue.stage.cpu for queue in flat})
    qi, qf = _queues(way, flat, cpus)
    li = _lcores(qi, len(cpus))
    mine = np.argsort(qi[:, c.CPU], kind="stable").astype(np.int64)
    lf, total = np.zeros((len(cpus), 5)), np.zeros(4, np.int64)
    _phases(qi, qf, mine)
    widest, leaves = int(qi[:, c.ROOM].max()), 1 << (len(cpus) - 1).bit_length()
    latencies, came = np.empty(packets), np.empty(packets)
    lcores = way.lcores
    pauses = lcores.pauses or Pauses(0.0, (0.0,))
    par = np.array(
        [pauses.per_cycle, lcores.slice_cycles, lcores.switch_cycles, lcores.wake_cycles,
         lcores.rouse_cycles, way.lanes, lcores.outside, packets, BURST, lcores.kept_cycles],
        dtype=np.float64,
    )  # fmt: skip
    c.run(
        qi, qf, li, lf, np.cumsum([0, *map(len, way.stages)]).astype(np.int64), mine,
        np.array(pauses.lengths, dtype=np.float64), way.planned(packets, seed), par, total,
        np.zeros(2 * leaves, np.int64),
        np.empty((len(flat), widest)), np.empty((len(flat), widest)), latencies, came, seed,
    )  # fmt: skip
    source = lf[qi[0, c.CPU]]
    arrived, sent = int(total[c.ARRIVED]), float(min(source[c.CLOCK], source[c.PARKED]))
    return Followed(
        latencies[:arrived],
        came[:arrived],
        packets,
        tuple(map(int, qi[:, c.DROPPED])),
        int(total[c.EVENTS]),
        0.0 if lcores.outside else max(0.0, sent - packets / way.rate),
    )


def _queues(
    way: Traversal, flat: Sequence[Queue], cpus: Sequence[int]
) -> tuple[NDArray[np.int64], Floats]:
    number = {cpu: i for i, cpu in enumerate(cpus)}
    places = [(number[queue.stage.cpu], queue.task) for queue in flat]
    stage = [i for i, several in enumerate(way.stages) for _ in several]
    mates: dict[tuple[int, int], list[int]] = {}
    for i, place in enumerate(places):
        mates.setdefault(place, []).append(i)
    following = {
        i: after
        for some in mates.values()
        for i, after in zip(some, [*some[1:], some[0]], strict=True)
    }
    rows = [
        (*place, stage[i], flat[i].room, following[i], 0, 0, 0, 0, 0)
        for i, place in enumerate(places)
    ]
    floats = [
        (
            *reversed(q.stage.line),
            max(1.0, q.stage.idle),
            q.share,
            q.begins,
            q.ends,
            q.patience,
            0.0,
            0.0,
            0.0,
        )
        for q in flat
    ]
    return np.array(rows, dtype=np.int64), np.array(floats, dtype=np.float64)


def _phases(qi: NDArray[np.int64], qf: Floats, mine: NDArray[np.int64]) -> None:
    """How long each task takes to poll all its queues in vain; and when in it each is polled."""
    from headrace.layout import compiled as c

    laps: dict[tuple[int, int], float] = {}
    places = [(int(cpu), int(task)) for cpu, task in qi[:, [c.CPU, c.TASK]]]
    for q in mine:  # in the order in which each lcore polls them
        qf[q, c.PHASE] = laps.get(places[q], 0.0)
        laps[places[q]] = qf[q, c.PHASE] + qf[q, c.IDLE]
    qf[:, c.LAP] = [laps[place] for place in places]


def _lcores(qi: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Each has its number of queues, whether tasks share it, the queue that it begins with, and
    where its list begins."""
    from headrace.layout import compiled as c

    cpu, task = qi[:, c.CPU], qi[:, c.TASK]
    li = np.zeros((count, 6), dtype=np.int64)
    li[:, c.COUNT] = np.bincount(cpu, minlength=count)
    li[cpu[task > 0], c.SEVERAL] = 1
    first, own = np.unique(cpu[task == 0], return_index=True)
    li[first, c.AT] = np.nonzero(task == 0)[0][own]
    li[:, c.OWN] = np.cumsum(li[:, c.COUNT]) - li[:, c.COUNT]
    return li
