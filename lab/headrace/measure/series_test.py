# SPDX-License-Identifier: Apache-2.0
"""How long a trial for an execution's capacity takes."""

from __future__ import annotations

from typing import Any, cast

import pytest

from headrace.measure.series import SATURATED_S, TrialSeries
from headrace.measure.session_test import Fake
from headrace.model.paired_test import capacity
from headrace.model.undisturbed import LEAST
from headrace.record.counters import Counters
from headrace.record.rows import Trial


class Machine:
    """A book of trials, on a machine that leaves so much of the slices of 10 ms alone."""

    def __init__(self, share: float) -> None:
        self.share, self.seconds = share, list[float]()
        self.saturated_s = SATURATED_S

    def trial(self, _: object, __: object, ___: object, load: float, seconds: float, *rest: Any
              ) -> list[Trial]:  # fmt: skip
        assert load == 0
        self.seconds.append(round(seconds, 2))
        slices = round(100 * seconds * self.share)
        one = capacity(1e6)
        parts = tuple(part.model_copy(update={"slices": slices}) for part in one.parts)
        told = one.model_copy(update={"parts": parts}) if slices >= LEAST else None
        update: dict[str, Any] = {
            "capacity": told, "counters": Counters(tsc_hz=1), "trial": len(self.seconds),
        }  # fmt: skip
        return [Trial.model_construct(**update)]


@pytest.mark.parametrize(
    ("share", "starts"),
    [
        (1.0, [[1.0], [1.0], [1.0]]),
        (0.4, [[1.0], [1.25], [1.25]]),
        (0.2, [[1.0, 1.5], [2.5], [2.5]]),
        (0.15, [[1.0, 1.5, 2.25], [3.0], [3.0]]),
        (0.01, [[1.0, 1.5, 2.25, 3.0], [3.0], [3.0]]),
    ],
)
def test_a_start_is_as_long_as_the_one_before_needed(
    share: float, starts: list[list[float]]
) -> None:
    point = Fake("c", [])
    machine = Machine(share)
    for expected in starts:
        machine.seconds.clear()
        series = TrialSeries(cast(Any, machine), point, point, point.offers[0], None)
        series.saturate()
        assert machine.seconds == expected
