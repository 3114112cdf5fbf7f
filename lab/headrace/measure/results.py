# SPDX-License-Identifier: Apache-2.0
"""From trials to results: what a repetition found for a goal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headrace.engine.figures import UNINTENDED
from headrace.measure.doubts import of_search
from headrace.measure.outcome import GoalOutcome, Limits
from headrace.record.estimates import Capacity
from headrace.record.rows import Bounds, Goal, Measurement, Result, Trial


def result(trial: Trial, goal: str, **more: Any) -> Result:
    """A trial as the answer to `goal`."""
    common = {name: getattr(trial, name) for name in Measurement.model_fields}
    return Result.model_validate({**common, "trial": trial.trial, "goal": goal, **more})


def searched(
    trials: Sequence[Trial],
    outcome: GoalOutcome,
    limits: Limits,
    count: int,
    seconds: float,
    capacity: Capacity | None,
) -> list[Result]:
    """The results of one goal, one per direction and their sum. A search goes by the load of each
    way, and so do its bounds; of the sum of both ways they are sums, as its load is."""
    goal = outcome.goal
    shared = {
        "capacity": capacity,
        "goal_parameters": Goal(
            name=goal.name,
            loss_ratio=goal.loss_ratio,
            exceed_ratio=goal.exceed_ratio,
            final_trial_s=goal.final_trial,
            duration_sum_s=goal.duration_sum,
            width=goal.width,
            initial_trial_s=goal.initial_trial,
            expansion_coefficient=goal.expansion,
            fail_fast=False,
            # RFC 2544 knows no losses that do not count.
            label=None if UNINTENDED in trials[0].labels else compliance(outcome),
        ),
    }
    rows = []
    for trial in trials:
        ended, within = _of_ways(outcome, limits, len(trials) - 1 if trial is trials[-1] else 1)
        bounds = Bounds(
            lower_pps=ended.lower_pps,
            upper_pps=ended.upper_pps,
            min_load_pps=within.min_load,
            max_load_pps=within.max_load,
            trials=count,
            seconds=seconds,
            stopped_by=ended.stopped_by,
        )
        audit = of_search(trial.audit, ended, within)
        rows.append(result(trial, goal.name, **shared, bounds=bounds, audit=audit))
    return rows


def _of_ways(outcome: GoalOutcome, limits: Limits, ways: int) -> tuple[GoalOutcome, Limits]:
    """The same of so many directions together."""
    if ways < 2:
        return outcome, limits
    lower, upper = outcome.lower_pps, outcome.upper_pps
    return (
        replace(
            outcome,
            lower_pps=None if lower is None else ways * lower,
            upper_pps=None if upper is None else ways * upper,
        ),
        replace(limits, min_load=ways * limits.min_load, max_load=ways * limits.max_load),
    )


def compliance(outcome: GoalOutcome) -> str | None:
    """RFC 2544 section 26.1 asks for zero loss in trials of at least 60 s (section 24). A search
    that did less does not get the name."""
    goal = outcome.goal
    if goal.loss_ratio == 0 and goal.final_trial >= 60 and goal.exceed_ratio == 0:
        return "RFC 2544 throughput"
    return None
