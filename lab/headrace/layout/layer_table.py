# SPDX-License-Identifier: Apache-2.0
"""The least load of the fullest of some lcores that are alike, over all layered layouts: some
segments have a replica on each of the lcores, and the others are on two parts of these, each
layered in turn. A table by set of segments and number of lcores, compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_compiled = njit(cache=True, error_model="numpy")

ENDLESS = 1 << 50  # several of them add up without an overflow
NOTHING, LAYER, SPLIT, FEWER = range(4)  # how a set is laid out


@_compiled
def layered(sizes: Any, polled: int, least: Any, how: Any, part: Any, first: Any) -> None:
    """By segments that an lcore may have, set and number of lcores: the `least` load, `how` it is
    laid out, the set that is in a layer or in the first part, and how many lcores that part has.
    `sizes`: of a replica, by segment and number of replicas; ENDLESS: there may not be so many."""
    sets, most = least.shape[1], least.shape[2] - 1
    free = least.shape[0] == 1  # no lcore can have too many
    count = np.zeros(sets, np.int64)
    for some in range(1, sets):
        count[some] = count[some >> 1] + (some & 1)
    apart = np.empty(least.shape, np.int64)  # laid out in two parts
    apart[:] = ENDLESS
    least[:] = ENDLESS
    least[:, 0] = 0
    how[:] = NOTHING
    for some in range(1, sets):
        for depth in range(least.shape[0]):
            allowed = polled if free else depth + 1
            for n in range(1, most + 1):
                best, kind, chosen, lcores = ENDLESS, NOTHING, 0, 0
                here = some & (some - 1)
                other = here
                while other > 0:  # the second part; the first one has the lowest of the set
                    left = some ^ other
                    for a in range(1, n):
                        level = max(least[depth, left, a], least[depth, other, n - a])
                        if level < best:
                            best, kind, chosen, lcores = level, SPLIT, left, a
                    other = (other - 1) & here
                apart[depth, some, n] = best
                layer = some
                while layer > 0:
                    rest, thick = some ^ layer, count[layer]
                    if thick <= allowed and (rest == 0 or thick < allowed):
                        below = depth if free else depth - thick
                        level = 0 if rest == 0 else apart[below, rest, n]
                        if level < best:
                            for i in range(len(sizes)):
                                if layer >> i & 1:
                                    level += sizes[i, n]
                            if level < best:
                                best, kind, chosen, lcores = level, LAYER, layer, n
                    layer = (layer - 1) & some
                if n > 1 and least[depth, some, n - 1] <= best:
                    best, kind, chosen, lcores = least[depth, some, n - 1], FEWER, some, n - 1
                least[depth, some, n], how[depth, some, n] = best, kind
                part[depth, some, n], first[depth, some, n] = chosen, lcores
