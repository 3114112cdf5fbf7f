# SPDX-License-Identifier: Apache-2.0
"""What pydantic found wrong, in the words of the author of the file: where, what was given, what is
allowed. Everything that a user writes, and every file that headrace reads back, complains here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from headrace.errors import BadInput, shown, unknown
from headrace.spec.base import (
    CPUS_PATTERN,
    DAEMON_PATTERN,
    FIGURES_PATTERN,
    INTERFACE_PATTERN,
    NAME_PATTERN,
)
from headrace.spec.document import Document, PathKey, dotted

# Pydantic's words for types are Python's; a YAML file has lists and mappings.
_TYPES = {
    "tuple_type": "should be a list",
    "list_type": "should be a list",
    "frozen_set_type": "should be a list",
    "dict_type": "should be a mapping (key: value)",
    "model_type": "should be a mapping (key: value)",
    "model_attributes_type": "should be a mapping (key: value)",
    "string_type": "should be text",
    "bool_type": "should be true or false",
    "bool_parsing": "should be true or false",
    "int_type": "should be a whole number",
    "int_parsing": "should be a whole number",
    "int_from_float": "should be a whole number",
    "float_type": "should be a number",
    "float_parsing": "should be a number",
}
_NAMED = re.compile(r"([a-z_]+(?:\.[a-z_]+|\[\d+\])*): ")
_LENGTHS = {"too_short": ("at least", "min_length"), "too_long": ("at most", "max_length")}
_PATTERNS = {
    NAME_PATTERN: "allowed: a letter, then letters, digits, _ or -, at most 31 in all",
    INTERFACE_PATTERN: "allowed: a letter or digit, then letters, digits, _, - or ., "
    "at most 15 in all",
    CPUS_PATTERN: "allowed: CPUs and ranges of them, as in 0,2-3",
    DAEMON_PATTERN: "allowed: 2 to 16 small letters or digits, as in bgpd",
    FIGURES_PATTERN: "allowed: a number, or two with - between them",
}


def explain(
    doc: Document,
    error: ValidationError,
    model: type[BaseModel],
    data: Any = None,
    swept: Iterable[str] = (),
) -> BadInput:
    """The first complaint about `data` (the document's, unless a sweep changed it)."""
    data = doc.data if data is None else data
    errors = sorted(error.errors(), key=lambda e: _rank(e, data))
    first = errors[0]
    path, kind = written(data, first["loc"]), first["type"]
    place = next((("sweep", key) for key in swept if _covers(key, path)), path)
    if kind == "extra_forbidden":
        return doc.error(place, unknown(str(path[-1]), keys_at(model, path[:-1], data)))
    if kind == "missing":
        return doc.error(place, f"{first['loc'][-1]!r} is missing")
    if kind == "invalid_key":
        return doc.error(place[:-1], "a key should be text", value=first["input"])
    # What is a union's is refused by each of its members.
    same = (e for e in errors if written(data, e["loc"]) == path and e["type"] != "missing")
    problems = [problem_of(e) for e in same]
    problem = ", or ".join(dict.fromkeys(problems))
    if not place and (named := _NAMED.match(problem)):  # of keys that do not go together
        keys = re.findall(r"[^.\[\]]+", named[1])
        place = tuple(int(key) if key.isdigit() else key for key in keys)
        problem = problem[named.end() :]
    if kind == "value_error" and isinstance(first["input"], dict):
        return doc.error(place, problem)
    return doc.error(place, problem, value=first["input"])


def _rank(error: Mapping[str, Any], data: Any) -> tuple[bool, bool]:
    """First a misspelt key, which may leave another one missing; then what stands in the file
    before what was made of it."""
    return error["type"] != "extra_forbidden", written(data, error["loc"]) != error["loc"]


def sentence(error: ValidationError) -> str:
    """The first complaint about a file that nobody writes by hand: `path: got value; what`."""
    first = error.errors()[0]
    value, where = first["input"], dotted(first["loc"])
    if first["type"] == "json_invalid":
        return f"not valid JSON, cut short perhaps: {first['ctx']['error']}"
    got = "" if isinstance(value, dict | list) else f"got {shown(value)}; "
    return f"{where}: {got}{problem_of(first)}" if where else f"{got}{problem_of(first)}"


def problem_of(error: Mapping[str, Any]) -> str:
    cause = error.get("ctx", {}).get("error")
    if cause is not None:
        return str(cause)
    limit, length = _LENGTHS.get(error["type"], ("", ""))
    count = error.get("ctx", {}).get(length)
    if count is not None:
        return f"should have {limit} {count} {'entry' if count == 1 else 'entries'}"
    pattern = _PATTERNS.get(error.get("ctx", {}).get("pattern", ""))
    if pattern:
        return pattern
    message: str = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
    bounds = [n for n in error.get("ctx", {}).values() if isinstance(n, int | float)]
    given = error["input"]
    if bounds and isinstance(given, str) and given.endswith("%"):  # who writes per cent reads it
        return f"{message.rpartition(' ')[0]} {bounds[0] * 100:.10g}%"
    return _TYPES.get(error["type"], message[:1].lower() + message[1:])


def written(data: Any, path: tuple[PathKey, ...]) -> tuple[PathKey, ...]:
    """The part of a path that stands in the file. Pydantic also names what a short form stands for
    (`frame: 63` is a list of one) and the member of a union."""
    keys: list[PathKey] = []
    for key in path:
        named = isinstance(data, dict) and key in data
        if named or (isinstance(data, list) and isinstance(key, int) and key < len(data)):
            data = data[key]
            keys.append(key)
    return tuple(keys)


def keys_at(model: type[BaseModel], path: tuple[PathKey, ...], data: Any = None) -> list[str]:
    """The keys that are allowed below `path`; of a union's members, those of the `kind` given."""
    models = [model]
    for key in path:
        data = _below(data, key)
        fields = (m.model_fields[key] for m in models if key in m.model_fields)
        # An index, or a name that the user chose, is of no field.
        models = [inner for one in fields for inner in _models(one.annotation)] or models
        models = [one for one in models if _of_kind(one, data)] or models
    names = [field.alias or name for m in models for name, field in m.model_fields.items()]
    return list(dict.fromkeys(names))


def _below(data: Any, key: PathKey) -> Any:
    if isinstance(data, dict):
        return data.get(key)
    return data[key] if isinstance(data, list) and isinstance(key, int) else None


def _of_kind(model: type[BaseModel], data: Any) -> bool:
    field = model.model_fields.get("kind")
    if field is None or not isinstance(data, dict):
        return True
    return data.get("kind", field.get_default()) in get_args(field.annotation)


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models(inner)]


def _covers(swept: str, path: tuple[PathKey, ...]) -> bool:
    """Functions of a chain are swept by name and stand in the file by number."""
    text = dotted(path)
    return text == swept or text.startswith((f"{swept}.", f"{swept}["))
