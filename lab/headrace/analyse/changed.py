# SPDX-License-Identifier: Apache-2.0
"""What two runs were asked to do, compared leaf by leaf: names and values as a spec has them."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any

from headrace.analyse.units import flow
from headrace.record.bundle import Bundle
from headrace.record.own import opened
from headrace.spec.base import rate_text

Json = dict[str, Any]
Change = tuple[str, str | None, str | None]  # name, a, b; None: absent on that side

_ABSENT = object()
_PIECE = 1 << 20  # bytes
_RATES = ("measure.loads", "measure.min_load", "measure.max_load")


def asked(a: Bundle, b: Bundle) -> Iterator[Change]:
    """The study and the files that it names. Plans and lcores follow from them and from the
    machine: they are compared only if nothing else explains a difference."""
    left, right = a.spec_resolved or {}, b.spec_resolved or {}
    changes = [*_studies(left, right), *_inputs(a.path, left, b.path, right)]
    yield from changes or leaves("", _derived(left), _derived(right))


def _studies(a: Json, b: Json) -> Iterable[Change]:
    """Each experiment has the whole study, with its own values of what is swept: those of the same
    label are compared, and what they have in common is said once."""
    ours, theirs = _by_label(a), _by_label(b)
    common = [label for label in ours if label in theirs]
    pairs = [(ours[label], theirs[label]) for label in common]
    if not pairs:
        pairs = list(zip(ours.values(), theirs.values(), strict=False))[:1]
    changes = dict.fromkeys(change for x, y in pairs for change in leaves("", x, y))
    return [c for c in changes if not _from_goals(c, changes)]


def _by_label(document: Json) -> dict[tuple[str, ...], Json]:
    return {
        tuple(str(e.get(key)) for key in ("chain", "execution", "workload")): e["study"]
        for e in document.get("experiments", ())
        if "study" in e
    }


def _from_goals(change: Change, changes: Container[Change]) -> bool:
    """The goals of a search take what `measure.goals` says of all of them."""
    name, a, b = change
    if not name.startswith("measure.search"):
        return False
    return (f"measure.goals.{name.rpartition('.')[2]}", a, b) in changes


def _inputs(a_path: Path, a: Json, b_path: Path, b: Json) -> Iterator[Change]:
    """Files of the same name; that another one is named is a change of the study."""
    ours, theirs = a.get("inputs", {}), b.get("inputs", {})
    for name in ours:
        if name in theirs:
            left, right = _content(a_path, ours[name]), _content(b_path, theirs[name])
            if left != right:
                yield f"contents of {name}", left, right


def _content(bundle: Path, copy: str) -> str | None:
    file = opened(bundle, copy)
    if file is None:
        return None
    with file:
        digest = hashlib.sha256()
        for piece in iter(lambda: file.read(_PIECE), b""):
            digest.update(piece)
        return f"{file.tell()} bytes, SHA-256 {digest.hexdigest()[:12]}"


def _derived(document: Json) -> Json:
    experiments = document.get("experiments")
    if experiments is None:
        return document
    rest = [{k: v for k, v in e.items() if k != "study"} for e in experiments]
    return {**document, "experiments": rest}


def leaves(name: str, a: Any, b: Any) -> Iterator[Change]:
    """What differs, as small as it can be named; what is on one side only, as a whole."""
    if type(a) is type(b) and isinstance(a, dict):
        for key in dict.fromkeys([*a, *b]):
            inner = f"{name}.{key}" if name else str(key)
            yield from leaves(inner, a.get(key, _ABSENT), b.get(key, _ABSENT))
    elif type(a) is type(b) and isinstance(a, list):
        ours, theirs = _elements(a, b)
        for key in dict.fromkeys([*ours, *theirs]):
            yield from leaves(f"{name}{key}", ours.get(key, _ABSENT), theirs.get(key, _ABSENT))
        if list(ours) != list(theirs) and sorted(ours) == sorted(theirs):
            yield f"order of {name}", _text(name, [*ours]), _text(name, [*theirs])
    elif a != b:
        yield name, _text(name, a), _text(name, b)


def _elements(a: list[Any], b: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Names them by their names where all have one, as paths in a spec do; else by their index."""
    if all(_named(values) for values in (a, b)):
        return {f".{v['name']}": v for v in a}, {f".{v['name']}": v for v in b}
    return {f"[{i}]": v for i, v in enumerate(a)}, {f"[{i}]": v for i, v in enumerate(b)}


def _named(values: list[Any]) -> bool:
    names = [v.get("name") if isinstance(v, dict) else None for v in values]
    return all(isinstance(n, str) for n in names) and len(set(names)) == len(names)


def _text(name: str, value: Any) -> str | None:
    if value is _ABSENT:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return rate_text(value) if name.startswith(_RATES) else f"{value:.10g}"
    if isinstance(value, str):
        return value.strip() or '""'
    return "none" if value is None else flow(value)
