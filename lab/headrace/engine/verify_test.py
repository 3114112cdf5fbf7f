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
        return SimpleNamespace(
            sink=lambda name: SimpleNamespace(received=received),
            source=lambda name: SimpleNamespace(state="done", unsent=0),
        )


def test_pollers_are_shielded_between_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    engine: Any = FakeEngine()
    slept = []
    monkeypatch.setattr(time, "sleep", lambda s: slept.append((s, engine.shielded)))
    before, after = verify._send(engine, WAY, 1)
    assert (before.sink(WAY.sink).received, after.sink(WAY.sink).received) == (0, 1)
    assert len(slept) == 3 and all(shielded for _, shielded in slept)
    assert engine.asked == ["start", "stop"] and engine.looks == 4


class SlowEngine:
    """Each look takes as long as a lost packet is waited for, as over SSH to emulated CPUs. Its
    source sends when it has a CPU, by the look `sent`; a packet has come by the look `came`."""

    def __init__(self, sent: int, came: int) -> None:
        self.sent, self.came, self.looks, self.now = sent, came, 0, 0.0

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        yield

    def request(self, cmd: str, **arguments: Any) -> None:
        pass

    def read(self) -> SimpleNamespace:
        self.now += verify._PATIENCE_S
        self.looks += 1
        received, state = (
            int(self.looks > self.came),
            "done" if self.looks > self.sent else "running",
        )
        return SimpleNamespace(
            sink=lambda name: SimpleNamespace(received=received),
            source=lambda name: SimpleNamespace(state=state, unsent=0),
        )


@pytest.mark.parametrize(
    ("sent", "came", "looks", "received"),
    [
        (1, 3, 3, 1),  # looks alone would have taken all the time that a packet has
        (5, 9, 9, 1),  # as would a source without a CPU
        (1, 10_000, verify._LOOKS, 0),
        (10_000, 10_000, int(verify._SENDING_S / verify._PATIENCE_S) + 1, 0),
    ],
)
def test_a_look_that_takes_long_loses_no_packet(
    monkeypatch: pytest.MonkeyPatch, sent: int, came: int, looks: int, received: int
) -> None:
    engine: Any = SlowEngine(sent, came)
    monkeypatch.setattr(time, "sleep", lambda s: None)
    monkeypatch.setattr(time, "monotonic", lambda: engine.now)
    _, after = verify._send(engine, WAY, 1)
    assert after.sink(WAY.sink).received == received
    assert engine.looks - 1 == looks


class StarvedEngine(SlowEngine):
    """Its source has no CPU for the first `starved` times that it is asked to send: by the next
    look what was due is too late, and given up."""

    def __init__(self, starved: int) -> None:
        super().__init__(0, 10_000)
        self.starved, self.asked = starved, [0]

    def request(self, cmd: str, **arguments: Any) -> None:
        if cmd == "start":
            self.asked.append(arguments["sources"][WAY.source]["packets"])
            self.came = 10_000 if len(self.asked) <= self.starved + 1 else self.looks + 1

    def read(self) -> SimpleNamespace:
        unsent = self.asked[-1] if len(self.asked) <= self.starved + 1 else 0
        reading = super().read()
        source = SimpleNamespace(state="done", unsent=unsent)
        return SimpleNamespace(sink=reading.sink, source=lambda name: source)


@pytest.mark.parametrize(("starved", "asked", "received"), [(3, 4, 1), (10_000, 21, 0)])
def test_what_was_not_sent_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, starved: int, asked: int, received: int
) -> None:
    """It is sent then, as often as time allows, and nothing more than that."""
    engine: Any = StarvedEngine(starved)
    monkeypatch.setattr(time, "sleep", lambda s: None)
    monkeypatch.setattr(time, "monotonic", lambda: engine.now)
    _, after = verify._send(engine, WAY, 1)
    assert after.sink(WAY.sink).received == received
    assert engine.asked[1:] == [1] * asked
