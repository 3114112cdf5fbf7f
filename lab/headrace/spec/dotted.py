# SPDX-License-Identifier: Apache-2.0
"""Dotted paths into a spec: where a sweep, or a group of points, sets its values."""

from __future__ import annotations

import copy
from typing import Any


def put(data: Any, path: str, value: Any) -> str | None:
    """Set the value at a dotted path; functions of a chain are reached by name. Returns what is
    wrong with the path, in words."""
    *parents, last = path.split(".")
    for depth, key in enumerate(parents):
        if isinstance(data, list):
            data = _params(data, key)
            if data is None:
                return f"there is no function {key!r}"
        elif isinstance(data, dict):
            if data.get(key) is None:
                data[key] = {}
            if isinstance(data[key], str) and key == "hosting":
                data[key] = {"kind": data[key]}
            data = data[key]
        else:
            return f"{'.'.join(parents[:depth])} has no parts"
    if isinstance(data, list):
        return None if _replace(data, last, value) else f"there is no function {last!r}"
    if not isinstance(data, dict):
        return f"{'.'.join(parents)} has no parts"
    data[last] = value
    return None


def over(base: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """A copy of `base` with `more` laid over it: mappings are merged, all else is replaced."""
    merged = copy.deepcopy(base)
    for key, value in more.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = over(merged[key], value) if both else copy.deepcopy(value)
    return merged


def _find(nodes: list[Any], name: str) -> tuple[dict[str, Any], str] | None:
    """The function's entry, and the key in it that has the parameters."""
    for i, node in enumerate(nodes):
        if isinstance(node, str) and node == name:
            node = nodes[i] = {name: {}}
        if not isinstance(node, dict):
            continue
        if name in node and "nf" not in node:
            return node, name
        if name in (node.get("name"), node.get("nf")):
            return node, "params"
    return None


def _params(nodes: list[Any], name: str) -> Any:
    entry = _find(nodes, name)
    if entry is None:
        return None
    node, key = entry
    node[key] = node.get(key) or {}
    return node[key]


def _replace(nodes: list[Any], name: str, value: Any) -> bool:
    entry = _find(nodes, name)
    if entry is None:
        return False
    node, key = entry
    node[key] = value
    return True
