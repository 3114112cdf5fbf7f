# SPDX-License-Identifier: Apache-2.0
"""Starts of known states."""

from __future__ import annotations

from headrace.model.lines_between import same_state, steady


def test_figures_of_one_state_are_told_from_another() -> None:
    """As 20 starts of one chain had them: 58 to 61 and 336 to 351 cycles."""
    assert same_state(58.2, 61.0) and same_state(336.0, 351.0)
    assert not same_state(61.0, 336.0) and not same_state(336.0, 61.0)
    assert same_state(None, 336.0) and same_state(60.0, None)


def test_a_start_during_which_the_machine_moved_is_left_out() -> None:
    """The second began near and ended far, as the third shows."""
    assert steady([60.0, 60.5, 340.0, 341.0, 338.0, 345.0]) == [False, False, *[True] * 4]
    assert steady([340.0, 60.0, 61.0, 59.0]) == [False, True, True, True]


def test_the_state_of_most_starts_counts_and_of_two_alike_the_cheaper() -> None:
    assert steady([340.0, 340.0, 60.0]) == [False, False, True]
    assert steady([60.0, 60.0, 340.0, 340.0, 340.0]) == [False, False, True, True, True]
    assert steady([60.0, 60.0, 340.0]) == [True, False, False]


def test_where_nothing_was_measured_every_start_counts() -> None:
    assert steady([]) == []
    assert steady([None, None]) == [True, True]
    assert steady([None, 60.0, 61.0]) == [True, True, True]
    assert steady([None, 60.0, 61.0, 340.0]) == [True, True, False, False]
