# SPDX-License-Identifier: Apache-2.0
"""How long a packet takes through a layout at a given load.

An lcore polls its segments in turn (traffic's own among them), and each takes all that has come in
since its last poll: a cyclic server with gated service (Takagi, Analysis of Polling Systems, 1986).
In a steady state a turn lasts

    C = sum over segments of [ idle + P (poll - idle) + rate C cycles ],   P = min(1, rate C),

where `poll` is what a poll that finds packets costs once, `cycles` what each packet costs beyond
that, and `rate` the segment's packets per cycle. A packet that another lcore sent waits for half a
turn; one of the same lcore for what is polled in between. Then its whole burst, rate C packets but
at least one, is processed before any of it is sent on. A turn that would have to take more than a
burst is an overload: there is no steady state, and no latency is predicted.

Functions side by side begin when the lead has handed the burst out, each when its lcore comes round
to it. What follows them waits for the last of them, and for the lead to come round to looking.

Left out: that turns vary, and what the machine does beside (interrupts, other work). It is the
typical packet's latency, to be held against a measured median.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.layout.layout import Beside, Layout, Problem, lead_extra, parts, side

BURST = 32
_ROUNDS, _CONVERGED = 1000, 1e-9


@dataclass(frozen=True)
class QueueStage:
    """A segment on one of its lcores. `cycles`: per packet, without what a poll costs once."""

    position: int  # in the way of a packet, and in the turn of an lcore
    cpu: int
    rate: float  # packets per cycle
    cycles: float
    poll: float
    idle: float

    def burst(self, turn: float) -> float:
        return max(1.0, self.rate * turn)

    def busy(self, turn: float) -> float:
        """Its part of a turn, in the mean."""
        expected = self.rate * turn
        polls = min(1.0, expected)
        return self.idle + polls * (self.poll - self.idle) + expected * self.cycles

    def service(self, turn: float) -> float:
        """From the beginning of a poll that finds packets to its end."""
        return self.poll + self.burst(turn) * self.cycles


def latency_s(problem: Problem, layout: Layout, rate_pps: float) -> float | None:
    """A typical packet's, from when it was to be sent until the sink has it; None: overload."""
    way = stages(problem, layout, rate_pps)
    beside = sides(problem, layout, rate_pps)
    by_cpu: dict[int, list[QueueStage]] = {}
    for stage in (*(one for several in way for one in several), *beside):
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
            total += several[0].poll  # the sink reads the clock when it has got a burst
    if beside:
        [lead] = way[beside[0].position]
        total += _joined(problem, layout.beside, lead, beside, turns)
    return total / problem.tsc_hz


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
                _stage(
                    i + 1,
                    cpu,
                    rate,
                    side(problem.nfs[at]),
                    problem.nfs[at].poll / 2,
                    problem.traffic.idle,
                )
                for at, cpu in zip(here.run.behind, here.lcores, strict=True)
            )
    return ()


def turn(here: Sequence[QueueStage]) -> float | None:
    """Cycles of one round of an lcore; None when it cannot keep up."""
    most = min((BURST / one.rate for one in here if one.rate > 0), default=float("inf"))
    length = sum(one.idle for one in here)
    for _ in range(_ROUNDS):
        following = sum(one.busy(length) for one in here)
        if following > most:
            return None
        if abs(following - length) <= _CONVERGED * max(1.0, length):
            return following
        length = following
    return length


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
    rate = rate_pps / problem.tsc_hz
    polls = _polls(problem, layout)
    full = parts(problem, layout)
    less = parts(problem.at_less, layout) if problem.at_less is not None else None
    way = []
    for position, several in enumerate(full):
        extra = 0.0
        if 0 < position < len(polls) - 1 and (here := layout.beside_in(position - 1)):
            extra = lead_extra(problem, here)
        stages = []
        for i, part in enumerate(several):
            packets = part.packets if position else 1.0
            cycles = part.cycles / packets + extra if packets else 0.0
            poll = polls[position]
            if less is not None and packets:
                further = less[position][i].cycles / packets + extra - cycles
                poll = max(0.0, further) / (1 - len(several) / BURST)
            at = (position, part.cpu, rate * packets)
            full_burst = BURST / len(several)
            stages.append(_stage(*at, cycles, poll, problem.traffic.idle, full_burst))
        way.append(tuple(stages))
    return way


def _polls(problem: Problem, layout: Layout) -> list[float]:
    """Receiving and sending once, whatever the number of functions."""
    polls, at = [problem.traffic.poll], 0
    for size in layout.cuts:
        first, *others = problem.nfs[at : at + size]
        polls.append(first.poll + sum(nf.poll for nf in others) / 2)
        at += size
    return [*polls, problem.traffic.poll]


def _stage(
    position: int,
    cpu: int,
    rate: float,
    cycles: float,
    poll: float,
    idle: float,
    burst: float = BURST,
) -> QueueStage:
    """`cycles` were measured on full bursts, of which replicas get parts: what a poll costs once is
    in them, as a part."""
    apart = min(cycles, poll / burst)
    return QueueStage(position, cpu, rate, cycles - apart, apart * burst, min(idle, apart * burst))
