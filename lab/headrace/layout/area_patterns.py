# SPDX-License-Identifier: Apache-2.0
"""The dearest pattern of area_bound.py, compiled: a knapsack of an item of each segment at most."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_compiled = njit(cache=True, error_model="numpy")


@_compiled
def dearest(sizes: Any, prices: Any, units: int, polled: int, without: int) -> Any:
    """What it is worth, and which of its sizes each segment has in it (minus one: none), where a
    lcore may have so many items, and none of one segment."""
    count, widest = sizes.shape
    most = min(polled, count)
    worth = np.zeros((count + 1, most + 1, units + 1))
    picked = np.full((count, most + 1, units + 1), -1, np.int64)
    for i in range(count):
        worth[i + 1] = worth[i]
        if i == without:
            continue
        for at in range(widest):
            size, price = sizes[i, at], prices[i, at]
            if size > units or price <= 0:
                continue
            for items in range(1, most + 1):
                for load in range(size, units + 1):
                    value = worth[i, items - 1, load - size] + price
                    if value > worth[i + 1, items, load]:
                        worth[i + 1, items, load] = value
                        picked[i, items, load] = at
    items, load = most, units
    picks = np.full(count, -1, np.int64)
    for i in range(count - 1, -1, -1):
        at = picked[i, items, load]
        if at >= 0:
            picks[i] = at
            load -= sizes[i, at]
            items -= 1
    return worth[count, most, units], picks
