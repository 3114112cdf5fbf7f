# SPDX-License-Identifier: Apache-2.0
"""The floor is the least disturbed of what the direct loop showed at a load that it carries."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.ground.floor import Loop, least, trials_s
from headrace.record.figures import LatencyNs
from headrace.spec.measure import Measure


def at(p50: float) -> LatencyNs:
    return LatencyNs(mean=p50, min=p50, p50=p50, p90=p50, p99=p50, p999=p50, max=p50)


def test_the_least_disturbed_trial_counts() -> None:
    seen: Iterator[float] = iter([900.0, 87_700_000.0, 850.0])
    floors = least(lambda load: Loop(True, at(next(seen))), 1e6, 0.2)
    assert floors is not None and floors.p50 == 850


def test_a_load_that_the_loop_does_not_carry_is_no_load_for_a_floor() -> None:
    """The maximum was taken while nothing was in the way, and is far too much since."""
    loads: list[float] = []

    def trial(load_pps: float) -> Loop:
        loads.append(load_pps)
        carried = load_pps <= 30_000
        return Loop(carried, at(800.0 if carried else 87_700_000.0))

    floors = least(trial, 2.5e6, 0.2)
    assert floors is not None and floors.p50 == 800
    assert loads == [2.5e6, 2.5e5, 2.5e4, 2.5e4, 2.5e4]


def test_a_loop_that_carries_nothing_whole_still_has_its_best() -> None:
    loads: list[float] = []

    def trial(load_pps: float) -> Loop:
        loads.append(load_pps)
        return Loop(False, at(1e9 / len(loads)))

    floors = least(trial, 20_000, 0.2)
    assert floors is not None and floors.p50 == 1e9 / 6
    assert min(loads) == 500  # below it a trial has no packets
    assert least(lambda load: Loop(True, None), 1e6, 0.2) is None


def test_the_tester_is_looked_at_for_no_longer_than_what_is_measured_with_it() -> None:
    short = {"initial_trial": 0.1, "final_trial": 0.3}
    for given, expected in (
        ({"loads": [1000], "trial": 0.1}, (0.1, 0.1)),
        ({"search": ["ndr", "pdr"], "goals": short}, (0.3, 0.2)),
        ({"search": ["ndr"], "goals": short, "max": True, "trial": 5}, (0.5, 0.2)),
        ({"search": ["ndr"]}, (0.5, 0.2)),
        ({"operate": {"slo": "p99=1ms,loss=0"}}, (0.5, 0.2)),
    ):
        assert trials_s(Measure.model_validate(given)) == expected
