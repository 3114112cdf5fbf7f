# SPDX-License-Identifier: Apache-2.0
"""The loop of layout/events.py, compiled. Arrays instead of objects, as numba knows those.

By queue: `qi` and `qf` (integers, floats); its ring, `whens` a packet came and `dues`, when it was
to be sent. By lcore: `li`, `lf`; its queues are `mine[li[a, OWN]]` and as many behind it as COUNT
says. `first`: number of each stage's first queue. `planned`: when each packet is due. `par`:
scalars. `total`: packets so far. `soonest`: a tree whose leaves are the lcores, and each other node
the one of the two below it whose clock is behind, so that `soonest[1]` is the lcore to go on with.

An lcore whose task finds nothing is parked: its polls go on in turn, so that when the next one of
each queue is follows from the first of them, and none has to be done until there is a packet. Its
clock is that of the poll which finds one, or which does something else than look: a pause, going to
sleep, or another task's turn. Whoever puts a packet into one of this task's queues sets it, and who
rouses another task.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

# Nothing is allocated here, so that nobody has to count who holds the arrays: counting took seven
# eighths of the time, as each call of a function counts each of its arrays.
_loop = njit(cache=True, _nrt=False, error_model="numpy")
# Parts of it are put in where they are called: a call hands over nine words of each array.
_compiled = njit(cache=True, _nrt=False, error_model="numpy", forceinline=True)

NEVER = np.inf
# Of qi: FOLLOWING is polled next; TURN counts packets that a stage before gave out in turn.
CPU, TASK, STAGE, ROOM, FOLLOWING, HEAD, SIZE, DROPPED, ASLEEP, TURN = range(10)
# Of qf: LAP is how long a turn of all queues of its task takes where none has packets, and PHASE
# how long after the first of them it is polled then.
CYCLES, POLL, IDLE, SHARE, BEGINS, ENDS, PATIENCE, READY, PHASE, LAP = range(10)
# Of li: queues, several tasks, next queue, polls for nothing; the queue that was to be polled when
# it was parked.
COUNT, SEVERAL, AT, QUIET, OWN, FROM = range(6)
# Of lf: PARKED, when the first poll is that has not been done (NEVER: it is not parked). BEGAN: its
# task's slice.
CLOCK, SLICE_END, PAUSE_AT, PARKED, BEGAN = range(5)
PAUSE_RATE, SLICE, SWITCH, WAKE, ROUSE, LANES, OUTSIDE, PACKETS, MOST, KEPT = range(10)  # of par
SENT, GONE, ARRIVED, EVENTS = range(4)  # of total


@_compiled
def _next_pause(now: float, per_cycle: float) -> float:
    return now + np.random.exponential(1.0 / per_cycle) if per_cycle > 0 else NEVER


@_compiled
def _behind(lf: Any, soonest: Any, node: int) -> int:
    left, right = soonest[2 * node], soonest[2 * node + 1]
    return int(right if lf[right, CLOCK] < lf[left, CLOCK] else left)


@_compiled
def _moved(lf: Any, soonest: Any, c: int) -> None:
    """The clock of this lcore is another one. Of two that are equal the first goes on. Above a node
    that stays another one, nothing changes."""
    node = (len(soonest) // 2 + c) // 2
    while node > 0:
        before = soonest[node]
        soonest[node] = _behind(lf, soonest, node)
        if soonest[node] == before != c:
            break
        node //= 2


@_compiled
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


@_compiled
def _lane(qi: Any, qf: Any, first: Any, q: int) -> int:
    """The next stage's queue of the same chain; where chains part, each in turn."""
    stage = qi[q, STAGE]
    here, one, end = first[stage], first[stage + 1], first[stage + 2]
    if end - one == one - here and end - one > 1:
        return int(one + q - here)
    for _ in range(end - one):
        chosen = one + qi[one, TURN] % (end - one)
        qi[one, TURN] += 1
        if qf[chosen, SHARE] > 0:
            return int(chosen)
    return -1


