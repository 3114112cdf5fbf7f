# SPDX-License-Identifier: Apache-2.0
"""How long a packet takes through a layout at a given load.

An lcore polls its segments in turn (traffic's own among them), and each takes all that has come in
since its last poll: a cyclic server with gated service (Takagi, Analysis of Polling Systems, 1986).
In a steady state a turn lasts

    C = sum over segments of [ idle + P (takes(n) - idle) ],   n = max(1, rate C),  P = rate C / n,

where `takes` is what a poll costs that finds so many packets: between the bursts that it was
measured at, along straight lines, for a packet alone in its burst waits for all that the others
of a longer one share. `rate` is the segment's packets per cycle. A packet that another lcore sent
waits for half a turn; one of the same lcore for what is polled in between. Then its whole burst,
rate C packets but at least one, is processed before any of it is sent on. A turn that would have
to take more than a burst is an overload: there is no steady state, and no latency is predicted.

Functions side by side begin when the lead has handed the burst out, each when its lcore comes round
to it. What follows them waits for the last of them, and for the lead to come round to looking.

Left out: that turns vary, and what the machine does beside (interrupts, other work). It is the
typical packet's latency, to be held against a measured median.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.layout.layout import (
    SOURCE,
    Beside,
    Layout,
    Problem,
    homes,
    lead_extra,
    parts,
    resteered,
    side,
)

BURST = 32
_ROUNDS, _CONVERGED = 1000, 1e-9


@dataclass(frozen=True)
class QueueStage:
    """A segment on one of its lcores. `knots`: bursts in packets, each with the cycles from the
    beginning of a poll that finds so many to its end; ascending, two at least."""

    position: int  # in the way of a packet, and in the turn of an lcore
    cpu: int
    rate: float  # packets per cycle
    knots: tuple[tuple[float, float], ...]
    idle: float  # cycles of a poll that finds none
    clock: float = 0.0  # of the sink: until it reads the clock
    resteers: bool = False  # behind it a flow has another one of as many replicas

    def takes(self, burst: float) -> float:
        """Cycles of a poll that finds so many packets."""
        return along(self.knots, burst)

    @property
    def line(self) -> tuple[float, float]:
        """Cycles of a poll, and of each packet: through the first knot and the last."""
        (a, low), (b, high) = self.knots[0], self.knots[-1]
        each = (high - low) / (b - a)
        return low - a * each, each

    def burst(self, turn: float) -> float:
        return max(1.0, self.rate * turn)

    def busy(self, turn: float) -> float:
        """Its part of a turn, in the mean."""
        polls = min(1.0, self.rate * turn)
        return self.idle + polls * (self.service(turn) - self.idle)

    def service(self, turn: float) -> float:
        """The time from the beginning of a poll that finds packets to its end."""
        return self.takes(self.burst(turn))


def straight(poll: float, each: float) -> tuple[tuple[float, float], ...]:
    """Knots where a poll costs so many cycles once, and each of its packets so many."""
    return tuple((n, poll + n * each) for n in (1.0, float(BURST)))


def along(knots: Sequence[tuple[float, float]], at: float) -> float:
    """The value on the line through the two knots around `at`, or next to it."""
    (a, low), (b, high) = knots[:2]
    for x, y in knots[2:]:
        if at <= b:
            break
        a, low, b, high = b, high, x, y
    return low + (at - a) * (high - low) / (b - a)


def latency_s(
    problem: Problem, layout: Layout, rate_pps: float, others: Sequence[QueueStage] = ()
) -> float | None:
    """A typical packet's, from when it was to be sent until the sink has it; None: overload.
    `others`: what else these lcores poll. A stage that few of the packets meet is one of these."""
    every = stages(problem, layout, rate_pps)
    way = [several for several, met in zip(every, met_by_most(problem, layout), strict=True) if met]
    others = (*others, *(one for several in every if several not in way for one in several))
    beside = sides(problem, layout, rate_pps)
    by_cpu: dict[int, list[QueueStage]] = {}
    for stage in (*(one for several in way for one in several), *beside, *others):
        by_cpu.setdefault(stage.cpu, []).append(stage)
    turns: dict[int, float] = {}
    for cpu, here in by_cpu.items():
        one_turn = turn(here)
        if one_turn is None:
            return None
        turns[cpu] = one_turn
    total, last = 0.0, len(way) - 1
    for i, several in enumerate(way):
        before = way[i - 1] if i else ()
        total += sum(_wait(one, before, by_cpu, turns) for one in several) / len(several)
        if i < last:
            total += sum(one.service(turns[one.cpu]) for one in several) / len(several)
        else:
            total += several[0].clock
    if beside:
        [lead] = way[beside[0].position]
        total += _joined(problem, layout.beside, lead, beside, turns)
    return total / problem.tsc_hz


def met_by_most(problem: Problem, layout: Layout) -> list[bool]:
    """Says for each stage whether most of the packets that come out at the end have met it."""
    if not problem.edges:
        return [True] * (len(layout.cuts) + 2)
    home, n = homes(len(problem.nfs), layout), len(problem.nfs)
    share = {SOURCE: 1.0, **dict(enumerate(problem.visits))}
    through: dict[int, float] = {n: 1.0}  # the chance to come out, from each function
    for i in (*reversed(range(n)), SOURCE):
        through[i] = sum(
            e.share / share[i] * through[e.target] for e in problem.edges if e.origin == i
        ) if share[i] else 0.0  # fmt: skip
    met = [0.0] * (len(layout.cuts) + 2)
    for i in range(n):
        met[home[i]] = max(met[home[i]], share[i] * through[i])
    met[0] = met[-1] = through[SOURCE]
    return [one >= through[SOURCE] / 2 for one in met]


def _joined(
    problem: Problem,
    here: Beside | None,
    lead: QueueStage,
    beside: Sequence[QueueStage],
    turns: dict[int, float],
) -> float:
    """Beyond the lead's own work: until the last function is done, and the lead has seen it."""
    assert here is not None
    last = max(turns[one.cpu] / 2 + one.service(turns[one.cpu]) for one in beside)
    own = lead.burst(turns[lead.cpu]) * problem.nfs[here.run.first].work.same
    return max(0.0, last - own) + turns[lead.cpu] / 2


