# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from headrace.host.numa import near, started_near


def two_nodes(folder: Path, first: str, second: str) -> Path:
    for number, cpus in enumerate((first, second)):
        (folder / f"node{number}").mkdir()
        (folder / f"node{number}" / "cpulist").write_text(cpus + "\n")
    return folder


def test_all_of_a_lcores_node(tmp_path: Path) -> None:
    nodes = two_nodes(tmp_path, "0-1,4-5", "2-3,6-7")
    assert near([6], nodes) == {2, 3, 6, 7}
    assert near([0, 3], nodes) == set(range(8))


def test_a_kernel_without_nodes(tmp_path: Path) -> None:
    assert near([3], tmp_path) == {3}


def test_what_is_started_stays_there(tmp_path: Path) -> None:
    here = sorted(os.sched_getaffinity(0))
    nodes = two_nodes(tmp_path, str(here[-1]), "4096")
    command = [sys.executable, "-c", "import os; print(sorted(os.sched_getaffinity(0)))"]
    with started_near([here[-1]], nodes):
        there = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert there.strip() == str([here[-1]])
    assert sorted(os.sched_getaffinity(0)) == here


def test_a_node_without_usable_cpus_binds_nothing(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    with started_near([4096], two_nodes(tmp_path, "0", "4096")):
        assert os.sched_getaffinity(0) == before
