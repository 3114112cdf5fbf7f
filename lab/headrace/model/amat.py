# SPDX-License-Identifier: Apache-2.0
"""Average memory access time, as S5 section 4.3 has it.

AMAT = H1 + MR1 (H2 + MR2 (H3 + MR3 M)): a level's miss penalty is the time of the next level, and
so on. With accesses spread evenly over a working set of W bytes a level of S bytes misses with
probability m = max(0, 1 - S/W), so that the product of the local miss rates down to a level is
that level's m, and cycles per packet are linear in the penalties:

    cycles(W) = base + sum over levels of m_level(W) * penalty_level

The penalties follow by non-negative least squares of relative errors, for each of many working sets
per entry; the best of these is taken (variable projection).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from headrace.spec.calibration import Level
from headrace.spec.profile import Fit, FitPoint, Penalty

Floats = npt.NDArray[np.float64]

_BYTES_FIRST, _BYTES_LAST, _BYTES_STEPS = 4.0, 4096.0, 121
_POINTS_MIN = 4


def miss_rate(size: float, working_set: float) -> float:
    return max(0.0, 1.0 - size / working_set) if working_set > 0 else 0.0


def fit(
    points: Sequence[tuple[int, float]], caches: Sequence[tuple[str, int]], delays: Sequence[Level]
) -> Fit | None:
    """`points`: entries and cycles per packet. `caches`: name and size, the nearest first.
    `delays`: calibrated, to say how many accesses a penalty is. None with too few points."""
    if len(points) < _POINTS_MIN:
        return None
    entries = np.array([p[0] for p in points], dtype=float)
    cycles = np.array([p[1] for p in points], dtype=float)
    best: tuple[float, float, Floats] | None = None
    for size in np.geomspace(_BYTES_FIRST, _BYTES_LAST, _BYTES_STEPS):
        matrix = _matrix(entries * size, caches)
        found = nnls(matrix / cycles[:, None], np.ones_like(cycles))
        error = float(np.sum((matrix @ found / cycles - 1) ** 2))
        if best is None or error < best[0] * (1 - 1e-9):
            best = (error, float(size), found)
    assert best is not None
    _, bytes_per_entry, found = best
    modelled = _matrix(entries * bytes_per_entry, caches) @ found
    return Fit(
        base_cycles=float(found[0]),
        bytes_per_entry=bytes_per_entry,
        penalties=tuple(
            Penalty(
                level=name,
                size_bytes=size,
                cycles=float(penalty),
                accesses=_accesses(float(penalty), name, delays),
            )
            for (name, size), penalty in zip(caches, found[1:], strict=True)
        ),
        points=tuple(
            FitPoint(state=int(n), measured=float(c), modelled=float(m))
            for n, c, m in zip(entries, cycles, modelled, strict=True)
        ),
    )


def predict(found: Fit, entries: float) -> float:
    """Cycles per packet with so many entries."""
    working_set = entries * found.bytes_per_entry
    return found.base_cycles + sum(
        p.cycles * miss_rate(p.size_bytes, working_set) for p in found.penalties
    )


def _matrix(working_sets: Floats, caches: Sequence[tuple[str, int]]) -> Floats:
    columns = [np.ones_like(working_sets)]
    columns += [np.maximum(0.0, 1.0 - size / working_sets) for _, size in caches]
    return np.stack(columns, axis=1)


def _accesses(penalty: float, name: str, delays: Sequence[Level]) -> float | None:
    """A miss of L2 costs the delay of L3, and so on."""
    names = [level.name for level in delays]
    if name not in names or names.index(name) + 1 >= len(delays):
        return None
    further = delays[names.index(name) + 1].cycles - delays[names.index(name)].cycles
    return penalty / further if further > 0 else None


def nnls(matrix: Floats, wanted: Floats) -> Floats:
    """Least squares with no negative unknown. There are so few that each set of those which are
    not zero can be tried: exact, where an iteration would need a tolerance."""
    unknowns = matrix.shape[1]
    best, best_error = np.zeros(unknowns), float(wanted @ wanted)
    for count in range(1, unknowns + 1):
        for chosen in itertools.combinations(range(unknowns), count):
            part, *_ = np.linalg.lstsq(matrix[:, chosen], wanted, rcond=None)
            if np.any(part < 0):
                continue
            error = float(np.sum((matrix[:, chosen] @ part - wanted) ** 2))
            if error < best_error - 1e-12:
                best, best_error = np.zeros(unknowns), error
                best[list(chosen)] = part
    return best
