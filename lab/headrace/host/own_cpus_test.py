# SPDX-License-Identifier: Apache-2.0
"""Described servers: two sockets of four cores with two threads each, numbered as Linux does."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from headrace.host.own_cpus import CpuSets, cpu_sets, housekeeping, lcores_of

CORES = 8
THREADS = {cpu: (cpu % CORES, cpu % CORES + CORES) for cpu in range(2 * CORES)}
ALL = frozenset(THREADS)


def server(
    isolated: Iterable[int] = (),
    tickless: Iterable[int] = (),
    cpuset: set[int] | None = None,
    affinity: set[int] | None = None,
) -> list[int]:
    own = ALL - set(isolated) if affinity is None else affinity
    return lcores_of(
        CpuSets(ALL, frozenset(isolated), frozenset(tickless),
                frozenset(ALL if cpuset is None else cpuset), frozenset(own), THREADS)
    )  # fmt: skip


def test_one_thread_of_each_core_is_first() -> None:
    assert server() == [*range(16)]


def test_isolated_cpus_are_ours_and_first() -> None:
    """As `isolcpus=2-7,10-15` has it: all but two cores, whose threads are for the rest."""
    isolated = {*range(2, 8), *range(10, 16)}
    assert server(isolated) == [*range(2, 8), *range(10, 16), 0, 1, 8, 9]
    # Those without ticks are before others, second threads or not.
    assert server(isolated, tickless={6, 7, 14, 15})[:6] == [6, 7, 14, 15, 2, 3]


def test_second_threads_alone_are_each_a_core() -> None:
    assert server(isolated={10, 11, 12})[:3] == [10, 11, 12]


@pytest.mark.parametrize(
    ("cpuset", "affinity", "ours"),
    [
        (None, {0, 1}, [0, 1]),  # taskset: it is meant
        ({0, 1, 2, 3}, {0, 1}, [2, 3, 0, 1]),  # the group has two of the isolated ones
        ({0, 1}, {0, 1}, [0, 1]),  # and here none
        (None, {4, 5}, [4, 5]),  # isolated ones by taskset: these alone
    ],
)
def test_a_narrower_choice_is_kept(
    cpuset: set[int] | None, affinity: set[int], ours: list[int]
) -> None:
    assert server({*range(2, 8)}, cpuset=cpuset, affinity=affinity) == ours


def test_cpus_that_are_offline_are_nobodys() -> None:
    sets = CpuSets(frozenset({0, 1}), frozenset({1, 2}), frozenset(), frozenset(), frozenset({0}),
                   {0: (0,), 1: (1,)})  # fmt: skip
    assert lcores_of(sets) == [1, 0]


def test_the_kernels_lists_are_read(tmp_path: Path) -> None:
    cpus = tmp_path / "sys/devices/system/cpu"
    for cpu in range(4):
        (cpus / f"cpu{cpu}/topology").mkdir(parents=True)
        (cpus / f"cpu{cpu}/topology/thread_siblings_list").write_text(f"{cpu % 2},{cpu % 2 + 2}\n")
    for name, listed in (("online", "0-3"), ("isolated", "1,3"), ("nohz_full", "3")):
        (cpus / name).write_text(f"{listed}\n")
    group = tmp_path / "sys/fs/cgroup/cpuset/run"
    group.mkdir(parents=True)
    (group / "cpuset.effective_cpus").write_text("0-2\n")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("2:cpu:/\n3:cpuset:/run\n0::/\n")
    sets = cpu_sets(tmp_path)
    read = (*map(sorted, (sets.online, sets.isolated, sets.tickless, sets.cpuset)), sets.threads[3])
    assert read == ([0, 1, 2, 3], [1, 3], [3], [0, 1, 2], (1, 3))
    assert sets.affinity == os.sched_getaffinity(0)


def test_this_machine_has_what_its_kernel_gives() -> None:
    assert set(lcores_of(cpu_sets())) >= os.sched_getaffinity(0)


@pytest.mark.parametrize(
    ("lcores", "isolated", "left"),
    [
        ([1, 2], (), {0, *range(3, 9), *range(11, 16)}),  # 9 and 10 are their other threads
        ([*range(2, 8)], {*range(2, 8), *range(10, 16)}, {0, 1, 8, 9}),
        ([2, 3], {*range(2, 8), *range(10, 16)}, {0, 1, 8, 9}),
        ([*range(8)], (), set()),
    ],
)
def test_housekeeping_is_on_no_core_of_traffic(
    lcores: list[int], isolated: Iterable[int], left: set[int]
) -> None:
    """By hand; isolated CPUs are in nobody's affinity, and none of them is taken."""
    own = frozenset(isolated)
    assert housekeeping(lcores, CpuSets(ALL, own, frozenset(), ALL, ALL - own, THREADS)) == left
    assert housekeeping(lcores, CpuSets(ALL, own, frozenset(), ALL, ALL, THREADS)) == left
