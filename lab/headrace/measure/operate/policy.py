# SPDX-License-Identifier: Apache-2.0
"""What all policies have in common: they see an interval, and may want a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from headrace.ground.operable import Assignment, ElasticModel, Foresight, Numbers, PlantTelemetry
from headrace.spec.operate import Slo


@dataclass(frozen=True)
class PlantSituation:
    """`packets`: draws what each bucket had in the last interval."""

    seen: PlantTelemetry
    now: Assignment
    packets: Callable[[], Numbers]


@dataclass(frozen=True)
class WantedStep:
    """A step, why, and what is expected of the busiest lcore when it is done."""

    assignment: Assignment
    why: str
    busy: float | None = None
    p99_s: float | None = None


class Policy(Protocol):
    learned: float | None

    def begin(self) -> int:
        """Lcores at first, when all that is known is the load of that moment."""

    def decide(self, situation: PlantSituation) -> WantedStep | None: ...


@dataclass(frozen=True)
class Sizing:
    """How many lcores keep an SLO, as the model has it."""

    model: ElasticModel
    slo: Slo

    def keeps(self, lcores: int, pps: float, dearer: float = 1.0) -> bool:
        """`pps`: of the busiest lcore."""
        return self.model.p99_s(lcores, pps, dearer) <= self.slo.p99

    def needed(self, pps: float, uneven: float = 1.0, dearer: float = 1.0) -> int:
        """For this load, where the busiest has `uneven` times an equal share; all there are, where
        none are enough."""
        for lcores in range(1, self.model.most):
            if self.keeps(lcores, pps / lcores * uneven, dearer):
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
