# SPDX-License-Identifier: Apache-2.0
"""How long a search takes is found by searching, not by a number of trials."""

from __future__ import annotations

import pytest

from headrace.measure.estimate import measuring_s
from headrace.spec.measure import Measure


def of(isolated: bool = True, **given: object) -> float:
    return measuring_s(Measure.model_validate(given), isolated)


def test_loads_take_their_trials() -> None:
    one = of(loads=["10k"], trial="2 s")
    assert 2 < one < 2.5
    assert of(loads=["10k", "20k"], max=True, trial="2 s") == pytest.approx(3 * one)


def test_chaos_takes_its_time() -> None:
    """Ten minutes of kills were said to take as long as the trial that they are not."""
    assert 600 < of(loads=["20k"], trial="2 s", chaos={"duration": "600 s"}) < 602


def test_a_load_is_tried_until_its_trials_add_up() -> None:
    """Before, a search took 12 trials and 5 for each further goal, however long they had to be in
    sum: 33 s were said where 101 were taken."""
    goals = {"initial_trial": 0.5, "final_trial": 1, "duration_sum": 4}
    short = of(search=["pdr"], goals=goals)
    assert of(search=["pdr"], goals={**goals, "duration_sum": 16}) > 1.8 * short
    assert of(search=["pdr"], goals={**goals, "width": 0.002}) > 1.1 * short
    assert of(search=["ndr", "pdr"], goals=goals) > short


def test_machines_that_pause_lcores_take_longer() -> None:
    goals = {"initial_trial": 0.3, "final_trial": 0.6, "duration_sum": 1.2, "width": 0.02}
    assert of(isolated=False, search=["ndr", "pdr"], goals=goals) > 1.5 * of(
        search=["ndr", "pdr"], goals=goals
    )
    # On two lcores that other work shared, 28 s were taken.
    assert 20 < of(isolated=False, search=["ndr", "pdr"], goals=goals) < 32
    assert of(isolated=False, search_timeout=20) < 40
