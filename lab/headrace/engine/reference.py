# SPDX-License-Identifier: Apache-2.0
"""The engine's description of parameters, as rows for people."""

from __future__ import annotations

import json
from typing import Any

Row = tuple[str, str, str, str]


def parameters(schema: dict[str, Any], prefix: str = "") -> list[Row]:
    """Name, type with range and unit, default, meaning; of nested objects too."""
    rows: list[Row] = []
    required = schema.get("required", [])
    for name, one in schema.get("properties", {}).items():
        default = "required" if name in required else ""
        if "default" in one:
            default = json.dumps(one["default"])
        rows.append((prefix + name, _type(one), default, one.get("description", "")))
        inner = one.get("items", one)
        if inner.get("type") == "object":
            mark = "[]" if one.get("type") == "array" else ""
            rows += parameters(inner, f"{prefix}{name}{mark}.")
    return rows


def _type(schema: dict[str, Any]) -> str:
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if "enum" in schema:
        return " or ".join(schema["enum"])
    text = str(schema.get("format") or schema.get("type", "any"))
    low, high, unit = schema.get("minimum"), schema.get("maximum"), schema.get("unit")
    if high is not None:
        text += f", {_number(low or 0)} to {_number(high)}"
    elif low:
        text += f", at least {_number(low)}"
    return text + (f", {unit}" if unit else "")


def _number(value: float) -> str:
    return f"{value:g}" if value != int(value) else str(int(value))