@_compiled
def _poll_of(qf: Any, li: Any, lf: Any, c: int, q: int, when: float) -> float:
    """The first poll of this queue of a parked lcore that is not before `when`."""
    lap, first = qf[q, LAP], qf[q, PHASE] - qf[li[c, FROM], PHASE]
    first = lf[c, PARKED] + (first if first >= 0 else first + lap)
    if first >= when:
        return float(first)
    poll = first + np.ceil((when - first) / lap) * lap
    return float(poll if poll >= when else poll + lap)  # the product may be rounded down


@_compiled
def _park(
    qi: Any, qf: Any, li: Any, lf: Any, planned: Any, par: Any, total: Any, whens: Any, c: int
) -> None:  # fmt: skip
    """Nothing is done before the first of its task's polls that does not look in vain, or that
    another task has the lcore instead of."""
    lf[c, PARKED] = lf[c, CLOCK]
    li[c, FROM] = li[c, AT]
    until = min(lf[c, PAUSE_AT], lf[c, SLICE_END]) if li[c, SEVERAL] > 0 else lf[c, PAUSE_AT]
    soonest, chosen, q = NEVER, li[c, AT], li[c, AT]
    while True:
        poll, when = NEVER, until
        if qi[q, SIZE] > 0:
            when = min(when, whens[q, qi[q, HEAD]])
        elif qi[q, STAGE] == 0 and total[SENT] < par[PACKETS]:
            when = min(when, planned[total[SENT]])
        if when < NEVER:
            poll = _poll_of(qf, li, lf, c, q, when)
        if qf[q, PATIENCE] < NEVER:  # it has no other queue
            last = qf[q, PATIENCE] - 1 - li[c, QUIET]
            poll = min(poll, lf[c, PARKED] + last * qf[q, IDLE])
        if poll < soonest:
            soonest, chosen = poll, q
        q = qi[q, FOLLOWING]
        if q == li[c, AT]:
            break
    lf[c, CLOCK] = soonest
    li[c, AT] = chosen


@_compiled
def _sooner(qf: Any, li: Any, lf: Any, soonest: Any, c: int, q: int, when: float) -> None:
    """A parked lcore's poll of this queue from `when` on does not look in vain."""
    poll = _poll_of(qf, li, lf, c, q, when)
    if poll < lf[c, CLOCK]:
        lf[c, CLOCK] = poll
        li[c, AT] = q
        _moved(lf, soonest, c)


@_compiled
def _unpark(qf: Any, li: Any, lf: Any, c: int) -> None:
    """The poll that its clock stands at is done; how many were skipped counts for its patience."""
    q = li[c, AT]
    if qf[q, PATIENCE] < NEVER:
        li[c, QUIET] += int(np.rint((lf[c, CLOCK] - lf[c, PARKED]) / qf[q, IDLE]))
    lf[c, PARKED] = NEVER


@_compiled
def _shorten(qi: Any, qf: Any, li: Any, lf: Any, soonest: Any, c: int, end: float) -> None:
    """Its slice ends sooner."""
    if end >= lf[c, SLICE_END]:
        return
    lf[c, SLICE_END] = end
    if lf[c, PARKED] == NEVER:
        return
    first = q = li[c, AT]
    while True:
        _sooner(qf, li, lf, soonest, c, q, end)
        q = qi[q, FOLLOWING]
        if q == first:
            break


@_compiled
def _rouse(qi: Any, qf: Any, li: Any, lf: Any, soonest: Any, par: Any, q: int, when: float) -> bool:
    """A task that sleeps is told of a packet; its lcore begins with it when it has nothing else, or
    when the one that runs has had it for long enough."""
    if qi[q, ASLEEP] == 0:
        return False
    c = qi[q, CPU]
    qi[q, ASLEEP] = 0
    qf[q, READY] = when + par[WAKE]
    if lf[c, CLOCK] == NEVER:
        li[c, AT] = q
        li[c, QUIET] = 0
        lf[c, CLOCK] = qf[q, READY]
        lf[c, SLICE_END] = qf[q, READY] + par[SLICE]
        lf[c, BEGAN] = lf[c, CLOCK]
        while lf[c, PAUSE_AT] < lf[c, CLOCK]:  # they passed while it did nothing
            lf[c, PAUSE_AT] = _next_pause(lf[c, CLOCK], par[PAUSE_RATE])
        _moved(lf, soonest, c)
    else:
        _shorten(qi, qf, li, lf, soonest, c, max(qf[q, READY], lf[c, BEGAN] + par[KEPT]))
    return True


