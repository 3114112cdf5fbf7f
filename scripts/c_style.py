# SPDX-License-Identifier: Apache-2.0
"""Layout of the C files.

Checked: what no reader should meet, and no two tools disagree about (tabs, 110 columns, no trailing
space, no typedef'd structs, functions of at most 60 lines). --fix runs clang-format, which goes
further than is demanded, except over tables of designated initialisers: it breaks those one member
per line, which makes a parameter table five times as long as it has to be.

    c_style.py [--fix] FILE...
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
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
LINES = 60  # of a function, with its signature
BEFORE_SIGNATURE = ("}", "#", "/*", " *")
RULES = (
    (re.compile(r"[ \t]+$"), "trailing space"),
    (re.compile(r"^ {8}"), "indented by spaces; allowed: tabs"),
    (re.compile(r"^\s*typedef\s+(struct|union|enum)\b"), "typedef of a struct, union or enum"),
)


def functions(lines: list[str]) -> Iterator[tuple[int, int]]:
    """The first and the last line of each function, whose braces are in the first column."""
    begin = 0
    for number, line in enumerate(lines, 1):
        if line == "{":
            begin = number - 1
            while begin > 1 and lines[begin - 2] and not _ends_before(lines[begin - 2]):
                begin -= 1
        elif line == "}" and begin:
            yield begin, number
            begin = 0


def _ends_before(line: str) -> bool:
    """Whether a line above a signature is no part of it."""
    return line.startswith(BEFORE_SIGNATURE) or line.endswith((";", "*/"))


def complaints(file: Path) -> list[str]:
    lines = file.read_text().splitlines()
    problems = [
        f"{file}:{begin}: a function of {end - begin + 1} lines; allowed: {LINES}"
        for begin, end in functions(lines)
        if end - begin >= LINES
    ]
    for number, line in enumerate(lines, 1):
        width = len(line.expandtabs(8))
        if width > COLUMNS:
            problems.append(f"{file}:{number}: {width} columns; allowed: {COLUMNS}")
        problems += [f"{file}:{number}: {text}" for rule, text in RULES if rule.search(line)]
    return problems


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
    problems = [text for file in files for text in complaints(file)]
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
