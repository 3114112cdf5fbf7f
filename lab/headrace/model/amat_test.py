# SPDX-License-Identifier: Apache-2.0
"""The fit finds the parameters of a model that made its points, and is not content with others'."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.amat import (
    bound_above,
    caches,
    fit,
    flat,
    holds,
    miss_rate,
    nnls,
    predict,
    predicted_share,
    told,
    verdict,
    waits,
)
from headrace.spec.calibration import Level
from headrace.spec.profile import Fit, Penalty

KIB, MIB = 1 << 10, 1 << 20
SIZES = [("L1", 32 * KIB), ("L2", 512 * KIB), ("L3", 32 * MIB)]
LEVELS = [
    Level(name=name, bytes=None, reaches_bytes=None, cycles=alone, gather_cycles=together)
    for name, alone, together in (
        ("L1", 4.0, 3.0),
        ("L2", 14.0, 4.0),
        ("L3", 54.0, 7.0),
        ("memory", 254.0, 27.0),
    )
]
CACHES = caches(SIZES, LEVELS)
ENTRIES = [100, 316, 1000, 3160, 10_000, 31_600, 100_000, 316_000, 1_000_000]


def cycles(entries: float, size: float, accesses: float, overlapped: bool = False) -> float:
    """A packet that makes so many accesses, by the definition itself."""
    rates = [miss_rate(s, entries * size) for _, s in SIZES]
    l2, l3, memory = (1, 3, 20) if overlapped else (10, 40, 200)
    return 30 + accesses * (l2 * rates[0] + l3 * rates[1] + memory * rates[2])


@pytest.mark.parametrize("overlapped", [False, True])
@pytest.mark.parametrize("size", [64.0, 300.0])
def test_parameters_come_back(size: float, overlapped: bool) -> None:
    accesses = 8 if overlapped else 2
    curve = fit([(n, cycles(n, size, accesses, overlapped)) for n in ENTRIES], CACHES)
    assert curve is not None and holds(curve) and told(curve) and not flat(curve)
    assert curve.bytes_per_entry == pytest.approx(size, rel=0.06)
    assert curve.accesses == pytest.approx(accesses, rel=0.06)
    assert curve.overlapped == overlapped
    assert curve.base_cycles == pytest.approx(30, rel=0.03)
    assert predict(curve, 20_000) == pytest.approx(
        cycles(20_000, size, accesses, overlapped), rel=0.03
    )


def test_parallelism_is_that_of_chase_and_gather() -> None:
    curve = fit([(n, cycles(n, 64, 8, True)) for n in ENTRIES], CACHES)
    assert curve is not None
    assert [p.parallelism for p in curve.penalties] == [10, 40 / 3, 10]
    # A miss costs what it costs with others under way: a tenth of the chained delay.
    assert curve.penalties[2].cycles == pytest.approx(8 * 20, rel=0.06)


def random_monotone(rng: np.random.Generator, kind: int, count: int) -> list[float]:
    """Curves that no memory made: they rise, most of them from 20 to 300 cycles."""
    if kind == 0:
        drawn = np.sort(rng.uniform(20, 300, count))
    elif kind == 1:
        drawn = 20 + np.cumsum(rng.exponential(40, count))
    else:
        drawn = np.sort(np.exp(rng.uniform(np.log(20), np.log(300), count)))
    return [float(value) for value in drawn]


@pytest.mark.parametrize("entries", [ENTRIES[::2], ENTRIES], ids=["five points", "nine points"])
def test_random_monotone_curves_do_not_pass(entries: list[int]) -> None:
    """At most 6 in 100 of them do; the check by residuals passed all of them at five points."""
    rng = np.random.default_rng(5)
    passed = 0
    for i in range(240):
        drawn = random_monotone(rng, i % 3, len(entries))
        curve = fit(list(zip(entries, drawn, strict=True)), CACHES)
        assert curve is not None
        passed += holds(curve)
        assert holds(curve) or verdict(curve).startswith("no verdict")
    assert passed / 240 <= 0.06


def test_curves_of_the_model_pass_with_noise() -> None:
    """3 % of noise on each of nine points; sizes, accesses and base drawn at random."""
    rng = np.random.default_rng(5)
    passed = 0
    for i in range(120):
        size, base = float(np.exp(rng.uniform(np.log(16), np.log(512)))), rng.uniform(-10, 30)
        overlapped = bool(i % 2)
        accesses = float(rng.uniform(3, 8) if overlapped else rng.uniform(1, 3))
        drawn = [
            (n, float((base + cycles(n, size, accesses, overlapped)) * rng.normal(1, 0.03)))
            for n in ENTRIES
        ]
        curve = fit(drawn, CACHES)
        assert curve is not None
        passed += holds(curve)
    assert passed / 120 >= 0.85


def test_a_cost_that_does_not_depend_on_state() -> None:
    curve = fit([(n, 42.0) for n in ENTRIES], CACHES)
    assert curve is not None and predicted_share(curve) == 1
    assert curve.base_cycles == pytest.approx(42, rel=0.02)
    assert verdict(curve) == (
        "not memory-bound up to 1 M entries: there 0% of a packet's cycles wait for its state"
    )


def test_levels_of_a_curve_that_hardly_rises_are_not_told() -> None:
    """It passes the check, as anything within 15 % does; its levels are those of noise."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        drawn = [(n, 700 * float(rng.uniform(0.95, 1.05))) for n in ENTRIES]
        curve = fit(drawn, CACHES)
        assert curve is not None and holds(curve) and flat(curve) and not told(curve)


