# SPDX-License-Identifier: Apache-2.0
"""Average memory access time, as Sieber et al. 2017 section 4.3 has it.

AMAT = H1 + MR1 (H2 + MR2 (H3 + MR3 M)): a level's miss penalty is the time of the next level, and
so on. With accesses spread evenly over a working set of W bytes a level of S bytes misses with
probability m = max(0, 1 - S/W), so that the product of the local miss rates down to a level is
that level's m. A packet of `a` accesses costs

    cycles(W) = base + a * sum over levels of m_level(W) * miss_level

miss_level is calibrated, never fitted: what the next level takes longer, of loads that wait for
one another (a pointer chase), or of lines of which many are under way (a gather). Their quotient
is the memory-level parallelism. Fitted are the base, the number of accesses, the bytes that an
entry touches, and which of the two kinds its accesses are: the least squares of relative errors.

Three numbers bend to many a curve, so residuals say little: what counts is how well the fit to all
other points predicts one that it has not seen (leave-one-out).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import numpy.typing as npt

from headrace.spec.calibration import Level
from headrace.spec.profile import Fit, FitPoint, Penalty

Floats = npt.NDArray[np.float64]

_BYTES_FIRST, _BYTES_LAST, _BYTES_STEPS = 4.0, 4096.0, 121
_POINTS_MIN = 5  # two more than what is fitted, so that one can be left out
# A point is predicted if the fit to the others is within this; the model holds for a curve of which
# this share of points is. Of random monotone curves of nine points 3 in 100 pass (amat_test.py).
PREDICTED_WITHIN, PREDICTED_SHARE = 0.15, 0.85
_BOUND = 0.5  # memory-bound: more of a packet's cycles than this wait for its state


@dataclass(frozen=True)
class CacheLevel:
    """`alone`, `together`: cycles that a miss costs more than a hit (Penalty)."""

    name: str
    size_bytes: int
    alone: float
    together: float


def caches(sizes: Sequence[tuple[str, int]], levels: Sequence[Level]) -> tuple[CacheLevel, ...]:
    """Name and size of each cache, the nearest first, with what a miss of it costs by the
    calibrated levels. Empty where they do not say."""
    names = [level.name for level in levels]
    served = []
    for name, size in sizes:
        if name not in names or names.index(name) + 1 >= len(levels):
            return ()
        here, further = levels[names.index(name)], levels[names.index(name) + 1]
        if here.gather_cycles is None or further.gather_cycles is None:
            return ()
        together = further.gather_cycles - here.gather_cycles
        served.append(CacheLevel(name, size, further.cycles - here.cycles, together))
    return tuple(served)


def miss_rate(size: float, working_set: float) -> float:
    return max(0.0, 1.0 - size / working_set) if working_set > 0 else 0.0


@dataclass(frozen=True)
class _Candidates:
    """What one access would cost at each point: a row for each number of bytes per entry and each
    of the two kinds of accesses."""

    sizes: Floats
    overlapped: npt.NDArray[np.bool_]
    each: Floats  # rows x points


def fit(points: Sequence[tuple[float, float]], levels: Sequence[CacheLevel]) -> Fit | None:
    """`points`: entries and cycles per packet. None with too few of them or without levels."""
    if len(points) < _POINTS_MIN or not levels:
        return None
    entries = np.array([p[0] for p in points], dtype=float)
    cycles = np.array([p[1] for p in points], dtype=float)
    candidates = _candidates(entries, levels)
    everyone = np.ones_like(cycles)
    row, base, accesses = _best(candidates, cycles, everyone)
    size, overlapped = float(candidates.sizes[row]), bool(candidates.overlapped[row])
    modelled = base + accesses * candidates.each[row]
    left_out = [_left_out(candidates, cycles, i) for i in range(len(points))]
    return Fit(
        base_cycles=base,
        bytes_per_entry=size,
        accesses=accesses,
        overlapped=overlapped,
        penalties=tuple(
            Penalty(
                level=one.name,
                size_bytes=one.size_bytes,
                cycles=accesses * (one.together if overlapped else one.alone),
                alone=one.alone,
                together=one.together,
            )
            for one in levels
        ),
        points=tuple(
            FitPoint(state=int(n), measured=float(c), modelled=float(m), left_out=out)
            for n, c, m, out in zip(entries, cycles, modelled, left_out, strict=True)
        ),
    )


def _candidates(entries: Floats, levels: Sequence[CacheLevel]) -> _Candidates:
    steps = np.geomspace(_BYTES_FIRST, _BYTES_LAST, _BYTES_STEPS)
    sizes = np.array([one.size_bytes for one in levels], dtype=float)
    missed = np.maximum(0.0, 1.0 - sizes / (steps[:, None, None] * entries[None, :, None]))
    alone = missed @ np.array([one.alone for one in levels])
    together = missed @ np.array([one.together for one in levels])
    return _Candidates(
        np.tile(steps, 2), np.repeat([False, True], len(steps)), np.vstack([alone, together])
    )


def _best(candidates: _Candidates, cycles: Floats, weights: Floats) -> tuple[int, float, float]:
    """Row, base and accesses, neither of them negative, of the least relative squares. Two
    unknowns: the normal equations, and where their solution is negative one of them alone."""
    w = weights / cycles**2
    x = candidates.each
    s1, sx, sxx = float(w.sum()), (x * w).sum(axis=1), (x * x * w).sum(axis=1)
    sc, sxc = float((w * cycles).sum()), (x * w * cycles).sum(axis=1)
    whole = s1 * sxx - sx * sx
    told = whole > 1e-9 * s1 * np.maximum(sxx, 1e-300)
    slope = np.where(told, (s1 * sxc - sx * sc) / np.where(told, whole, 1.0), 0.0)
    base = (sc - slope * sx) / s1
    through = np.where(sxx > 0, sxc / np.where(sxx > 0, sxx, 1.0), 0.0)
    negative = base < 0
    slope, base = np.where(negative, through, slope), np.where(negative, 0.0, base)
    flat = slope < 0
    slope, base = np.where(flat, 0.0, slope), np.where(flat, sc / s1, base)
    error = (w * (base[:, None] + slope[:, None] * x - cycles) ** 2).sum(axis=1)
    # The first of those that do equally well: the smallest entry, in accesses that wait.
    row = int(np.argmax(error <= error.min() * (1 + 1e-9) + 1e-18))
    return row, float(base[row]), float(slope[row])


def _left_out(candidates: _Candidates, cycles: Floats, i: int) -> float:
    others = np.ones_like(cycles)
    others[i] = 0.0
    row, base, accesses = _best(candidates, cycles, others)
    return base + accesses * float(candidates.each[row, i])


def predict(curve: Fit, entries: float) -> float:
    """Cycles per packet with so many entries."""
    working_set = entries * curve.bytes_per_entry
    return curve.base_cycles + sum(
        p.cycles * miss_rate(p.size_bytes, working_set) for p in curve.penalties
    )


def waits(curve: Fit, entries: float) -> dict[str, float]:
    """Cycles that a packet with so many entries waits for its state, by the level that serves it:
    the names of the caches behind the first, and `memory`."""
    working_set = entries * curve.bytes_per_entry
    missed = [miss_rate(p.size_bytes, working_set) for p in curve.penalties]
    served = [a - b for a, b in zip(missed, [*missed[1:], 0.0], strict=True)]
    further = itertools.accumulate(p.cycles for p in curve.penalties)
    names = [*(p.level for p in curve.penalties[1:]), "memory"]
    return {
        name: share * cycles for name, share, cycles in zip(names, served, further, strict=True)
    }


def predicted_share(curve: Fit) -> float | None:
    """Share of the points that a fit to all the others predicts within PREDICTED_WITHIN. None: an
    older headrace fitted them."""
    errors = curve.errors
    return sum(e <= PREDICTED_WITHIN for e in errors) / len(errors) if errors else None


def holds(curve: Fit) -> bool:
    share = predicted_share(curve)
    return share is not None and share >= PREDICTED_SHARE


def flat(curve: Fit) -> bool:
    """The state hardly matters: each point is predicted by the mean of the others."""
    errors = _by_the_mean(curve)
    return sum(e <= PREDICTED_WITHIN for e in errors) >= PREDICTED_SHARE * len(errors)


def told(curve: Fit) -> bool:
    """Whether the curve tells the levels apart: the model holds, and predicts points that it has
    not seen at least twice as well as the mean of the others does. A curve that hardly rises passes
    the check, too, and its levels are those of noise."""
    errors, mean = np.array(curve.errors), np.array(_by_the_mean(curve))
    return holds(curve) and float((errors**2).sum()) <= float((mean**2).sum()) / 4


def better_than_the_mean(fit: Fit) -> bool:
    """The squares of the leave-one-out errors are at most half of those that the mean of the other
    points makes: too little to tell levels apart, and better than no model of its state."""
    errors, mean = np.array(fit.errors), np.array(_by_the_mean(fit))
    return len(errors) > 0 and float((errors**2).sum()) <= float((mean**2).sum()) / 2


def _by_the_mean(curve: Fit) -> list[float]:
    measured = [p.measured for p in curve.points]
    others = len(measured) - 1
    return [abs((sum(measured) - one) / others / one - 1) for one in measured]


def bound_above(curve: Fit) -> float | None:
    """From how many entries on more than half of a packet's cycles wait for its state; None: with
    none that was measured. The wait grows with the entries, so that it is found by halving."""
    low, high = (float(f(p.state for p in curve.points)) for f in (min, max))
    if not _bound(curve, high):
        return None
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if _bound(curve, middle) else (middle, high)
    return low


def _bound(curve: Fit, entries: float) -> bool:
    return 1 - curve.base_cycles / predict(curve, entries) > _BOUND


def verdict(curve: Fit, unit: str = "entries") -> str:
    """The verdict in words; only where the model holds."""
    errors = curve.errors
    if not errors:
        return "no verdict: an older headrace made the fit, which left no point out"
    if not holds(curve):
        missed = sum(e > PREDICTED_WITHIN for e in errors)
        return (
            f"no verdict: the fit to the others misses {missed} of {len(errors)} points by over "
            f"{PREDICTED_WITHIN:.0%}"
        )
    least, most = (f(p.state for p in curve.points) for f in (min, max))
    above = bound_above(curve)
    if above is None:
        share = 1 - curve.base_cycles / predict(curve, most)
        return (
            f"not memory-bound up to {_short(most)} {unit}: there {share:.0%} of a packet's cycles "
            "wait for its state"
        )
    waited = waits(curve, most)
    place = max(waited, key=lambda name: waited[name])
    most_of_it = f"most of it for {'DRAM' if place == 'memory' else place}"
    if above <= least * 1.01:
        return f"memory-bound with any number of {unit} from {_short(least)} on, {most_of_it}"
    return f"memory-bound above {_short(above)} {unit}, {most_of_it} at {_short(most)}"


def _short(value: float) -> str:
    """Two digits: 400 k."""
    rounded = float(f"{value:.1e}")
    for factor, suffix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if rounded >= factor:
            return f"{rounded / factor:g}{suffix}"
    return f"{rounded:g}"


def typical_error(curve: Fit) -> float | None:
    return median(curve.errors) if curve.errors else None


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
