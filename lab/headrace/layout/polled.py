# SPDX-License-Identifier: Apache-2.0
"""A layout's lcores polled step by step: how long each packet takes.

Where `latency` has the typical packet's turn, this has all of them: packets that come while a burst
is worked on, and wait for the next poll of their segment; bursts that the source makes late, as its
lcore was elsewhere. It takes a thousand times as long, so few layouts of a search are simulated.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headrace.layout.gaps import CREDIT, quantile
from headrace.layout.layout import Layout, Problem, loads, transitions
from headrace.layout.predicted_latency import BURST, QueueStage, stages

PACKETS = 4_000
_WARM = 5  # the first of so many parts of them find queues emptier than the others do
# A packet that the source makes later than so many bursts after its time: the load is too high.
_BEHIND = 8
_IDLE_LEAST = 5.0  # cycles; nobody looks into a ring for nothing


@dataclass(frozen=True)
class Took:
    """Seconds from when a packet was to be sent until the sink has it. None: not predicted."""

    median_s: float
    p99_s: float | None


@dataclass
class _Queue:
    stage: QueueStage
    waiting: deque[tuple[float, float]]  # when it came, when it was to be sent


def took(problem: Problem, layout: Layout, rate_pps: float, packets: int = PACKETS) -> Took | None:
    """None: overload. Functions side by side are not simulated."""
    way = stages(problem, layout, rate_pps)
    rate = rate_pps / problem.tsc_hz
    times = simulated(way, transitions(problem, layout), rate, packets)
    spare = 1 - max(loads(problem, layout).values()) * rate
    if not times or spare <= 0:
        return None
    times = sorted(times[len(times) // _WARM :])
    cpus = sorted({stage.cpu for several in way for stage in several})
    gaps = [
        replace(
            gap,
            behind=sum(_burst(several, gap.cycles) for several in way),
            credit=CREDIT / rate if cpu == problem.traffic.generator else None,
        )
        for cpu in cpus
        for gap in problem.gaps.get(cpu, ())
    ]
    middle, most = (quantile(times, gaps, spare, share) for share in (0.5, 0.99))
    return Took(middle / problem.tsc_hz, most / problem.tsc_hz)


def _burst(several: Sequence[QueueStage], waited: float) -> float:
    """Cycles of a stage's burst of what came while it waited; the mean of its replicas."""
    bursts = [one.takes(min(BURST, max(1.0, one.rate * waited))) for one in several]
    return sum(bursts) / len(bursts)


def simulated(
    way: Sequence[Sequence[QueueStage]],
    onwards: Sequence[dict[int, float]],
    rate: float,
    packets: int,
    seed: int = 1,
) -> list[float]:
    """Cycles of each packet that reaches the last stage, in the order in which they do. `onwards`:
    of each stage, the chances that a packet goes to others; it may be dropped. `rate`: packets per
    cycle, evenly. []: an lcore falls behind."""
    draw = random.Random(seed)
    queues = [[_Queue(stage, deque()) for stage in several] for several in way]
    [source] = queues[0]
    source.waiting.extend((i / rate, i / rate) for i in range(packets))
    turns: dict[int, list[_Queue]] = {}
    for queue in (queue for several in queues for queue in several):
        turns.setdefault(queue.stage.cpu, []).append(queue)
    clocks = dict.fromkeys(turns, 0.0)
    at = dict.fromkeys(turns, 0)
    left, latencies = packets, list[float]()
    quiet, polled = 0, sum(map(len, queues))
    while left:
        cpu = min(clocks, key=clocks.__getitem__)
        queue = turns[cpu][at[cpu]]
        at[cpu] = (at[cpu] + 1) % len(turns[cpu])
        now, stage = clocks[cpu], queue.stage
        burst = _taken(queue.waiting, now)
        if not burst:
            clocks[cpu] += max(_IDLE_LEAST, stage.idle)
            quiet += 1
            if quiet > 2 * polled:
                _skip(turns, clocks)
                quiet = 0
            continue
        quiet = 0
        if now - burst[0][1] > _BEHIND * BURST / rate:
            return []
        clocks[cpu] += stage.takes(len(burst))
        if stage.position == len(way) - 1:
            latencies += [now + stage.clock - begun for _, begun in burst]
            left -= len(burst)
            continue
        for _, begun in burst:
            following = _following(draw, onwards[stage.position])
            if following is None:
                left -= 1
                continue
            queues[following][_replica(draw, queues, stage, following)].waiting.append(
                (clocks[cpu], begun)
            )
    return latencies


def _skip(turns: dict[int, list[_Queue]], clocks: dict[int, float]) -> None:
    """Whole turns in which nobody would find anything."""
    coming = [q.waiting[0][0] for queues in turns.values() for q in queues if q.waiting]
    for cpu, queues in turns.items():
        turn = sum(max(_IDLE_LEAST, queue.stage.idle) for queue in queues)
        if coming:
            clocks[cpu] += max(0.0, (min(coming) - clocks[cpu]) // turn * turn)


def _taken(waiting: deque[tuple[float, float]], now: float) -> list[tuple[float, float]]:
    burst: list[tuple[float, float]] = []
    while waiting and len(burst) < BURST and waiting[0][0] <= now:
        burst.append(waiting.popleft())
    return burst


def _following(draw: random.Random, chances: dict[int, float]) -> int | None:
    chosen = draw.random()
    for stage, chance in chances.items():
        chosen -= chance
        if chosen < 0:
            return stage
    return None


def _replica(
    draw: random.Random, queues: Sequence[Sequence[_Queue]], stage: QueueStage, following: int
) -> int:
    """Any; but of as many on the same lcores the one on its own, where flows are steered alike."""
    there = [queue.stage.cpu for queue in queues[following]]
    if len(there) > 1 and not stage.resteers:
        here = [queue.stage.cpu for queue in queues[stage.position]]
        if there == here:
            return there.index(stage.cpu)
    return draw.randrange(len(there))
