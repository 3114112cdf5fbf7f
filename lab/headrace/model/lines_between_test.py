# SPDX-License-Identifier: Apache-2.0
"""States of a machine whose lcores a hypervisor moves, by lines of known cost."""

from __future__ import annotations

import numpy as np

from headrace.model.lines_between import (
    commonest,
    compared_state,
    in_state,
    of_pair,
    same_state,
    smoothed,
    states,
    wanted_state,
)
from headrace.record.slices import ReplicaSlices


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


def test_a_comparison_goes_by_the_nearest_state_that_it_has_enough_of() -> None:
    """Which state is the commonest changes from one run of a minute to the next."""
    far = [(name, 312.0) for name in "abc" * 5]
    near = [(name, 78.0) for name in "abc" * 3]
    assert compared_state([*far, *near]) == 78.0
    assert compared_state([*far, *near[:-1]]) == 312.0  # `c` has two starts there
    assert compared_state([*near[:4], ("c", 344.0)]) == 78.0  # enough of none: the commonest
    assert compared_state([("a", None)]) is None
    assert wanted_state([*far, *near[:5]]) == 78.0
    assert wanted_state([*far, *near[:4]]) == 312.0  # too rare to be waited for
    assert wanted_state([]) is None


def test_what_nobody_knows_is_left_in() -> None:
    line = np.array([78.0, 344.0, np.nan, 21.0, 80.0])
    assert list(in_state(line, 78.0)) == [True, False, True, False, True]
    assert in_state(line, None).all()


def read_by(
    cpu: int, line: list[float], begin: float = 0.0, segment: str = "chain"
) -> ReplicaSlices:
    """Slices of 10 ms, as far as their lines are concerned."""
    end = begin + 26e6 * np.arange(1.0, len(line) + 1)
    return ReplicaSlices(segment, 0, cpu, 2_600_000_000, 256, {"end": end, "line": np.array(line)})


def test_a_line_that_is_written_all_the_time_says_nothing_of_the_way() -> None:
    """The source waited for room, and wrote its clock every few cycles: who read that paid 884, and
    the source, who read the chain's, 78. The mean of the two was taken for another state."""
    source, chain = [78.0] * 6 + [340.0] * 6, [884.0] * 12
    for first, second in ((0, 1), (1, 0)):
        sink, one, other = of_pair(
            [
                read_by(first, source, 4e6, "sink"),
                read_by(first, source, 4e6),
                read_by(second, chain),
            ]
        )
        assert list(other["line"]) == list(one["line"]) == list(sink["line"]) == source
    # One who read a slice less, and the clocks of slices that lie 0.4 of one apart.
    _, other = of_pair([read_by(0, source[:-1], 10.4e6), read_by(1, chain)])
    assert list(other["line"]) == [78.0] * 6 + [340.0] * 6


def test_ways_that_agree_and_ways_of_three_are_as_they_were_read() -> None:
    near, again, far = [78.0] * 5, [81.0] * 5, [344.0] * 5
    agree = [read_by(0, near), read_by(1, again)]
    three = [*agree, read_by(2, far)]
    for replicas in (agree, three, three[:1], [read_by(0, near), read_by(1, [0.0] * 5)], []):
        assert [list(one["line"]) for one in of_pair(replicas)] == [
            list(one["line"]) for one in replicas
        ]
