# SPDX-License-Identifier: Apache-2.0
"""Where a chain really is: the CPUs of its threads, the NUMA nodes of its pages, its packets.

What a placement asks for and what the kernel did may differ; /proc tells (sched_getaffinity(2),
field 39 of /proc/PID/stat, /proc/PID/numa_maps), and counters which replica got which packets.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import Field, RootModel, computed_field

from headrace.ground.hosted.cpus import describe_cpu
from headrace.ground.hosted.run_queue import WORKER
from headrace.ground.hosted.vhost_net import VHOST, vhost_threads
from headrace.record.bundle import write_whole
from headrace.record.frozen import Record
from headrace.record.verdict import Finding

_PROC = Path("/proc")
_PROCESSOR = 36  # field 39 of proc(5), counted behind the command's name
_ON_NODE = re.compile(r"N(\d+)=(\d+)")
_KB = re.compile(r"kernelpagesize_kB=(\d+)")
# DPDK's memory with and without hugepages. Libraries are not a VNF's own, nor is what it shares.
_PACKETS = re.compile(r"file=(/memfd:nohuge|/memfd:seg_\d|\S*/rtemap_)")
_GUESTS = re.compile(r"file=/memfd:memory-backend")  # QEMU's, which the host's engine maps, too
# QEMU's threads of vCPUs, and the kernel's that move their packets.
MACHINE = re.compile(rf"CPU \d+/(?:KVM|TCG)|{VHOST}")
# Standard errors that a replica's part of the packets may be off by the flows that chance gave it:
# one of 1.7 million is further off.
_CHANCE = 5.0
LOCAL_LEAST = 0.9  # a few pages were touched before a thread was where it is
WHERE_FILE = "where.json"  # among a bundle's samples


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
    page_kb: dict[int, int] = Field(
        default_factory=dict
    )  # size of its pages in kB -> of its own memory
    asked_page_kb: int | None = None  # the size that its memory was to have
    asked_kb: int | None = None  # and how much of it; None: nearly all
    vhost: bool = False  # the kernel was to move its packets
    segment: bool = False  # of an engine with several: a worker of its own on each lcore
    packets: dict[int, int] = Field(default_factory=dict)  # lcore -> that its replica got meanwhile
    flows: int | None = None  # that these are of, one as likely as another

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
        if self.segment:
            held = {cpu for thread in self.workers for cpu in thread.allowed}
            left = sorted(set(self.lcores) - held)
            wrong += [f"{self.name}: no worker may run on lcore {cpu}" for cpu in left]
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
        if self.vhost and not any(re.match(VHOST, one.name) for one in self.threads):
            wrong.append(f"{self.name}: has no thread of vhost-net")
        return [*wrong, *self._pages_astray(), *self._parts_astray()]

    def _parts_astray(self) -> list[str]:
        """Each replica has an equal part of what writers steer by."""
        total, replicas = sum(self.packets.values()), len(self.packets)
        if self.flows is None or replicas < 2 or not total:
            return []
        due = 1 / replicas
        chance = _CHANCE * math.sqrt(due * (1 - due) / min(self.flows, total))
        return [
            f"{self.name}: lcore {cpu} got {got / total:.0%} of the packets, where {due:.0%} are "
            f"its part (by {min(self.flows, total)} flows {chance:.0%} more or less)"
            for cpu, got in sorted(self.packets.items())
            if abs(got / total - due) > chance
        ]

    def _pages_astray(self) -> list[str]:
        asked = self.asked_page_kb
        if asked is None:
            return []
        there, whole = self.page_kb.get(asked, 0), sum(self.page_kb.values()) or 1
        if self.asked_kb is not None:
            short = there < self.asked_kb
            text = f"{there >> 10} MB of the {self.asked_kb >> 10} that were asked for are"
        else:
            short = there / whole < LOCAL_LEAST
            text = f"{there / whole:.0%} of its memory is"
        return [f"{self.name}: {text} in pages of {asked} kB"] if short else []


class WhereOutput(Record):
    """What `headrace hosting where` prints."""

    placement: str
    nic_node: int
    as_placed: bool
    astray: tuple[str, ...]  # what is not where its placement says, as sentences
    engines: tuple[Whereabouts, ...]


class KeptPlaces(RootModel[dict[str, tuple[Whereabouts, ...]]]):
    """The engines of each deployment of a run, as they were when it was last looked."""


def whereabouts(
    name: str,
    pid: int,
    lcores: Iterable[int],
    proc: Path = _PROC,
    workers: re.Pattern[str] = WORKER,
    asked_page_kb: int | None = None,
    vhost: bool = False,
    asked_kb: int | None = None,
) -> Whereabouts:
    """`workers`: what the threads that carry packets are called, MACHINE for a virtual machine."""
    folder = proc / str(pid)
    tasks = sorted((folder / "task").iterdir())
    if workers is MACHINE:
        tasks += vhost_threads(pid, proc)
    maps = (folder / "numa_maps").read_text(errors="replace")
    packets = _GUESTS if workers is MACHINE else _PACKETS
    return Whereabouts(
        name=name,
        lcores=tuple(lcores),
        threads=tuple(_thread(task, workers) for task in tasks),
        kb=memory(maps, packets),
        page_kb=page_sizes(maps, packets),
        asked_page_kb=asked_page_kb,
        asked_kb=asked_kb,
        vhost=vhost,
    )


def segments_places(
    pid: int, segments: Mapping[str, Sequence[int]], proc: Path = _PROC
) -> list[Whereabouts]:
    """Where the segments of one engine are, by name and lcores: those of its workers that may run
    on these, and the memory that all of them have."""
    whole = whereabouts("engine", pid, (), proc)
    return [
        whole.model_copy(
            update={
                "name": name,
                "lcores": tuple(lcores),
                "threads": tuple(t for t in whole.workers if set(t.allowed) & set(lcores)),
                "segment": True,
            }
        )
        for name, lcores in segments.items()
    ]


def placement_finding(places: Sequence[Whereabouts]) -> Finding:
    """What a trial's audit is told of it."""
    astray = [line for engine in places for line in engine.astray()]
    text = f"Threads and memory of {', '.join(one.name for one in places)} are where placed."
    if astray:
        text = f"Not where its placement says: {'; '.join(astray)}."
    return Finding(check="placement", ok=not astray, text=text, value=float(len(astray)), limit=0)