def sides(problem: Problem, layout: Layout, rate_pps: float) -> tuple[QueueStage, ...]:
    """The functions that work beside another, each in the turn of its own lcore."""
    rate = rate_pps / problem.tsc_hz
    for i in range(len(layout.cuts)):
        if here := layout.beside_in(i):
            return tuple(
                QueueStage(
                    i + 1,
                    cpu,
                    rate,
                    _line(side(problem.nfs[at]), problem.nfs[at].poll / 2, BURST),
                    problem.traffic.idle,
                )
                for at, cpu in zip(here.run.behind, here.lcores, strict=True)
            )
    return ()


def turn(here: Sequence[QueueStage]) -> float | None:
    """Cycles of one round of an lcore; None when it cannot keep up."""
    most = min((BURST / one.rate for one in here if one.rate > 0), default=float("inf"))
    length = sum(one.idle for one in here)
    if not length and sum(one.rate * one.takes(1.0) for one in here) > 1:
        length = sum(one.takes(1.0) for one in here)  # polls that find none cost nothing
    for _ in range(_ROUNDS):
        following = sum(one.busy(length) for one in here)
        if following > most:
            return None
        if abs(following - length) <= _CONVERGED * max(1.0, length):
            return following
        length = following
    return length


def at_bursts(
    way: Sequence[Sequence[QueueStage]],
    gathered: Mapping[int, float] | None = None,
    others: Sequence[QueueStage] = (),
) -> list[list[float]]:
    """Cycles that each stage pays for a packet when polls find as few as they do at this rate."""
    each = bursts(way, gathered, others)
    return [
        [one.takes(n) / n for one, n in zip(several, sizes, strict=True)]
        for several, sizes in zip(way, each, strict=True)
    ]


