# SPDX-License-Identifier: Apache-2.0
"""Imports point down the list of layers (docs/design/README.md), so that no circle is left."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import headrace

HOUSE = Path(headrace.__file__).parent
# From the ground up. Those of one line do not import each other.
LAYERS = (
    ("errors",),
    ("spec",),
    ("record",),
    ("graph",),
    ("model",),
    ("layout",),
    ("host",),
    ("engine",),
    ("collect",),
    ("ground",),
    ("measure",),
    ("analyse",),
    ("profile",),
    ("tune", "doctor"),
    ("report",),
    ("live",),
    ("cli",),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def imported(file: Path) -> Iterator[tuple[str, int]]:
    """Folders of the lab that a file imports from, and the line."""
    package = ["headrace", *file.relative_to(HOUSE).parts[:-1]]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "headrace" and len(parts) > 1 and parts[1] != "__version__":
                yield parts[1], node.lineno


def edges() -> Iterator[tuple[str, str, str]]:
    """Folder, folder that it imports from, place."""
    for file in sorted(HOUSE.rglob("*.py")):
        parts = file.relative_to(HOUSE).parts
        if file.name.endswith(("_test.py", "conftest.py", "testdata.py")) or len(parts) == 1:
            continue
        for folder, line in imported(file):
            if folder != parts[0]:
                yield parts[0], folder, f"{'/'.join(parts)}:{line}"


def test_every_folder_has_a_layer() -> None:
    folders = {
        file.relative_to(HOUSE).parts[0] for file in HOUSE.rglob("*.py") if file.parent != HOUSE
    }
    assert folders <= set(LEVEL), folders - set(LEVEL)


def test_imports_point_down() -> None:
    upward = [
        f"{place} imports {to}" for folder, to, place in edges() if LEVEL[to] >= LEVEL[folder]
    ]
    assert not upward, upward


def modules() -> dict[str, Path]:
    """The lab's modules by name, tests apart."""
    named = {}
    for file in HOUSE.rglob("*.py"):
        parts = file.relative_to(HOUSE.parent).with_suffix("").parts
        if not file.stem.endswith(("_test", "conftest", "testdata")) and "templates" not in parts:
            named[".".join(parts).removesuffix(".__init__")] = file
    return named


def modules_imported(name: str, named: dict[str, Path]) -> set[str]:
    """What a module imports of the lab: also late, and for its types alone."""
    file = named[name]
    package = name.split(".") if file.stem == "__init__" else name.split(".")[:-1]
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                names.add(inner if inner in named else base)
    return (names & named.keys()) - {name}


def circle(imports: dict[str, set[str]]) -> list[str]:
    """Names of which each imports the next, and the last the first; none if there are none."""
    left = dict(imports)
    while free := {name for name, to in left.items() if not to & left.keys()}:
        left = {name: to for name, to in left.items() if name not in free}
    way: list[str] = []
    while left and (not way or way[-1] not in way[:-1]):
        way.append(min(left[way[-1]] & left.keys()) if way else min(left))
    return way[way.index(way[-1]) :] if way else []


def test_modules_import_in_no_circle() -> None:
    """Folders cannot; within one it takes a late import, or one for types alone, to hide it."""
    named = modules()
    assert circle({name: modules_imported(name, named) for name in named}) == []


def test_a_circle_is_found() -> None:
    """By hand: `a` only leads to the circle of the other three."""
    imports = {"a": {"b"}, "b": {"c", "e"}, "c": {"d"}, "d": {"b"}, "e": set[str]()}
    assert circle(imports) == ["b", "c", "d", "b"]
    assert circle({**imports, "d": set()}) == []


def test_what_tests_and_studies_import_is_there() -> None:
    """Nothing else looks at them before they run: a name that has changed would show in minutes."""
    repo = HOUSE.parents[1]
    folders = [repo / name for name in ("tests", "studies", "scripts")]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    missing = []
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headrace"):
                missing += [f"{file}:{node.lineno}: {name}" for name in _lacking(node)]
    assert not missing, missing


def _lacking(node: ast.ImportFrom) -> list[str]:
    module = importlib.import_module(str(node.module))
    names = [alias.name for alias in node.names if not hasattr(module, alias.name)]
    return [
        f"{node.module}.{name}"
        for name in names
        if importlib.util.find_spec(f"{node.module}.{name}") is None
    ]
