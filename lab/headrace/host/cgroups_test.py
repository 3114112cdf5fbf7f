# SPDX-License-Identifier: Apache-2.0
"""A process's weight, in a control group of this machine's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.host import cgroups


@pytest.fixture
def asleep() -> Iterator[int]:
    """A process in a group of its own."""
    name = f"test-{os.getpid()}"
    try:
        group = cgroups.make_inside(cgroups.make(name), "vnf")
    except HeadraceError as why:
        pytest.skip(str(why))
    with subprocess.Popen(group.enter(["sleep", "60"])) as process:
        try:
            while cgroups.weight_of(process.pid) is None or not _is_in(group, process.pid):
                assert process.poll() is None
            yield process.pid
        finally:
            process.kill()
            process.wait()
            assert cgroups.remove(cgroups.name_of(name))
    assert not any(folder.exists() for folder in group.folders)


def _is_in(group: cgroups.Cgroup, pid: int) -> bool:
    return all(str(pid) in (f / "cgroup.procs").read_text().split() for f in group.folders)


@pytest.mark.parametrize("weight", [1, 33, 100, 333, 1000])
def test_a_weight_is_what_the_kernel_says(asleep: int, weight: int) -> None:
    assert cgroups.weight_of(asleep) == 100
    cgroups.weigh(asleep, weight)
    assert cgroups.weight_of(asleep) == weight


def test_who_is_in_no_group_of_its_own_is_not_weighed() -> None:
    """Its weight would be ours, and that of all that is beside us."""
    before = cgroups.weight_of(os.getpid())
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            with pytest.raises(HeadraceError, match="in no control group of its own"):
                cgroups.weigh(process.pid, 500)
        finally:
            process.kill()
    assert cgroups.weight_of(os.getpid()) == before


def test_a_kernel_that_keeps_another_weight_is_told(
    asleep: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "write_text", lambda self, text: len(text))
    with pytest.raises(HeadraceError, match=r"was written, and (1024|100) is there"):
        cgroups.weigh(asleep, 333)
