# SPDX-License-Identifier: Apache-2.0
"""What became of the points of a study with groups."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError

from headrace.record.bundle import Bundle
from headrace.record.frozen import Record
from headrace.record.known import known
from headrace.record.own import BundleError, text
from headrace.spec.invalid import sentence

POINTS_FILE = "points.json"  # among the samples


class NamedPoint(Record):
    """What a point of a study is, whether or not it was run."""

    point: str  # its name, or number, as `--point` takes it
    group: str = ""  # the study's, if it has any
    figures: tuple[str, ...] = ()  # of the paper, that have it
    values: dict[str, Any] = {}  # of the sweep


class PointRow(NamedPoint):
    """A point of a study, which is a chain of its results, or why it is none."""

    skipped: str | None = None  # why this machine cannot have it
    failed: str | None = None

    @property
    def absent(self) -> str | None:
        """A clause that says why it has no results."""
        if self.skipped is not None:
            return f"was skipped: {self.skipped}"
        return None if self.failed is None else f"failed: {self.failed}"


PointRows = TypeAdapter(tuple[PointRow, ...])


def points_of(bundle: Bundle) -> tuple[PointRow, ...]:
    """None of a study without groups. A run that was killed has not said which of them failed."""
    kept = text(bundle.path, f"samples/{POINTS_FILE}")
    try:
        if kept is not None:
            return PointRows.validate_json(kept)
        told = [one for one in known(bundle).points if "group" in one]
        return PointRows.validate_python(told)
    except ValidationError as error:
        name = "resolved.json" if kept is None else f"samples/{POINTS_FILE}"
        raise BundleError(f"{bundle.path}/{name}: {sentence(error)}") from None
