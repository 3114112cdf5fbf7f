# SPDX-License-Identifier: Apache-2.0
"""What the engine says of a link, by the link's type (docs/design/contracts.md)."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field

from headrace.engine.growing import Counts
from headrace.record.latency import Histogram

Sizes = dict[str, int]  # size class of RFC 2819: packets
Ends = dict[str, Sizes]  # by owner: forward, reverse, created


class SourceCounts(Counts):
    """One trial's packets."""

    type: Literal["source"]
    state: Literal["idle", "running", "done"]
    intended: int
    sent: int
    sent_bytes: int
    sizes: Sizes
    unsent: int
    no_mbuf: int
    behind_max_ns: int
    duration_ns: int
    intended_duration_ns: int
    flows: int
    rate_pps: float

    def since(self, was: Self | None) -> Self:
        return self


class OwnCounts(Counts):
    """Packets of sources, each once."""

    packets: int
    bytes: int
    sizes: Sizes


class WithinCounts(Counts):
    """What had arrived when the trial's duration had passed since the first arrival."""

    received: int
    stamped: int
    matched: int
    duplicated: int
    own_packets: int
    own_bytes: int


class SinkCounts(Counts):
    """One trial's packets."""

    type: Literal["sink"]
    received: int
    bytes: int
    stamped: int
    matched: int
    unknown: int
    ambiguous: int
    late: int
    foreign: int
    lost: int
    reordered: int
    duplicated: int
    flows: int
    latency: Histogram
    ipdv_ns_mean: float
    ipdv_count: int
    duration_ns: int
    created: int
    undecided: int
    own: OwnCounts
    within: WithinCounts
    full: int = 0

    def since(self, was: Self | None) -> Self:
        return self


class RingCounts(Counts):
    momentary = frozenset({"size", "rings", "used", "used_each"})

    type: Literal["ring"]
    size: int
    rings: int
    used: int
    used_each: tuple[int, ...] = ()  # of the ring of each reading replica
    full: int = 0
    ended: Ends = {}  # of `full`, those that segments had counted that are no more


class LinkTimes(Counts):
    """How long packets took, in sum; the percentiles are of all since the engine started."""

    momentary = frozenset({"p50_ns", "p99_ns"})

    count: int = 0
    sum_ns: int = 0
    p50_ns: int | None = None
    p99_ns: int | None = None


class DeviceCounts(Counts):
    """What the kernel's driver of a port's device counted, or the switch that the port is at."""

    rx_packets: int
    tx_packets: int


class PortCounts(Counts):
    """A DPDK device. `age_*` and `stay`: only where the plan says `times`."""

    momentary = frozenset({"speed_mbps"})

    type: Literal["port"]
    driver: str
    mac: str
    up: bool
    speed_mbps: int
    flow_control: str = "none"  # off, rx, tx, full; none: the device knows nothing of it
    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    rx_missed: int
    rx_errors: int
    tx_errors: int
    rx_no_mbuf: int
    tx_capped: int = 0  # a ground's: sent beyond a licence
    age_in: LinkTimes | None = None
    age_out: LinkTimes | None = None
    stay: LinkTimes | None = None
    full: int = 0
    device: DeviceCounts | None = None  # a ground's


class OffloadCounts(Counts):
    """What a host did to packets in place of the VNF at a link, by what that told it."""

    momentary = frozenset({"apart"})

    hits: int  # packets
    held: int  # of them, or of those that went to the VNF after all: until none was inside it
    published: int  # flows
    voided: int  # of them: void by what the VNF said, or by a packet that it has to see
    stale: int  # told of tables that were changed meanwhile
    no_room: int
    evicted: int
    refused: int  # nonsense, or `apart`
    fragments: int
    apart: bool  # the link is read and written by different lcores: nothing is offloaded


class HoldCounts(Counts):
    """Packets for a peer that is replaced."""

    momentary = frozenset({"holds", "most", "now"})

    holds: bool
    waited: int
    most: int
    now: int


class ShmCounts(Counts):
    """Memory shared with another engine."""

    momentary = frozenset({"used"})

    type: Literal["shm"]
    up: bool
    connects: int
    refused: int
    robbed: int
    rx_packets: int
    tx_packets: int
    corrupt: int
    rx_no_mbuf: int
    too_long: int
    wakes_held: int  # the peer's, beyond what an lcore has for them
    wakes_paused: int = 0  # those that were not made, as the ones before took too long
    turns_passed: int = 0  # in which the peer's ring was not looked at, as looks waited for it
    used: int  # what the peer has not taken yet
    ended: dict[str, Ends]
    wait: LinkTimes | None = None
    off_cpu: LinkTimes | None = None
    stay: LinkTimes | None = None
    full: int = 0
    hold: HoldCounts | None = None
    offload: OffloadCounts | None = None


class TapsCounts(Counts):
    momentary = frozenset({"taps"})

    type: Literal["taps"]
    taps: int
    received: int
    sent: int
    refused: int
    no_mbuf: int
    full: int = 0


LinkCounts = Annotated[
    SourceCounts | SinkCounts | RingCounts | PortCounts | ShmCounts | TapsCounts,
    Field(discriminator="type"),
]
