# SPDX-License-Identifier: Apache-2.0
"""The fit finds the parameters of a model that made its points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.amat import fit, miss_rate, nnls, predict
from headrace.spec.calibration import Level

KIB, MIB = 1 << 10, 1 << 20
CACHES = [("L1", 32 * KIB), ("L2", 512 * KIB), ("L3", 32 * MIB)]
DELAYS = [
    Level(name=name, bytes=None, reaches_bytes=None, cycles=cycles)
    for name, cycles in (("L1", 4.0), ("L2", 14.0), ("L3", 54.0), ("memory", 254.0))
]
ENTRIES = [100, 316, 1000, 3160, 10_000, 31_600, 100_000, 316_000, 1_000_000]


def cycles(entries: float, size: float, accesses: float) -> float:
    """A packet that makes so many accesses one after another, by the definition itself."""
    rates = [miss_rate(s, entries * size) for _, s in CACHES]
    return 30 + accesses * (10 * rates[0] + 40 * rates[1] + 200 * rates[2])


@pytest.mark.parametrize("size", [16.0, 64.0, 300.0])
def test_parameters_come_back(size: float) -> None:
    points = [(n, cycles(n, size, 2)) for n in ENTRIES]
    found = fit(points, CACHES, DELAYS)
    assert found is not None
    assert found.worst < 0.03
    assert found.bytes_per_entry == pytest.approx(size, rel=0.15)
    if size * ENTRIES[-1] > 100 * MIB:  # memory is seen
        assert found.penalties[2].accesses == pytest.approx(2, rel=0.2)
    assert predict(found, 20_000) == pytest.approx(cycles(20_000, size, 2), rel=0.05)


def test_with_noise() -> None:
    rng = np.random.default_rng(1)
    points = [(n, cycles(n, 128, 3) * float(rng.normal(1, 0.02))) for n in ENTRIES]
    found = fit(points, CACHES, DELAYS)
    assert found is not None and found.worst < 0.1


def test_a_cost_that_does_not_depend_on_state() -> None:
    found = fit([(n, 42.0) for n in ENTRIES], CACHES, DELAYS)
    assert found is not None
    assert found.base_cycles == pytest.approx(42, rel=0.02) and found.worst < 0.02


def test_too_few_points() -> None:
    assert fit([(1, 2.0), (2, 3.0)], CACHES, DELAYS) is None


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 10), min_size=3, max_size=3), st.integers(0, 1 << 20))
def test_nnls_finds_what_made_it(truth: list[float], seed: int) -> None:
    matrix = np.random.default_rng(seed).normal(size=(12, 3))
    found = nnls(matrix, matrix @ np.array(truth))
    assert np.allclose(found, truth, atol=1e-4)
