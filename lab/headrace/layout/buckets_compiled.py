# SPDX-License-Identifier: Apache-2.0
"""The loop of layout/buckets.py, compiled: see layout/compiled.py for why arrays are used.

By bucket: `bi`, `bf`; by lcore: `li`, `lf`; by lcore and stage: `si`, the packets in front of it,
and `sf`; by stage: `cost`, its share of what a packet costs; `total`: packets so far; `hist`:
packets by how long they waited. Seconds throughout.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_compiled = njit(cache=True, _nrt=False, error_model="numpy")

# Of bi. NEXT is moved behind it; HELD packets wait for it, while it is PAUSED.
OWNER, TARGET, NEXT, HELD, PAUSED = range(5)
# Of bf: of all packets; cost of its move; when that is over, and for how long its packets waited.
SHARE, MOVING, UNTIL, PAUSE = range(4)
# Of li. QUEUE: packets of all stages. BEGUN is the first of those that are paused, HEAD the first
# behind them. BEHIND: of those LOST, between two stages; HELD_BACK: packets that the source had for
# it, and did not send.
QUEUE, HEAD, MOVES, BEGUN, ON, RETIRING, CAME, DONE, LOST, BEHIND, HELD_BACK = range(11)
# Of lf: packets/s in full bursts; share of its buckets; when it can work; what it has to work on
# moves yet; the part of the lcore that is the chain's; core-seconds; time spent on moves; packets
# that it has at most before the source is held back (0: it never is); what it worked, and what of
# that was for packets that a later stage had no room for, in packets.
SERVES, WEIGHT, READY, DEBT, PART, SPENT, MOVED, MARK, WORKED, WASTED = range(10)
CREDIT, TURN = range(2)  # of sf: a part of a packet that is left over; packets of this tick
OFFERED, FINISHED, DROPPED, MOVES_DONE = range(4)  # of total
# Of par. FREE: when the next move may end what came before it; GAP between two, in moves; RING:
# packets that wait at most between two stages.
DT, ROOM, HOLD, FREE, GAP, RING = range(6)

BINS, PER_OCTAVE, FIRST_S = 232, 8, 100e-9  # of hist: bin 0 is no wait at all
_NORMAL = 50.0  # from so many packets on a Poisson draw is a normal one
_ATOMS = 3  # parts of a tick's packets that wait for as long
_TURNS = 16  # of each stage in a tick, while all of them have packets


@_compiled
def _drawn(mean: float) -> int:
    if mean <= 0.0:
        return 0
    if mean < _NORMAL:
        return int(np.random.poisson(mean))
    return max(0, int(np.round(np.random.normal(mean, np.sqrt(mean)))))


@_compiled
def _bin(wait: float) -> int:
    if wait < FIRST_S:
        return 0
    return min(BINS - 1, 1 + int(np.log2(wait / FIRST_S) * PER_OCTAVE))


@_compiled
def _pause(
    bi: Any, bf: Any, li: Any, lf: Any, par: Any, lcore: int, now: float, tick_end: float
) -> bool:
    """The next bucket leaves, when its state can go as soon as what its lcore has of it is done:
    buckets whose packets wait in one queue wait for the same ones."""
    b = li[lcore, HEAD]
    if b < 0:
        return False
    to, drain = bi[b, TARGET], li[lcore, QUEUE] / lf[lcore, SERVES]
    start = max(now, lf[to, READY], par[FREE] - drain)
    if start >= tick_end:
        return False
    li[lcore, HEAD] = bi[b, NEXT]
    if li[lcore, BEGUN] < 0:
        li[lcore, BEGUN] = b
    bi[b, PAUSED] = 1
    lf[lcore, WEIGHT] -= bf[b, SHARE]
    bf[b, UNTIL] = max(par[FREE], start + drain) + bf[b, MOVING]
    bf[b, PAUSE] = bf[b, UNTIL] - start
    par[FREE] = bf[b, UNTIL] + par[GAP] * bf[b, MOVING]
    for side in (lcore, to):
        lf[side, DEBT] += bf[b, MOVING]
    return True


@_compiled
def _arrive(
    bi: Any, bf: Any, li: Any, lf: Any, si: Any, total: Any, par: Any, hist: Any, lcore: int,
    now: float, rate: float, skip: Any,
) -> None:  # fmt: skip
    """The new lcore has the first that is paused, and what came meanwhile. Of one that left and
    came within this tick all packets are the new lcore's, and some waited half of its pause."""
    b = li[lcore, BEGUN]
    to = bi[b, TARGET]
    li[lcore, BEGUN] = bi[b, NEXT] if bi[b, NEXT] != li[lcore, HEAD] else -1
    li[lcore, MOVES] -= 1
    bi[b, OWNER], bi[b, PAUSED] = to, 0
    lf[to, WEIGHT] += bf[b, SHARE]
    total[MOVES_DONE] += 1
    behind = li[to, QUEUE] / lf[to, SERVES]
    if bf[b, UNTIL] - bf[b, PAUSE] >= now:
        waited = rate * bf[b, SHARE] * bf[b, PAUSE]
        skip[to] += waited
        hist[_bin(bf[b, PAUSE] / 2 + behind)] += waited
    held = bi[b, HELD]
    bi[b, HELD] = 0
    taken = min(held, max(0, int(par[ROOM]) - li[to, QUEUE]))
    for part in (0.25, 0.75):
        hist[_bin(part * bf[b, PAUSE] + behind)] += taken / 2
    li[to, QUEUE] += taken
    si[to, 0] += taken
    li[to, CAME] += held
    li[to, LOST] += held - taken
    total[DROPPED] += held - taken


