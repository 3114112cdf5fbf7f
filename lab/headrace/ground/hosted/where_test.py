# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from headrace.ground.hosted.vhost_net import vhost_threads
from headrace.ground.hosted.where import (
    _GUESTS,
    MACHINE,
    EngineThread,
    Whereabouts,
    keep_places,
    memory,
    page_sizes,
    placement_finding,
    segments_places,
    whereabouts,
)

# Lines as Linux 6.1 writes them.
MAPS = """\
55df455f5000 default file=/usr/bin/headrace-engine mapped=300 N0=300 kernelpagesize_kB=4
55df641ba000 default heap anon=4 dirty=4 active=0 N0=1 N1=3 kernelpagesize_kB=4
7f0100000000 default file=/memfd:nohuge\\040(deleted) dirty=96 N0=32 N1=64 kernelpagesize_kB=4
7f0200000000 default file=/memfd:headrace-shm\\040(deleted) dirty=9 N0=9 kernelpagesize_kB=4
7f0300000000 default file=/dev/hugepages/rtemap_3 huge anon=2 dirty=2 N1=2 kernelpagesize_kB=2048
7f0380000000 default file=/memfd:seg_0\\040(deleted) huge dirty=3 N0=3 kernelpagesize_kB=2048
7ffd58f7c000 default stack anon=3 dirty=3 N1=3 kernelpagesize_kB=4
"""


def test_own_memory_by_node() -> None:
    """Neither the program's file nor what it shares with the host's engine is its own."""
    assert memory(MAPS) == {0: 4 + 128 + 6144, 1: 12 + 256 + 4096 + 12}


def test_a_machines_memory_is_its_own_only() -> None:
    """The host's engine has it mapped, too, to put packets there."""
    line = "7f04 default file=/memfd:memory-backend-memfd\\040(deleted) N1=8 kernelpagesize_kB=4\n"
    assert memory(MAPS + line) == memory(MAPS)
    assert memory(line, _GUESTS) == {1: 32}


def test_this_process() -> None:
    """Read from the running kernel: a thread pinned to one CPU is found there."""
    here = sorted(os.sched_getaffinity(0))
    ready, over = threading.Event(), threading.Event()

    def pinned() -> None:
        os.sched_setaffinity(0, {here[-1]})
        ready.set()
        over.wait()

    thread = threading.Thread(target=pinned)
    thread.start()
    try:
        ready.wait()
        place = whereabouts("me", os.getpid(), here)
    finally:
        over.set()
        thread.join()
    assert len(place.threads) >= 2
    assert any(one.allowed == (here[-1],) and one.cpu == here[-1] for one in place.threads)
    assert sum(place.kb.values()) > 1024 and place.local_share > 0


def at(cpu: int, allowed: tuple[int, ...]) -> EngineThread:
    return EngineThread(name="lcore-worker-1", allowed=allowed, cpu=cpu, works=True)


def test_what_is_astray_is_said() -> None:
    fine = Whereabouts(name="vnf", lcores=(0,), threads=(at(0, (0,)),), kb={0: 100})
    assert fine.astray() == []
    away = Whereabouts(name="vnf", lcores=(0,), threads=(at(1, (0, 1)),), kb={0: 10, 7: 90})
    assert away.astray() == [
        "vnf: lcore-worker-1 may run on [0, 1]",
        "vnf: lcore-worker-1 ran on lcore 1",
        "vnf: 10% of its memory is on node 0",
    ]
    idle = Whereabouts(name="vnf", lcores=(0,), threads=(), kb={0: 1})
    assert idle.astray() == ["vnf: has no worker"]


GIB = "7f05 bind:1 file=/memfd:memory-backend-memfd huge N1=2 kernelpagesize_kB=1048576\n"


def test_sizes_of_pages() -> None:
    assert page_sizes(MAPS) == {4: 16 + 384 + 12, 2048: 4096 + 6144}
    assert page_sizes(GIB, _GUESTS) == {1 << 20: 2 << 20}
    machine = {"name": "vm", "lcores": (0,), "threads": (at(0, (0,)),), "kb": {0: 1}}
    asked = {**machine, "asked_page_kb": 1 << 20}
    assert Whereabouts(**asked, page_kb={1 << 20: 1 << 20, 4: 9000}).astray() == []
    assert Whereabouts(**asked, page_kb={2048: 1 << 20}).astray() == [
        "vm: 0% of its memory is in pages of 1048576 kB"
    ]
    process = {**machine, "asked_page_kb": 2048, "asked_kb": 64 << 10}
    assert Whereabouts(**process, page_kb={2048: 64 << 10, 4: 64 << 10}).astray() == []
    assert Whereabouts(**process, page_kb={2048: 62 << 10, 4: 4}).astray() == [
        "vm: 62 MB of the 64 that were asked for are in pages of 2048 kB"
    ]