def test_the_verdict_names_where_waiting_is_more_than_half() -> None:
    points = [(n, cycles(n, 64, 2)) for n in ENTRIES]
    curve = fit(points, CACHES)
    assert curve is not None
    at = bound_above(curve)
    assert at is not None
    # By hand: 30 of base equal 2 (10 (1 - 512/n) + 40 (1 - 8192/n)) at n = 9434, in L3's range.
    assert at == pytest.approx(9434, rel=0.03)
    assert verdict(curve, "flows").startswith("memory-bound above 9.")
    assert verdict(curve, "flows").endswith("k flows, most of it for DRAM at 1 M")


def test_waits_are_told_by_the_level_that_serves() -> None:
    penalties = tuple(
        Penalty(level=name, size_bytes=size, cycles=2 * miss)
        for (name, size), miss in zip(SIZES, (10, 40, 200), strict=True)
    )
    curve = Fit(base_cycles=30, bytes_per_entry=64, penalties=penalties, points=())
    waited = waits(curve, 1_000_000)  # 64 MB: half of its lines are not in the L3
    assert waited["memory"] == pytest.approx((1 - 32 * MIB / 64e6) * 500)
    assert waited["L3"] == pytest.approx((32 * MIB - 512 * KIB) / 64e6 * 100)
    assert waited["L2"] == pytest.approx((512 - 32) * KIB / 64e6 * 20)
    assert 30 + sum(waited.values()) == pytest.approx(predict(curve, 1_000_000))


def test_too_few_points_and_no_calibration() -> None:
    assert fit([(n, 2.0) for n in ENTRIES[:4]], CACHES) is None
    assert caches(SIZES, ()) == () and fit([(n, 2.0) for n in ENTRIES], ()) is None
    old = [one.model_copy(update={"gather_cycles": None}) for one in LEVELS]
    assert caches(SIZES, old) == ()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 10), min_size=3, max_size=3), st.integers(0, 1 << 20))
def test_nnls_finds_what_made_it(truth: list[float], seed: int) -> None:
    matrix = np.random.default_rng(seed).normal(size=(12, 3))
    solution = nnls(matrix, matrix @ np.array(truth))
    assert np.allclose(solution, truth, atol=1e-4)
