# SPDX-License-Identifier: Apache-2.0
"""Hugepages: how many there are, how many are lacking, and giving back exactly what was added."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_SYS = Path("/sys/kernel/mm/hugepages")


@dataclass(frozen=True)
class Pool:
    """The default size's pool."""

    page_kb: int
    total: int
    free: int

    @property
    def control(self) -> Path:
        return _SYS / f"hugepages-{self.page_kb}kB" / "nr_hugepages"


def pool() -> Pool | None:
    """None where the kernel has no hugepages."""
    facts = {}
    for line in _MEMINFO.read_text().splitlines():
        key, _, rest = line.partition(":")
        facts[key] = rest.split()
    try:
        size = int(facts["Hugepagesize"][0])
        total, free = int(facts["HugePages_Total"][0]), int(facts["HugePages_Free"][0])
        reserved = int(facts["HugePages_Rsvd"][0])
    except (KeyError, IndexError, ValueError):
        return None
    return Pool(size, total, max(0, free - reserved))


def lacking(megabytes: int, found: Pool) -> int:
    """Pages to add so that `megabytes` are free."""
    return max(0, math.ceil(megabytes * 1024 / found.page_kb) - found.free)


def count(control: Path) -> int:
    return int(control.read_text())


def add(pages: int, control: Path) -> int:
    """Ask the kernel for more pages; returns how many came, which may be fewer."""
    before = count(control)
    control.write_text(str(before + pages))
    return count(control) - before


def give_back(control: Path, before: int, pages: int, done: bool) -> int:
    """Remove what a run added. If it was killed while adding, at most what is above `before`."""
    now = count(control)
    pages = min(pages, now if done else max(0, now - before))
    if pages:
        control.write_text(str(now - pages))
    return pages


def may_add() -> bool:
    return os.geteuid() == 0
