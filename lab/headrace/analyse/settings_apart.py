# SPDX-License-Identifier: Apache-2.0
"""Swept values that are settings of several keys, by those keys alone that differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.analyse.units import flow
from headrace.record.points import PointRow

_Place = tuple[str, str]  # a group, and a path that it sweeps


def settings_apart(points: Sequence[PointRow]) -> tuple[PointRow, ...]:
    """Points whose values are shown: where all of a group are mappings, what they have in common
    tells none from another, and a label has no room for it."""
    several: dict[_Place, list[Any]] = {}
    for point in points:
        for path, value in point.values.items():
            several.setdefault((point.group, path), []).append(value)
    common = {
        place: {k: v for k, v in values[0].items() if all(one.get(k, ...) == v for one in values)}
        for place, values in several.items()
        if len(values) > 1 and all(isinstance(one, dict) for one in values)
    }
    return tuple(
        point.model_copy(
            update={
                "values": {
                    path: _told(value, common.get((point.group, path)))
                    for path, value in point.values.items()
                }
            }
        )
        for point in points
    )


def _told(value: Any, common: dict[str, Any] | None) -> Any:
    if common is None:
        return value
    own = [(key, one) for key, one in value.items() if key not in common]
    return ", ".join(f"{key} {one if isinstance(one, str) else flow(one)}" for key, one in own)
