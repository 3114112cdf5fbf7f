# SPDX-License-Identifier: Apache-2.0
"""A server description on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from headrace.analyse.units import NOT_KNOWN
from headrace.spec.server import Cpus, Nic, NumaNode, Server


def bytes_text(value: float | None) -> str:
    if value is None:
        return NOT_KNOWN
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= factor:
            return f"{value / factor:.4g} {unit}"
    return f"{value:g} B"


def cpus_text(cpus: Cpus) -> str:
    """`0-3,8`, as the kernel writes it."""
    parts: list[str] = []
    first = last = None
    for cpu in (*sorted(cpus), None):
        if last is not None and cpu == last + 1:
            last = cpu
            continue
        if first is not None:
            parts.append(str(first) if first == last else f"{first}-{last}")
        first = last = cpu
    return ",".join(parts) or "none"


def show(server: Server, console: Console) -> None:
    kind = {True: ", virtual machine", False: "", None: ""}[server.hypervisor]
    console.print(f"{server.hostname}: {server.cpu or server.architecture}{kind}", markup=False)
    threads = max((len(core.cpus) for core in server.cores), default=1)
    console.print(
        f"{server.sockets} socket(s), {len(server.nodes)} NUMA node(s), {len(server.cores)} cores, "
        f"{threads} thread(s) each; CPUs {cpus_text(server.cpus)}, usable "
        f"{cpus_text(server.usable_cpus)}, isolated {cpus_text(server.isolated_cpus)}",
        markup=False,
    )
    for table in (_caches(server), _nodes(server.nodes), _nics(server.nics)):
        if table.row_count:
            console.print(table, markup=False)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column)
    return table


def _caches(server: Server) -> Table:
    table = _table("cache", "size", "ways", "line", "how many", "shared by")
    kinds: dict[tuple[int, str, int, int | None, int | None], list[Cpus]] = {}
    for c in server.caches:
        kinds.setdefault((c.level, c.kind, c.size_bytes, c.ways, c.line_bytes), []).append(c.cpus)
    for (level, kind, size, ways, line), sharers in kinds.items():
        table.add_row(
            f"L{level} {kind}",
            bytes_text(size),
            str(ways or NOT_KNOWN),
            bytes_text(line),
            str(len(sharers)),
            f"{len(sharers[0])} CPU(s) each",
        )
    return table


def _nodes(nodes: tuple[NumaNode, ...]) -> Table:
    table = _table("node", "CPUs", "memory", "free", "hugepages, free/total", "distances")
    for n in nodes:
        pages = ", ".join(f"{p.free}/{p.total} of {bytes_text(p.page_bytes)}" for p in n.hugepages)
        table.add_row(
            str(n.node),
            cpus_text(n.cpus),
            bytes_text(n.memory_bytes),
            bytes_text(n.free_bytes),
            pages or "none",
            " ".join(map(str, n.distances)),
        )
    return table


def _nics(nics: tuple[Nic, ...]) -> Table:
    table = _table("NIC", "interfaces", "driver", "id", "node", "speed", "queues", "VFs")
    for n in nics:
        vfs = f"{len(n.vfs)} of {n.vfs_max}" if n.vfs_max else ""
        if n.physical_function:
            vfs = f"of {n.physical_function}"
        table.add_row(
            n.address,
            ", ".join(n.interfaces) or NOT_KNOWN,
            n.driver or "none",
            ":".join(i.removeprefix("0x") for i in (n.vendor, n.device) if i) or NOT_KNOWN,
            NOT_KNOWN if n.node is None else str(n.node),
            f"{n.speed_mbps / 1000:g} Gbit/s" if n.speed_mbps else NOT_KNOWN,
            str(n.queues or NOT_KNOWN),
            vfs,
        )
    return table
