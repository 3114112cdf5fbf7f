# SPDX-License-Identifier: Apache-2.0
"""In which order VNFs start, and what weights they have meanwhile."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.ground.hosted import vnf as vnf_module
from headrace.ground.hosted.hosted import HostedEngine
from headrace.ground.hosted.parts import Face, Vnf
from headrace.ground.hosted.process import VnfProcess


def process(number: int, lcore: int, folder: Path, did: list[tuple[Any, ...]]) -> VnfProcess:
    """It seems to run."""
    vnf = Vnf(f"vnf{number}", (Face("vf", number, number, "s"),), ("a",), (lcore,), None)
    one = VnfProcess(Path("engine"), vnf, folder, "p", SimpleNamespace())  # type: ignore[arg-type]
    one._process = SimpleNamespace(pid=number)  # type: ignore[assignment]
    one.start = lambda: did.append(("start", number))  # type: ignore[method-assign]
    one.connect = lambda: did.append(("connect", number))  # type: ignore[method-assign]
    return one


@pytest.mark.parametrize("lcores", [(1, 1, 2), (1, 2, 3)], ids=["shared", "apart"])
def test_who_is_up_leaves_its_lcore_to_who_starts(
    lcores: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is up has next to no weight until all are; then it has the kernel's own, or its share."""
    did: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        vnf_module, "weigh", lambda pid, weight: did.append(("weight", pid, weight))
    )
    engine = object.__new__(HostedEngine)
    engine.notes = ()
    engine.vnfs = [process(i + 1, lcore, tmp_path, did) for i, lcore in enumerate(lcores)]
    engine.vnfs[2].weight = 300
    engine._start(2)
    back = [[("connect", i), ("weight", i, 1)] for i in (1, 2, 3)]
    if lcores == (1, 2, 3):
        back = [[one[0]] for one in back]
    first = [("start", 1), ("start", 2), *back[0], *back[1], ("start", 3), *back[2]]
    even = [("weight", 1, 100), ("weight", 2, 100)] if lcores == (1, 1, 2) else []
    assert did == [*first, *even, ("weight", 3, 300)]


def test_without_a_group_of_its_own_nobody_steps_back(tmp_path: Path) -> None:
    one = process(1, 1, tmp_path, [])
    one._group = None
    one.step_back()
    one.weigh()
    assert not one._back
