# SPDX-License-Identifier: Apache-2.0
"""A goal is met, missed, or not measured and says why."""

from __future__ import annotations

from headrace.report.checks import at_least, at_most, table


def test_a_limit_itself_is_within_the_goal() -> None:
    assert at_least("agreement", 0.95, 0.95).verdict == "met"
    assert at_most("cost", 0.02, 0.02).verdict == "met"
    assert at_least("agreement", 0.95, 0.9499).verdict == "missed"
    assert at_most("cost", 0.02, 0.0201).verdict == "missed"


def test_what_was_not_measured_is_not_met() -> None:
    check = at_least("agreement", 0.95, None, why="one CPU")
    assert not check.met
    assert check.line() == "agreement: goal at least 95.0\u202f%, not measured: one CPU"
    assert table([check]).rows == (
        ("agreement", "at least 95.0\u202f%", "–", "not measured: one CPU"),
    )


def test_a_line_has_goal_verdict_and_figure() -> None:
    line = at_most("transfer", 1.2, 1.5, text=lambda v: f"{v:g}x").line()
    assert line == "transfer: goal at most 1.2x, missed 1.5x"
