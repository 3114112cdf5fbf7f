# SPDX-License-Identifier: Apache-2.0
"""In which order VNFs start, and what weights they have meanwhile."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.ground.hosted import vnf as vnf_module
from headrace.ground.hosted.hosted import HostedEngine
from headrace.ground.hosted.parts import Face, Vnf
from headrace.ground.hosted.process import VnfProcess
from headrace.ground.hosted.vnf import HostedVnf, as_they_answer


def process(number: int, lcore: int, folder: Path, did: list[tuple[Any, ...]]) -> VnfProcess:
    """It seems to run."""
    vnf = Vnf(f"vnf{number}", (Face("vf", number, number, "s"),), ("a",), (lcore,), None)
    one = VnfProcess(Path("engine"), vnf, folder, "p", SimpleNamespace())  # type: ignore[arg-type]
    one._process = SimpleNamespace(pid=number, poll=lambda: None)  # type: ignore[assignment]
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
    sockets = up(*engine.vnfs)
    engine._start(2)
    back = [[("connect", i), ("weight", i, 1)] for i in (1, 2, 3)]
    if lcores == (1, 2, 3):
        back = [[one[0]] for one in back]
    first = [("start", 1), ("start", 2), *back[0], *back[1], ("start", 3), *back[2]]
    even = [("weight", 1, 100), ("weight", 2, 100)] if lcores == (1, 1, 2) else []
    assert did == [*first, *even, ("weight", 3, 300)]
    for one in sockets:
        one.close()


def up(*vnfs: HostedVnf) -> list[socket.socket]:
    """Each has a control socket that listens."""
    return [listens(one) for one in vnfs]


def listens(one: HostedVnf) -> socket.socket:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(str(one._socket))
    server.listen()
    return server


def test_who_is_up_first_is_connected_first(tmp_path: Path) -> None:
    """The first of three needs longest: the others poll on its lcore until they have stepped back.
    One that has ended is not waited for, as `connect` says how."""
    first, second, third = (process(i, 1, tmp_path, []) for i in (1, 2, 3))
    open_ones = up(second)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    bound.bind(str(first._socket))  # as an engine does before it starts
    third._process = SimpleNamespace(pid=3, poll=lambda: 1)  # type: ignore[assignment]
    coming = as_they_answer([first, second, third])
    assert [next(coming), next(coming)] == [second, third]
    bound.listen()
    assert list(coming) == [first]
    for one in (*open_ones, bound):
        one.close()


def test_who_is_late_is_connected_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vnf_module, "_START_S", 0.1)
    late = process(1, 1, tmp_path, [])
    assert list(as_they_answer([late])) == [late]


def test_without_a_group_of_its_own_nobody_steps_back(tmp_path: Path) -> None:
    one = process(1, 1, tmp_path, [])
    one._group = None
    one.step_back()
    one.weigh()
    assert not one._back