@_compiled
def _moves(
    bi: Any, bf: Any, li: Any, lf: Any, si: Any, total: Any, par: Any, hist: Any, lcore: int,
    now: float, rate: float, skip: Any,
) -> None:  # fmt: skip
    """Buckets that leave this lcore in this tick, and packets of those that are on their way."""
    tick_end = now + par[DT]
    while _pause(bi, bf, li, lf, par, lcore, now, tick_end):
        pass
    while li[lcore, BEGUN] >= 0 and bf[li[lcore, BEGUN], UNTIL] <= tick_end:
        _arrive(bi, bf, li, lf, si, total, par, hist, lcore, now, rate, skip)
    b = li[lcore, BEGUN]
    while b >= 0 and b != li[lcore, HEAD]:
        came = _drawn(rate * par[DT] * bf[b, SHARE])
        held = min(came, int(par[HOLD]) - bi[b, HELD])
        bi[b, HELD] += held
        li[lcore, LOST] += came - held
        total[OFFERED] += came
        total[DROPPED] += came - held
        b = bi[b, NEXT]


@_compiled
def _turns(si: Any, sf: Any, cost: Any, lcore: int, budget: float) -> None:
    """What each stage could do in a tick: they take turns, each of them for as long as the others,
    while it has packets; what one of them has no use for is the others'. `budget`: in packets that
    go through all stages."""
    stages = len(cost)
    if stages == 1:
        sf[lcore, 0, TURN] = min(budget, float(si[lcore, 0]))
        return
    for s in range(stages):
        sf[lcore, s, TURN] = 0.0
    turn = budget / (_TURNS * stages)
    for _ in range(2 * _TURNS * stages):
        for s in range(stages):
            spent = min(turn, budget, _left(si, sf, lcore, s) * cost[s])
            sf[lcore, s, TURN] += spent / cost[s]
            budget -= spent
        if budget <= 0.0:
            return


@_compiled
def _left(si: Any, sf: Any, lcore: int, stage: int) -> float:
    """Packets that a stage has not worked on, those among them that the one before it just did."""
    before = sf[lcore, stage - 1, TURN] if stage > 0 else 0.0
    left: float = max(0.0, si[lcore, stage] + before - sf[lcore, stage, TURN])
    return left


