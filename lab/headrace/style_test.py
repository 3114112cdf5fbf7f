# SPDX-License-Identifier: Apache-2.0
"""What Python code is held to, and no tool checks (docs/contributing.md)."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import headrace

HOUSE = Path(headrace.__file__).parent
REPO = HOUSE.parents[1]
FOLDERS = ("lab", "tests", "scripts", "studies", "packaging", "engine")
LINES = 60  # of a function

# Two classes of one name: what users write, and what they are shown.
NAMESAKES = frozenset(["Document"])

# Files of one name in several folders: one thing as it is written, recorded, analysed, shown.
SAME_THING = frozenset([
    "agent", "anatomy", "appliances", "calibration", "campaign", "chaos", "claim", "claims",
    "collect", "convergence", "counters", "deployment", "described", "diff", "environment",
    "equivalence", "figures", "fitted", "ground", "hosting", "kubernetes", "layers", "offload",
    "operate", "own_chains", "plan", "pods", "points", "profile", "provision", "selftest",
    "server", "sriov", "tune", "vm", "vnf",
])  # fmt: skip

# Names that say that a variable was assigned, and not what it holds.
VAGUE = frozenset(["found", "made", "said"])

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | Function


Node = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module | ast.ClassDef | ast.Name | ast.arg


@cache
def nodes() -> list[tuple[str, Node]]:
    """The nodes that are looked at here, of all Python code, each with its file."""
    return [
        (str(file.relative_to(REPO)), node)
        for folder in FOLDERS
        for file in sorted((REPO / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, Node)
    ]


def test_functions_fit_a_screen() -> None:
    long = [
        f"{place}: {node.name}"
        for place, node in nodes()
        if isinstance(node, Function) and (node.end_lineno or 0) - node.lineno >= LINES
    ]
    assert long == []


def test_files_of_one_name_are_about_one_thing() -> None:
    files = [
        file.stem
        for file in HOUSE.rglob("*.py")
        if not file.stem.endswith(("_test", "_testdata")) and "templates" not in file.parts
    ]
    several = {stem for stem in files if files.count(stem) > 1} - {"__init__"}
    assert several == SAME_THING


def test_docstrings_are_sentences() -> None:
    """One that begins with "Of" has neither subject nor verb; one that begins with "And" goes on
    with a name."""
    fragments = [
        place
        for place, node in nodes()
        if isinstance(node, Documented)
        and (ast.get_docstring(node) or "").startswith(("Of ", "And ", "Or ", "But ", "Nor "))
    ]
    assert fragments == []


def test_variables_are_named_for_what_they_hold() -> None:
    vague = [f"{place}: {name}" for place, node in nodes() if (name := _variable(node)) in VAGUE]
    assert vague == [
        "lab/headrace/doctor/check.py: found"
    ]  # a field of the JSON that `doctor` prints


def _variable(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    return node.arg if isinstance(node, ast.arg) else None


def test_classes_have_names_of_their_own() -> None:
    """What one word means in the lab is said once (docs/contributing.md, Terms)."""
    files: dict[str, set[str]] = {}
    for place, node in nodes():
        tested = place.startswith("lab/") and not place.endswith("_test.py")
        if isinstance(node, ast.ClassDef) and tested:
            files.setdefault(node.name, set()).add(place)
    twice = {name: places for name, places in files.items() if len(places) > 1}
    assert {name: twice[name] for name in twice.keys() - NAMESAKES} == {}
