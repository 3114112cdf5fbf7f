# SPDX-License-Identifier: Apache-2.0
"""What a run of a chain would have cost with so many packets in each burst, out of runs at several
loads.

A poll does not cost so much once and so much for each packet: a packet alone in its burst waits
for every line of memory that comes from the other lcore, those of a longer burst wait together.
And with little load bursts are of one packet in most places, but not in all. So what a poll takes
is taken to be straight between the bursts that were seen, place by place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from headrace.layout.predicted_latency import along
from headrace.profile.pricing import PricedPart, Taken

# In which predictions are made: one packet, as few as at half of the load, and a full burst.
BURSTS = (1, 4, 32)
_ALIKE = 1.25  # bursts that differ by less are no two points of a line


def at_burst(runs: Sequence[Taken], burst: int) -> Taken:
    """`runs`: of one layout, at different loads; the first one's packets and rate."""
    first = runs[0]
    return replace(
        first,
        stages=tuple(
            tuple(_part([run.stages[i][j] for run in runs], burst) for j in range(len(stage)))
            for i, stage in enumerate(first.stages)
        ),
    )


def _part(seen: Sequence[PricedPart], burst: int) -> PricedPart:
    seen = _apart(seen)

    def at(each: Iterable[float]) -> float:
        if len(seen) == 1:
            return next(iter(each))
        knots = [(one.burst, one.burst * x) for one, x in zip(seen, each, strict=True)]
        return max(0.0, along(knots, burst)) / burst

    nfs = {
        i: at(one.nfs[i] for one in seen) for i in seen[0].nfs if all(i in one.nfs for one in seen)
    }
    return replace(
        seen[0],
        rx=at(one.rx for one in seen),
        tx=at(one.tx for one in seen),
        loop=at(one.loop for one in seen),
        own=at(one.own for one in seen),
        burst=float(burst),
        nfs=nfs,
    )


def _apart(seen: Sequence[PricedPart]) -> list[PricedPart]:
    """Orders them by their bursts, those left out that are like a smaller one."""
    kept: list[PricedPart] = []
    for one in sorted(seen, key=lambda part: part.burst):
        if one.burst > 0 and (not kept or one.burst > _ALIKE * kept[-1].burst):
            kept.append(one)
    return kept or [seen[0]]