def test_a_finding_names_who_is_astray(tmp_path: Path) -> None:
    fine = Whereabouts(name="vnf", lcores=(0,), threads=(at(0, (0,)),), kb={0: 100})
    away = fine.model_copy(update={"name": "other", "threads": (at(1, (1,)),)})
    assert placement_finding([fine]).ok
    finding = placement_finding([fine, away])
    assert not finding.ok and finding.value == 2
    assert "other: lcore-worker-1 may run on [1]" in finding.text
    keep_places(tmp_path, "a", [fine])
    keep_places(tmp_path, "b", [away])
    keep_places(tmp_path, "a", [fine, fine])
    kept = json.loads((tmp_path / "samples/where.json").read_text())
    written = fine.model_dump(mode="json")
    assert kept == {"a": [written, written], "b": [away.model_dump(mode="json")]}


def thread(task: Path, tid: int, name: str, cpu: int) -> None:
    folder = task / str(tid)
    folder.mkdir(parents=True)
    fields = " ".join(["0"] * 36)
    (folder / "stat").write_text(f"{tid} ({name}) S {fields.rsplit(' ', 1)[0]} {cpu} 0 0\n")


def test_segments_of_one_engine_have_their_own_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each lcore of a segment has a worker; a lcore without one, and a worker that may run
    elsewhere, are said by the segment's name."""
    allowed = {7: {0}, 8: {1}, 9: {0, 1}}
    monkeypatch.setattr(os, "sched_getaffinity", lambda tid: allowed[tid])
    for tid, name, cpu in ((7, "rte-worker-0", 0), (8, "rte-worker-1", 1), (9, "control", 0)):
        thread(tmp_path / "5/task", tid, name, cpu)
    (tmp_path / "5/numa_maps").write_text("7f anon=3 N0=300 kernelpagesize_kB=4\n")
    split, both, away = segments_places(5, {"split": (0,), "both": (0, 1), "away": (2,)}, tmp_path)
    assert [one.name for one in split.threads] == ["rte-worker-0"] and split.astray() == []
    assert len(both.threads) == 2 and both.astray() == [] and both.kb == {0: 1200}
    assert away.astray()[:2] == ["away: has no worker", "away: no worker may run on lcore 2"]
    allowed[8] = {0, 1}
    assert segments_places(5, {"split": (0,)}, tmp_path)[0].astray() == [
        "split: rte-worker-1 may run on [0, 1]", "split: rte-worker-1 ran on lcore 1",
    ]  # fmt: skip


def test_threads_of_vhost_net_are_the_kernels(tmp_path: Path) -> None:
    """Up to Linux 6.3 they are no threads of QEMU's."""
    for pid, comm in (("7", "vhost-42"), ("8", "vhost-4"), ("42", "qemu-system-x86")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "comm").write_text(f"{comm}\n")
    assert vhost_threads(42, tmp_path) == [tmp_path / "7"]
    assert MACHINE.match("vhost-42") and MACHINE.match("CPU 0/KVM")
    machine = Whereabouts(name="vm", lcores=(0,), threads=(at(0, (0,)),), kb={0: 1}, vhost=True)
    assert machine.astray() == ["vm: has no thread of vhost-net"]
    moved = EngineThread(name="vhost-42", allowed=(0, 1), cpu=0, works=True)
    threads = (*machine.threads, moved)
    assert machine.model_copy(update={"threads": threads}).astray() == [
        "vm: vhost-42 may run on [0, 1]"
    ]


def test_a_replica_that_has_more_packets_than_chance_gives_it_is_told() -> None:
    """A half of 2500 flows has a standard error of 1 %, and five of those are no chance."""
    chain = Whereabouts(
        name="chain", lcores=(0, 1), threads=(), kb={}, packets={0: 5490, 1: 4510}, flows=2500
    )
    told = chain.model_copy(update={"packets": {0: 5540, 1: 4460}})
    assert not chain._parts_astray()
    assert told._parts_astray() == [
        f"chain: lcore {cpu} got {part}% of the packets, where 50% are its part (by 2500 flows 5% "
        "more or less)"
        for cpu, part in ((0, 55), (1, 45))
    ]
    assert told._parts_astray()[0] in told.astray()
    assert not told.model_copy(update={"flows": None})._parts_astray()
    few = told.model_copy(update={"packets": {0: 60, 1: 40}})  # so many packets have no more flows
    assert not few._parts_astray()
