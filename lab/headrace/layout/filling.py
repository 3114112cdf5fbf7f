# SPDX-License-Identifier: Apache-2.0
"""The inner loop of patterns.Knapsack, compiled: one item more, of any of its sizes."""

from __future__ import annotations

from typing import Any

from numba import njit

_compiled = njit(cache=True, error_model="numpy")


@_compiled
def fill(row: Any, before: Any, sizes: Any, prices: Any) -> None:
    """Fills by load: `row` is what so many items are worth at most, `before` one item fewer."""
    for i in range(len(sizes)):
        size, price = sizes[i], prices[i]
        for load in range(size, len(row)):
            worth = before[load - size] + price
            if worth > row[load]:
                row[load] = worth
