# SPDX-License-Identifier: Apache-2.0
"""What a process has, sampled while it runs, and whether it grows."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

# In an hour. A leak of one descriptor or buffer with each of 360 kills is far beyond; what is met
# for the first time (a page of a table, a thread's stack) is not.
MOST_AN_HOUR = {"rss_kb": 4096.0, "anon_kb": 4096.0, "descriptors": 4.0, "threads": 4.0,
                "hugetlb_kb": 0.0, "mbufs": 256.0}  # fmt: skip
_STATUS = {
    "VmRSS": "rss_kb",
    "RssAnon": "anon_kb",
    "Threads": "threads",
    "HugetlbPages": "hugetlb_kb",
}


def sample(pid: int) -> dict[str, float]:
    """As the kernel counts, by the names of MOST_AN_HOUR; all but buffers."""
    process = Path(f"/proc/{pid}")
    lines = (line.split(":") for line in (process / "status").read_text().splitlines())
    told = {key: value for key, value in lines if key in _STATUS}
    taken = {_STATUS[key]: float(value.split()[0]) for key, value in told.items()}
    return taken | {"descriptors": float(len(list((process / "fd").iterdir())))}


def free_hugepages() -> int:
    """Those of 2 MB, of the whole machine."""
    pool = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
    return int(pool.read_text()) if pool.exists() else 0


def slope_an_hour(samples: Sequence[tuple[float, float]]) -> float:
    """Theil and Sen's: the median of the slopes between all pairs (seconds, value), so that
    neither a sample while a VNF was away nor a machine that stood still turns it."""
    slopes = [
        (later - value) / (then - second)
        for i, (second, value) in enumerate(samples)
        for then, later in samples[i + 1 :]
    ]
    return statistics.median(slopes) * 3600
