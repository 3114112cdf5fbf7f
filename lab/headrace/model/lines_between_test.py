# SPDX-License-Identifier: Apache-2.0
"""States of a machine whose lcores a hypervisor moves, by lines of known cost."""

from __future__ import annotations

import numpy as np

from headrace.model.lines_between import commonest, in_state, same_state, smoothed, states


def test_states_are_apart_by_more_than_their_noise() -> None:
    assert same_state(74.0, 82.0) and same_state(341.0, 361.0)
    assert not same_state(78.0, 344.0) and not same_state(344.0, 78.0)
    assert not same_state(21.0, 78.0) and same_state(1.0, 26.0)
    assert same_state(None, 344.0) and same_state(78.0, None)


def test_a_reading_alone_is_no_other_state() -> None:
    """Some met the other lcore's writing, one had been fetched before, two nobody read."""
    line = np.array([78, 80, 9000, 79, 77, 4, 78, 0, 0, 80, 81], dtype=float)
    assert np.all((smoothed(line) >= 77) & (smoothed(line) <= 81))
    # As an idle lcore's clock was read, steps of the TSC and all.
    busy = np.array(
        [78, 52, 312, 52, 390, 52, 52, 52, 390, 52, 338, 78, 52, 364, 52, 286, 312, 52, 78]
    )
    assert in_state(smoothed(busy.astype(float)), 60.0).all()
    moved = smoothed(np.array([78.0] * 10 + [344.0] * 10))
    assert list(in_state(moved, 78.0)[[0, 7, 12, 19]]) == [True, True, False, False]
    assert np.isnan(smoothed(np.zeros(7))).all()
    assert smoothed(np.empty(0)).size == 0


def test_the_commonest_state_is_that_of_most_figures() -> None:
    assert commonest([[344.0, 345.0], [78.0, 79.0, 77.0]]) == 78.0
    assert commonest([[344.0, 345.0, 340.0], [78.0]]) == 344.0
    assert commonest([[344.0, 78.0]]) == 78.0  # as common: the cheaper one
    assert commonest([[float("nan")], []]) is None
    assert commonest([]) is None


def test_states_come_in_the_order_of_how_many_figures_they_have() -> None:
    nan = float("nan")
    assert states([344.0, 78.0, 21.0, nan, 346.0, 79.0, 345.0]) == [345.0, 78.5, 21.0]
    assert states([nan]) == [] and states([]) == []


def test_what_nobody_knows_is_left_in() -> None:
    line = np.array([78.0, 344.0, np.nan, 21.0, 80.0])
    assert list(in_state(line, 78.0)) == [True, False, True, False, True]
    assert in_state(line, None).all()
