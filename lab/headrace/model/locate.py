# SPDX-License-Identifier: Apache-2.0
"""Where a load came from, by how long it took: limits from loads whose place is known.

Where two places take alike (another core's cache and memory, on machines whose cores are far
apart), no limit tells them apart; they become one class, named after both.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.model.amat import nnls
from headrace.spec.calibration import Class, Classes, Confusion, Placed, PlaceName

# Lines do not all stay where they were put while others use the machine: some of what is said to be
# wrong is not.
_TOLD_APART = 0.9
# Errors of both sides together that are no reason to leave the middle between two places: samples
# of a round that were disturbed would else draw the limit to the edge of what was seen.
_TOLERATED = 0.01
# A packet in the first- or second-level cache is in the core's own; nobody pays to know which.
_FIRST: tuple[tuple[PlaceName, ...], ...] = (
    ("l1", "l2"),
    ("llc",),
    ("other-clean", "other-modified"),
    ("memory",),
    ("remote-memory",),
)
_NAMES: Mapping[tuple[PlaceName, ...], str] = {
    ("l1", "l2"): "own",
    ("other-clean", "other-modified"): "other core",
    ("remote-memory",): "remote memory",
}


@dataclass(frozen=True)
class _PlaceGroup:
    places: tuple[PlaceName, ...]
    shares: Mapping[int, float]  # cycles -> share of the group's samples; each place weighs alike

    @property
    def median(self) -> float:
        total = 0.0
        for cycles in sorted(self.shares):
            total += self.shares[cycles]
            if total >= 0.5:
                return float(cycles)
        return float("inf")


def classify(fitted: Sequence[Placed], tested: Sequence[Placed]) -> Classes:
    """Limits from `fitted`; how often they are right, from another measurement."""
    groups = [g for places in _FIRST if (g := _group(places, fitted)) is not None]
    groups.sort(key=lambda g: g.median)
    limits = _limits(groups)
    while limits:
        worst = min(range(len(limits)), key=lambda i: _weakest(groups, limits, i))
        if _weakest(groups, limits, worst) >= _TOLD_APART:
            break
        groups[worst : worst + 2] = [_joined(groups[worst], groups[worst + 1], fitted)]
        limits = _limits(groups)
    again = [_group(g.places, tested) or g for g in groups]
    put = [tuple(_share(g.shares, limits, j) for j in range(len(groups))) for g in again]
    right = [row[i] for i, row in enumerate(put)]
    classes = tuple(
        Class(
            name=name(g.places),
            places=g.places,
            below_cycles=below,
            agreement=min(1.0, row[i]),
            put=row,
        )
        for i, (g, below, row) in enumerate(zip(groups, [*limits, None], put, strict=False))
    )
    return Classes(
        classes=classes,
        agreement=min(1.0, sum(right) / len(right)) if right else 0.0,
        confusion=tuple(_confusion(tested, [g.places for g in groups], limits)),
    )


def _confusion(
    tested: Sequence[Placed], classes: Sequence[Sequence[PlaceName]], limits: Sequence[int]
) -> Iterator[Confusion]:
    for one in tested:
        group = _group((one.place,), (one,))
        owner = next((i for i, places in enumerate(classes) if one.place in places), None)
        if group is None or owner is None:
            continue
        put = tuple(min(1.0, _share(group.shares, limits, i)) for i in range(len(classes)))
        samples = sum(count for _, count in one.counts)
        yield Confusion(place=one.place, samples=samples, put=put, right=put[owner])


def name(places: Sequence[PlaceName]) -> str:
    parts = []
    for known in _FIRST:
        if set(known) <= set(places):
            parts.append(_NAMES.get(known, known[0]))
        else:
            parts += [p for p in known if p in places]
    return " or ".join(parts)


def _group(places: Sequence[PlaceName], placed: Sequence[Placed]) -> _PlaceGroup | None:
    present = [p for p in placed if p.place in places and p.counts]
    if not present:
        return None
    shares: dict[int, float] = {}
    for p in present:
        total = sum(count for _, count in p.counts) * len(present)
        for cycles, count in p.counts:
            shares[cycles] = shares.get(cycles, 0.0) + count / total
    return _PlaceGroup(tuple(p.place for p in present), shares)


def _joined(a: _PlaceGroup, b: _PlaceGroup, placed: Sequence[Placed]) -> _PlaceGroup:
    joined = _group((*a.places, *b.places), placed)
    assert joined is not None
    return joined


def _limits(groups: Sequence[_PlaceGroup]) -> list[int]:
    return [_limit(a.shares, b.shares) for a, b in itertools.pairwise(groups)]


def _limit(nearer: Mapping[int, float], farther: Mapping[int, float]) -> int:
    """The limit is in the middle of where the sum of both errors is least, or hardly more."""
    values = sorted({*nearer, *farther})
    errors = []
    missed, wrong = 1.0, 0.0  # of the nearer, at or above the limit; of the farther, below it
    for cycles in values:
        missed -= nearer.get(cycles, 0.0)
        wrong += farther.get(cycles, 0.0)
        errors.append(missed + wrong)
    best = min(range(len(errors)), key=errors.__getitem__)
    most = errors[best] + _TOLERATED
    first, last = best, best
    while first > 0 and errors[first - 1] <= most:
        first -= 1
    while last + 1 < len(errors) and errors[last + 1] <= most:
        last += 1
    after = values[last + 1] if last + 1 < len(values) else values[last] + 1
    return (values[first] + 1 + after + 1) // 2


def _weakest(groups: Sequence[_PlaceGroup], limits: Sequence[int], i: int) -> float:
    """How well the limit between groups i and i+1 does for the one it serves worse."""
    below = sum(share for c, share in groups[i].shares.items() if c < limits[i])
    above = sum(share for c, share in groups[i + 1].shares.items() if c >= limits[i])
    return min(below, above)


def _share(shares: Mapping[int, float], limits: Sequence[int], i: int) -> float:
    """Share of these samples that falls between the limits of class `i`."""
    low = limits[i - 1] if i > 0 else 0
    high = limits[i] if i < len(limits) else float("inf")
    return sum(share for cycles, share in shares.items() if low <= cycles < high)


def corrected(counts: Mapping[str, int], classes: Sequence[Class]) -> dict[str, float] | None:
    """The shares of places that most likely gave these counts, by what calibration found of samples
    of each class that are taken for another. None where counts are of other classes."""
    if not classes or not set(counts) <= {one.name for one in classes} or not sum(counts.values()):
        return None
    total = sum(counts.values())
    seen = np.array([counts.get(one.name, 0) / total for one in classes])
    shares = nnls(np.array([one.put for one in classes]).T, seen)
    whole = float(shares.sum())
    return {one.name: float(share) / whole for one, share in zip(classes, shares, strict=True)}


def not_from_memory(counts: Mapping[str, int], classes: Classes) -> float | None:
    """Sieber et al.'s Network Efficiency Index (section 5), with the shares as they most likely
    were."""
    shares = corrected(counts, classes.classes)
    if shares is None:
        return None
    return sum(share for name, share in shares.items() if "memory" not in name)