def bursts(
    way: Sequence[Sequence[QueueStage]],
    gathered: Mapping[int, float] | None = None,
    others: Sequence[QueueStage] = (),
) -> list[list[float]]:
    """Packets that polls of each stage find at this rate. A burst that one lcore hands to another
    is found whole there, in parts by replicas; where an lcore cannot keep up all are full.
    `gathered`: bursts that have come, by the stage's number, where its lcore was another task's
    meanwhile. `others`: what else these lcores poll."""
    by_cpu: dict[int, list[QueueStage]] = {}
    for one in (*(one for several in way for one in several), *others):
        by_cpu.setdefault(one.cpu, []).append(one)
    turns = {cpu: turn(here) for cpu, here in by_cpu.items()}
    counts, came, lcores = [], 1.0, 1
    for number, several in enumerate(way):
        least = (gathered or {}).get(number, 1.0)
        most = max(1.0, BURST / len(several)) if gathered is None else BURST
        parted = came * min(1.0, lcores / len(several))
        sizes = []
        for one in several:
            length = turns[one.cpu]
            own = most if length is None else one.burst(length)
            sizes.append(min(most, max(own, parted, least)))
        counts.append(sizes)
        came, lcores = sum(sizes) / len(sizes), len(several)
    return counts


def _wait(
    one: QueueStage,
    before: Sequence[QueueStage],
    by_cpu: dict[int, list[QueueStage]],
    turns: dict[int, float],
) -> float:
    """Until its lcore comes round to it; in the mean over the lcores that packets come from."""
    length = turns[one.cpu]
    if not before:
        return length / 2
    waits = []
    for other in before:
        if other.cpu != one.cpu:
            waits.append(length / 2)
            continue
        between = (s for s in by_cpu[one.cpu] if other.position < s.position < one.position)
        waits.append(sum(s.busy(length) for s in between))
    return sum(waits) / len(waits)


def stages(problem: Problem, layout: Layout, rate_pps: float) -> list[tuple[QueueStage, ...]]:
    """The way of a packet: source, the chain's segments, sink."""
    rate, polls = rate_pps / problem.tsc_hz, _polls(problem, layout)
    full = parts(problem, layout)
    at_bursts = {n: parts(one, layout) for n, one in sorted(problem.at_bursts.items())}
    last, home = len(full) - 1, homes(len(problem.nfs), layout)
    way = []
    for position, several in enumerate(full):
        extra, other = 0.0, resteered(problem.nfs, home, position)
        if 0 < position < last and (here := layout.beside_in(position - 1)):
            extra = lead_extra(problem, here)
        stages = []
        for i, part in enumerate(several):
            packets = part.packets if position else 1.0
            knots = tuple(
                (float(n), n * (each[position][i].cycles / packets + extra))
                for n, each in at_bursts.items()
                if packets
            )
            if not knots:
                cycles = part.cycles / packets + extra if packets else 0.0
                knots = _line(cycles, polls[position], BURST / len(several))
            idle = min(problem.traffic.idle, knots[0][1])
            clock = _clock(problem, layout, part.cpu, polls[-1]) if position == last else 0.0
            stages.append(QueueStage(position, part.cpu, rate * packets, knots, idle, clock, other))
        way.append(tuple(stages))
    return way


def _clock(problem: Problem, layout: Layout, cpu: int, poll: float) -> float:
    """The sink reads the clock when it has received a burst."""
    if not problem.at_bursts:
        return poll
    alone = problem.at_bursts[min(problem.at_bursts)].traffic.receive
    before = layout.lcores[-1]
    return alone.mixed(1 / len(before) if cpu in before else 0.0, len(before) > 1)


def _polls(problem: Problem, layout: Layout) -> list[float]:
    """Receiving and sending once, whatever the number of functions."""
    polls, at = [problem.traffic.poll], 0
    for size, [cpu, *_] in zip(layout.cuts, layout.lcores, strict=True):
        first, *others = problem.on(cpu)[at : at + size]
        polls.append(first.poll + sum(nf.poll for nf in others) / 2)
        at += size
    return [*polls, problem.traffic.poll]


def _line(cycles: float, poll: float, burst: float) -> tuple[tuple[float, float], ...]:
    """Cycles per packet were measured on full bursts, of which replicas get parts: what a poll
    costs once is in them, as a part."""
    apart = min(cycles, poll / burst)
    return straight(apart * burst, cycles - apart)
