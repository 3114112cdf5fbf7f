# SPDX-License-Identifier: Apache-2.0
"""Layout of the C files.

Checked: what no reader should meet, and no two tools disagree about (tabs, 110 columns, no trailing
space, no typedef'd structs). --fix runs clang-format, which goes further than is demanded, except
over tables of designated initialisers: it breaks those one member per line, which makes a parameter
table five times as long as it has to be.

    c_style.py [--fix] FILE...
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

OPENS = re.compile(r"= \{$")


def ranges_outside_tables(text: str) -> list[str]:
    """`first:last` line ranges, from 1, as clang-format's --lines takes them."""
    ranges, begin, inside = [], 1, False
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if not inside and OPENS.search(line) and not line.startswith(("\t", " ")):
            if number > begin:
                ranges.append(f"{begin}:{number - 1}")
            inside = True
        elif inside and line.startswith("}"):
            inside, begin = False, number + 1
    if not inside and begin <= len(lines):
        ranges.append(f"{begin}:{len(lines)}")
    return ranges


COLUMNS = 110  # the limit; 100 is what is aimed at
RULES = (
    (re.compile(r"[ \t]+$"), "trailing space"),
    (re.compile(r"^ {8}"), "indented by spaces; allowed: tabs"),
    (re.compile(r"^\s*typedef\s+(struct|union|enum)\b"), "typedef of a struct, union or enum"),
)


def complaints(file: Path) -> list[str]:
    found = []
    for number, line in enumerate(file.read_text().splitlines(), 1):
        width = len(line.expandtabs(8))
        if width > COLUMNS:
            found.append(f"{file}:{number}: {width} columns; allowed: {COLUMNS}")
        found += [f"{file}:{number}: {text}" for rule, text in RULES if rule.search(line)]
    return found


def fix(file: Path) -> None:
    ranges = [f"--lines={part}" for part in ranges_outside_tables(file.read_text())]
    if ranges:
        subprocess.run(["clang-format", "-i", *ranges, str(file)], check=True)


def main() -> int:
    arguments = sys.argv[1:]
    files = [Path(name) for name in arguments if name != "--fix"]
    if "--fix" in arguments:
        for file in files:
            fix(file)
        return 0
    # What stands in for the kernel's own headers keeps their form.
    files = [file for file in files if file.name != "kernel.h"]
    found = [text for file in files for text in complaints(file)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
