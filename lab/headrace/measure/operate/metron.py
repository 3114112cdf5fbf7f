# SPDX-License-Identifier: Apache-2.0
"""Metron as the authors of RSS++ published it beside theirs (Katsikas et al. 2018, Metron: NFV
Service Chains at the True Speed of the Underlying Hardware; the program of Barbette et al. 2019).

Every 500 ms an lcore that works more than 75 % of the time, or is about to, gives the half of its
rules to a new one; two that work less than 25 % are made one. Neither is touched again for 3 s.
Buckets stand for its rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headrace.ground.operable import Assignment, Integers
from headrace.measure.operate.policy import BusyMeans, PlantSituation, Sizing, WantedStep

_TICK_S, _OVER, _UNDER, _LEFT_S = 0.5, 0.75, 0.25, 3.0


@dataclass
class MetronPolicy:
    sizing: Sizing
    first_pps: float
    interval_s: float
    learned: float | None = None
    _past: dict[int, float] = field(default_factory=dict)
    _touched_s: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._means = BusyMeans(self.interval_s, _TICK_S)

    def begin(self) -> int:
        return self.sizing.working(self.first_pps, _OVER)

    def decide(self, situation: PlantSituation) -> WantedStep | None:
        load = self._means.load(situation)
        return None if load is None else self._tick(situation.now, load, situation.seen.begin_s)

    def _tick(self, now: Assignment, load: dict[int, float], now_s: float) -> WantedStep | None:
        over, under = self._judged(load, now_s)
        owners, lcores = now.owners.copy(), set(now.lcores)
        for one in sorted(over, key=lambda one: -load[one]):
            free = [other for other in range(self.sizing.model.most) if other not in lcores]
            if free:
                to = free[0]
            elif under:
                to = under.pop()
            else:
                break
            rules = np.flatnonzero(owners == one)
            owners[rules[len(rules) - max(1, len(rules) // 2) :]] = to
            lcores.add(to)
            self._touched_s |= {one: now_s, to: now_s}
        self._merge(owners, lcores, under, load, now_s)
        if lcores == set(now.lcores) and (owners == now.owners).all():
            return None
        why = f"{len(over)} above {_OVER:.0%}, {len(under)} below {_UNDER:.0%}"
        return WantedStep(Assignment(tuple(sorted(lcores)), owners), why)

    def _judged(self, load: dict[int, float], now_s: float) -> tuple[list[int], list[int]]:
        """Too busy, and hardly busy: as they are, as they were, as they will be if that goes on.
        The last of those hardly busy is the least busy."""
        over, under = [], []
        for one, part in load.items():
            past = self._past.get(one, 0.0)
            future = 2 * part - past
            self._past[one] = part
            if now_s - self._touched_s.get(one, 0.0) < _LEFT_S:
                continue
            if max(future, part) > _OVER:
                over.append(one)
            elif max(future, part, past) < _UNDER:
                under.append(one)
        return over, sorted(under, key=lambda one: -load[one])

    def _merge(
        self, owners: Integers, lcores: set[int], under: list[int], load: dict[int, float],
        now_s: float,
    ) -> None:  # fmt: skip
        left = list(under)
        while len(left) >= 2:
            kept, gone = left.pop(), left.pop()
            self._touched_s |= {kept: now_s, gone: now_s}
            if load[kept] + load[gone] < _OVER:
                owners[owners == gone] = kept
                lcores.discard(gone)
