# SPDX-License-Identifier: Apache-2.0
"""The studies of a folder as one: a file for each figure or table of a paper, whose groups and
claims stand side by side then. A file's own keys go into its groups, so that each is measured as by
itself."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from headrace.spec import document
from headrace.spec.document import Document
from headrace.spec.dotted import over
from headrace.spec.study import read

_OF_A_FILE = ("name", "description", "paper", "sweep", "quick", "groups", "claims")
# Which bundles have, of which one may be lost.
_BUNDLES = ("status.json", "resolved.json", "environment.json")


def is_folder(given: Path) -> bool:
    """Whether a directory has studies, and is no bundle."""
    bundled = any((given / name).exists() for name in _BUNDLES)
    return given.is_dir() and not bundled and bool(studies_of(given))


def studies_of(folder: Path) -> list[Path]:
    """The studies of a folder, in the order of the numbers in their names: figure 8 before 10."""
    return sorted(folder.glob("*.yaml"), key=lambda file: [
        (int(part), "") if part.isdigit() else (-1, part)
        for part in re.split(r"(\d+)", file.stem) if part
    ])  # fmt: skip


def load_folder(folder: Path) -> Document:
    """All files' groups and claims, whose names must differ."""
    whole: dict[str, Any] = {"name": folder.name, "groups": {}, "claims": {}}
    files: dict[tuple[str, str], Document] = {}
    for file in studies_of(folder):
        doc = document.load(file)
        study = read(doc)
        if not study.groups:
            raise doc.error(("groups",), "there are none; allowed in a folder of studies: groups")
        if whole.setdefault("paper", study.paper) != study.paper:
            problem = f"the folder's others are of {whole['paper'] or 'none'}"
            raise doc.error(("paper",), problem, value=study.paper)
        for key, parts in (("groups", _groups(doc)), ("claims", doc.data.get("claims") or {})):
            if twice := sorted(whole[key].keys() & parts.keys()):
                raise doc.error((key, twice[0]), "another file of the folder has this name, too")
            whole[key] |= parts
            files |= {(key, name): doc for name in parts}
    text = yaml.safe_dump(whole, sort_keys=False, allow_unicode=True, width=120)
    doc = document.parse(text, folder / f"{folder.name}.yaml")
    return replace(doc, together=text, parts=files)


def _groups(doc: Document) -> dict[str, Any]:
    data = doc.data
    common = {key: value for key, value in data.items() if key not in _OF_A_FILE}
    groups = {}
    for name, group in data["groups"].items():
        quick = group.get("quick") or {}
        parts = {
            "spec": over(common, group.get("spec") or {}),
            "sweep": {**(data.get("sweep") or {}), **(group.get("sweep") or {})},
            "quick": {**quick, "spec": over(data.get("quick") or {}, quick.get("spec") or {})},
        }
        parts["quick"] = {key: value for key, value in parts["quick"].items() if value}
        groups[name] = {**group, **{key: value for key, value in parts.items() if value}}
    return groups
