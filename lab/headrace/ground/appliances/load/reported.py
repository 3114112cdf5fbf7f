# SPDX-License-Identifier: Apache-2.0
"""What the clients report of one trial, whichever load generator they used."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.record.facts import LcoreTime
from headrace.record.figures import LatencyNs

GRACE_S = 60


@dataclass(frozen=True)
class Load:
    duration_s: float
    bytes: int  # of payload (HTTP: with headers) that the receivers got
    requests: int = 0
    errors: int = 0
    retransmits: int = 0
    loss_ratio: float = 0.0
    latency: LatencyNs | None = None
    packets: Counted | None = None  # where packets, not requests or bytes, are what was sent

    @property
    def gbps(self) -> float:
        return self.bytes * 8 / self.duration_s / 1e9 if self.duration_s else 0.0

    @property
    def requests_per_s(self) -> float:
        return self.requests / self.duration_s if self.duration_s else 0.0


@dataclass(frozen=True)
class Counted:
    """What a generator says that counts packets itself."""

    intended: int
    sent: int
    received: int
    reordered: int = 0
    duplicated: int = 0
    latency_hdr: str | None = None
    behind_s: float | None = None  # at most behind its schedule
    undecided: int = 0  # came too late to be told from duplicates
    clocks: tuple[LcoreTime, ...] = ()  # of its own lcores
    asked_s: float | None = None  # where it is not the workload's duration
    strangers: bool = (
        False  # `received` is an interface's count, and has others' packets in it (ARP)
    )


def whole_seconds(seconds: float) -> int:
    """Most load generators take nothing else."""
    return max(1, round(seconds))
