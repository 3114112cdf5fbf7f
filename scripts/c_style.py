# SPDX-License-Identifier: Apache-2.0
"""clang-format over the C files, except for tables of designated initialisers.

clang-format breaks those one member per line, which makes a parameter table five times as long as
it has to be. They are left as their author laid them out.

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


def check(file: Path, fix: bool) -> bool:
    text = file.read_text()
    ranges = [f"--lines={part}" for part in ranges_outside_tables(text)]
    if not ranges:
        return True
    mode = ["-i"] if fix else ["--dry-run", "--Werror", "--ferror-limit=3"]
    return subprocess.run(["clang-format", *mode, *ranges, str(file)]).returncode == 0


def main() -> int:
    arguments = sys.argv[1:]
    fix = "--fix" in arguments
    files = [Path(name) for name in arguments if name != "--fix"]
    bad = [file for file in files if not check(file, fix)]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
