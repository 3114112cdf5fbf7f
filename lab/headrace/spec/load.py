# SPDX-License-Identifier: Apache-2.0
"""A load that changes over time, as `measure.operate` has it."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from headrace.spec.base import Rate, Seconds, Spec

_FORMS = "[[0 s, 1M], [10 s, 4M], [20 s, 4M]], {steps: [...]}, {trace: FILE, unit: pps, speed: 60}"


class LoadCurve(Spec):
    """`steps`: from each time on this rate, until the last time, which is the end. `trace`: a file
    of lines `seconds,rate`, between which the rate changes evenly; `unit`: of its rates, which as
    `gbps` are frames with FCS. `speed`: how much faster than it says; `times`: all rates by this.
    """

    steps: (
        Annotated[tuple[tuple[Seconds, Rate], ...], Field(min_length=2, max_length=100_000)] | None
    ) = None
    trace: Path | None = None
    unit: Literal["pps", "gbps"] = "pps"
    speed: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    times: Annotated[float, Field(gt=0, le=1e9)] = 1.0

    @model_validator(mode="before")
    @classmethod
    def _from_short(cls, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return {"steps": value}
        if not isinstance(value, dict | LoadCurve):
            raise ValueError(f"allowed: {_FORMS}")
        return value

    @model_validator(mode="after")
    def _one_form(self) -> LoadCurve:
        if (self.steps is None) == (self.trace is None):
            raise ValueError(f"give `steps` or `trace`; allowed: {_FORMS}")
        if self.steps is not None and self.unit != "pps":
            raise ValueError(f"unit: {self.unit}; allowed with `steps`: pps")
        check_curve([(at, rate) for at, rate in self.steps or ()])
        return self


def check_curve(points: list[tuple[float, float]]) -> None:
    """ValueError for what is no curve: times that do not ascend from 0, rates below zero, and what
    is no number, as a file may have it."""
    for (before, _), (after, _) in pairwise(points):
        if not before < after < math.inf:
            raise ValueError(f"{after:g} s follows {before:g} s; allowed: times that ascend")
    for at, rate in points:
        if not 0 <= rate < math.inf:
            raise ValueError(f"{rate:g} at {at:g} s; allowed: rates from 0")
    if points and points[0][0] != 0:
        raise ValueError(f"begins at {points[0][0]:g} s; allowed: 0 s")
