# SPDX-License-Identifier: Apache-2.0
"""What all policies have in common: they see an interval, and may want a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from headrace.ground.operable import Assignment, ElasticModel, Foresight, Numbers, PlantTelemetry
from headrace.spec.operate import Slo

_HALVINGS = 30
TENTHS = 10  # lcores that chains share are asked for in tenths


@dataclass(frozen=True)
class PlantSituation:
    """`packets`: draws what each bucket had in the last tenth of a second."""

    seen: PlantTelemetry
    now: Assignment
    packets: Callable[[], Numbers]


@dataclass(frozen=True)
class WantedStep:
    """A step, why, and what is expected of the busiest lcore when it is done. `goes_on`: it is a
    further part of the last one; `lcores`: at its end, where there are parts."""

    assignment: Assignment
    why: str
    busy: float | None = None
    p99_s: float | None = None
    goes_on: bool = False
    lcores: int | None = None


@dataclass
class BusyMeans:
    """How busy each lcore was in the mean over a tick of a policy, which is several intervals."""

    interval_s: float
    tick_s: float
    _sum: Numbers | None = None  # seconds since the last tick
    _seen_s: float = 0.0

    def load(self, situation: PlantSituation) -> dict[int, float] | None:
        """The load by lcore in use, at the end of a tick; None: it goes on."""
        seen = situation.seen
        busy = seen.busy * seen.seconds
        self._sum = busy if self._sum is None else self._sum + busy
        self._seen_s += seen.seconds
        if self._seen_s < self.tick_s - self.interval_s / 2:
            return None
        means = {one: float(self._sum[one]) / self._seen_s for one in situation.now.lcores}
        self._sum, self._seen_s = None, 0.0
        return means


class Policy(Protocol):
    @property
    def learned(self) -> float | None:
        """What becomes of a packet's cost as the model has it; None: it does not learn."""

    def begin(self) -> int:
        """Lcores at first, when all that is known is the load of that moment."""

    def decide(self, situation: PlantSituation) -> WantedStep | None: ...


@dataclass(frozen=True)
class Sizing:
    """How many lcores keep an SLO, as the model has it."""

    model: ElasticModel
    slo: Slo
    _most: dict[tuple[int, float], float] = field(default_factory=dict, repr=False)

    def keeps(self, lcores: int, pps: float, dearer: float = 1.0) -> bool:
        """`pps`: of the busiest lcore."""
        return pps <= self.most_pps(lcores, dearer)

    def most_pps(self, lcores: int, dearer: float) -> float:
        """What each of so many may get; 0 where the SLO is not kept by any load."""
        key = lcores, round(dearer, 3)
        if key not in self._most:
            self._most[key] = self._bisected(*key)
        return self._most[key]

    def _bisected(self, lcores: int, dearer: float) -> float:
        """Packets wait the longer the more come."""
        low, high = 0.0, self.model.carries_pps(lcores) / dearer
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self.model.p99_s(lcores, middle, dearer) <= self.slo.p99:
                low = middle
            else:
                high = middle
        return low

    def needed(self, pps: float, uneven: float = 1.0, dearer: float = 1.0) -> int:
        """Lcores for this load, where the busiest has `uneven` times an equal share; all there are,
        where none are enough."""
        for lcores in range(1, self.model.most):
            if self.keeps(lcores, pps / lcores * uneven, dearer):
                return lcores
        return self.model.most

    def needed_part(self, pps: float, uneven: float = 1.0, dearer: float = 1.0) -> float:
        """The same, where the last of them may be a part of an lcore: on the half of one each
        packet takes twice as long."""
        low, high = 1, TENTHS * self.model.most
        while low < high:
            middle = (low + high) // 2
            if self._keeps_tenths(middle, pps * uneven, dearer):
                high = middle
            else:
                low = middle + 1
        return low / TENTHS

    def _keeps_tenths(self, tenths: int, pps: float, dearer: float) -> bool:
        whole, rest = divmod(tenths, TENTHS)
        each = pps * TENTHS / tenths  # that a whole lcore gets
        part = rest / TENTHS
        return (not whole or self.keeps(whole, each, dearer)) and (
            not rest or self.keeps(1, each * part, dearer / part)
        )

    def working(self, pps: float, busy: float) -> int:
        """Lcores that are all busy for no more than this part of the time."""
        for lcores in range(1, self.model.most):
            if float(self.model.busy(lcores, np.array([pps / lcores]))[0]) <= busy:
                return lcores
        return self.model.most

    def unkeepable(self, future: Foresight) -> str | None:
        """Why no number of lcores keeps it, whatever the policy."""
        least = self.model.p99_s(self.model.most, 0.0)
        if least > self.slo.p99:
            return f"a packet alone takes {least * 1e6:.3g} us, p99 may be {self.slo.p99 * 1e6:.3g}"
        most = self.model.most
        if not self.keeps(most, future.peak / most):
            carried = self.model.carries_pps(most) * most
            return (
                f"at its peak the load is {future.peak / 1e6:.3g} Mpps, and all {most} lcores "
                f"carry {carried / 1e6:.3g} at most"
            )
        return None
