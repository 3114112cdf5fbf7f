# SPDX-License-Identifier: Apache-2.0
"""Lcores among chains that need more than there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.ground.operable import Numbers

_LEAST = 1e-9  # of an lcore, below which nothing is left


@dataclass(frozen=True)
class AskedLcores:
    """What a chain needs: whole lcores, or some with a part of another one."""

    whole: int
    part: float


def granted(asks: Sequence[AskedLcores], weights: Sequence[float], lcores: int) -> list[float]:
    """Whole lcores while there are enough; then no more than the parts that each needs, and where
    those are too many, what is fair."""
    if sum(one.whole for one in asks) <= lcores:
        return [float(one.whole) for one in asks]
    return max_min([one.part for one in asks], weights, lcores)


def max_min(asks: Sequence[float], weights: Sequence[float], most: float) -> list[float]:
    """Weighted max-min fairness: nobody gets more than it asks for, and who gets less has no
    smaller share for its weight than anybody else (Bertsekas and Gallager 1992, Data Networks,
    section 6.5.2)."""
    grants = [0.0] * len(asks)
    hungry = {i for i, ask in enumerate(asks) if ask > 0}
    left = most
    while hungry and left > _LEAST:
        each = left / sum(weights[i] for i in hungry)
        content = {i for i in hungry if asks[i] <= each * weights[i]}
        for i in content or hungry:
            grants[i] = asks[i] if content else each * weights[i]
        if not content:
            break
        left -= sum(asks[i] for i in content)
        hungry -= content
    return grants


def laid_out(grants: Sequence[float], now: Numbers) -> Numbers:
    """Which part of which lcore each chain has: a row for each. Whole lcores first, then what is
    left of each grant, if it can be on one lcore. Chains stay where they are, as far as that goes
    (`now`)."""
    parts = np.zeros_like(now)
    free = np.ones(now.shape[1])
    rests = []
    for i, grant in enumerate(grants):
        whole = int(grant + _LEAST)
        rests.append(max(0.0, grant - whole))
        here = sorted(np.flatnonzero(free == 1), key=lambda p: (-now[i, p], now[:, p].sum(), p))
        for lcore in here[:whole]:
            parts[i, lcore], free[lcore] = 1.0, 0.0
    for i in sorted(range(len(grants)), key=lambda i: -rests[i]):
        rest = rests[i]
        while rest > _LEAST and free.max() > 0:
            to = _for_a_part(rest, free, now[i])
            taken = min(rest, free[to])
            parts[i, to] += taken
            free[to] -= taken
            rest -= taken
    return parts


def _for_a_part(rest: float, free: Numbers, own: Numbers) -> int:
    """Where it is, if there is room; where it fits most tightly; or where most is left."""
    fits = [int(p) for p in np.flatnonzero(free >= rest - _LEAST)]
    if fits:
        return min(fits, key=lambda p: (own[p] == 0, free[p], p))
    return int(free.argmax())
