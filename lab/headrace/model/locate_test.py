# SPDX-License-Identifier: Apache-2.0
"""Limits between places, on samples whose distributions are known."""

from __future__ import annotations

import random

import pytest

from headrace.model.locate import classify, corrected, not_from_memory
from headrace.spec.calibration import Placed, PlaceName


def placed(place: PlaceName, centre: float, spread: float, seed: int = 1) -> Placed:
    rng = random.Random(f"{place}{seed}")
    counts: dict[int, int] = {}
    for _ in range(4000):
        cycles = max(0, round(rng.gauss(centre, spread)))
        counts[cycles] = counts.get(cycles, 0) + 1
    return Placed(place=place, counts=tuple(counts.items()))


def test_places_apart_are_classes_of_their_own() -> None:
    def measure(seed: int) -> list[Placed]:
        return [
            placed("l1", 40, 3, seed),
            placed("l2", 50, 3, seed),
            placed("llc", 100, 8, seed),
            placed("other-clean", 160, 8, seed),
            placed("other-modified", 165, 8, seed),
            placed("memory", 300, 20, seed),
        ]

    classes = classify(measure(1), measure(2))
    assert [c.name for c in classes.classes] == ["own", "llc", "other core", "memory"]
    assert classes.agreement > 0.99
    limits = [c.below_cycles for c in classes.classes]
    assert limits[-1] is None
    assert 60 < (limits[0] or 0) < 80 < 120 < (limits[1] or 0) < 145 < 190 < (limits[2] or 0) < 240


def test_each_place_is_told_by_itself() -> None:
    """A class may be right while one of its places is not."""
    fitted = [placed("l1", 2, 1), placed("l2", 6, 2), placed("llc", 40, 5)]
    # Of the second-level lines of the second measurement a quarter had been evicted.
    evicted = Placed(place="l2", counts=((6, 3000), (40, 1000)))
    classes = classify(fitted, [placed("l1", 2, 1, 2), evicted, placed("llc", 40, 5, 2)])
    rows = {one.place: one for one in classes.confusion}
    assert rows["l2"].samples == 4000 and rows["l2"].put == pytest.approx((0.75, 0.25))
    assert rows["l1"].right > 0.99 and rows["l2"].right == pytest.approx(0.75)
    assert classes.right(("l2", "llc")) == pytest.approx(0.875, abs=0.01)
    assert classes.right(("l1", "l2")) == 0  # one class: not told apart
    assert classes.right(("remote-memory",)) is None


def test_places_alike_become_one_class() -> None:
    samples = [
        placed("l1", 40, 3),
        placed("llc", 100, 5),
        placed("other-clean", 300, 30),
        placed("other-modified", 310, 30),
        placed("memory", 305, 30),
    ]
    classes = classify(samples, samples)
    assert [c.name for c in classes.classes] == ["l1", "llc", "other core or memory"]
    assert classes.classes[-1].agreement > 0.99


def test_a_place_that_could_not_be_measured_is_left_out() -> None:
    samples = [placed("l1", 40, 3), Placed(place="llc", counts=()), placed("memory", 200, 5)]
    assert [c.name for c in classify(samples, samples).classes] == ["l1", "memory"]


@pytest.mark.parametrize("samples", [[], [placed("memory", 200, 5)]])
def test_nothing_to_tell_apart(samples: list[Placed]) -> None:
    classes = classify(samples, samples)
    assert [c.below_cycles for c in classes.classes] == [None] * len(samples)


def test_shares_are_corrected_for_what_is_taken_for_another() -> None:
    """Two places overlap by a fifteenth; nine packets in ten are from the nearer."""
    near, far = placed("llc", 40, 10), placed("memory", 70, 10)
    classes = classify([near, far], [near, far])
    limit = classes.classes[0].below_cycles or 0
    seen = {"llc": 0, "memory": 0}
    for weight, place in ((9, placed("llc", 40, 10, 3)), (1, placed("memory", 70, 10, 3))):
        for cycles, count in place.counts:
            seen["llc" if cycles < limit else "memory"] += weight * count
    raw = seen["memory"] / sum(seen.values())
    shares = corrected(seen, classes.classes)
    assert shares is not None
    assert abs(shares["memory"] - 0.1) < 0.01 < abs(raw - 0.1)
    assert sum(shares.values()) == pytest.approx(1)
    index = not_from_memory(seen, classes)
    assert index is not None and abs(index - 0.9) < 0.01


def test_counts_of_another_calibration_are_not_corrected() -> None:
    classes = classify([placed("l1", 40, 3)], [placed("l1", 40, 3)])
    assert corrected({"elsewhere": 3}, classes.classes) is None
    assert corrected({}, classes.classes) is None
    assert not_from_memory({"elsewhere": 3}, classes) is None
