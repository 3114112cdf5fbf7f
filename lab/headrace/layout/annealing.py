# SPDX-License-Identifier: Apache-2.0
"""The loop of layout/annealed.py, compiled. Arrays instead of objects, as numba knows those.

By way: `wi` (integers), its segments' `work`, `areas` and most `replicas`, what it uses of `limits`
in all. By chain: `pool`, its first way, the one
behind its last, and the one behind those of one segment; `spread` by replicas. `state`:
the way of each chain; `reps`, `prio`: replicas of each of its segments, and which comes first.
`packed`: by area. `on`: by chain and segment, whether an lcore has it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_compiled = njit(cache=True, error_model="numpy")

SEGMENTS, PLACE, NS = range(3)  # of wi
LCORES, SERVER = range(2)  # of areas' `ai`
MOST, USED, SQUARES, OVER = range(4)  # of packed
FREE, ROOM, SPEED, LCORE_SEGMENTS, WEIGHT, SWIFT, SCALE, FLUID = range(8)  # of par
UNKEPT = 1e9
_FINE2 = 10_000 * 10_000


@_compiled
def _item(work: Any, spread: Any, c: int, w: int, s: int, k: int) -> int:
    """The load of the busiest of k replicas."""
    return int(-((-work[w, s] * spread[c, k - 1]) // (k * _FINE2)))


@_compiled
def pack(a: int, state: Any, reps: Any, prio: Any, wi: Any, work: Any, areas: Any, spread: Any,
         ai: Any, par: Any, packed: Any, on: Any, keep: bool) -> None:  # fmt: skip
    """What is in an area on its lcores: each segment on those with least to do, or, where lcores
    count, on the fullest that have room."""
    n = ai[a, LCORES]
    if par[FLUID] > 0:
        packed[a, MOST] = np.ceil(_all_work(a, state, wi, work, areas) / n)
        packed[a, USED], packed[a, SQUARES], packed[a, OVER] = n, 0.0, 0.0
        return
    load, taken = np.zeros(n, np.int64), np.zeros(n, np.int64)
    slots = np.empty((reps.size, 3), np.int64)
    keys = np.empty(reps.size)
    count = 0
    for c in range(len(state)):
        w = state[c]
        for s in range(wi[w, SEGMENTS]):
            if areas[w, s] == a:
                item = _item(work, spread, c, w, s, reps[c, s])
                key, at = item * prio[c, s], count
                while at > 0 and keys[at - 1] < key:
                    keys[at] = keys[at - 1]
                    slots[at] = slots[at - 1]
                    at -= 1
                keys[at] = key
                slots[at, 0], slots[at, 1], slots[at, 2] = c, s, item
                count += 1
    over = 0.0
    order = np.arange(n)
    for i in range(count):
        c, s, item = slots[i]
        k = reps[c, s]
        _ordered(order, load, taken, item, par)
        for j in range(k):
            one = order[j]
            load[one] += item
            taken[one] += 1
            if taken[one] > par[LCORE_SEGMENTS]:
                over += 10.0
            if keep:
                on[c, s, one] = True
    _sum_up(a, load, taken, over, par, packed)


@_compiled
def _all_work(a: int, state: Any, wi: Any, work: Any, areas: Any) -> float:
    """The load of an area, as if lcores could be filled evenly."""
    total = 0.0
    for w in state:
        for s in range(wi[w, SEGMENTS]):
            if areas[w, s] == a:
                total += work[w, s] / 10_000
    return total


@_compiled
def _ordered(order: Any, load: Any, taken: Any, item: int, par: Any) -> None:
    """The lcores, the one that is taken first in front."""
    n = len(order)
    keys = np.empty(n)
    for i in range(n):
        one = order[i]
        if taken[one] >= par[LCORE_SEGMENTS]:
            key = 1e15
        elif par[FREE] > 0:
            key = load[one]
        elif load[one] + item > par[ROOM]:
            key = 1e12 + load[one]
        else:
            key = -load[one]
        at = i
        while at > 0 and keys[at - 1] > key:
            keys[at] = keys[at - 1]
            order[at] = order[at - 1]
            at -= 1
        keys[at] = key
        order[at] = one


@_compiled
def _sum_up(a: int, load: Any, taken: Any, over: float, par: Any, packed: Any) -> None:
    most, used, squares = 0, 0, 0.0
    for i in range(len(load)):
        most = max(most, load[i])
        used += taken[i] > 0
        squares += (load[i] / par[ROOM]) ** 2
        if par[FREE] == 0 and load[i] > par[ROOM]:
            over += (load[i] - par[ROOM]) / par[ROOM]
    packed[a, MOST], packed[a, USED] = most, used
    packed[a, SQUARES], packed[a, OVER] = squares, over


@_compiled
def score(state: Any, wi: Any, limits: Any, rooms: Any, ai: Any, servers: Any, par: Any,
          packed: Any) -> tuple[float, float]:  # fmt: skip
    """What the aim counts, with much added for what is not kept; the same with what leads on."""
    level, over, mean, squares = 0.0, 0.0, 0.0, 0.0
    for a in range(len(packed)):
        most = np.ceil(packed[a, MOST] * 10_000 / par[SPEED])
        level = max(level, most)
        mean += most / len(packed)
        over += packed[a, OVER]
        squares += packed[a, SQUARES]
    for i in range(len(rooms)):
        used = 0
        for w in state:
            used += limits[w, i]
        busy = np.ceil(used * 10_000 / rooms[i])
        if par[FREE] > 0:
            level = max(level, busy)
        elif busy > par[SCALE]:
            over += busy / par[SCALE] - 1 + 0.01
    ns = 0
    for w in state:
        ns += wi[w, NS]
    if par[FREE] > 0:
        value = level + UNKEPT * over
        return value, value + 0.1 * mean + 1e-3 * squares
    value = par[WEIGHT] * ns + UNKEPT * over
    each = 0.0
    on = np.zeros(len(servers), np.bool_)
    for a in range(len(packed)):
        value += packed[a, USED] * servers[ai[a, SERVER], 1]
        each = max(each, servers[ai[a, SERVER], 1])
        on[ai[a, SERVER]] |= packed[a, USED] > 0
    for s in range(len(servers)):
        value += on[s] * servers[s, 0]
    leads = 1e-9 * ns if par[SWIFT] > 0 else -0.1 * each * squares / max(1.0, par[SCALE] / 1e4)
    return value, value + leads


@_compiled
def _some_way(c: int, place: int, state: Any, pool: Any, wi: Any) -> int:
    """Any of a chain's; of this place, if it is one and the chain has one there."""
    end = pool[c, 1]
    if np.random.random() < 0.7 and pool[c, 2] > pool[c, 0]:  # run to completion
        end = pool[c, 2]
    for _ in range(60):
        w = np.random.randint(pool[c, 0], end)
        if place < 0 or wi[w, PLACE] == place:
            return int(w)
    return int(state[c])


