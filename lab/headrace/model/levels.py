# SPDX-License-Identifier: Apache-2.0
"""Levels of the memory hierarchy, read off a pointer chase's curve and a gather's."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.spec.calibration import ChasePoint, Curve, Level

# A level's delay is taken where walks miss the level before for certain and fit into this one: a
# cache that is not fully associative begins to miss before it is full.
_ABOVE, _WITHIN = 1.4, 0.6
_MEMORY = 4.0  # times the last level


def levels(curve: Curve, sizes: Sequence[tuple[str, int]], gather: Curve) -> tuple[Level, ...]:
    """One for each cache (name, bytes), the nearest first, and memory. `curve`: cycles per load
    where each waits for the one before; `gather`: per line where many are under way."""
    points = sorted(curve.points, key=lambda p: p.bytes)
    delays = _delays(points, sizes)
    last = sizes[-1][1] if sizes else 0
    if sizes:
        # Where neighbours have most of the last level memory begins before its size; what is far
        # beyond waits for page tables, too.
        last = min(last, _reaches(points, sum(delays[-2:]) / 2) or last)
        delays = _delays(points, sizes, last)
    together = _delays(sorted(gather.points, key=lambda p: p.bytes), sizes, last)
    reached = []
    for i, (name, size) in enumerate((*sizes, ("memory", None))):
        reaches = None
        if size is not None:
            reaches = _reaches(points, (delays[i] + delays[i + 1]) / 2)
        reached.append(
            Level(
                name=name,
                bytes=size,
                reaches_bytes=reaches,
                cycles=delays[i],
                gather_cycles=together[i],
            )
        )
    return tuple(reached)


def memory(curve: Curve, known: Sequence[Level]) -> float:
    """Cycles of the memory that this curve walks, another node's say: behind what walks of the
    first node found of the last of the `known` levels."""
    reached = [one.reaches_bytes or one.bytes for one in known if one.bytes]
    points = sorted(curve.points, key=lambda p: p.bytes)
    return _delay(points, (reached[-1] if reached else 0) * _MEMORY, float("inf"))


def _delays(
    points: Sequence[ChasePoint], sizes: Sequence[tuple[str, int]], last: int = 0
) -> list[float]:
    """Cycles of each cache, and of memory, behind `last` bytes (0: the last level's)."""
    delays = []
    before = 0
    for _, size in sizes:
        delays.append(_delay(points, before * _ABOVE, size * _WITHIN))
        before = size
    delays.append(_delay(points, (last or before) * _MEMORY, float("inf")))
    # Deeper is never faster: neighbours may have taken all of a level while it was measured.
    for i in range(len(delays) - 2, -1, -1):
        delays[i] = min(delays[i], delays[i + 1])
    return delays


def _delay(points: Sequence[ChasePoint], low: float, high: float) -> float:
    """The least of the nearer half: the further, the more a shared cache is others'."""
    inside = [p.min for p in points if low <= p.bytes <= high]
    if not inside:
        middle = (low + min(high, points[-1].bytes)) / 2
        return min(points, key=lambda p: abs(p.bytes - middle)).min
    if high == float("inf"):
        return sorted(inside)[len(inside) // 2]
    return min(inside[: max(1, (len(inside) + 1) // 2)])


def _reaches(points: Sequence[ChasePoint], limit: float) -> int | None:
    """The largest working set whose accesses still take less than `limit` cycles."""
    reached = None
    for p in points:
        if p.min > limit:
            break
        reached = p.bytes
    return reached
