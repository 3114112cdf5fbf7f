# SPDX-License-Identifier: Apache-2.0
"""headrace bench: parts of the engine measured by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from headrace.cli._console import print_json, stdout
from headrace.cli.run import Wait
from headrace.host.consoles import Terminal
from headrace.host.exclusive import WAIT_S
from headrace.profile.bench_fib import BenchRow, Spread, parse_entries, run_bench

app = typer.Typer(no_args_is_help=True, help="Measure parts of the engine by themselves.")


class Kind(StrEnum):
    exact = "exact"
    lpm = "lpm"


class TableKey(StrEnum):
    ipv4 = "ipv4"
    ipv6 = "ipv6"
    mac = "mac"
    vrf_ipv4 = "vrf-ipv4"


class Pages(StrEnum):
    auto = "auto"
    gigabyte = "1g"
    two_megabytes = "2m"
    ordinary = "ordinary"


@app.callback()
def bench() -> None:
    """Measure parts of the engine by themselves."""


@app.command()
def fib(
    more: Annotated[
        list[str] | None, typer.Argument(metavar="N", help="More numbers of entries.")
    ] = None,
    kind: Annotated[Kind, typer.Option(help="Exact match, or longest prefix match.")] = Kind.exact,
    entries: Annotated[
        list[str] | None, typer.Option(help="Entries: 1000000, 16M, 1G; one or several.")
    ] = None,
    key: Annotated[TableKey, typer.Option(help="What the table is looked up by.")] = TableKey.ipv4,
    updates: Annotated[int, typer.Option(help="Changes/s beside the lookups.")] = 64000,
    routes: Annotated[
        Path | None, typer.Option(help="Prefixes, one a line, plain or gz; for --kind lpm.")
    ] = None,
    runs: Annotated[int, typer.Option(help="Interleaved runs of each measurement.")] = 5,
    seconds: Annotated[float, typer.Option(help="Length of each run.")] = 0.2,
    burst: Annotated[int, typer.Option(help="Keys per lookup call.")] = 1024,
    memory: Annotated[Pages, typer.Option(help="Pages under an exact table.")] = Pages.auto,
    numa_node: Annotated[int | None, typer.Option(help="NUMA node of the table.")] = None,
    peer: Annotated[bool, typer.Option(help="Measure DPDK's own table beside it.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    wait: Wait = WAIT_S,
) -> None:
    """Forwarding tables: lookups, changes and memory, beside DPDK's and the memory's limit."""
    arguments = ["--kind", kind, "--key", key, "--updates", str(updates), "--runs", str(runs)]
    arguments += ["--seconds", str(seconds), "--burst", str(burst), "--memory", memory]
    for text in [part for each in [*(entries or []), *(more or [])] for part in each.split(",")]:
        arguments += ["--entries", str(parse_entries(text))]
    if routes is not None:
        arguments += ["--routes", str(routes)]
    if numa_node is not None:
        arguments += ["--numa-node", str(numa_node)]
    if not peer:
        arguments.append("--no-peer")
    rows = run_bench(arguments, Terminal(stderr=True, highlight=False).print, wait)
    if as_json:
        print_json(rows)
        return
    _show(rows.root)


def _rate(value: float | None, spread: Spread, digits: int = 1) -> str:
    if value is None:
        return "-"
    text = f"{value:.{digits}f}"
    return text if spread is None else f"{text} [{spread[0]:.{digits}f}..{spread[1]:.{digits}f}]"


def _ratio(value: float, of: float | None) -> str:
    return f"{value / of:.2f}" if of else "-"


def _show(rows: Sequence[BenchRow]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for row in rows:
        table.add_column(f"{row.table} {row.key}, {row.entries:,}", justify="right")
    lines = {
        "hits, M/s": [_rate(r.hits_mlps, r.hits_mlps_spread) for r in rows],
        "misses, M/s": [_rate(r.misses_mlps, r.misses_mlps_spread) for r in rows],
        "mixed, M/s": [_rate(r.mixed_mlps, r.mixed_mlps_spread) for r in rows],
        "line-gather limit, M/s": [_rate(r.limit_mlps, r.limit_mlps_spread) for r in rows],
        "hits / limit": [_ratio(r.hits_mlps, r.limit_mlps) for r in rows],
        "peer": [r.peer or "-" for r in rows],
        "peer's hits, M/s": [_rate(r.peer_mlps, r.peer_mlps_spread) for r in rows],
        "hits / peer's": [_ratio(r.hits_mlps, r.peer_mlps) for r in rows],
        "hits beside changes, M/s": [
            _rate(r.hits_mlps_updating, r.hits_mlps_updating_spread) for r in rows
        ],
        "changes/s, at that": [f"{r.updates_rate:,}" for r in rows],
        "changes/s, most": [_rate(r.updates_per_s, None, 0) for r in rows],
        "bytes per entry": [f"{r.bytes_per_entry:.2f}" for r in rows],
        "occupancy": [f"{r.occupancy:.3f}" for r in rows],
        "load, s": [f"{r.load_s:.2f}" for r in rows],
        "pages": [_pages(r) for r in rows],
        "every key checked": [f"{r.checked:,}" if r.checked else "-" for r in rows],
    }
    for name, values in lines.items():
        table.add_row(name, *values)
    stdout(soft_wrap=True).print(table, markup=False)


def _pages(row: BenchRow) -> str:
    sizes = {1 << 30: "1 GB", 1 << 21: "2 MB", 4096: "4 KB, or transparent 2 MB"}
    if row.page_bytes:
        return sizes.get(row.page_bytes, f"{row.page_bytes} bytes")
    return "DPDK's hugepages" if row.eal_hugepages else "DPDK's ordinary memory"
