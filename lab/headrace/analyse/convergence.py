# SPDX-License-Identifier: Apache-2.0
"""How fast each daemon brought each kind of change: medians over its rounds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from headrace.record.convergence import RouteChange
from headrace.record.frozen import Record


class Converged(Record):
    daemon: str
    event: str
    routes: int
    changes: int
    per_s: float
    per_s_min: float
    per_s_max: float
    seconds: float
    reaction_s: float
    busy: dict[str, float]


def converged(changes: Sequence[RouteChange]) -> list[Converged]:
    """One for each daemon and event, in the order of the first of each."""
    by_event: dict[tuple[str, str], list[RouteChange]] = {}
    for one in changes:
        by_event.setdefault((one.daemon, one.event), []).append(one)
    return [
        Converged(
            daemon=daemon,
            event=event,
            routes=those[0].routes,
            changes=len(those),
            per_s=median(one.per_s for one in those),
            per_s_min=min(one.per_s for one in those),
            per_s_max=max(one.per_s for one in those),
            seconds=median(one.seconds for one in those),
            reaction_s=median(one.reaction_s for one in those),
            busy={name: median(one.busy[name] for one in those) for name in those[0].busy},
        )
        for (daemon, event), those in by_event.items()
    ]
