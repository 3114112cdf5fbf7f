# SPDX-License-Identifier: Apache-2.0
"""Two specs as one study of two groups, `a` and `b`: what one session measures in turn, and one
bundle holds and replays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from headrace.analyse.pairs import SIDES
from headrace.errors import BadInput
from headrace.ground.choose import Grounds
from headrace.spec import document
from headrace.spec.base import listed
from headrace.spec.deployment import ENGINES
from headrace.spec.document import Document

Json = dict[str, Any]

_OF_THE_FILE = ("name", "description", "paper", "sweep", "repetitions", "groups", "claims")


def joined(
    a: Document, b: Document, engines: Mapping[str, Path], repetitions: int, scratch: Path
) -> Document:
    """`engines`: side -> another build of the engine. `scratch`: a folder for the study's file."""
    inputs: dict[str, Path] = {}
    groups: Json = {}
    for side, doc in zip(SIDES, (a, b), strict=True):
        data = _side(side, doc, inputs)
        engine = engines.get(side) or data.get("deployment", {}).get("engine")
        if isinstance(engine, Path) or (isinstance(engine, str) and engine not in ENGINES):
            # Not copied into the bundle, and wherever that lies.
            data.setdefault("deployment", {})["engine"] = str(
                doc.resolve(Path(engine).absolute() if side in engines else engine)
            )
        if functions := data.get("deployment", {}).get("functions"):
            data["deployment"]["functions"] = [str(doc.resolve(file)) for file in listed(functions)]
        # Each repetition has a capacity of its own; those of a side's executions are not asked.
        data.setdefault("measure", {})["pairs"] = 0
        groups[side] = {
            "about": f"{side}: {doc.file.name}" + (f", {engines[side]}" if side in engines else ""),
            "spec": {k: v for k, v in data.items() if k not in _OF_THE_FILE},
            "sweep": data.get("sweep") or {},
        }
    name = f"{a.data['name']}-or-{b.data['name']}"[:31]
    study = {"name": name, "repetitions": repetitions, "groups": groups}
    file = scratch / f"{name}.yaml"
    file.write_text(yaml.safe_dump(study, sort_keys=False), encoding="utf-8")
    return document.load(file, inputs)


def _side(side: str, doc: Document, inputs: dict[str, Path]) -> Json:
    """The spec's data with its files under names of their own. Checked alone first, so that what is
    wrong is said of the user's own file."""
    if not isinstance(doc.data, dict) or doc.data.get("groups"):
        raise BadInput(f"{doc.place}: has `groups`; allowed: a study without")
    if "chains" in doc.data:
        raise BadInput(f"{doc.place}: chains: several by name; allowed: one `chain`")
    checked = Grounds().check(doc)
    named, written = checked.inputs, checked.writes
    absolute = {name: str(file) for name, file in written.items()}
    inputs |= {f"{side}/{name}": file for name, file in named.items()}
    data = _renamed(doc.data, {name: f"{side}/{name}" for name in named} | absolute)
    assert isinstance(data, dict)
    return data


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, names) for inner in value]
    return names.get(value, value) if isinstance(value, str) else value
