# SPDX-License-Identifier: Apache-2.0
"""Functions that nothing can pass as they are told to work: right, but rarely what was meant."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.engine.describe import Description
from headrace.spec.chain import Node
from headrace.spec.document import Document
from headrace.spec.study import Experiment

_GZIP = b"\x1f\x8b"  # RFC 1952 section 2.3.1


def notes(experiment: Experiment, description: Description, doc: Document) -> tuple[str, ...]:
    """One for each function without rules whose default is to deny, or without routes."""
    reverse = experiment.workload.direction == "reverse"
    return tuple(
        note
        for node in experiment.nodes
        for note in _of(node, description.nfs[node.nf]["params"], doc, reverse)
    )


def _of(node: Node, schema: Mapping[str, Any], doc: Document, reverse: bool) -> Iterator[str]:
    known = schema.get("properties", {})
    if "reverse_default" in known and reverse:
        rules, default = ("reverse_rules", "reverse_rules_file"), "reverse_default"
    else:
        rules, default = ("rules", "rules_file"), "default"
    given = node.params.get(default, known.get(default, {}).get("default"))
    if given == "deny" and _empty(node, rules, doc):
        yield f"{node.name}: no rules{_where(node, rules)}, and {default}: deny: nothing can pass"
    routes = ("routes", "routes_file", "ranges")
    if "routes_file" in known and _empty(node, routes, doc):
        yield f"{node.name}: no routes{_where(node, routes)}: nothing can pass"


def _where(node: Node, keys: tuple[str, ...]) -> str:
    files = [str(node.params[key]) for key in keys if key.endswith("_file") and key in node.params]
    return f" ({', '.join(files)} is empty)" if files else ""


def _empty(node: Node, keys: tuple[str, ...], doc: Document) -> bool:
    return not any(
        _has_lines(doc.resolve(node.params[key])) if key.endswith("_file") else node.params[key]
        for key in keys
        if key in node.params
    )


def _has_lines(file: Path) -> bool:
    """A line that is no comment. What cannot be read is the engine's to refuse."""
    try:
        with file.open("rb") as begun:
            zipped = begun.read(2) == _GZIP
        with gzip.open(file) if zipped else file.open("rb") as lines:
            return any(line.strip() and not line.lstrip().startswith(b"#") for line in lines)
    except (OSError, EOFError):
        return True
