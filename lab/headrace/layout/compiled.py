# SPDX-License-Identifier: Apache-2.0
"""The loop of layout/events.py, compiled. Arrays instead of objects, as numba knows those.

By queue: `qi` and `qf` (integers, floats); its ring, `whens` a packet came and `dues`, when it was
to be sent. By lcore: `li`, `lf`; `feeds[a, b]`: lcore a may get packets of lcore b. `first`: number
of each stage's first queue. `planned`: when each packet is due. `par`: scalars. `total`: packets
so far.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

NEVER = np.inf
CPU, TASK, STAGE, ROOM, FOLLOWING, HEAD, SIZE, DROPPED = range(8)  # of qi; FOLLOWING is polled next
CYCLES, POLL, IDLE, SHARE, BEGINS, ENDS = range(6)  # of qf
COUNT, SEVERAL, AT, QUIET = range(4)  # of li: queues, several tasks, next one, polls for nothing
CLOCK, SLICE_END, PAUSE_AT = range(3)  # of lf
PAUSE_RATE, SLICE, SWITCH, YIELDS, OUTSIDE, RATE, PACKETS, MOST = range(8)  # of par
SENT, GONE, ARRIVED, EVENTS = range(4)  # of total


@njit(cache=True)
def _next_pause(now: float, per_cycle: float) -> float:
    return now + np.random.exponential(1.0 / per_cycle) if per_cycle > 0 else NEVER


@njit(cache=True)
def _replica(qf: Any, first: Any, stage: int, now: float) -> int:
    """One of a stage's queues that are there, by its share; -1: none is."""
    one, end = first[stage], first[stage + 1]
    if end - one == 1 and qf[one, BEGINS] <= now < qf[one, ENDS]:
        return int(one)
    total = 0.0
    for q in range(one, end):
        if qf[q, BEGINS] <= now < qf[q, ENDS]:
            total += qf[q, SHARE]
    drawn, chosen = np.random.random() * total, -1
    for q in range(one, end):
        if qf[q, BEGINS] <= now < qf[q, ENDS] and qf[q, SHARE] > 0:
            chosen = q
            drawn -= qf[q, SHARE]
            if drawn < 0:
                break
    return chosen


@njit(cache=True)
def _put(qi: Any, total: Any, whens: Any, dues: Any, q: int, when: float, due: float) -> None:
    if q < 0 or qi[q, SIZE] >= qi[q, ROOM]:
        qi[max(q, 0), DROPPED] += 1
        total[GONE] += 1
        return
    at = qi[q, HEAD] + qi[q, SIZE]
    if at >= qi[q, ROOM]:
        at -= qi[q, ROOM]
    whens[q, at] = when
    dues[q, at] = due
    qi[q, SIZE] += 1


@njit(cache=True)
def _admit(
    qi: Any,
    qf: Any,
    first: Any,
    planned: Any,
    par: Any,
    total: Any,
    whens: Any,
    dues: Any,
    now: float,
) -> None:
    """What came until now, of a source that is no lcore's, waits in the first queues."""
    while total[SENT] < par[PACKETS] and planned[total[SENT]] <= now:
        due = planned[total[SENT]]
        total[SENT] += 1
        _put(qi, total, whens, dues, _replica(qf, first, 1, due), due, due)


@njit(cache=True)
def _other_task(qi: Any, c: int, q: int) -> int:
    """The first queue of the task that follows on this lcore."""
    chosen, lowest = -1, -1
    for other in range(len(qi)):
        if qi[other, CPU] != c:
            continue
        if qi[other, TASK] > qi[q, TASK] and (chosen < 0 or qi[other, TASK] < qi[chosen, TASK]):
            chosen = other
        if lowest < 0 or qi[other, TASK] < qi[lowest, TASK]:
            lowest = other
    return chosen if chosen >= 0 else lowest


@njit(cache=True)
def _interrupted(qi: Any, li: Any, lf: Any, pauses: Any, par: Any, c: int, now: float) -> bool:
    """A pause, or another task's turn."""
    if now >= lf[c, PAUSE_AT]:
        lf[c, CLOCK] = now + pauses[np.random.randint(len(pauses))]
        lf[c, PAUSE_AT] = _next_pause(lf[c, CLOCK], par[PAUSE_RATE])
        return True
    if li[c, SEVERAL] > 0 and (
        now >= lf[c, SLICE_END] or (par[YIELDS] > 0 and li[c, QUIET] > li[c, COUNT])
    ):
        li[c, AT] = _other_task(qi, c, li[c, AT])
        lf[c, CLOCK] = now + par[SWITCH]
        lf[c, SLICE_END] = lf[c, CLOCK] + par[SLICE]
        li[c, QUIET] = 0
        return True
    return False


