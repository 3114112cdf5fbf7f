# SPDX-License-Identifier: Apache-2.0
"""What p99.9 has to be where a server stands still for known times."""

from __future__ import annotations

import numpy as np
import pytest

from perf.moves import by_hand_s

pytestmark = pytest.mark.parallel


@pytest.mark.parametrize(
    ("stops", "load", "every_s"),
    [([0.03] * 10, 0.8, 0.4), ([0.01, 0.02, 0.03, 0.04], 0.5, 0.3), ([0.002] * 3, 0.8, 2.0)],
)
def test_known_stops_against_each_packet(stops: list[float], load: float, every_s: float) -> None:
    """A packet is done when all before it are, and takes as long as one takes; none while it stands
    still."""
    serves = 10_000.0
    begins = every_s * (1 + np.arange(len(stops)))
    seconds = every_s * (len(stops) + 1)
    comes = np.arange(int(serves * load * seconds)) / (serves * load)
    done, waits = 0.0, np.empty(len(comes))
    for i, at in enumerate(comes):
        done = max(done, float(at)) + 1 / serves
        for begin, length in zip(begins, stops, strict=True):
            if begin < done <= begin + length:
                done += length
        waits[i] = done - at
    by_hand = by_hand_s(stops, load, seconds)
    assert np.quantile(waits, 0.999) == pytest.approx(by_hand, rel=0.02, abs=3 / serves)
