# SPDX-License-Identifier: Apache-2.0
"""Unknowns of a model by least squares of relative errors, few of them for many points.

An unknown that something is known of beforehand has a spread about its value there, and is held to
it as a point would; what is free costs three points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

POINTS_EACH = 3  # of a free unknown
NOISE = 0.02  # of a point, relative: what a spread is weighed against
STEP, ENOUGH = 1e-3, 1e-7
_ROUNDS = 60


@dataclass(frozen=True)
class Unknown:
    """`spread`: of what is known beforehand, absolute; None: nothing is."""

    name: str
    value: float
    spread: float | None = None


Values = Mapping[str, float]
Errors = Callable[[Values], Sequence[float]]


def allowed(points: int) -> int:
    """Free unknowns for so many points."""
    return points // POINTS_EACH


def fitted(
    unknowns: Sequence[Unknown], errors: Errors, step: float = STEP, enough: float = ENOUGH
) -> dict[str, float]:
    """`errors`: relative, of each point with these values. `step`: by which part of itself an
    unknown is moved to see what follows; `enough`: a round that gains less of the squares is the
    last. Levenberg and Marquardt's way."""
    names = [one.name for one in unknowns]

    def residuals(at: NDArray[np.float64]) -> NDArray[np.float64]:
        given = dict(zip(names, map(float, at), strict=True))
        held = [
            (value - one.value) / one.spread
            for one, value in zip(unknowns, at, strict=True)
            if one.spread is not None
        ]
        return np.array([*(error / NOISE for error in errors(given)), *held])

    at = np.array([one.value for one in unknowns])
    now, damping = residuals(at), 1e-3
    for _ in range(_ROUNDS):
        steps = np.maximum(np.abs(at), 1e-6) * step
        slopes = np.array(
            [
                (residuals(at + np.eye(len(at))[i] * steps[i]) - now) / steps[i]
                for i in range(len(at))
            ]
        ).T
        normal = slopes.T @ slopes
        move = np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-12), -slopes.T @ now)
        following = residuals(at + move)
        if following @ following <= now @ now:
            done = now @ now - following @ following <= enough * (now @ now)
            at, now, damping = at + move, following, damping / 3
            if done:
                break
        else:
            damping *= 4
    return dict(zip(names, map(float, at), strict=True))
