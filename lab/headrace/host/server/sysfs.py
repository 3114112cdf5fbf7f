# SPDX-License-Identifier: Apache-2.0
"""Reading sysfs and procfs: a file that is not there, empty or not readable is None."""

from __future__ import annotations

import re
from pathlib import Path

_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def text(path: str | Path) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def number(path: Path) -> int | None:
    digits = text(path)
    try:
        return None if digits is None else int(digits, 0)
    except ValueError:
        return None


def size(path: Path) -> int | None:
    """`32K`, as the caches' sizes are written."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text(path) or "")
    return int(match[1]) * _SIZES[match[2]] if match else None


def cpu_list(given: str | None) -> tuple[int, ...]:
    """`0-3,8` (cpuset(7)); memory-less or CPU-less nodes have an empty one."""
    numbers: list[int] = []
    for part in filter(None, (given or "").split(",")):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if match is None:
            return ()
        numbers += range(int(match[1]), int(match[2] or match[1]) + 1)
    return tuple(numbers)


def numbered(folder: Path, prefix: str) -> list[tuple[int, Path]]:
    """`node0`, `node1`, ... in order of their numbers."""
    numbered = []
    for path in folder.glob(f"{prefix}[0-9]*"):
        digits = path.name.removeprefix(prefix)
        if digits.isdigit():
            numbered.append((int(digits), path))
    return sorted(numbered)


def link_name(path: Path) -> str | None:
    """The last part of where a symbolic link leads: a driver's name, a device's address."""
    try:
        return path.resolve(strict=True).name if path.is_symlink() else None
    except OSError:
        return None
