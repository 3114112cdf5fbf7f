# SPDX-License-Identifier: Apache-2.0
"""The forwarding tables' own benchmark: headrace-bench-fib, run and read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import RootModel

from headrace.errors import bad_value
from headrace.host.exclusive import HeldLcores
from headrace.host.programs import find_tool, run_tool
from headrace.measure.progress import waiting_for
from headrace.record.frozen import Record

PROGRAM = "headrace-bench-fib"
ENTRIES_MAX = 2**31
_SUFFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
Spread = tuple[float, float] | None


class BenchRow(Record):
    """One table at one size. Rates are medians of interleaved runs, per second of the measuring
    thread's CPU time; each has its least and most beside it."""

    table: Literal["cuckoo", "rte_fib", "rte_lpm6"]
    key: Literal["ipv4", "ipv6", "mac", "vrf-ipv4"]
    entries: int
    occupancy: float
    moved: float | None  # share of the entries that are in their second bucket
    hits_mlps: float
    hits_mlps_spread: Spread
    misses_mlps: float
    misses_mlps_spread: Spread
    mixed_mlps: float
    mixed_mlps_spread: Spread
    bytes_per_entry: float
    memory_bytes: int
    page_bytes: int  # 0: DPDK's memory
    load_s: float
    updates_per_s: float | None  # None: there is no second CPU for the writer
    updates_per_s_spread: Spread
    updates_rate: int  # changes/s beside hits_mlps_updating
    hits_mlps_updating: float | None
    hits_mlps_updating_spread: Spread
    limit_mlps: float | None  # random lines/s of the same memory; None: not for prefixes
    limit_mlps_spread: Spread
    peer: str | None
    peer_mlps: float | None
    peer_mlps_spread: Spread
    eal_hugepages: bool  # DPDK's memory, the peer's among it, on hugepages
    burst: int
    runs: int
    isa: str
    checked: int
    check_wrong: int
    dpdk: str


class BenchRows(RootModel[tuple[BenchRow, ...]]):
    """headrace bench fib"""


def parse_entries(text: str) -> int:
    """A number of entries, with k, M or G for thousands, millions or (American) billions."""
    match = re.fullmatch(r"([0-9][0-9_]*)([kmg]?)", text.strip(), re.IGNORECASE)
    n = int(match[1]) * _SUFFIXES[match[2].lower()] if match else 0
    if not 1 <= n <= ENTRIES_MAX:
        raise bad_value(
            "--entries", text, allowed=f"1..{ENTRIES_MAX}, also as 1k, 16M or 1G, one or several"
        )
    return n


def find_program() -> Path:
    return find_tool(PROGRAM, "table")


def run_bench(arguments: Sequence[str], say: Callable[[str], None], wait_s: float) -> BenchRows:
    """Run the benchmark once no run holds an lcore that its threads may be put on, at most `wait_s`
    seconds from now; its one line on standard error becomes the error."""
    with HeldLcores(os.sched_getaffinity(0), lambda cpu: say(waiting_for(cpu, wait_s)), wait_s):
        output = run_tool(find_program(), arguments, "bench fib")
    return BenchRows.model_validate_json(output)