@_compiled
def _change(c: int, w: int, level: float, state: Any, reps: Any, prio: Any, wi: Any, work: Any,
            most: Any) -> None:  # fmt: skip
    """Another way, of which each segment has as many replicas as it needs, or twice as many, or
    all that there can be."""
    same = wi[state[c], SEGMENTS] == wi[w, SEGMENTS] and np.random.random() < 0.5
    state[c] = w
    for s in range(wi[w, SEGMENTS]):
        if same:
            reps[c, s] = min(most[w, s], reps[c, s])
            continue
        parts = np.random.randint(1, 4)
        k = int(np.ceil(work[w, s] / 10_000 * 1.01 / max(1.0, level) * parts))
        if np.random.random() < 0.2:
            k = most[w, s]
        reps[c, s] = min(most[w, s], max(1, k))
        prio[c, s] = 1.0


@_compiled
def _moved(state: Any, reps: Any, prio: Any, pool: Any, wi: Any, work: Any, most: Any, areas: Any,
           packed: Any, level: float) -> int:  # fmt: skip
    """Something is changed: of chains c and d, as c * chains + d."""
    c = np.random.randint(len(state))
    if np.random.random() < 0.5:
        fullest = np.argmax(packed[:, MOST])
        for _ in range(20):
            if areas[state[c], 0] == fullest:
                break
            c = np.random.randint(len(state))
    kind = np.random.random()
    w = state[c]
    s = np.random.randint(wi[w, SEGMENTS])
    if kind < 0.45:
        k = reps[c, s]
        step = np.random.random()
        if step < 0.7:
            k += np.random.randint(1, 3) * (1 if np.random.random() < 0.5 else -1)
        elif step < 0.8:
            k = most[w, s]
        else:
            k = np.random.randint(1, most[w, s] + 1)
        reps[c, s] = min(most[w, s], max(1, k))
        return int(c * len(state) + c)
    if kind < 0.6:
        prio[c, s] = np.exp(np.random.normal(0.0, 0.5))
        return int(c * len(state) + c)
    if kind < 0.8:
        place = wi[w, PLACE] if np.random.random() < 0.6 else -1
        _change(c, _some_way(c, place, state, pool, wi), level, state, reps, prio, wi, work, most)
        return int(c * len(state) + c)
    d = np.random.randint(len(state))
    there, here = wi[state[d], PLACE], wi[w, PLACE]
    _change(c, _some_way(c, there, state, pool, wi), level, state, reps, prio, wi, work, most)
    if d != c:
        _change(d, _some_way(d, here, state, pool, wi), level, state, reps, prio, wi, work, most)
    return int(c * len(state) + d)


