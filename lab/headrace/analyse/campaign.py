# SPDX-License-Identifier: Apache-2.0
"""Which points of a campaign are run next. What that depends on is the figures of runs that ended,
so a campaign that was killed goes on as it would have."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from headrace.analyse.reached import rate
from headrace.analyse.summary import key_of, summarise
from headrace.model.spread import median_interval
from headrace.record.campaign import CampaignPoint, CampaignRule
from headrace.record.rows import Result
from headrace.record.verdict import worst

PACKETS = "packets/s"


def with_run(point: CampaignPoint, bundle: str, results: Sequence[Result]) -> CampaignPoint:
    """The point with one more run. Its figure is that of the study's first workload and goal, of
    both directions together; repetitions that are no measurement of the chain have none, nor have
    those of whose search no load met the goal."""
    if not results:
        return point.model_copy(update={"failed": f"{bundle} has no results"})
    whole = [r for r in results if r.direction == "both"] or list(results)
    asked = key_of(whole[0]).asked
    same = [r for r in whole if key_of(r).asked == asked]
    unmet = [r for r in same if r.bounds is not None and r.bounds.lower_pps is None]
    valid = [r for r in same if r.audit.verdict != "invalid" and r not in unmet]
    verdicts = [r.audit.verdict for r in same]
    verdict = worst(verdicts if point.verdict is None else [point.verdict, *verdicts])
    runs = (*point.runs, tuple(map(_figure, valid)))
    return _judged(
        point.model_copy(
            update={
                "runs": runs,
                "unit": _unit(same[0]),
                "goal": asked.goal,
                "verdict": verdict,
                "at_least": point.at_least or any(one.lower_bound for one in summarise(same)),
                "bundles": (*point.bundles, bundle),
            }
        )
    )


def _figure(result: Result) -> float:
    return result.throughput_pps if result.application is None else rate([result]).median


def _unit(result: Result) -> str:
    return PACKETS if result.application is None else rate([result]).unit


def _judged(point: CampaignPoint) -> CampaignPoint:
    values = sorted(value for run in point.runs for value in run)
    if not values:
        return point
    low, high = median_interval(len(values))
    update = {"median": median(values), "low": values[low], "high": values[high]}
    return point.model_copy(update=update)


def next_runs(points: Sequence[CampaignPoint], rule: CampaignRule) -> dict[str, int]:
    """How many runs points must have before anything else is decided; empty: it is over."""
    alive, wanted = halved(points, rule)
    if wanted or rule.until is None:
        return wanted
    return {
        point.key: len(point.runs) + 1
        for point in alive
        if len(point.runs) < rule.most and not _narrow(point, rule.until)
    }


def _narrow(point: CampaignPoint, share: float) -> bool:
    """One figure says nothing of how much the next would differ."""
    figures = sum(map(len, point.runs))
    if figures < 2 or point.median is None or point.low is None or point.high is None:
        return False
    return max(point.high - point.median, point.median - point.low) <= share * point.median


def halved(
    points: Sequence[CampaignPoint], rule: CampaignRule
) -> tuple[list[CampaignPoint], dict[str, int]]:
    """Successive halving (Jamieson and Talwalkar 2016, Non-stochastic Best Arm Identification and
    Hyperparameter Optimization, section 3): in each round the runs of a point double and the better
    half of the points goes on. Those that are left, and runs that they lack for their round.

    A point of the worse half whose figure is a lower bound may be the best: it is kept beside the
    others, and not run again for their rounds."""
    alive, runs = [p for p in points if p.failed is None and p.skipped is None], 1
    beside: list[CampaignPoint] = []
    while True:
        over = rule.keep is None or len(alive) <= rule.keep
        if over and runs > 1:
            return [*alive, *beside], {}  # the last round was decided without more of their runs
        lacking = {point.key: runs for point in alive if len(point.runs) < runs}
        if lacking or rule.keep is None or over:
            return [*alive, *beside], lacking
        best = sorted(alive, key=lambda point: -_after(point, runs))
        better = max(rule.keep, (len(alive) + 1) // 2)
        beside += [point for point in best[better:] if point.at_least]
        alive, runs = best[:better], runs * 2


def _after(point: CampaignPoint, runs: int) -> float:
    """Goes by the runs that all have which were compared, lest more of them tell another story."""
    values = [value for run in point.runs[:runs] for value in run]
    return median(values) if values else 0.0


def ranked(points: Sequence[CampaignPoint], rule: CampaignRule) -> tuple[CampaignPoint, ...]:
    """The highest first; what halving left out behind what it kept."""
    alive = {point.key for point in halved(points, rule)[0]}
    marked = [
        point.model_copy(update={"left_out": bool(point.runs) and point.key not in alive})
        for point in points
    ]
    return tuple(sorted(marked, key=lambda p: (p.median is None, p.left_out, -(p.median or 0.0))))
