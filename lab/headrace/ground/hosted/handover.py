# SPDX-License-Identifier: Apache-2.0
"""A hosted VNF that gives its flows to another engine, while the host lets its packets wait
(docs/design/checkpoints.md)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from headrace.ground.hosted.hosted import HostedEngine
from headrace.ground.hosted.vnf import HostedVnf
from headrace.record.chaos import HandedOver

_WITHIN_MS = 10_000  # where many share a CPU


@dataclass
class Handover:
    """One VNF at a time."""

    host: HostedEngine
    _since: float = field(default=0.0, init=False)
    _waited: dict[str, int] = field(default_factory=dict, init=False)  # by link, so far
    _most: int = field(default=0, init=False)
    _longest_s: float = field(default=0.0, init=False)
    _late: int = field(default=0, init=False)

    def begin(self, vnf: HostedVnf) -> None:
        """It ends, and can be started again."""
        assert vnf.control is not None
        self._since = time.monotonic()
        for face in vnf.vnf.faces:
            self.host.request("hold", link=face.link)
        vnf.control.request("leave", within_ms=_WITHIN_MS)
        vnf.await_end()

    def end(self, vnf: HostedVnf) -> None:
        """Its successor has what it kept."""
        for face in vnf.vnf.faces:
            told = self.host.request("release", link=face.link, within_ms=_WITHIN_MS)
            self._waited[face.link] = told["waited"]
            self._most = max(self._most, told["most"])
            self._late += "late" in told
        self._longest_s = max(self._longest_s, time.monotonic() - self._since)

    def told(self) -> HandedOver:
        return HandedOver(
            waited=sum(self._waited.values()), most=self._most, longest_ms=self._longest_s * 1e3,
            late=self._late,
        )  # fmt: skip