def keep_places(bundle: Path | None, deployment: str, places: Sequence[Whereabouts]) -> None:
    """Puts it beside what is known of the run's other deployments."""
    if bundle is None:
        return
    file = bundle / "samples" / WHERE_FILE
    file.parent.mkdir(exist_ok=True)
    whole = json.loads(file.read_text()) if file.exists() else {}
    whole[deployment] = [one.model_dump(mode="json") for one in places]
    write_whole(file, json.dumps(whole, indent=1) + "\n")


def _thread(task: Path, workers: re.Pattern[str]) -> EngineThread:
    text = (task / "stat").read_text(errors="replace")
    name = text[text.index("(") + 1 : text.rindex(")")]
    cpu = int(text.rpartition(")")[2].split()[_PROCESSOR])
    allowed = tuple(sorted(os.sched_getaffinity(int(task.name))))
    return EngineThread(name=name, allowed=allowed, cpu=cpu, works=bool(workers.match(name)))


def memory(numa_maps: str, packets: re.Pattern[str] = _PACKETS) -> dict[int, int]:
    """Node -> kB of the process's own memory: DPDK's, heap, stacks."""
    nodes: dict[int, int] = {}
    for node, size, pages in _own_pages(numa_maps, packets):
        nodes[node] = nodes.get(node, 0) + pages * size
    return nodes


def page_sizes(numa_maps: str, packets: re.Pattern[str] = _PACKETS) -> dict[int, int]:
    """Size of a page in kB -> kB of the process's own memory in such pages."""
    sizes: dict[int, int] = {}
    for _, size, pages in _own_pages(numa_maps, packets):
        sizes[size] = sizes.get(size, 0) + pages * size
    return sizes


def _own_pages(numa_maps: str, packets: re.Pattern[str]) -> Iterator[tuple[int, int, int]]:
    """Node, size of a page in kB, number of pages."""
    for line in numa_maps.splitlines():
        own = packets.search(line) or ("file=" not in line and "anon=" in line)
        size = _KB.search(line)
        if not own or size is None:
            continue
        for node, pages in _ON_NODE.findall(line):
            yield int(node), int(size[1]), int(pages)
