# SPDX-License-Identifier: Apache-2.0
"""Reference pages of functions and links, written from the engine's own description."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headrace.errors import BadInput
from headrace.testbed.describe import Description

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


def write_reference(description: Description, folder: Path) -> list[Path]:
    """nf/NAME.md, link/NAME.md and an index; pages of what no longer exists are removed."""
    written: list[Path] = []
    index = [
        "# Reference",
        "",
        "Written by `headrace nf --docs` from `headrace-engine --describe`.",
    ]
    for kind, title, entries in (
        ("nf", "Network functions", description.nfs),
        ("link", "Links", description.links),
    ):
        _make(folder / kind)
        index += ["", f"## {title}", ""]
        for name, about in sorted(entries.items()):
            page = folder / kind / f"{name}.md"
            page.write_text(_page(name, about), encoding="utf-8")
            written.append(page)
            index.append(f"- [{name}]({kind}/{name}.md): {about['doc']}")
        for old in set((folder / kind).glob("*.md")) - set(written):
            old.unlink()
    (folder / "README.md").write_text("\n".join(index) + "\n", encoding="utf-8")
    return [*written, folder / "README.md"]


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"--docs {folder}: {error.strerror}") from None


def _page(name: str, about: dict[str, Any]) -> str:
    lines = [f"# {name}", "", about["doc"], ""]
    if about.get("standards"):
        lines += ["## Standards", "", about["standards"], ""]
    facts = [
        ("Category", about.get("category")),
        ("State is kept per", about.get("state_key")),
        ("Edges", ", ".join(f"`{edge}`" for edge in about.get("edges") or [])),
        ("Drops", ", ".join(f"`{drop}`" for drop in about.get("drops") or [])),
        ("Counters", ", ".join(f"`{counter}`" for counter in about.get("counters") or [])),
        ("Reads", ", ".join(about.get("reads") or []) if "edges" in about else ""),
        ("Writes", ", ".join(about.get("writes") or []) if "edges" in about else ""),
    ]
    lines += [f"- {what}: {value}" for what, value in facts if value]
    rows = parameters(about["params"])
    lines += ["", "## Parameters", ""]
    if not rows:
        return "\n".join([*lines, "None."]) + "\n"
    lines += ["| parameter | type | default | meaning |", "|---|---|---|---|"]
    for parameter, kind, default, meaning in rows:
        cells = (f"`{parameter}`", kind, f"`{default}`" if default else "", meaning)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"