@_compiled
def _stages(
    li: Any, lf: Any, si: Any, sf: Any, cost: Any, par: Any, lcore: int, budget: float
) -> tuple[int, int]:
    """Packets that came through all stages in a tick, and those that a later stage had no room
    for: what was worked on them before is wasted."""
    _turns(si, sf, cost, lcore, budget)
    handed, lost, behind = 0, 0, 0.0
    for s in range(len(cost)):
        waiting = si[lcore, s] + handed
        can = sf[lcore, s, TURN] + sf[lcore, s, CREDIT]
        handed = min(waiting, int(can))
        left = waiting - handed
        sf[lcore, s, CREDIT] = can - int(can) if left > 0 else 0.0
        over = max(0, left - int(par[RING])) if s > 0 else 0
        si[lcore, s] = left - over
        lf[lcore, WORKED] += handed * cost[s]
        lf[lcore, WASTED] += over * behind
        sf[lcore, s, TURN] = handed
        lost += over
        behind += cost[s]
    li[lcore, DONE] += handed
    return handed, lost


@_compiled
def _each_s(lf: Any, si: Any, sf: Any, cost: Any, par: Any, lcore: int, left: int) -> float:
    """Seconds for each packet inside that one waits which comes behind them. A stage that packets
    are left for goes on as in this tick (Little's law)."""
    if len(cost) == 1 or left == 0:
        alone: float = 1.0 / lf[lcore, SERVES]
        return alone
    seconds: float = 0.0
    for s in range(len(cost)):
        waiting, done = si[lcore, s], sf[lcore, s, TURN]
        seconds += waiting * (par[DT] / done if done > 0 else cost[s] / lf[lcore, SERVES])
    return seconds / left


@_compiled
def _work(
    li: Any, lf: Any, si: Any, sf: Any, cost: Any, total: Any, par: Any, hist: Any, lcore: int,
    rate: float, skip: Any,
) -> None:  # fmt: skip
    """What came in a tick, what was done, and how long it waited for what was before it."""
    dt = par[DT]
    came = _drawn(rate * dt * lf[lcore, WEIGHT])
    before = li[lcore, QUEUE]
    on_moves = min(lf[lcore, DEBT], dt)
    lf[lcore, DEBT] -= on_moves
    lf[lcore, MOVED] += on_moves
    budget = (dt - on_moves) * lf[lcore, SERVES]
    refused = 0
    if lf[lcore, MARK] > 0.0:
        refused = max(0, before + came - int(lf[lcore, MARK] + budget))
        refused = min(refused, came)
    si[lcore, 0] += came - refused
    done, lost = _stages(li, lf, si, sf, cost, par, lcore, budget)
    over = max(0, si[lcore, 0] - int(par[ROOM]))
    si[lcore, 0] -= over
    left = before + came - refused - done - lost - over
    li[lcore, QUEUE] = left
    li[lcore, CAME] += came
    li[lcore, HELD_BACK] += refused
    li[lcore, LOST] += over + lost
    li[lcore, BEHIND] += lost
    total[OFFERED] += came
    total[FINISHED] += done
    total[DROPPED] += over + lost
    kept = max(0.0, came - refused - over - skip[lcore])
    if before == 0 and left == 0 and on_moves == 0.0:
        hist[0] += kept
        return
    each = _each_s(lf, si, sf, cost, par, lcore, left)
    for atom in range(_ATOMS):
        queue = before + (left - before) * (atom + 0.5) / _ATOMS
        hist[_bin(queue * each + on_moves / 2)] += kept / _ATOMS


@_compiled
def run(
    bi: Any, bf: Any, li: Any, lf: Any, si: Any, sf: Any, cost: Any, total: Any, par: Any,
    hist: Any, skip: Any, rates: Any, begin: float, seed: int,
) -> None:  # fmt: skip
    """One tick for each of `rates`."""
    np.random.seed(seed)
    dt = par[DT]
    for tick in range(len(rates)):
        now, rate = begin + tick * dt, rates[tick]
        for lcore in range(len(li)):
            skip[lcore] = 0.0
        for lcore in range(len(li)):
            if li[lcore, BEGUN] >= 0 or li[lcore, HEAD] >= 0:
                _moves(bi, bf, li, lf, si, total, par, hist, lcore, now, rate, skip)
        for lcore in range(len(li)):
            if li[lcore, ON] == 0:
                continue
            lf[lcore, SPENT] += dt * lf[lcore, PART]
            _work(li, lf, si, sf, cost, total, par, hist, lcore, rate, skip)
            if li[lcore, RETIRING] > 0 and li[lcore, MOVES] == 0 and li[lcore, QUEUE] == 0:
                li[lcore, ON] = 0
