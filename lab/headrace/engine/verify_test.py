# SPDX-License-Identifier: Apache-2.0
"""A path is looked at while the lab has a CPU to look with."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.engine import verify
from headrace.engine.plan_compiler import Path

WAY = Path("forward")


class FakeEngine:
    """Its sink has a packet from the third look on, as long as pollers had CPUs for three waits."""

    def __init__(self) -> None:
        self.shielded, self.waits, self.looks = False, 0, 0
        self.asked: list[str] = []

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        self.shielded, self.waits = True, self.waits + 1
        yield
        self.shielded = False

    def request(self, cmd: str, **arguments: Any) -> None:
        assert not self.shielded
        self.asked.append(cmd)

    def read(self) -> SimpleNamespace:
        assert not self.shielded, "the lab would have one part in a hundred of a CPU for it"
        self.looks += 1
        received = int(self.waits >= 3)
        return SimpleNamespace(sink=lambda name: SimpleNamespace(received=received))


def test_pollers_are_shielded_between_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    engine: Any = FakeEngine()
    slept = []
    monkeypatch.setattr(time, "sleep", lambda s: slept.append((s, engine.shielded)))
    before, after = verify._send(engine, WAY, 1)
    assert (before.sink(WAY.sink).received, after.sink(WAY.sink).received) == (0, 1)
    assert len(slept) == 3 and all(shielded for _, shielded in slept)
    assert engine.asked == ["start", "stop"] and engine.looks == 4
