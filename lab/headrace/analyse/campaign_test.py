# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from headrace.analyse.campaign import halved, next_runs, ranked, with_run
from headrace.record.campaign import CampaignPoint, CampaignRule
from headrace.record.rows import Bounds, Result
from headrace.record.verdict import Audit, Verdict


def point(
    key: str, *runs: float, failed: str | None = None, at_least: bool = False
) -> CampaignPoint:
    """One figure for each run; the interval of few is from the least to the most."""
    values = sorted(runs)
    middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2 if values else None
    return CampaignPoint(
        key=key, title=key, runs=tuple((value,) for value in runs), failed=failed,
        at_least=at_least,
        median=middle, low=values[0] if values else None, high=values[-1] if values else None,
    )  # fmt: skip


def test_each_point_is_run_once() -> None:
    points = [point("a", 5.0), point("b"), point("c", failed="no such image")]
    assert next_runs(points, CampaignRule()) == {"b": 1}
    assert next_runs([points[0], points[2]], CampaignRule()) == {}


def test_halving_doubles_the_runs_of_the_better_half() -> None:
    rule = CampaignRule(keep=1)
    first = [
        point(key, value) for key, value in zip("abcde", (1.0, 9.0, 7.0, 3.0, 8.0), strict=True)
    ]
    assert next_runs(first, rule) == {"b": 2, "e": 2, "c": 2}  # 3 of 5: the odd one goes on
    second = [first[0], point("b", 9.0, 1.0), point("c", 7.0, 7.0), first[3], point("e", 8.0, 9.0)]
    assert next_runs(second, rule) == {"e": 4, "c": 4}  # medians: b 5, c 7, e 8.5
    third = [*second[:2], point("c", 7.0, 7.0, 9.0, 9.0), second[3], point("e", 8.0, 9.0, 1.0, 1.0)]
    alive, lacking = halved(third, rule)
    assert [p.key for p in alive] == ["c"] and lacking == {}  # medians: c 8, e 4.5
    assert [p.key for p in ranked(third, rule)] == ["c", "b", "e", "d", "a"]


def test_a_later_run_changes_no_earlier_choice() -> None:
    """What a round decided it decides again when the campaign is gone on with."""
    rule = CampaignRule(keep=1)
    points = [point("a", 4.0), point("b", 5.0, 1.0)]
    assert [p.key for p in halved(points, rule)[0]] == ["b"]


def test_halving_leaves_out_no_lower_bound() -> None:
    """`d` may be the best of all; its runs do not double, and do not keep the others' from it."""
    rule = CampaignRule(keep=1)
    bounded = point("d", 2.0, at_least=True)
    points = [point("a", 9.0), point("b", 8.0), point("c", 3.0), bounded]
    assert next_runs(points, rule) == {"a": 2, "b": 2}
    points[:2] = [point("a", 9.0, 9.0), point("b", 8.0, 8.0)]
    alive, lacking = halved(points, rule)
    assert [p.key for p in alive] == ["a", "d"] and lacking == {}
    assert [p.key for p in ranked(points, rule) if not p.left_out] == ["a", "d"]
    assert next_runs([bounded, point("c", 1.0)], rule) == {}  # the best so far is only one


def test_points_are_repeated_until_their_figures_are_close() -> None:
    rule = CampaignRule(until=0.05, most=3)
    points = [point("one", 10.0), point("close", 10.0, 10.4), point("far", 10.0, 12.0)]
    assert next_runs(points, rule) == {"one": 2, "far": 3}
    assert next_runs([point("far", 10.0, 12.0, 8.0)], rule) == {}  # `most` ends it


def test_a_figure_of_the_generator_is_a_lower_bound(measured: Result) -> None:
    """As in the conclusion of `run`; a fixed load bounds nothing."""
    cases: list[tuple[str, Verdict, bool]] = [
        ("max", "generator-bound", True),
        ("max", "ok", False),
        ("fixed", "generator-bound", False),
    ]
    for goal, verdict, at_least in cases:
        result = measured.model_copy(update={"goal": goal, "audit": Audit(verdict=verdict)})
        first = with_run(point("a"), "a-1", [result])
        assert first.at_least is at_least
        again = measured.model_copy(update={"goal": goal, "audit": Audit(verdict="ok")})
        assert with_run(first, "a-2", [again]).at_least is at_least


def test_what_no_load_met_has_no_figure(measured: Result) -> None:
    """The trial at the lowest load lost more than the goal allows: it is no rate of the point."""
    none = Bounds(lower_pps=None, upper_pps=2e4, stopped_by="min-load")
    unmet = measured.model_copy(update={"bounds": none, "throughput_pps": 1.9e4})
    alone = with_run(point("a"), "b", [unmet])
    assert alone.median is None and alone.runs == ((),)
    assert with_run(alone, "c", [measured]).median == measured.throughput_pps
