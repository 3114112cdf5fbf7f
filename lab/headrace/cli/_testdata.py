# SPDX-License-Identifier: Apache-2.0
"""The published schema, for the tests of what commands print."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

PUBLISHED = Path(__file__).resolve().parents[3] / "docs" / "reference" / "json-schema.json"


@cache
def published() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    return document


def valid(command: str, text: str) -> Any:
    """What `headrace COMMAND --json` printed, once the published schema was held against it."""
    schema = published()
    output = json.loads(text)
    Draft202012Validator(schema["commands"][command] | {"$defs": schema["$defs"]}).validate(output)
    return output