@_compiled
def _put(
    qi: Any, qf: Any, li: Any, lf: Any, soonest: Any, total: Any, whens: Any,
    dues: Any, q: int, when: float, due: float,
) -> None:  # fmt: skip
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
    if qi[q, SIZE] > 1:
        return
    c = qi[q, CPU]
    if lf[c, PARKED] < NEVER and qi[q, TASK] == qi[li[c, AT], TASK]:
        _sooner(qf, li, lf, soonest, c, q, when)


@_compiled
def _admit(
    qi: Any, qf: Any, li: Any, lf: Any, first: Any, planned: Any, par: Any, total: Any,
    soonest: Any, whens: Any, dues: Any,
) -> None:  # fmt: skip
    """What came until the next of all polls, of a source that is no lcore's, waits in the first
    queues: that poll is a sooner one then, if such a packet is what an lcore is parked for."""
    while total[SENT] < par[PACKETS] and planned[total[SENT]] <= lf[soonest[1], CLOCK]:
        due = planned[total[SENT]]
        total[SENT] += 1
        q = _replica(qf, first, 1, due)
        _put(qi, qf, li, lf, soonest, total, whens, dues, q, due, due)


@_compiled
def _other_task(qi: Any, qf: Any, li: Any, mine: Any, c: int, q: int, now: float) -> int:
    """The first queue of the task that follows on this lcore among those that want it: of the tasks
    behind this one the nearest, or else the first; -1: all of them sleep. One that was roused and
    is not up yet comes only where nobody else wants the lcore."""
    chosen, lowest, soonest, best = -1, -1, -1, NEVER
    for i in range(li[c, COUNT]):
        other = mine[li[c, OWN] + i]
        if qi[other, ASLEEP] > 0:
            continue
        if qf[other, READY] > now:
            if qf[other, READY] < best:
                soonest, best = other, qf[other, READY]
            continue
        if qi[other, TASK] > qi[q, TASK] and (chosen < 0 or qi[other, TASK] < qi[chosen, TASK]):
            chosen = other
        if lowest < 0 or qi[other, TASK] < qi[lowest, TASK]:
            lowest = other
    if chosen >= 0:
        return chosen
    return lowest if lowest >= 0 else soonest


@_compiled
def _switch(qi: Any, qf: Any, li: Any, lf: Any, mine: Any, par: Any, c: int, now: float) -> None:
    """Goes to the next task of this lcore, or to none until a packet rouses one."""
    before, following = li[c, AT], _other_task(qi, qf, li, mine, c, li[c, AT], now)
    li[c, QUIET] = 0
    if following < 0:
        lf[c, CLOCK] = NEVER
        return
    li[c, AT] = following
    start = max(now, qf[following, READY])
    lf[c, CLOCK] = start + (par[SWITCH] if qi[following, TASK] != qi[before, TASK] else 0.0)
    lf[c, SLICE_END] = lf[c, CLOCK] + par[SLICE]
    lf[c, BEGAN] = lf[c, CLOCK]


@_compiled
def _interrupted(
    qi: Any, qf: Any, li: Any, lf: Any, mine: Any, pauses: Any, par: Any, c: int, now: float
) -> bool:
    """A pause, or another task's turn."""
    if now >= lf[c, PAUSE_AT]:
        lf[c, CLOCK] = now + pauses[np.random.randint(len(pauses))]
        lf[c, PAUSE_AT] = _next_pause(lf[c, CLOCK], par[PAUSE_RATE])
        return True
    if li[c, SEVERAL] > 0 and now >= lf[c, SLICE_END]:
        _switch(qi, qf, li, lf, mine, par, c, now)
        return True
    return False


