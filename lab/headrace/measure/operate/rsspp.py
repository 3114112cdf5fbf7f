# SPDX-License-Identifier: Apache-2.0
"""RSS++ as its authors published it (Barbette et al. 2019, RSS++: load and state-aware receive side
scaling).

Every 100 ms an lcore more where all of them are to work more than 80 % of the time by a tenth of an
lcore; one less where more than 1.1 are to spare; and buckets of lcores that are busier than the
mean go to those that are less. Of the two rules for giving up an lcore that their program had, this
is the older one: the published course of lcores follows it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headrace.ground.operable import Assignment, Integers, Numbers
from headrace.measure.operate.policy import BusyMeans, PlantSituation, Sizing, WantedStep

_TICK_S, _TARGET, _THRESHOLD, _SPARE, _MISSING = 0.1, 0.8, 0.02, 1.1, 0.1


@dataclass
class RssppPolicy:
    """It begins with what it would have for the load of that moment."""

    sizing: Sizing
    first_pps: float
    interval_s: float
    learned: float | None = None
    _moved_to: set[int] = field(default_factory=set)  # in the last tick, left alone in this one

    def __post_init__(self) -> None:
        self._means = BusyMeans(self.interval_s, _TICK_S)

    def begin(self) -> int:
        return self.sizing.working(self.first_pps, _TARGET)

    def decide(self, situation: PlantSituation) -> WantedStep | None:
        load = self._means.load(situation)
        return None if load is None else self._tick(situation.now, load, situation.packets())

    def _tick(self, now: Assignment, load: dict[int, float], packets: Numbers) -> WantedStep | None:
        spare = sum(_TARGET - one for one in load.values())
        if spare > _SPARE and len(load) > 1:
            return self._without(now, load, packets, f"{spare:.2f} lcores are to spare")
        why = "some are busier than the mean"
        if spare < -_MISSING:
            free = [one for one in range(self.sizing.model.most) if one not in load]
            if free:
                load = {**load, free[0]: 0.0}
                why = f"{-spare:.2f} lcores are missing"
        owners = self._balanced(now.owners, load, packets)
        lcores = tuple(sorted(load))
        if lcores == now.lcores and (owners == now.owners).all():
            return None
        return WantedStep(Assignment(lcores, owners), why)

    def _without(
        self, now: Assignment, load: dict[int, float], packets: Numbers, why: str
    ) -> WantedStep:
        """The least busy one's buckets go where most is missing to the mean."""
        gone = min(load, key=lambda one: load[one])
        rest = {one: part for one, part in load.items() if one != gone}
        owners, own = now.owners.copy(), _each(now.owners, gone, packets, load[gone])
        for b in sorted(own, key=lambda b: -own[b]):
            to = min(rest, key=lambda one: rest[one])
            owners[b] = to
            rest[to] += own[b]
        return WantedStep(Assignment(tuple(sorted(rest)), owners), why)

    def _balanced(self, owners: Integers, load: dict[int, float], packets: Numbers) -> Integers:
        """Largest buckets first, each where it still fits."""
        mean = sum(load.values()) / len(load)
        off = {one: 0.0 if one in self._moved_to else mean - part for one, part in load.items()}
        self._moved_to, after = set(), owners.copy()
        under = {one: part for one, part in off.items() if part > _THRESHOLD}
        for one in (one for one, part in off.items() if part < -_THRESHOLD):
            own = _each(owners, one, packets, load[one])
            if len(own) < 2:
                continue
            over = -off[one]
            for b in sorted(own, key=lambda b: -own[b]):
                to = max(under, key=lambda other: under[other], default=None)
                if to is None or own[b] > min(over, under[to]):
                    continue
                after[b] = to
                over -= own[b]
                under[to] -= own[b]
                self._moved_to.add(to)
        return after


def _each(owners: Integers, lcore: int, packets: Numbers, load: float) -> dict[int, float]:
    """What each bucket of an lcore has of its load."""
    mine = np.flatnonzero((owners == lcore) & (packets > 0))
    total = float(packets[mine].sum())
    return {int(b): load * float(packets[b]) / total for b in mine} | {
        int(b): 0.0 for b in np.flatnonzero((owners == lcore) & (packets <= 0))
    }
