# SPDX-License-Identifier: Apache-2.0
"""A server description as a document."""

from __future__ import annotations

from headrace.analyse.units import NOT_KNOWN, size
from headrace.report.document_model import Cell, Column, Document, Section, Table
from headrace.spec.server import Cpus, Nic, NumaNode, Server


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


def document(server: Server) -> Document:
    kind = ", virtual machine" if server.hypervisor else ""
    threads = max((len(core.cpus) for core in server.cores), default=1)
    parts = (("Caches", _caches(server)), ("Memory", _nodes(server.nodes)), ("NICs", _nics(server)))
    return Document(
        title=f"{server.hostname}: {server.cpu or server.architecture}{kind}",
        subtitle=f"{server.sockets} socket(s), {len(server.nodes)} NUMA node(s), "
        f"{len(server.cores)} cores, {threads} thread(s) each; CPUs {cpus_text(server.cpus)}, "
        f"usable {cpus_text(server.usable_cpus)}, isolated {cpus_text(server.isolated_cpus)}",
        sections=tuple(Section(title, blocks=(table,)) for title, table in parts if table.rows),
    )


def _texts(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, "text") for name in names)


def _caches(server: Server) -> Table:
    kinds: dict[tuple[int, str, int, int | None, int | None], list[Cpus]] = {}
    for c in server.caches:
        kinds.setdefault((c.level, c.kind, c.size_bytes, c.ways, c.line_bytes), []).append(c.cpus)
    rows: list[tuple[Cell, ...]] = [
        (f"L{level} {kind}", total, ways, line, len(sharers), f"{len(sharers[0])} CPU(s) each")
        for (level, kind, total, ways, line), sharers in kinds.items()
    ]
    columns = (
        "cache",
        Column("size", "bytes"),
        Column("ways", "count"),
        Column("line", "bytes"),
        Column("how many", "count"),
        Column("shared by", "text"),
    )
    return Table(columns, tuple(rows))


def _nodes(nodes: tuple[NumaNode, ...]) -> Table:
    rows = []
    for n in nodes:
        pages = ", ".join(f"{p.free}/{p.total} of {size(p.page_bytes)}" for p in n.hugepages)
        distances = " ".join(map(str, n.distances))
        row = (str(n.node), cpus_text(n.cpus), n.memory_bytes, n.free_bytes, pages or "none")
        rows.append((*row, distances))
    columns = (
        *_texts("node", "CPUs"),
        Column("memory", "bytes"),
        Column("free", "bytes"),
        *_texts("hugepages, free/total", "distances"),
    )
    return Table(columns, tuple(rows))


def _nics(server: Server) -> Table:
    columns = _texts("NIC", "interfaces", "driver", "id", "node", "speed", "queues", "VFs")
    return Table(columns, tuple(map(_nic, server.nics)))


def _nic(n: Nic) -> tuple[Cell, ...]:
    vfs = f"{len(n.vfs)} of {n.vfs_max}" if n.vfs_max else ""
    if n.physical_function:
        vfs = f"of {n.physical_function}"
    return (
        n.address,
        ", ".join(n.interfaces) or NOT_KNOWN,
        n.driver or "none",
        ":".join(i.removeprefix("0x") for i in (n.vendor, n.device) if i) or NOT_KNOWN,
        NOT_KNOWN if n.node is None else str(n.node),
        f"{n.speed_mbps / 1000:g} Gbit/s" if n.speed_mbps else NOT_KNOWN,
        str(n.queues or NOT_KNOWN),
        vfs,
    )
