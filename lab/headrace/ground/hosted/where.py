# SPDX-License-Identifier: Apache-2.0
"""Where a hosted chain really is: the CPUs of its threads, the NUMA nodes of its pages.

What a placement asks for and what the kernel did may differ; /proc tells (sched_getaffinity(2),
field 39 of /proc/PID/stat, /proc/PID/numa_maps).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from pydantic import computed_field

from headrace.ground.hosted.cpus import describe_cpu
from headrace.ground.hosted.run_queue import WORKER
from headrace.record.frozen import Record

_PROC = Path("/proc")
_PROCESSOR = 36  # field 39 of proc(5), counted behind the command's name
_ON_NODE = re.compile(r"N(\d+)=(\d+)")
_KB = re.compile(r"kernelpagesize_kB=(\d+)")
# DPDK's memory with and without hugepages. Libraries are not a VNF's own, nor is what it shares.
_PACKETS = re.compile(r"file=(/memfd:nohuge|/memfd:memseg|\S*/rtemap_)")
_GUESTS = re.compile(r"file=/memfd:memory-backend")  # QEMU's, which the host's engine maps, too
MACHINE = re.compile(r"CPU \d+/(?:KVM|TCG)")  # QEMU's threads of vCPUs
LOCAL_LEAST = 0.9  # a few pages were touched before a thread was where it is


class EngineThread(Record):
    name: str
    allowed: tuple[int, ...]
    cpu: int  # where it ran last
    works: bool  # carries packets

    @computed_field  # type: ignore[prop-decorator]
    @property
    def node(self) -> int:
        return describe_cpu(self.cpu).node


class Whereabouts(Record):
    """Where one engine is."""

    name: str
    lcores: tuple[int, ...]  # that it was to run on
    threads: tuple[EngineThread, ...]
    kb: dict[int, int]  # NUMA node -> of its own memory

    @property
    def workers(self) -> tuple[EngineThread, ...]:
        return tuple(thread for thread in self.threads if thread.works)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(sorted({describe_cpu(cpu).node for cpu in self.lcores}))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def local_share(self) -> float:
        """Share of its memory that is on the nodes of its lcores."""
        return sum(kb for node, kb in self.kb.items() if node in self.nodes) / (
            sum(self.kb.values()) or 1
        )

    def astray(self) -> list[str]:
        """What is not where it was to be."""
        wrong = [] if self.workers else [f"{self.name}: has no worker"]
        for thread in self.workers:
            if not set(thread.allowed) <= set(self.lcores):
                wrong.append(f"{self.name}: {thread.name} may run on {list(thread.allowed)}")
            if thread.cpu not in self.lcores:
                wrong.append(f"{self.name}: {thread.name} ran on lcore {thread.cpu}")
        if self.local_share < LOCAL_LEAST:
            wrong.append(
                f"{self.name}: {self.local_share:.0%} of its memory is on node "
                f"{', '.join(map(str, self.nodes))}"
            )
        return wrong


class WhereOutput(Record):
    """headrace hosting where"""

    placement: str
    nic_node: int
    as_placed: bool
    astray: tuple[str, ...]  # what is not where its placement says, as sentences
    engines: tuple[Whereabouts, ...]


def whereabouts(
    name: str,
    pid: int,
    lcores: Iterable[int],
    proc: Path = _PROC,
    workers: re.Pattern[str] = WORKER,
) -> Whereabouts:
    """`workers`: what the threads that carry packets are called, MACHINE for a virtual machine."""
    folder = proc / str(pid)
    threads = [_thread(task, workers) for task in sorted((folder / "task").iterdir())]
    maps = (folder / "numa_maps").read_text(errors="replace")
    packets = _GUESTS if workers is MACHINE else _PACKETS
    return Whereabouts(
        name=name, lcores=tuple(lcores), threads=tuple(threads), kb=memory(maps, packets)
    )


def _thread(task: Path, workers: re.Pattern[str]) -> EngineThread:
    text = (task / "stat").read_text(errors="replace")
    name = text[text.index("(") + 1 : text.rindex(")")]
    cpu = int(text.rpartition(")")[2].split()[_PROCESSOR])
    allowed = tuple(sorted(os.sched_getaffinity(int(task.name))))
    return EngineThread(name=name, allowed=allowed, cpu=cpu, works=bool(workers.match(name)))


def memory(numa_maps: str, packets: re.Pattern[str] = _PACKETS) -> dict[int, int]:
    """Node -> kB of the process's own memory: DPDK's, heap, stacks."""
    nodes: dict[int, int] = {}
    for line in numa_maps.splitlines():
        own = packets.search(line) or ("file=" not in line and "anon=" in line)
        size = _KB.search(line)
        if not own or size is None:
            continue
        for node, pages in _ON_NODE.findall(line):
            nodes[int(node)] = nodes.get(int(node), 0) + int(pages) * int(size[1])
    return nodes
