# SPDX-License-Identifier: Apache-2.0
"""A change of buckets in parts: each lcore gives and takes as many in an interval as it has time
for beside its packets. What keeps the SLO without a move does not keep it while half of an lcore's
buckets leave at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from headrace.ground.operable import Assignment, Numbers
from headrace.measure.operate.evened import shares
from headrace.measure.operate.policy import PlantSituation, Sizing

_LEAST = 0.01  # of an interval, that moves may take of a busy lcore: every change ends
_IDLE = 0.5  # of its time: hardly a packet waits there for a move
_SLO_PART = 0.5  # of what packets may take, that moves of a busy lcore take at once
_OVER = 0.02  # of what an lcore may have, beyond which buckets leave it as fast as they can


@dataclass
class MeteredSteps:
    """`target`: what is under way. `parts`: of each lcore, what the chain has; None: all of it."""

    sizing: Sizing
    interval_s: float
    target: Assignment | None = None
    parts: Numbers | None = None

    def begin(
        self, situation: PlantSituation, target: Assignment, pps: float, dearer: float = 1.0
    ) -> Assignment:
        """The first part. All of it, where packets are late already, or an lcore has too many.
        `pps`: the load."""
        free = self._free(situation, pps, dearer)
        late = situation.seen.p99_s > self.sizing.slo.p99
        if not self.sizing.model.bucket_s or late or free.min() < -_OVER:
            self.target = None
            return target
        self.target = target
        return part(situation.now, target, self._buckets(free))

    def further(
        self, situation: PlantSituation, pps: float, dearer: float = 1.0
    ) -> Assignment | None:
        """The next part of what is under way, once the last one is through; None: not now."""
        assert self.target is not None  # who asks knows
        if _same(self.target, situation.now):
            if situation.seen.settled:
                self.target = None
            return None
        if situation.seen.moving:
            return None
        return self.begin(situation, self.target, pps, dearer)

    def through_s(self, lcores: int) -> float:
        """Until one more lcore has its buckets."""
        model = self.sizing.model
        if not model.bucket_s:
            return model.change_s
        of_each = model.buckets / lcores / (lcores + 1)
        parts = math.ceil(of_each / float(self._buckets(np.zeros(1))[0]))
        return max(model.change_s, parts * self.interval_s)

    def _buckets(self, free: Numbers) -> Numbers:
        """How many each lcore may give and take in an interval, as far as it has time."""
        seconds = np.maximum(_LEAST, free) * self.interval_s
        at_once = np.minimum(seconds, _SLO_PART * self.sizing.slo.p99)
        seconds = np.where(free < _IDLE, at_once, seconds)
        buckets: Numbers = np.maximum(1, np.floor(seconds / self.sizing.model.bucket_s + 1e-9))
        return buckets

    def _free(self, situation: PlantSituation, pps: float, dearer: float) -> Numbers:
        """The share of each lcore's time that is left beside as many packets as keep the SLO."""
        model, now = self.sizing.model, situation.now
        most = self.sizing.most_pps(len(now.lcores), dearer)
        if not most:
            return np.full(model.most, -1.0)
        own = np.ones(model.most) if self.parts is None else self.parts
        has = pps * shares(now, situation.packets(), model.most) / most
        free: Numbers = np.where(own > 0, own - has, -1.0 * (has > 0))
        return free


def part(now: Assignment, target: Assignment, most: Numbers) -> Assignment:
    """So many buckets of each lcore, at most, to where they are to go; givers take turns. An lcore
    that is to go does so with its last one."""
    owners, left = now.owners.copy(), most.copy()
    turns: dict[int, int] = {}
    keyed = []
    for one in np.flatnonzero(owners != target.owners):
        giver = int(owners[one])
        turns[giver] = turns.get(giver, 0) + 1
        keyed.append((turns[giver], giver, int(one)))
    for _, giver, bucket in sorted(keyed):
        taker = int(target.owners[bucket])
        if left[giver] >= 1 and left[taker] >= 1:
            owners[bucket] = taker
            left[[giver, taker]] -= 1
    return Assignment(tuple(sorted({*target.lcores, *(int(one) for one in owners)})), owners)


def _same(one: Assignment, other: Assignment) -> bool:
    return one.lcores == other.lcores and bool((one.owners == other.owners).all())
