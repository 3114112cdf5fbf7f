# SPDX-License-Identifier: Apache-2.0
"""Buckets over lcores: evenly, with as few moves as that takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.ground.operable import Assignment, Integers, Numbers

_ENOUGH = 0.02  # of an equal share, beyond which an lcore gives a bucket away


def chosen(used: Sequence[int], count: int, most: int) -> tuple[int, ...]:
    """Takes so many lcores: the first of those that are used, and then the first that are free."""
    kept = sorted(used)[:count]
    free = (one for one in range(most) if one not in used)
    return tuple(
        sorted([*kept, *(one for one, _ in zip(free, range(count - len(kept)), strict=False))])
    )


def even(
    now: Assignment, lcores: tuple[int, ...], packets: Numbers, parts: Numbers | None = None
) -> Assignment:
    """Each lcore as near to an equal share of the packets as whole buckets are: those of lcores
    that go, and of lcores that have too many the largest that fit, to whoever has least. `parts`:
    of each lcore, what the chain has; None: all of them."""
    owners = now.owners.copy()
    weights = packets if packets.sum() > 0 else np.ones(len(owners))
    whole = float(weights.sum())
    part = {one: 1.0 if parts is None else float(parts[one]) for one in lcores}
    target = {one: whole * part[one] / sum(part.values()) for one in lcores}
    has = {one: float(weights[owners == one].sum()) for one in lcores}
    orphans = [b for b in range(len(owners)) if owners[b] not in has]
    for one in lcores:
        orphans += _spare(owners, weights, one, has, target[one])
    for b in sorted(orphans, key=lambda b: -weights[b]):
        to = min(lcores, key=lambda one: has[one] / part[one])
        owners[b] = to
        has[to] += float(weights[b])
    return Assignment(lcores, owners)


def _spare(
    owners: Integers, weights: Numbers, lcore: int, has: dict[int, float], target: float
) -> list[int]:
    """Buckets that it has too many."""
    over = has[lcore] - target
    if over <= _ENOUGH * target:
        return []
    spare = []
    for b in sorted(np.flatnonzero(owners == lcore), key=lambda b: -weights[b]):
        if weights[b] <= over:
            spare.append(int(b))
            over -= float(weights[b])
            has[lcore] -= float(weights[b])
    return spare


def most_share(assignment: Assignment, packets: Numbers) -> float:
    """The share of the packets that the busiest lcore would have."""
    return float(shares(assignment, packets, max(assignment.lcores) + 1).max())


def shares(assignment: Assignment, packets: Numbers, most: int) -> Numbers:
    """The shares of the packets that each of so many lcores has; even, while there were none."""
    total = float(packets.sum())
    if total <= 0:
        none: Numbers = np.isin(np.arange(most), assignment.lcores) / len(assignment.lcores)
        return none
    each: Numbers = np.bincount(assignment.owners, weights=packets, minlength=most) / total
    return each
