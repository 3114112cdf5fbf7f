# SPDX-License-Identifier: Apache-2.0
"""Shares of counted events; what was not counted is not known, never zero."""

from __future__ import annotations

import pytest

from headrace.model.stalls import memory_bound, not_from_memory, stalled_for


def test_shares() -> None:
    counted = {"cycles": 200.0, "stalled_cycles": 50.0}
    assert memory_bound(counted) == 0.25
    fills = {"loads_l2": 90.0, "loads_llc": 6.0, "loads_other": 3.0, "loads_memory": 1.0}
    assert not_from_memory(fills) == pytest.approx(0.9)


def test_dram_is_apart_from_caches() -> None:
    counted = {
        "cycles": 200.0,
        "stalled_l1_miss": 100.0,
        "stalled_l2_miss": 80.0,
        "stalled_l3_miss": 50.0,
    }
    assert stalled_for(counted) == pytest.approx({"L2": 0.1, "L3": 0.15, "memory": 0.25})
    del counted["stalled_l3_miss"]
    assert stalled_for(counted) is None


def test_what_was_not_counted() -> None:
    assert memory_bound({"cycles": 200.0}) is None
    assert memory_bound({}) is None
    assert not_from_memory({"loads_l2": 5.0}) is None
    assert not_from_memory({"loads_llc": 0.0, "loads_memory": 0.0}) is None
