# SPDX-License-Identifier: Apache-2.0
"""Races among layouts whose true rates are known: starts scatter, and machines have moods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from headrace.profile.race import ROUNDS, Lead, Race, fastest, lead, undecided
from headrace.spec.plan import CHOICE_CLOSE

SCATTER, MOOD = 0.035, 0.06  # of starts; of whole rounds
PREDICTED = 0.045  # how far predictions are off
DRAWN, STARTS = 400, 24


class Machine:
    """Layouts of these true rates; each start is off by itself, and each round as a whole."""

    def __init__(self, true: list[float], seed: int, scatter: float = SCATTER) -> None:
        self.true, self.scatter = true, scatter
        self.random = np.random.default_rng(seed)
        self.moods: dict[int, float] = {}
        self.started: Counter[int] = Counter()

    def start(self, one: int, turn: int) -> float:
        self.started[one] += 1
        mood = self.moods.setdefault(turn, self.random.normal(0, MOOD))
        return float(self.true[one] * np.exp(mood + self.random.normal(0, self.scatter)))


def raced(machine: Machine, starts: int = STARTS, ended: Callable[[], bool] = lambda: False) -> int:
    race = Race[int]({one: {} for one in range(len(machine.true))})
    return race.run(machine.start, starts, ended)


def by_two_starts(machine: Machine) -> int:
    """What a race is to be better than: the fastest by two starts of each."""
    every = range(len(machine.true))
    rates = [np.median([machine.start(one, turn) for turn in range(2)]) for one in every]
    return int(np.argmax(rates))


def drawn(seed: int) -> list[float]:
    """The six that are predicted best of fifty."""
    random = np.random.default_rng(seed)
    true = random.normal(0, 0.08, 50)
    predicted = true + random.normal(0, PREDICTED, 50)
    return [float(1e7 * np.exp(true[i])) for i in np.argsort(-predicted)[:6]]


def close(choose: Callable[[Machine], int]) -> tuple[float, float]:
    """Share of choices within 3 % of the best by their true rates; starts of each."""
    good, starts = 0, 0
    for seed in range(DRAWN):
        machine = Machine(drawn(seed), seed)
        true = machine.true[choose(machine)]
        good += true >= (1 - CHOICE_CLOSE) * max(machine.true)
        starts += machine.started.total()
    return good / DRAWN, starts / DRAWN


def test_a_race_chooses_better_than_two_starts_of_each() -> None:
    """A goal of 22 in 24 needs over 0.95 of them, by no more than half as many starts again."""
    by_race, starts = close(raced)
    by_two, few = close(by_two_starts)
    assert by_race >= 0.97 and by_two <= 0.94
    assert starts <= 1.6 * few


def test_starts_go_to_those_that_lie_close() -> None:
    started: Counter[int] = Counter()
    for seed in range(50):
        machine = Machine([10e6, 9.9e6, 8.4e6, 8e6], seed)
        assert raced(machine) in (0, 1)
        started += machine.started
    assert started[2] + started[3] < 50 * 2 * 1.1 * ROUNDS
    assert min(started[0], started[1]) > 50 * 2 * ROUNDS


def test_what_is_clear_ends_the_race() -> None:
    machine = Machine([8e6, 10e6, 7e6], 1)
    assert raced(machine) == 1 and machine.started.total() == 3 * ROUNDS


def test_equals_end_with_the_starts_that_there_are() -> None:
    machine = Machine([10e6] * 5, 1)
    raced(machine)
    assert STARTS - 5 < machine.started.total() <= STARTS
    machine = Machine([10e6] * 5, 1)
    raced(machine, ended=lambda: True)
    assert machine.started.total() == 5 * ROUNDS


def test_a_slow_round_is_slow_for_all() -> None:
    """The second round did half; the third layout, that was not started in it, is no faster."""
    rates = {
        "a": {0: 10e6, 1: 5e6, 2: 10e6},
        "b": {0: 9e6, 1: 4.5e6, 2: 9e6},
        "c": {0: 8e6, 2: 8e6},
    }
    assert fastest("cba", rates) == "a"
    ahead = lead("b", "a", rates)
    assert ahead is not None and ahead.over == pytest.approx(0.9)


def test_a_disturbed_start_of_several_moves_nothing() -> None:
    rates = {"a": dict.fromkeys(range(5), 10e6), "b": {**dict.fromkeys(range(5), 9.5e6), 3: 6e6}}
    ahead = lead("b", "a", rates)
    assert ahead is not None and ahead.over == pytest.approx(0.95)


def test_none_is_ahead_of_itself() -> None:
    """What a start scatters by is the same on both sides."""
    rates = {"a": {0: 10e6, 1: 8e6}, "b": {}}
    assert lead("a", "a", rates) == Lead(1, 1, 1) and lead("b", "b", rates) is None


def test_what_ran_in_no_common_round_is_not_told_apart() -> None:
    """Lcores were elsewhere in all rounds of one: it is not slower for that, and the likelier one,
    that comes first, is chosen."""
    rates = {"a": {0: 8e6}, "b": {1: 10e6}}
    assert lead("a", "b", rates) is None and fastest("ab", rates) == "a"
    assert undecided("a", "ab", rates, CHOICE_CLOSE) == ["b"]
    race = Race[str]({"a": {}, "b": {}})
    assert race.run(lambda one, turn: None, STARTS, lambda: False) == "a"


@pytest.mark.parametrize("rounds", [1, 2, 8])
def test_nine_of_ten_intervals_have_the_true_ratio_in_them(rounds: int) -> None:
    inside = 0
    for seed in range(DRAWN):
        machine = Machine([10e6, 9.5e6, 9e6], seed)
        rates = {one: {t: machine.start(one, t) for t in range(rounds)} for one in range(3)}
        ahead = lead(1, 0, rates)
        assert ahead is not None and ahead.least < ahead.over < ahead.most
        inside += ahead.least <= 0.95 <= ahead.most
    assert 0.85 <= inside / DRAWN <= 0.95


def test_scatter_of_the_rounds_at_hand_widens_intervals() -> None:
    """Where starts scatter by 10 %, two that seem 5 % apart are not told apart."""

    def width(scatter: float) -> float:
        machine = Machine([10e6, 9.5e6, 9e6], 3, scatter)
        rates = {one: {t: machine.start(one, t) for t in range(8)} for one in range(3)}
        ahead = lead(1, 0, rates)
        assert ahead is not None
        return ahead.most / ahead.least - 1

    assert width(0.1) > 1.6 * width(SCATTER) > 1.6 * 1.6 * width(0.001)


@pytest.mark.parametrize(
    ("other", "rounds", "told"),
    [(9e6, 2, True), (10e6, 2, False), (10e6, 20, True), (10.32e6, 20, False), (11.5e6, 2, True)],
)
def test_what_is_behind_by_more_than_is_allowed_is_told(
    other: float, rounds: int, told: bool
) -> None:
    """3 % of the choice are 10.31: faster by more, or no faster than that; between is undecided."""
    rates = {"choice": dict.fromkeys(range(rounds), 10e6), "x": dict.fromkeys(range(rounds), other)}
    assert (undecided("choice", ("choice", "x"), rates, CHOICE_CLOSE) == []) == told
