# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os

import pytest

from soak.growth import sample, slope_an_hour

pytestmark = pytest.mark.parallel


def test_a_slope_is_told_from_a_few_samples_that_are_off() -> None:
    level = [(float(second), 100.0) for second in range(0, 600, 10)]
    level[7], level[20] = (70.0, 900.0), (200.0, 0.0)
    assert slope_an_hour(level) == 0
    leak = [(second, 100 + second // 10) for second, _ in level]  # one with each kill
    assert slope_an_hour(leak) == pytest.approx(360)


def test_descriptors_and_memory_are_the_kernels() -> None:
    before = sample(os.getpid())
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(7)]
    memory = bytearray(os.urandom(32 << 20))
    after = sample(os.getpid())
    assert after["descriptors"] - before["descriptors"] == 7
    assert after["rss_kb"] - before["rss_kb"] >= len(memory) >> 10
    assert before["threads"] >= 1
    for descriptor in held:
        os.close(descriptor)
