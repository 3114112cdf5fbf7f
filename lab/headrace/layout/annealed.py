# SPDX-License-Identifier: Apache-2.0
"""Ways and replicas of chains by simulated annealing: moves of one chain or of two, taken where
nothing gets worse by them, or, the warmer it is the likelier, although something does (Kirkpatrick,
Gelatt and Vecchi 1983, Optimization by Simulated Annealing). numba compiles the loop
(annealing.py): it makes some hundred thousand moves a second.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from headrace.layout.annealing import anneal, pack, score
from headrace.layout.cheapest import ChainWay
from headrace.layout.packed import Draft, PackedArea, Packer, place_of
from headrace.layout.placing import capacity
from headrace.spec.placement import WHOLE

_FEW = 5_000  # moves by which the pace is taken
_EVENING = 200_000  # moves by which loads of areas are evened
_HOT, _COLD = 0.01, 0.0003  # of what the aim counts


@dataclass
class Annealer:
    packer: Packer
    seed: int = 1

    @cached_property
    def _level(self) -> float:
        """What moves may cost while it is hot is a part of this."""
        problem = self.packer.problem
        work = sum(self.packer.item(c, w[0].segments[0], 1) for c, w in enumerate(self.packer.pool))
        each = max(server.each for server in problem.servers)
        if self.packer.free:
            return max(1.0, work / sum(self.packer.areas))
        return 100.0 * max(1, each)

    @cached_property
    def _ways(self) -> list[tuple[int, ChainWay]]:
        """Each chain's that keep its latency, or all where none does."""
        ways = []
        for c, several in enumerate(self.packer.pool):
            within = self.packer.problem.chains[c].within_ns
            kept = [w for w in several if within is None or self.packer.known(c, w)[0] <= within]
            ordered = sorted(kept or several, key=lambda way: len(way.segments))
            ways += [(c, way) for way in ordered]
        return ways

    @cached_property
    def _numbers(self) -> dict[tuple[int, ChainWay], int]:
        return {way: number for number, way in enumerate(self._ways)}

    @cached_property
    def _arrays(self) -> dict[str, Any]:
        """What the loop knows of the problem."""
        packer, problem, ways = self.packer, self.packer.problem, self._ways
        longest = max(len(way.segments) for _, way in ways)
        chains = [c for c, _ in ways]
        wi = np.zeros((len(ways), 3), np.int64)
        work, areas, most = (np.zeros((len(ways), longest), np.int64) for _ in range(3))
        limits = np.zeros((len(ways), len(problem.limits)), np.int64)
        places: dict[Any, int] = {}
        for w, (c, way) in enumerate(ways):
            wi[w] = len(way.segments), places.setdefault(place_of(way), len(places)), 0
            wi[w, 2], uses = packer.known(c, way)
            for limit, amount in uses:
                limits[w, limit] += amount
            for s, key in enumerate(way.segments):
                work[w, s] = packer.tables.work[c, key.first, key.end, key.area, key.origin]
                areas[w, s], most[w, s] = key.area, packer.most(c, key)
        spread = np.zeros((len(problem.chains), max(len(c.spread) for c in problem.chains)), int)
        for c, chain in enumerate(problem.chains):
            spread[c, : len(chain.spread)] = chain.spread
        pool = []
        for c in range(len(spread)):
            first, end = chains.index(c), len(chains) - chains[::-1].index(c)
            whole = sum(len(way.segments) == 1 for _, way in ways[first:end])
            pool.append((first, end, first + whole))
        return {
            "pool": np.array(pool), "wi": wi, "work": work, "most": most, "areas": areas,
            "limits": limits, "rooms": np.array([one.capacity for one in problem.limits], float),
            "spread": spread,
            "ai": np.array([[packer.areas[i], a.server] for i, a in enumerate(problem.areas)]),
            "servers": np.array([[s.fixed, s.each] for s in problem.servers], float),
            "par": self._par(),
        }  # fmt: skip

    def _par(self) -> Any:
        problem, mode = self.packer.problem, self.packer.problem.modes[self.packer.mode]
        full = WHOLE if self.packer.free else problem.full
        room = max(1, capacity(problem, mode, full))
        flags = float(self.packer.free), float(self.packer.swift)
        return np.array(
            [
                flags[0],
                room,
                mode.speed,
                problem.lcore_segments,
                problem.weight_ns,
                flags[1],
                full,
                0.0,
            ],
            float,
        )

    def improve(self, draft: Draft, enough: float, until: float, runs: int = 6) -> Draft:
        """The best that is met from this one on, in so many coolings, each from the best so far;
        for as long as there is time, or until it is enough."""
        if any(not several for several in self.packer.pool):
            return draft
        state = self._state(draft)
        best = tuple(one.copy() for one in state)
        packed = np.zeros((len(self.packer.areas), 4))
        on = np.zeros((*state[1].shape, max(self.packer.areas)), bool)
        lowest = self._run(1, state, best, packed, on)  # compiles
        pace, least = 0.0, min(lowest, draft.score[0])
        for left in range(runs, 0, -1):
            now = time.monotonic()
            if least <= enough or now >= until:
                break
            if pace == 0.0:
                self._run(_FEW, state, best, packed, on)
                pace = _FEW / max(1e-6, time.monotonic() - now)
                now = time.monotonic()
            for mine, its in zip(state, best, strict=True):
                mine[:] = its
            if self.packer.free and left % 2 == 0:
                self._evened(state, packed, on)
            met = tuple(one.copy() for one in best)
            value = self._run(int(pace * (until - now) / left), state, met, packed, on)
            if value <= lowest:
                lowest, best = value, met
            least = min(least, lowest)
        return self._draft(best, packed, on) if lowest <= draft.score[0] else draft

    def _evened(self, state: Any, packed: Any, on: Any) -> None:
        """Other ways, by which the loads of areas are even: it takes several chains at once to get
        from one such choice to the next."""
        ways = tuple(one.copy() for one in state)
        self._arrays["par"][-1] = 1.0
        self._run(_EVENING, state, ways, packed, on)
        self._arrays["par"][-1] = 0.0
        chosen = [self._ways[w][1] for w in ways[0]]
        given = self._state(self.packer.start(chosen, int(max(1, packed[:, 0].max()))))
        for mine, its in zip(state, given, strict=True):
            mine[:] = its

    def _run(self, steps: int, state: Any, best: Any, packed: Any, on: Any) -> float:
        self.seed += 1
        start = self._level
        given = self._arrays
        return float(
            anneal(
                max(1, steps), start * _HOT, start * _COLD, self.seed, *state, best, given["pool"],
                given["wi"], given["work"], given["most"], given["areas"], given["limits"],
                given["rooms"], given["spread"], given["ai"], given["servers"], given["par"],
                packed, on,
            )
        )  # fmt: skip

    def _state(self, draft: Draft) -> tuple[Any, Any, Any]:
        chains, longest = len(draft.ways), self._arrays["work"].shape[1]
        state = np.zeros(chains, np.int64)
        reps, prio = np.ones((chains, longest), np.int64), np.ones((chains, longest))
        for c, way in enumerate(draft.ways):
            state[c] = self._numbers.get((c, way), self._arrays["pool"][c, 0])
            for s in range(len(self._ways[state[c]][1].segments)):
                reps[c, s] = min(draft.replicas.get((c, s), 1), self._arrays["most"][state[c], s])
        return state, reps, prio

    def _draft(self, best: tuple[Any, Any, Any], packed: Any, on: Any) -> Draft:
        given, (state, reps, prio) = self._arrays, best
        on[:] = False
        for area in range(len(packed)):
            pack(area, state, reps, prio, given["wi"], given["work"], given["areas"],
                 given["spread"], given["ai"], given["par"], packed, on, True)  # fmt: skip
        draft = Draft([self._ways[w][1] for w in state], {})
        lcores: dict[int, dict[tuple[int, int], tuple[int, ...]]] = {}
        for c, way in enumerate(draft.ways):
            for s, key in enumerate(way.segments):
                draft.replicas[c, s] = int(reps[c, s])
                here = tuple(int(i) for i in np.flatnonzero(on[c, s]))
                lcores.setdefault(key.area, {})[c, s] = here
        for area, row in enumerate(packed):
            most, used = int(row[0]), int(row[1])
            draft.areas[area] = PackedArea(lcores.get(area, {}), most, used, float(row[2]))
        value = score(state, given["wi"], given["limits"], given["rooms"], given["ai"],
                      given["servers"], given["par"], packed)  # fmt: skip
        draft.score = float(value[0]), 0.0
        return draft
