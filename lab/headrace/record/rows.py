# SPDX-License-Identifier: Apache-2.0
"""The trial and the result: what headrace says about a measurement.

Field names are stable: they are the columns of a bundle's Parquet files and the keys of
`headrace run --json` (docs/json.md).
"""

from __future__ import annotations

from pydantic import Field, NonNegativeFloat, NonNegativeInt

from headrace.record.convergence import RouteChange
from headrace.record.figures import Figures, ShownFigures
from headrace.record.frozen import Record
from headrace.record.identity import Identity, Phase
from headrace.record.operate import Operated
from headrace.record.verdict import Audit


class Goal(Record):
    """A search goal as the MLRsearch library takes it (draft-ietf-bmwg-mlrsearch)."""

    name: str
    loss_ratio: float
    exceed_ratio: float
    final_trial_s: float
    duration_sum_s: float
    width: float  # relative
    initial_trial_s: float | None = None
    expansion_coefficient: float | None = None
    fail_fast: bool | None = None
    label: str | None = None  # a compliance label, only where the parameters entitle to it


class Bounds(Record):
    """Where the search ended. None: no such bound was found."""

    lower_pps: float | None = None
    upper_pps: float | None = None
    min_load_pps: float | None = None
    max_load_pps: float | None = None
    trials: NonNegativeInt = 0
    seconds: NonNegativeFloat = 0.0
    stopped_by: str | None = None  # "width", "max-load", "min-load", "time", "interrupt"

    @property
    def width(self) -> float | None:
        if not self.lower_pps or not self.upper_pps:
            return None
        return (self.upper_pps - self.lower_pps) / self.upper_pps


class Measurement(Figures, Identity):
    """What a trial and a result have in common."""

    audit: Audit


class Trial(Measurement):
    """One trial: sources started at one instant, run for a time, drained, read."""

    trial: NonNegativeInt  # number within the bundle; shared by its chains and directions
    phase: Phase
    started_at: str  # ISO 8601, UTC
    intended_duration_s: NonNegativeFloat
    line_cycles: NonNegativeFloat | None = None  # TSC cycles of a line that another lcore wrote, in
    # the state of the machine that most of its slices are of; None: not measured
    line_share: float | None = Field(default=None, ge=0, le=1)  # of its slices, those in that state


class GoalFigures(Record):
    """What a result has beside its trial's figures."""

    goal: str  # a search goal's name, "fixed" or "max"
    goal_parameters: Goal | None = None
    bounds: Bounds | None = None
    trial: NonNegativeInt | None = None  # the trial that showed it
    change: RouteChange | None = None  # what converged: no packets were offered then
    operated: Operated | None = None  # what a policy made of a load that changes
    # The load as the study has it, where that is a part of what a search found: "50% of ndr".
    load_share: str | None = None
    provenance: str | None = None  # predicted and published rows: from what


class Result(Measurement, GoalFigures):
    """What a repetition found for one goal."""


class ResultRow(ShownFigures, Identity, GoalFigures):
    """A result as scripts are shown it."""

    audit: Audit

    @classmethod
    def of(cls, result: Result) -> ResultRow:
        return cls(**{name: getattr(result, name) for name in cls.model_fields})
