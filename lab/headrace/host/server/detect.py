# SPDX-License-Identifier: Apache-2.0
"""The server description: sockets, cores, caches, NUMA nodes, memory, hugepages, NICs."""

from __future__ import annotations

import os
import platform
import socket
from pathlib import Path

from headrace.host.server.nics import nics
from headrace.host.server.sysfs import cpu_list, number, numbered, size, text
from headrace.spec.server import Cache, Core, Cpus, Hugepages, NumaNode, Server

_KINDS = {"Data": "data", "Instruction": "instruction", "Unified": "unified"}


def detect(root: Path = Path("/")) -> Server:
    """Read the running machine, or a copy of its /sys and /proc below `root`."""
    system = root / "sys/devices/system"
    info = _cpuinfo(root)
    flags = info.get("flags", "").split()
    cpus = cpu_list(text(system / "cpu/online")) or tuple(range(os.cpu_count() or 1))
    nodes = _nodes(root, system)
    cores = _cores(system, cpus, nodes)
    usable = set(os.sched_getaffinity(0))
    return Server(
        hostname=text(root / "proc/sys/kernel/hostname") or socket.gethostname(),
        architecture=platform.machine(),
        cpu=info.get("model name"),
        hypervisor="hypervisor" in flags if flags else None,
        sockets=len({core.socket for core in cores}) or 1,
        cpus=cpus,
        usable_cpus=tuple(c for c in cpus if c in usable) if root == Path("/") else cpus,
        isolated_cpus=cpu_list(text(system / "cpu/isolated")),
        cores=cores,
        caches=_caches(system, cpus),
        nodes=nodes,
        nics=nics(root),
        memory_bytes=_meminfo(root / "proc/meminfo", "MemTotal:"),
        tsc_invariant={"constant_tsc", "nonstop_tsc"} <= set(flags) if flags else None,
    )


def _cpuinfo(root: Path) -> dict[str, str]:
    facts: dict[str, str] = {}
    for line in (text(root / "proc/cpuinfo") or "").splitlines():
        key, colon, value = line.partition(":")
        if colon:
            facts.setdefault(key.strip(), value.strip())
    return facts


def _meminfo(path: Path, key: str) -> int | None:
    """Figures in bytes. A node's lines begin with `Node 0`."""
    for line in (text(path) or "").splitlines():
        words = line.split()
        if key in words:
            return int(words[words.index(key) + 1]) * 1024
    return None


def _cores(system: Path, cpus: Cpus, nodes: tuple[NumaNode, ...]) -> tuple[Core, ...]:
    threads: dict[tuple[int, int, int], list[int]] = {}
    for cpu in cpus:
        topology = system / f"cpu/cpu{cpu}/topology"
        package = number(topology / "physical_package_id") or 0
        # Core numbers repeat on each die of a socket on some machines.
        die, core = number(topology / "die_id") or 0, number(topology / "core_id")
        threads.setdefault((package, die, cpu if core is None else core), []).append(cpu)
    home = {cpu: node.node for node in nodes for cpu in node.cpus}
    return tuple(
        Core(socket=package, node=home.get(own[0]), core=core, cpus=tuple(own))
        for (package, _, core), own in sorted(threads.items())
    )


def _caches(system: Path, cpus: Cpus) -> tuple[Cache, ...]:
    caches: dict[tuple[int, str, Cpus], Cache] = {}
    for cpu in cpus:
        for _, index in numbered(system / f"cpu/cpu{cpu}/cache", "index"):
            level, kind = number(index / "level"), _KINDS.get(text(index / "type") or "")
            bytes_ = size(index / "size")
            shared = cpu_list(text(index / "shared_cpu_list")) or (cpu,)
            if level is None or kind is None or bytes_ is None:
                continue
            caches[level, kind, shared] = Cache.model_validate(
                {
                    "level": level,
                    "kind": kind,
                    "size_bytes": bytes_,
                    "line_bytes": number(index / "coherency_line_size"),
                    "ways": number(index / "ways_of_associativity") or None,
                    "cpus": shared,
                }
            )
    return tuple(caches[key] for key in sorted(caches))


def _nodes(root: Path, system: Path) -> tuple[NumaNode, ...]:
    nodes = [_node(path, node) for node, path in numbered(system / "node", "node")]
    if nodes:
        return tuple(nodes)
    # A kernel without NUMA has no nodes: the machine is one.
    return (
        NumaNode(
            node=0,
            cpus=cpu_list(text(system / "cpu/online")),
            memory_bytes=_meminfo(root / "proc/meminfo", "MemTotal:"),
            free_bytes=_meminfo(root / "proc/meminfo", "MemFree:"),
            hugepages=_hugepages(root / "sys/kernel/mm/hugepages"),
            distances=(10,),
        ),
    )


def _node(path: Path, node: int) -> NumaNode:
    return NumaNode(
        node=node,
        cpus=cpu_list(text(path / "cpulist")),
        memory_bytes=_meminfo(path / "meminfo", "MemTotal:"),
        free_bytes=_meminfo(path / "meminfo", "MemFree:"),
        hugepages=_hugepages(path / "hugepages"),
        distances=tuple(int(d) for d in (text(path / "distance") or "").split()),
    )


def _hugepages(folder: Path) -> tuple[Hugepages, ...]:
    pools = []
    for pool in folder.glob("hugepages-*kB"):
        kb = pool.name.removeprefix("hugepages-").removesuffix("kB")
        total, free = number(pool / "nr_hugepages"), number(pool / "free_hugepages")
        if kb.isdigit() and total is not None and free is not None:
            pools.append(Hugepages(page_bytes=int(kb) * 1024, total=total, free=free))
    return tuple(sorted(pools, key=lambda p: p.page_bytes))
