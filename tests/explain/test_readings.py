# SPDX-License-Identifier: Apache-2.0
"""Each metric against a second reading of the same (readings.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
from readings import Agreement, Skipped, read_all

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]


def test_collectors_agree_with_other_readings(tmp_path: Path) -> None:
    readings = read_all(tmp_path, 2)
    agreed = [f for f in readings if isinstance(f, Agreement)]
    apart = [f for f in agreed if not f.within]
    assert not apart, apart
    exact = {"devices' bandwidth, bytes", "forwarding entries", "retransmissions"}
    assert {f.metric for f in agreed} >= exact
    assert all(f.why for f in readings if isinstance(f, Skipped))
