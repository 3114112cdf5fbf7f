# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from headrace.analyse.campaign import halved, next_runs, ranked
from headrace.record.campaign import CampaignPoint, CampaignRule


def point(key: str, *runs: float, failed: str | None = None) -> CampaignPoint:
    """One figure for each run; the interval of few is from the least to the most."""
    values = sorted(runs)
    middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2 if values else None
    return CampaignPoint(
        key=key, title=key, runs=tuple((value,) for value in runs), failed=failed,
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


def test_points_are_repeated_until_their_figures_are_close() -> None:
    rule = CampaignRule(until=0.05, most=3)
    points = [point("one", 10.0), point("close", 10.0, 10.4), point("far", 10.0, 12.0)]
    assert next_runs(points, rule) == {"one": 2, "far": 3}
    assert next_runs([point("far", 10.0, 12.0, 8.0)], rule) == {}  # `most` ends it