@_compiled
def _touched(c: int, state: Any, wi: Any, areas: Any, marks: Any) -> None:
    for s in range(wi[state[c], SEGMENTS]):
        marks[areas[state[c], s]] = True


@_compiled
def anneal(steps: int, hot: float, cold: float, seed: int, state: Any, reps: Any, prio: Any,
           best: Any, pool: Any, wi: Any, work: Any, most: Any, areas: Any, limits: Any,
           rooms: Any, spread: Any, ai: Any, servers: Any, par: Any, packed: Any,
           on: Any) -> float:  # fmt: skip
    """Makes so many moves, from one temperature to another; the score of `best`: the state,
    replicas and order that were met with the lowest one."""
    np.random.seed(seed)
    for a in range(len(packed)):
        pack(a, state, reps, prio, wi, work, areas, spread, ai, par, packed, on, False)
    value, now = score(state, wi, limits, rooms, ai, servers, par, packed)
    least, lowest = value, now
    kept = best[0], best[1], best[2]
    kept[0][:], kept[1][:], kept[2][:] = state, reps, prio
    marks = np.zeros(len(packed), np.bool_)
    before = state.copy(), reps.copy(), prio.copy(), packed.copy()
    for step in range(steps):
        marks[:] = False
        level = packed[:, MOST].max() if par[FREE] > 0 else par[ROOM]
        pair = _moved(state, reps, prio, pool, wi, work, most, areas, packed, level)
        c, d = pair // len(state), pair % len(state)
        for one in (c, d):
            _touched(one, before[0], wi, areas, marks)
            _touched(one, state, wi, areas, marks)
        for a in range(len(packed)):
            if marks[a]:
                pack(a, state, reps, prio, wi, work, areas, spread, ai, par, packed, on, False)
        value, other = score(state, wi, limits, rooms, ai, servers, par, packed)
        heat = hot * (cold / hot) ** (step / steps)
        if other <= now or np.random.random() < np.exp((now - other) / heat):
            now = other
            for one in (c, d):
                before[0][one] = state[one]
                before[1][one], before[2][one] = reps[one], prio[one]
            before[3][:] = packed
            if value < least or (value == least and other < lowest):
                least, lowest = value, other
                kept[0][:], kept[1][:], kept[2][:] = state, reps, prio
        else:
            for one in (c, d):
                state[one] = before[0][one]
                reps[one], prio[one] = before[1][one], before[2][one]
            packed[:] = before[3]
    return float(least)
