#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which folder of the engine may include which: `meson test layers`.

core/ names no particular function or link: what it has to know of one is in its nf_ops or
link_ops. A function includes nothing of another's folder; what several share is in nf/lib. Tables
know neither functions nor links. Every include is from engine/ or of a file beside.
"""

import re
import sys
from pathlib import Path

ENGINE = Path(__file__).resolve().parent.parent

# Folder -> what it may include beside its own files. The longest that fits counts, on both sides:
# "core" is the files right in core/, "nf" a function's folder.
ALLOWED = {
    "core": (),
    "core/rights": ("core",),
    "core/plan": ("core",),
    "core/fastpath": ("core", "core/plan", "core/loop", "table"),
    "core/checkpoint": ("core", "table"),
    "core/loop": ("core", "core/plan", "core/checkpoint", "core/fastpath", "table"),
    "core/setup": (
        "core",
        "core/rights",
        "core/plan",
        "core/loop",
        "core/checkpoint",
        "core/fastpath",
    ),
    "core/control": (
        "core",
        "core/rights",
        "core/plan",
        "core/loop",
        "core/checkpoint",
        "core/fastpath",
        "core/setup",
    ),
    "table": ("core",),
    "link": ("core", "core/rights"),
    "nf/lib": ("core", "core/rights", "table"),
    "nf": ("core", "core/rights", "table", "nf/lib"),
    "calibrate": ("core",),
}
# Programs, tests, fuzzers and benches put all together.
ALL = ("", "tests", "fuzz")

# Words of core's identifiers that are DPDK's, C's or the contract's own, though a link or a
# function has the name, too.
COMMON = {"port", "ring", "null", "delay"}

INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
NOT_CODE = re.compile(
    r'/\*.*?\*/|//[^\n]*|^#include[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL | re.MULTILINE
)


def layer(path: Path) -> str:
    """The longest folder of ALLOWED that a file of the engine lies in."""
    folder = path.parent.as_posix()
    if folder == ".":
        return ""
    while folder not in ALLOWED and "/" in folder:
        folder = folder.rpartition("/")[0]
    return folder


def is_test(path: Path) -> bool:
    """Whether a file belongs to no layer: it may use the harness and what it tests."""
    return layer(path) in ALL or path.stem.endswith("_test") or path.stem.startswith("bench_")


def refused(path: Path, target: Path) -> bool:
    """Whether the includes of one file may not name the other."""
    here, there = layer(path), layer(target)
    if here == "nf" and there == "nf":
        return path.parts[1] != target.parts[1]
    return here != there and there not in ALLOWED[here]


def include_faults(path: Path, text: str) -> list[str]:
    """Includes that are not found from engine/ or beside the file, or not allowed to its layer."""
    faults = []
    for name in INCLUDE.findall(text):
        target = (ENGINE / path).parent / name if "/" not in name else ENGINE / name
        if not target.is_file():
            faults.append(f"{path}: includes {name}, which is neither beside it nor from engine/")
        elif not is_test(path) and refused(path, target.relative_to(ENGINE)):
            allowed = ", ".join(ALLOWED[layer(path)])
            faults.append(f"{path}: includes {name}; beside its own it may include {allowed}")
    return faults


def particular_names() -> set[str]:
    """Names of functions and links, as their nf_ops and link_ops have them."""
    names = set()
    for path in [*ENGINE.glob("nf/**/*.c"), *ENGINE.glob("link/**/*.c")]:
        ops = re.findall(r"struct (?:nf|link)_ops \w+ = \{\s*\.name = \"(\w+)\"", path.read_text())
        names.update(ops)
    return names - COMMON


def naming_faults(path: Path, text: str, names: set[str]) -> list[str]:
    """Identifiers of core's code that have a function's or a link's name in them."""
    code = NOT_CODE.sub(" ", text)
    words = sorted(set(re.findall(r"[A-Za-z_]\w*", code)))
    return [f"{path}: core names {w}" for w in words if names & set(w.lower().split("_"))]


def main() -> int:
    """Print what breaks a rule; 1 if anything does."""
    names = particular_names()
    if not {"source", "sink", "router", "acl"} <= names:
        print(f"the names of functions and links were not found: {sorted(names)}")
        return 1
    faults = []
    for full in sorted([*ENGINE.glob("**/*.c"), *ENGINE.glob("**/*.h")]):
        path, text = full.relative_to(ENGINE), full.read_text()
        faults += include_faults(path, text)
        if path.parts[0] == "core":
            faults += naming_faults(path, text, names)
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
