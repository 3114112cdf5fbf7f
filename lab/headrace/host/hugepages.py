# SPDX-License-Identifier: Apache-2.0
"""Hugepages: how many there are, how many are lacking, and giving back exactly what was added."""

from __future__ import annotations

import fcntl
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.spec.vm import GIGABYTE_KB

_MEMINFO = Path("/proc/meminfo")
_SYS = Path("/sys/kernel/mm/hugepages")
_NAMED = 3  # processes
WAIT_S = 10.0  # for what finished runs give back


@dataclass(frozen=True)
class Pool:
    """Pages of one size."""

    page_kb: int
    total: int
    free: int

    @property
    def control(self) -> Path:
        return _SYS / f"hugepages-{self.page_kb}kB" / "nr_hugepages"


def pool() -> Pool | None:
    """The default size's; None where the kernel has no hugepages."""
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


def pool_of(page_kb: int) -> Pool | None:
    """That of another size; None where this machine has no such pages."""
    folder = _SYS / f"hugepages-{page_kb}kB"
    try:
        total, free, reserved = (
            int((folder / name).read_text())
            for name in ("nr_hugepages", "free_hugepages", "resv_hugepages")
        )
    except (OSError, ValueError):
        return None
    return Pool(page_kb, total, max(0, free - reserved))


def no_gigabyte_pages(count: int) -> str | None:
    """Why not so many pages of 1 GB are free. Few kernels find any once they run: they are asked
    for when it boots (hugepagesz=1G hugepages=N)."""
    pages = pool_of(GIGABYTE_KB)
    if pages is None:
        return "this machine has none"
    if pages.free < count:
        return f"{pages.free} of {pages.total} are free (echo {count} > {pages.control})"
    return None


def lacking(megabytes: int, pages: Pool) -> int:
    """Pages to add so that `megabytes` are free."""
    return max(0, math.ceil(megabytes * 1024 / pages.page_kb) - pages.free)


@contextmanager
def locked(control: Path) -> Iterator[None]:
    """The count is read and then written: whoever does so holds this, or two runs at once would
    undo each other's. A lock of flock(2) ends with its holder, however that ends."""
    with control.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def in_use_kb(pid: int) -> int:
    """What a process has of the hugepages (proc(5), status: HugetlbPages)."""
    return int(_status(pid).get("HugetlbPages", "0").split()[0])


def _status(pid: int) -> dict[str, str]:
    """Empty: it has gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def whose() -> str:
    """How many are free, and which processes have the others, those with most first."""
    pages = pool()
    if pages is None:
        return "this kernel has no hugepages"
    pids = (int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit())
    using = sorted(((kb, pid) for pid in pids if (kb := in_use_kb(pid))), reverse=True)
    text = f"{pages.free} of {pages.total} pages of {pages.page_kb} kB are free"
    for kb, pid in using[:_NAMED]:
        text += f", process {pid} ({_status(pid).get('Name', 'gone')}) has {kb // pages.page_kb}"
    return text


def until(enough: Callable[[], bool], seconds: float = WAIT_S) -> bool:
    """Asked again and again: an engine that was just ended gives its pages back a little later.
    Whether there are enough; not waited for where nobody has any."""
    end = time.monotonic() + seconds
    while not enough():
        pages = pool()
        if pages is None or pages.free == pages.total or time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def wait_for(megabytes: int, seconds: float = WAIT_S) -> bool:
    """Waits until so much is free; says whether it is."""
    return until(lambda: (pages := pool()) is not None and not lacking(megabytes, pages), seconds)


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


def may_add(control: Path) -> bool:
    """Root may, but for a container whose /sys is read-only."""
    return os.access(control, os.W_OK)