@njit(cache=True)
def _taken(
    qi: Any, qf: Any, planned: Any, par: Any, total: Any, whens: Any, q: int, now: float
) -> int:
    """Packets of a burst that have come by now."""
    taken = 0
    if qi[q, STAGE] == 0:
        left = min(int(par[MOST]), int(par[PACKETS]) - total[SENT])
        while taken < left and planned[total[SENT]] <= now:
            taken += 1
            total[SENT] += 1
        return taken
    if now >= qf[q, ENDS] and qi[q, SIZE] > 0:
        qi[q, DROPPED] += qi[q, SIZE]
        total[GONE] += qi[q, SIZE]
        qi[q, SIZE] = 0
    left, at = min(int(par[MOST]), qi[q, SIZE]), qi[q, HEAD]
    while taken < left and whens[q, at] <= now:
        taken += 1
        at = at + 1 if at + 1 < qi[q, ROOM] else 0
    return taken


@njit(cache=True)
def _idle(
    qi: Any,
    qf: Any,
    li: Any,
    lf: Any,
    feeds: Any,
    planned: Any,
    par: Any,
    total: Any,
    whens: Any,
    c: int,
    q: int,
) -> None:
    """A poll that found nothing; whole turns of them until something may come: nobody sends before
    the clocks of the lcores that feed this one, nor is a packet made before it is due."""
    li[c, QUIET] += 1
    lf[c, CLOCK] += qf[q, IDLE]
    if li[c, QUIET] <= li[c, COUNT]:
        return
    coming = lf[c, SLICE_END] if li[c, SEVERAL] > 0 else NEVER
    for other in range(len(lf)):
        if other != c and feeds[c, other] and lf[other, CLOCK] < coming:
            coming = lf[other, CLOCK]
    if (feeds[c, c] or par[OUTSIDE] > 0) and total[SENT] < par[PACKETS]:
        coming = min(coming, planned[total[SENT]])
    for other in range(len(qi)):
        if qi[other, CPU] == c and qi[other, SIZE] > 0:
            coming = min(coming, whens[other, qi[other, HEAD]])
    if lf[c, CLOCK] < coming < NEVER:
        step = qf[q, IDLE] * li[c, COUNT]
        lf[c, CLOCK] += np.floor((coming - lf[c, CLOCK]) / step) * step


@njit(cache=True)
def _work(
    qi: Any,
    qf: Any,
    lf: Any,
    first: Any,
    planned: Any,
    par: Any,
    total: Any,
    whens: Any,
    dues: Any,
    latencies: Any,
    came: Any,
    c: int,
    q: int,
    taken: int,
) -> None:
    """A burst is worked on and handed on as a whole; the sink reads the clock when it has it."""
    now, stage = lf[c, CLOCK], qi[q, STAGE]
    lf[c, CLOCK] = now + qf[q, POLL] + taken * qf[q, CYCLES]
    last = stage == len(first) - 2
    for i in range(taken):
        if stage == 0:
            due = planned[total[SENT] - taken + i]
        else:
            due = dues[q, qi[q, HEAD]]
            qi[q, HEAD] = qi[q, HEAD] + 1 if qi[q, HEAD] + 1 < qi[q, ROOM] else 0
        if last:
            latencies[total[ARRIVED]] = now + qf[q, POLL] - due
            came[total[ARRIVED]] = now + qf[q, POLL]
            total[ARRIVED] += 1
        else:
            _put(qi, total, whens, dues, _replica(qf, first, stage + 1, now), lf[c, CLOCK], due)
    if stage > 0:
        qi[q, SIZE] -= taken


@njit(cache=True)
def run(
    qi: Any,
    qf: Any,
    li: Any,
    lf: Any,
    first: Any,
    feeds: Any,
    pauses: Any,
    planned: Any,
    par: Any,
    total: Any,
    whens: Any,
    dues: Any,
    latencies: Any,
    came: Any,
    seed: int,
) -> None:
    """Until all packets arrived or are gone."""
    np.random.seed(seed)
    for c in range(len(lf)):
        lf[c, PAUSE_AT] = _next_pause(0.0, par[PAUSE_RATE])
        lf[c, SLICE_END] = par[SLICE]
    if par[OUTSIDE] > 0:
        lf[qi[0, CPU], CLOCK] = NEVER
    while total[ARRIVED] + total[GONE] < par[PACKETS]:
        c = 0
        for other in range(1, len(lf)):
            if lf[other, CLOCK] < lf[c, CLOCK]:
                c = other
        now = lf[c, CLOCK]
        if par[OUTSIDE] > 0:
            _admit(qi, qf, first, planned, par, total, whens, dues, now)
        if _interrupted(qi, li, lf, pauses, par, c, now):
            continue
        q = li[c, AT]
        li[c, AT] = qi[q, FOLLOWING]
        taken = _taken(qi, qf, planned, par, total, whens, q, now)
        if taken == 0:
            _idle(qi, qf, li, lf, feeds, planned, par, total, whens, c, q)
            continue
        li[c, QUIET] = 0
        total[EVENTS] += taken
        _work(qi, qf, lf, first, planned, par, total, whens, dues, latencies, came, c, q, taken)
