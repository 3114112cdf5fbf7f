# SPDX-License-Identifier: Apache-2.0
"""How fast routing daemons bring changes of all routes into the engine's table."""

from __future__ import annotations

from pathlib import Path

from pydantic import NonNegativeFloat, NonNegativeInt, RootModel

from headrace.record.frozen import Record

CONVERGENCE_FILE = "convergence.json"  # among a bundle's samples


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


class RouteChanges(RootModel[tuple[RouteChange, ...]]):
    """As the file has them."""


def route_changes(bundle: Path) -> tuple[RouteChange, ...]:
    """None where a bundle is of something else."""
    file = bundle / "samples" / CONVERGENCE_FILE
    return RouteChanges.model_validate_json(file.read_text()).root if file.is_file() else ()
