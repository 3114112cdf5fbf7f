# SPDX-License-Identifier: Apache-2.0
"""What a search for the highest loads takes and gives, apart from the library that searches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.spec.measure import GoalSpec


@dataclass(frozen=True)
class Outcome:
    """What a trial showed, in packets; over all directions. `lost` is the chain's loss alone."""

    trial: int
    intended: int
    sent: int
    lost: int
    disturbed: bool = False  # the tester or the machine, not only the chain, may have lost packets
    starved: bool = False  # and what was not sent was not as the machine had the lcores

    @property
    def loss_ratio(self) -> float:
        return self.lost / self.sent if self.sent else 0.0


@dataclass(frozen=True)
class GoalSample:
    """A trial as the search asked for it."""

    load_pps: float
    duration_s: float
    outcome: Outcome


@dataclass(frozen=True)
class GoalOutcome:
    """Where the search for one goal ended."""

    goal: GoalSpec
    lower_pps: float | None
    upper_pps: float | None
    stopped_by: str  # "width", "max-load", "min-load", "time"
    sample: GoalSample | None  # the trial that stands for the lower bound
    generator_bound: bool  # what lies above was not refused by the chain but never sent
    disturbed: bool  # what lies above was lost in disturbed trials only


@dataclass(frozen=True)
class Limits:
    min_load: float
    max_load: float
    timeout_s: float


Measure = Callable[[float, float], Outcome]
Bounds = dict[str, tuple[float | None, float | None]]
Observe = Callable[[Bounds], None]
