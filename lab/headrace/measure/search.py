# SPDX-License-Identifier: Apache-2.0
"""Search for the highest loads that meet loss-ratio goals, by the MLRsearch library.

Sees nothing but `measure(load, duration)`: how a trial is made is none of its business.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.measure.mlrsearch import (
    AbstractMeasurer,
    Config,
    MeasurementResult,
    MultipleLossRatioSearch,
    SearchGoal,
)
from headrace.measure.outcome import GoalOutcome, GoalSample, Limits, Measure, Observe, Outcome
from headrace.spec.measure import GoalSpec


@dataclass
class _Measurer(AbstractMeasurer):  # type: ignore[misc]
    """The library's view of our trials.

    The library counts what was not sent as if it were lost, which steers it to loads that can be
    sent; whether the bound then found is the chain's or the generator's is told apart afterwards.
    """

    run: Measure
    after_each: Callable[[], None] = lambda: None
    samples: list[GoalSample] = field(default_factory=list)

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        self.after_each()
        outcome = self.run(intended_load, intended_duration)
        self.samples.append(GoalSample(intended_load, intended_duration, outcome))
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=outcome.sent,
            loss_count=outcome.lost,
            intended_count=max(outcome.intended, outcome.sent),
        )


def library_goal(goal: GoalSpec) -> SearchGoal:
    return SearchGoal(
        loss_ratio=goal.loss_ratio,
        exceed_ratio=goal.exceed_ratio,
        relative_width=goal.width,
        initial_trial_duration=goal.initial_trial,
        final_trial_duration=goal.final_trial,
        duration_sum=goal.duration_sum,
        preceding_targets=goal.preceding_targets,
        expansion_coefficient=goal.expansion,
        fail_fast=False,  # "below the lowest load" is an answer, not a failure
    )


def search(
    goals: Sequence[GoalSpec], limits: Limits, measure: Measure, observe: Observe | None = None
) -> list[GoalOutcome]:
    """One search for all goals; each trial counts for each of them."""
    # Two names may stand for the same goal; the library wants them distinct.
    by_goal = {library_goal(goal): goal.name for goal in goals}
    config = Config(
        goals=tuple(by_goal),
        min_load=limits.min_load,
        max_load=limits.max_load,
        search_duration_max=limits.timeout_s,
        warmup_duration=None,
    )
    library = MultipleLossRatioSearch(config)

    def tell() -> None:
        if observe is not None:
            observe({name: _current(library, goal) for goal, name in by_goal.items()})

    measurer = _Measurer(measure, after_each=tell)
    deadline = time.monotonic() + limits.timeout_s
    timed_out = False
    try:
        library.search(measurer, debug=lambda text: None)
    except RuntimeError:
        # The library says "takes too long" by the same class as an inconsistency.
        timed_out = time.monotonic() >= deadline
        if not timed_out:
            raise
    return [
        _outcome(goal, _current(library, library_goal(goal)), limits, measurer.samples, timed_out)
        for goal in goals
    ]


def _current(library: Any, goal: SearchGoal) -> tuple[float | None, float | None]:
    """The relevant bounds for a goal, as the library's database has them now."""
    database = getattr(library, "database", None)
    scaling = getattr(library, "scaling", None)
    if database is None or scaling is None:
        return None, None
    bounds = database.get_relevant_bounds(target=scaling.goal_to_final_target[goal])
    low = float(bounds.clo) if bounds.clo else None
    high = float(bounds.chi) if bounds.chi else None
    return low, high


def _outcome(
    goal: GoalSpec,
    bounds: tuple[float | None, float | None],
    limits: Limits,
    samples: list[GoalSample],
    timed_out: bool,
) -> GoalOutcome:
    lower, upper = bounds
    stopped_by = "time" if timed_out else "width"
    if not timed_out and lower is None:
        stopped_by = "min-load"
    elif not timed_out and upper is None:
        stopped_by = "max-load"
    return GoalOutcome(
        goal=goal,
        lower_pps=lower,
        upper_pps=upper,
        stopped_by=stopped_by,
        sample=_representative(goal, lower, samples),
        generator_bound=_generator_bound(goal, upper, samples),
        disturbed=_disturbed(goal, upper, samples),
    )


def _at(load: float | None, samples: list[GoalSample]) -> list[GoalSample]:
    if load is None:
        return []
    return [s for s in samples if abs(s.load_pps - load) <= 1e-9 * load]


def _representative(
    goal: GoalSpec, lower: float | None, samples: list[GoalSample]
) -> GoalSample | None:
    """The worst of the lower bound's good trials of full length: what the library's conditional
    throughput is based on, too. Without a lower bound, the trial at the lowest load."""
    here = _at(lower, samples)
    if not here:
        return min(samples, key=lambda s: s.load_pps, default=None)
    good = [s for s in here if s.outcome.loss_ratio <= goal.loss_ratio] or here
    longest = max(s.duration_s for s in good)
    return max((s for s in good if s.duration_s == longest), key=lambda s: s.outcome.loss_ratio)


def _generator_bound(goal: GoalSpec, upper: float | None, samples: list[GoalSample]) -> bool:
    """Did the upper bound's bad trials fail only because packets were never sent?"""
    bad = _bad(goal, upper, samples)
    refused = bool(bad) and all(s.outcome.loss_ratio <= goal.loss_ratio for s in bad)
    return refused and not all(s.outcome.starved for s in bad)


def _disturbed(goal: GoalSpec, upper: float | None, samples: list[GoalSample]) -> bool:
    bad = _bad(goal, upper, samples)
    return bool(bad) and all(s.outcome.disturbed for s in bad)


def _bad(goal: GoalSpec, load: float | None, samples: list[GoalSample]) -> list[GoalSample]:
    return [s for s in _at(load, samples) if _library_loss(s.outcome) > goal.loss_ratio]


def _library_loss(outcome: Outcome) -> float:
    overall = max(outcome.intended, outcome.sent)
    return (outcome.lost + overall - outcome.sent) / overall if overall else 0.0
