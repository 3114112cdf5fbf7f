# SPDX-License-Identifier: Apache-2.0
"""Hosted VNFs that are killed and started again: each is back before the next is killed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager

from headrace.engine.link_counts import ShmCounts
from headrace.engine.plan_compiler import Path
from headrace.engine.reading import sending
from headrace.errors import HeadraceError
from headrace.ground.contract import ChainHealth
from headrace.ground.hosted.hosted import HostedEngine
from headrace.ground.hosted.vnf import HostedVnf
from headrace.host.state import RunState

_SETTLE_S = 1.0
_BACK_S = 60.0
_BURST = 64  # a queue for one burst of each VNF may hold buffers


class Victims:
    """The part of a hosted chain's deployment that chaos asks."""

    flows_on = False  # where one chain's VNF is down, its packets wait or are lost

    def __init__(
        self, host: HostedEngine, ways: Sequence[Path], state: RunState, frame_bytes: float
    ) -> None:
        self.host, self.frame_bytes, self.ways_count = host, frame_bytes, len(ways)
        self._wires, self._state = ways, state
        self._down: HostedVnf | None = None
        self.restarts = 0

    @property
    def victims(self) -> Sequence[str]:
        return [vnf.vnf.name for vnf in self.host.vnfs]

    @property
    def mbufs_room(self) -> int:
        """More would be a leak. Drivers free what was sent when its place is needed."""
        return _BURST * max(1, len(self.host.vnfs)) + self.host.kept_by_drivers

    def sending(self, load_pps: float, seconds: float) -> AbstractContextManager[None]:
        return sending(self.host, self._wires, load_pps, seconds)

    def up(self) -> Sequence[str]:
        if self._down is not None:
            _bring_back(self._down)
            self._down = None
        return self.victims

    def kill(self, name: str) -> None:
        [self._down] = [vnf for vnf in self.host.vnfs if vnf.vnf.name == name]
        self._down.kill()
        self._down.start()
        self.restarts += 1

    def settle(self) -> Sequence[str]:
        self.up()
        self.host.request("stop")
        self.host.wait_up()
        time.sleep(_SETTLE_S)
        return ()

    def health(self) -> ChainHealth:
        read = self.host.host_read()
        faces = {face.link for one in self.host.vnfs for face in one.vnf.faces}
        shared = (link for name, link in read.links.items() if name in faces)
        sources = [read.source(way.source) for way in self._wires]
        return ChainHealth(
            sent=sum(source.sent for source in sources),
            sending_s=max(source.duration_ns for source in sources) / 1e9,
            received=sum(read.sink(way.sink).received for way in self._wires),
            corrupt=sum(link.corrupt for link in shared if isinstance(link, ShmCounts)),
            updates=0,
            mbufs=read.mbufs_in_use,
        )

    def left(self) -> Sequence[str]:
        path = self._state.path
        sockets = sorted(str(p) for p in path.rglob("*.sock")) if path.exists() else []
        return [*self.host.left(), *sockets, *([str(path)] if path.exists() else [])]


def _bring_back(vnf: HostedVnf) -> None:
    deadline = time.monotonic() + _BACK_S
    vnf.connect()
    while not vnf.alive:
        if time.monotonic() > deadline:
            raise HeadraceError(f"{vnf.vnf.name}: does not come back")
        time.sleep(0.02)
