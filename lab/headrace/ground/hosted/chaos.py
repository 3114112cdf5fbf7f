# SPDX-License-Identifier: Apache-2.0
"""Hosted VNFs that are killed, or replaced, and started again: each is back before the next."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager

from headrace.engine.counts import CheckpointCounts
from headrace.engine.link_counts import ShmCounts
from headrace.engine.plan_compiler import Path
from headrace.engine.reading import sending
from headrace.errors import HeadraceError
from headrace.ground.contract import ChainHealth
from headrace.ground.hosted.handover import Handover
from headrace.ground.hosted.hosted import HostedEngine
from headrace.ground.hosted.vnf import HostedVnf
from headrace.host.state import RunState
from headrace.record.chaos import HandedOver, TakenOver

_SETTLE_S = 1.0
_BACK_S = 60.0
_BURST = 64  # a queue for one burst of each VNF may hold buffers


class Victims:
    """The part of a hosted chain's deployment that chaos asks."""

    flows_on = False  # where one chain's VNF is down, its packets wait or are lost

    def __init__(
        self, host: HostedEngine, ways: Sequence[Path], state: RunState, frame_bytes: float,
        handover: Handover | None = None,
    ) -> None:  # fmt: skip
        """`handover`: how VNFs are replaced, where none is killed."""
        self._handover = handover
        self.host, self.frame_bytes, self.ways_count = host, frame_bytes, len(ways)
        self._wires, self._state = ways, state
        self._down: HostedVnf | None = None
        self._keeps = host.keeps
        self._checkpoints: list[CheckpointCounts] = []
        self._last: list[CheckpointCounts] = []
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
            self._up(self._down)
            self._down = None
        return self.victims

    def _up(self, vnf: HostedVnf) -> None:
        _bring_back(vnf)
        if self._handover is not None:
            self._handover.end(vnf)
        self._tell(vnf)

    def _tell(self, vnf: HostedVnf) -> None:
        """What it took over, before the next one is killed."""
        if not self._keeps:
            return
        assert vnf.control is not None
        vnf.control.send("read")
        self._checkpoints.extend(
            one.checkpoint for one in vnf.read().replicas if one.checkpoint is not None
        )

    def taken(self) -> TakenOver | None:
        if not self._keeps:
            return None
        restored = [one.restored for one in self._checkpoints]
        return TakenOver(
            restarts=len(restored),
            live=sum(one.live for one in restored),
            restored=sum(one.restored for one in restored),
            expired=sum(one.expired for one in restored),
            lost=sum(one.lost for one in restored),
            refused=sum(one.refused for one in restored),
            oldest_ms=max((one.oldest_ns for one in restored), default=0) / 1e6,
            pass_ms=max((one.pass_ns for one in self._last), default=0) / 1e6,
            most_at_once=max((one.most_at_once for one in self._last), default=0),
        )

    def handed_over(self) -> HandedOver | None:
        return None if self._handover is None else self._handover.told()

    def kill(self, name: str) -> None:
        [vnf] = [one for one in self.host.vnfs if one.vnf.name == name]
        self.restarts += 1
        if self._handover is None:
            vnf.kill()
            vnf.start()
            self._down = vnf
            return
        self._handover.begin(vnf)
        vnf.start()
        self._up(vnf)  # at once: packets wait for it

    def settle(self) -> Sequence[str]:
        self.up()
        self.host.request("stop")
        self.host.wait_up()
        if self._keeps:
            read = self.host.read().replicas
            self._last = [one.checkpoint for one in read if one.checkpoint is not None]
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
    vnf.weigh()
