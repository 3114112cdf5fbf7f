# SPDX-License-Identifier: Apache-2.0
"""How fast routing daemons bring changes of all routes into the engine's table."""

from __future__ import annotations

from pathlib import Path

from pydantic import NonNegativeFloat, NonNegativeInt, TypeAdapter

from headrace.record.frozen import Record
from headrace.record.own import text

SPEAKER = "speaker"  # of what `busy` names: it announces the routes
CONVERGENCE = "convergence"  # how a row's goal begins; the change of all routes follows
_OLD_FILE = "convergence.json"  # among the samples of older bundles, which have no rows of it


class RouteChange(Record):
    """One change of all routes."""

    daemon: str
    event: str  # announce, replace, withdraw
    repetition: NonNegativeInt
    routes: NonNegativeInt
    per_s: NonNegativeFloat
    seconds: NonNegativeFloat  # from the speaker's being told to the engine's last change
    reaction_s: NonNegativeFloat  # to the engine's first one
    busy: dict[str, float]  # CPUs that each daemon had


def old_changes(bundle: Path) -> tuple[RouteChange, ...]:
    told = text(bundle, f"samples/{_OLD_FILE}")
    known = TypeAdapter(tuple[RouteChange, ...])
    return () if told is None else known.validate_json(told)
