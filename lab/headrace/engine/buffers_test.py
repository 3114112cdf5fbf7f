# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from headrace.engine.buffers import hot_mbufs


@pytest.mark.parametrize(
    ("frame", "llc_mb", "mbufs"),
    [
        (64, 32, 32768),
        (256, 32, 8192),
        (1518, 32, 4096),
        (64, 16, 16384),
        (9000, 4, 4096),
        (1518, 480, 4096),
    ],
)
def test_as_many_as_fit_an_eighth_of_the_cache(frame: int, llc_mb: int, mbufs: int) -> None:
    assert hot_mbufs(frame, llc_mb << 20) == mbufs


def test_this_machine_has_some() -> None:
    assert hot_mbufs(64) >= 4096
