# SPDX-License-Identifier: Apache-2.0
"""VNFs killed at random and started again under traffic: the host must never notice."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.engine.plan import Path
from headrace.errors import HeadraceError
from headrace.ground.hosted.hosted import HostedEngine
from headrace.ground.hosted.vnf import HostedVnf

Json = dict[str, Any]
_SETTLE_S = 1.0
_BACK_S = 60.0


@dataclass
class Outcome:
    seconds: float = 0.0
    kills: dict[str, int] = field(default_factory=dict)
    sent: int = 0
    received: int = 0
    corrupt: int = 0
    mbufs_before: int = 0
    mbufs_after: int = 0
    mbufs_kept: int = 0  # at most, by drivers: what was sent is freed when its place is needed
    still: int = 0  # times that no packet at all came through between two kills
    left: tuple[str, ...] = ()  # what the run left on the machine, found when it was over

    @property
    def passed(self) -> bool:
        """A queue for one burst of each VNF may hold buffers; more would be a leak."""
        room = 64 * max(1, len(self.kills)) + self.mbufs_kept
        return not self.left and self.corrupt == 0 and self.mbufs_after <= self.mbufs_before + room


def chaos(
    engine: HostedEngine,
    ways: Sequence[Path],
    rate_pps: float,
    seconds: float,
    every_s: float,
    seed: int,
    say: Callable[[str], None],
) -> Outcome:
    """`rate_pps` in each direction."""
    choose = random.Random(seed)
    outcome = Outcome(mbufs_before=int(engine.host_read()["mbufs_in_use"]))
    outcome.mbufs_kept = engine.kept_by_drivers
    outcome.kills = {vnf.vnf.name: 0 for vnf in engine.vnfs}
    each = {"rate_pps": rate_pps, "duration_s": seconds * 2}
    engine.request("start", sources={way.source: each for way in ways})
    began, came = time.monotonic(), 0
    down: HostedVnf | None = None
    turn = 0
    while time.monotonic() - began < seconds:
        _bring_back(down)
        now = _sum(engine.host_read(), [way.sink for way in ways], "received")
        outcome.still += now == came and turn > 0
        came = now
        down = choose.choice(engine.vnfs)
        down.kill()
        outcome.kills[down.vnf.name] += 1
        down.start()
        turn += 1
        if turn % 60 == 0:
            say(f"{sum(outcome.kills.values())} kills, {came} packets came through")
        time.sleep(max(0.0, began + turn * every_s - time.monotonic()))
    _bring_back(down)
    engine.request("stop")
    engine.wait_up()
    time.sleep(_SETTLE_S)
    after = engine.host_read()
    outcome.seconds = time.monotonic() - began
    outcome.sent = _sum(after, [way.source for way in ways], "sent")
    outcome.received = _sum(after, [way.sink for way in ways], "received")
    outcome.mbufs_after = int(after["mbufs_in_use"])
    faces = [face for one in engine.vnfs for face in one.vnf.faces]
    outcome.corrupt = _sum(after, [face.link for face in faces], "corrupt")
    return outcome


def _sum(reading: Json, links: Sequence[str], key: str) -> int:
    return sum(int(reading["links"].get(link, {}).get(key, 0)) for link in links)


def _bring_back(vnf: HostedVnf | None) -> None:
    if vnf is None:
        return
    deadline = time.monotonic() + _BACK_S
    vnf.connect()
    while not vnf.alive:
        if time.monotonic() > deadline:
            raise HeadraceError(f"{vnf.vnf.name}: does not come back")
        time.sleep(0.02)