@_compiled
def _taken(
    qi: Any,
    qf: Any,
    planned: Any,
    par: Any,
    total: Any,
    whens: Any,
    q: int,
    now: float,
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


@_compiled
def _idle(
    qi: Any,
    qf: Any,
    li: Any,
    lf: Any,
    mine: Any,
    planned: Any,
    par: Any,
    total: Any,
    whens: Any,
    c: int,
    q: int,
) -> None:
    """A poll that found nothing. A task that found nothing for as long as it waits sleeps."""
    li[c, QUIET] += 1
    lf[c, CLOCK] += qf[q, IDLE]
    if li[c, QUIET] < qf[q, PATIENCE]:
        _park(qi, qf, li, lf, planned, par, total, whens, c)
        return
    if qi[q, SIZE] > 0:  # who sends is ahead, and rouses it then
        qf[q, READY] = whens[q, qi[q, HEAD]] + par[WAKE]
    else:
        qi[q, ASLEEP] = 1
    _switch(qi, qf, li, lf, mine, par, c, lf[c, CLOCK])


@_compiled
def _work(
    qi: Any,
    qf: Any,
    li: Any,
    lf: Any,
    first: Any,
    planned: Any,
    par: Any,
    total: Any,
    soonest: Any,
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
    done = now + qf[q, POLL] + taken * qf[q, CYCLES]
    lf[c, CLOCK] = done
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
            lanes = par[LANES] > 0
            to = _lane(qi, qf, first, q) if lanes else _replica(qf, first, stage + 1, now)
            _put(qi, qf, li, lf, soonest, total, whens, dues, to, done, due)
            if to >= 0 and _rouse(qi, qf, li, lf, soonest, par, to, done):
                lf[c, CLOCK] += par[ROUSE]
    if stage > 0:
        qi[q, SIZE] -= taken


@_loop
def run(
    qi: Any,
    qf: Any,
    li: Any,
    lf: Any,
    first: Any,
    mine: Any,
    pauses: Any,
    planned: Any,
    par: Any,
    total: Any,
    soonest: Any,
    whens: Any,
    dues: Any,
    latencies: Any,
    came: Any,
    seed: int,
) -> None:
    """Runs until all packets arrived or are gone."""
    np.random.seed(seed)
    for c in range(len(lf)):
        lf[c, PAUSE_AT] = _next_pause(0.0, par[PAUSE_RATE])
        lf[c, SLICE_END] = par[SLICE]
        lf[c, PARKED] = NEVER
    if par[OUTSIDE] > 0:
        lf[qi[0, CPU], CLOCK] = NEVER
    leaves = len(soonest) // 2
    for leaf in range(leaves):
        soonest[leaves + leaf] = min(leaf, len(lf) - 1)
    for above in range(1, leaves):
        soonest[leaves - above] = _behind(lf, soonest, leaves - above)
    while total[ARRIVED] + total[GONE] < par[PACKETS]:
        if par[OUTSIDE] > 0:
            _admit(qi, qf, li, lf, first, planned, par, total, soonest, whens, dues)
        c = soonest[1]
        now = lf[c, CLOCK]
        if lf[c, PARKED] < NEVER:
            _unpark(qf, li, lf, c)
        if not _interrupted(qi, qf, li, lf, mine, pauses, par, c, now):
            q = li[c, AT]
            li[c, AT] = qi[q, FOLLOWING]  # of the same task
            taken = _taken(qi, qf, planned, par, total, whens, q, now)
            if taken == 0:
                _idle(qi, qf, li, lf, mine, planned, par, total, whens, c, q)
            else:
                li[c, QUIET] = 0
                total[EVENTS] += taken
                _work(
                    qi, qf, li, lf, first, planned, par, total, soonest, whens, dues,
                    latencies, came, c, q, taken,
                )  # fmt: skip
        _moved(lf, soonest, c)
