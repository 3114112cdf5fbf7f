# SPDX-License-Identifier: Apache-2.0
"""What the lab's code is held to, and no tool checks (docs/contributing.md)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import headrace

HOUSE = Path(headrace.__file__).parent
LINES = 60  # of a function

# Two classes of one name: what users write, and what they are shown.
NAMESAKES = frozenset(["Document"])

# Names that say that a variable was assigned, and not what it holds.
VAGUE = frozenset(["found", "made", "said"])

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | Function


def nodes() -> Iterator[tuple[str, ast.AST]]:
    """Every node of the lab's code, tests among it, with its file."""
    for file in sorted(HOUSE.rglob("*.py")):
        place = str(file.relative_to(HOUSE))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            yield place, node


def test_functions_fit_a_screen() -> None:
    long = [
        f"{place}: {node.name}"
        for place, node in nodes()
        if isinstance(node, Function) and (node.end_lineno or 0) - node.lineno >= LINES
    ]
    assert long == []


def test_docstrings_are_sentences() -> None:
    """One that begins with "Of" has neither subject nor verb."""
    fragments = [
        place
        for place, node in nodes()
        if isinstance(node, Documented) and (ast.get_docstring(node) or "").startswith("Of ")
    ]
    assert fragments == []


def test_variables_are_named_for_what_they_hold() -> None:
    vague = [f"{place}: {name}" for place, node in nodes() if (name := _variable(node)) in VAGUE]
    assert vague == ["doctor/check.py: found"]  # a field of the JSON that `doctor` prints


def _variable(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    return node.arg if isinstance(node, ast.arg) else None


def test_classes_have_names_of_their_own() -> None:
    """What one word means is said once (docs/contributing.md, Terms)."""
    files: dict[str, set[str]] = {}
    for place, node in nodes():
        if isinstance(node, ast.ClassDef) and not place.endswith("_test.py"):
            files.setdefault(node.name, set()).add(place)
    twice = {name: places for name, places in files.items() if len(places) > 1}
    assert {name: twice[name] for name in twice.keys() - NAMESAKES} == {}
