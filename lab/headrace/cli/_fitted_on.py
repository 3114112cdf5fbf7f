# SPDX-License-Identifier: Apache-2.0
"""A study as `headrace fit` has it: fitted on the rows that the command line names."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import yaml

from headrace.errors import BadInput, bad_value
from headrace.spec.document import Document
from headrace.spec.study import ground_of

POINT = "COLUMN=VALUE, or several with commas between them, of one row each"


def fitted_on(doc: Document, given: Sequence[str]) -> Document:
    """The study's own points without any. The bundle has the text that this comes to, so that it is
    replayed as it was run."""
    asked = ground_of(doc) if isinstance(doc.data, dict) else None
    if asked is None or asked.fitted is None:
        raise BadInput(
            f"{doc.place}: has no published table; allowed: a study with `ground: {{fitted: ...}}`"
        )
    if not given:
        return doc
    points = [_point(text) for text in given]
    fitted = {**doc.data["ground"]["fitted"], "points": points}
    data = {**doc.data, "ground": {"fitted": fitted}}
    return dataclasses.replace(doc, data=data, changed=yaml.safe_dump(data, sort_keys=False))


def _point(text: str) -> dict[str, str]:
    row = {}
    for part in text.split(","):
        column, equals, value = part.strip().partition("=")
        if not column or not equals or not value or column in row:
            raise bad_value("--points", text, allowed=POINT)
        row[column] = value
    return row
