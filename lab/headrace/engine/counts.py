# SPDX-License-Identifier: Apache-2.0
"""The engine's answer to `read` (docs/design/contracts.md): what it has counted since it started.

Sources and sinks count from their trial's start. What a ground knows of hosted VNFs, and what a
device's own driver counted, comes to the answer of the host's engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, Self

from pydantic import ConfigDict, Field, NonNegativeInt

from headrace.engine.growing import Counts
from headrace.engine.link_counts import Ends, LinkCounts, PortCounts, SinkCounts, SourceCounts
from headrace.record.frozen import Record


class PaceCounts(Counts):
    """The core's own speed, and what kept its poller from working, in cycles of the TSC."""

    additions: int = 0
    cycles: int = 0
    wide_cycles: int = 0
    pauses_cycles: int = 0
    standstill_cycles: int = 0


class SendingCounts(Counts):
    """Cycles of the time in which the last trial's sources were to send."""

    ref_cycles: int
    ops_cycles: int
    pauses_cycles: int


class WorkerCounts(Counts):
    """An lcore's poller: cycles since it started, and those in which it was busy."""

    momentary = frozenset({"segments", "sending"})

    ref_cycles: int
    ops_cycles: int
    idle_cycles: int
    sending: SendingCounts | None = None
    sleeps: int
    sleep_cycles: int
    segments: tuple[str, ...]  # SEGMENT.REPLICA
    gaps: tuple[tuple[int, int], ...]  # how many, and their cycles; by powers of two
    pace: PaceCounts


class IoCounts(Counts):
    """What the timed polls paid for their links, and of receiving for reading headers."""

    rx_cycles: int
    headers_cycles: int
    tx_cycles: int
    packets: int


class InletCounts(Counts):
    packets: int
    cycles: int
    cycles_packets: int


class WaitingCounts(Counts):
    """Packets of an elastic segment's buckets that moved, with who writes them."""

    momentary = frozenset({"most", "now"})

    waited: int
    most: int  # at a time
    now: int


class OutletCounts(Counts):
    packets: int
    full: int  # found no room
    ended: Ends = {}  # whose they were
    waiting: WaitingCounts | None = None


class FunctionCounts(Counts):
    """A function in one replica."""

    momentary = frozenset({"held"})

    type: str
    packets_in: int = Field(alias="in")
    created: int
    out: dict[str, int]  # by edge
    dropped: dict[str, int]  # by reason
    consumed: int
    aborted: int
    ended: dict[str, Ends]  # by reason, of those held, too
    held: int
    batches: int
    cycles: int
    cycles_packets: int
    counters: dict[str, int]

    def since(self, was: Self | None) -> Self:
        """What it holds may have become less."""
        grown = super().since(was)
        held = self.held - (was.held if was else 0)
        return grown.model_copy(update={"held": held})


class ToldCounts(Counts):
    """What a segment told its host of what it decided, and what the host spared it."""

    flows: int
    retracted: int
    no_room: int  # the host was behind
    spared: int  # packets


class FastpathCounts(Counts):
    momentary = frozenset({"flows"})

    flows: int  # that it has room for
    hits: int
    misses: int
    recorded: int
    declined: int
    evicted: int
    flushes: int
    cycles: int
    cycles_packets: int
    told: ToldCounts | None = None


class SideCounts(Counts):
    """A function beside others, on an lcore of its own."""

    momentary = frozenset({"cpu", "copies"})

    cpu: int
    polls: int
    idle_polls: int
    ops_cycles: int
    copies: bool


class ParallelCounts(Counts):
    momentary = frozenset({"slots", "used"})

    slots: int
    used: int
    full_polls: int
    sides: dict[str, SideCounts]  # by function


class LocatedCounts(Counts):
    """Where packets were when their headers were first touched."""

    samples: int
    disturbed: int
    mean_cycles: float
    classes: dict[str, int]
    cycles: dict[int, int]  # packets by cycles, from

    def since(self, was: Self | None) -> Self:
        grown = super().since(was)
        if was is None or not grown.samples:
            return grown
        cycles = self.mean_cycles * self.samples - was.mean_cycles * was.samples
        return grown.model_copy(update={"mean_cycles": cycles / grown.samples})


class LocatingCounts(Counts):
    inputs: dict[str, LocatedCounts]
    nfs: dict[str, LocatedCounts]


class TurnCounts(Counts):
    """Sums over polls that found packets, but no full burst."""

    n: int
    packets: int
    packets_squared: int
    cycles: int
    cycles_by_packets: int


class ElasticCounts(Counts):
    """What a replica of an elastic segment has of it now."""

    momentary = frozenset({"buckets", "rests"})

    buckets: int
    rests: bool  # no lcore runs it


class RestoredCounts(Counts):
    """What became of the flows that the engine before this one left."""

    momentary = frozenset({"live", "whole", "restored", "expired", "refused", "lost", "oldest_ns"})

    live: NonNegativeInt  # that it had when it ended
    whole: NonNegativeInt  # of which a whole slot was there
    restored: NonNegativeInt
    expired: NonNegativeInt
    refused: NonNegativeInt
    lost: NonNegativeInt
    oldest_ns: NonNegativeInt  # ago one of those restored was written


class CheckpointCounts(Counts):
    """What a segment writes for the engine that may come after it."""

    momentary = frozenset({"slots", "beyond", "pass_ns", "most_at_once", "longest_cycles"})

    slots: NonNegativeInt  # of each of its flow tables
    beyond: NonNegativeInt  # records that have none
    passes: NonNegativeInt
    pass_ns: NonNegativeInt  # the longest
    saved: NonNegativeInt
    most_at_once: NonNegativeInt  # records that a tick looked at
    cycles: NonNegativeInt
    longest_cycles: NonNegativeInt
    restored: RestoredCounts


class ReplicaCounts(Counts):
    """A replica of a segment."""

    momentary = frozenset({"cpu", "pending", "sending", "burst"})

    cpu: int
    packets_in: int = Field(alias="in")
    out: int
    full: int
    pending: int  # in outputs that wait for room
    polls: int
    idle_polls: int
    ops_cycles: int
    sending: SendingCounts | None = None
    burst: int  # the most packets that it takes from an input at once
    turns: TurnCounts
    io: IoCounts
    inputs: dict[str, InletCounts]
    outputs: dict[str, OutletCounts]
    nfs: dict[str, FunctionCounts]
    elastic: ElasticCounts | None = None
    fastpath: FastpathCounts | None = None
    checkpoint: CheckpointCounts | None = None
    parallel: ParallelCounts | None = None
    located: LocatingCounts | None = None

    @property
    def sides(self) -> Mapping[str, SideCounts]:
        return self.parallel.sides if self.parallel else {}


class RunQueueCounts(Counts):
    """The kernel's account of threads: time on a CPU, time on a run queue, times on it."""

    ran_ns: int
    waited_ns: int
    slices: int


class VnfCounts(Counts):
    """What this machine says of a VNF's process, and the workers of its engine, if it has one."""

    momentary = frozenset({"cpus", "links", "tsc_hz", "weight"})

    cpus: tuple[int, ...]
    links: tuple[str, ...]  # the host's
    opaque: bool
    run_queue: RunQueueCounts | None  # None: the kernel does not tell
    throttled_ns: int
    cpu_ns: int = 0  # that its control group used
    weight: int | None = None  # of its control group; 100 by default
    workers: dict[int, WorkerCounts] = {}
    tsc_hz: int = 0


class EngineCounts(Counts):
    momentary = frozenset({"tsc", "tsc_hz", "mbufs_in_use"})

    ok: Literal[True] = True
    tsc: int
    tsc_hz: int
    mbufs_in_use: int
    workers: dict[int, WorkerCounts]  # by CPU
    segments: dict[str, tuple[ReplicaCounts, ...]]
    links: dict[str, LinkCounts]
    vnfs: dict[str, VnfCounts] = {}  # a ground's, where VNFs are hosted
    # A ground's: "place/reason": packets that went there and are in nobody's counters, at most.
    missing: dict[str, int] = {}
    dut: dict[str, int] = {}  # an external device's own counters

    @property
    def replicas(self) -> Iterable[ReplicaCounts]:
        return (replica for each in self.segments.values() for replica in each)

    def source(self, name: str) -> SourceCounts:
        link = self.links[name]
        assert isinstance(link, SourceCounts), name
        return link

    def port(self, name: str) -> PortCounts:
        link = self.links[name]
        assert isinstance(link, PortCounts), name
        return link

    def sink(self, name: str) -> SinkCounts:
        link = self.links[name]
        assert isinstance(link, SinkCounts), name
        return link


class ClockInfo(Record):
    model_config = ConfigDict(allow_inf_nan=False)

    read_cost_cycles: float
    tsc_error_ppm: float


class EngineInfo(Record):
    """The engine's answer to `info`."""

    ok: Literal[True] = True
    version: str
    dpdk: str
    build: str
    tsc_hz: int
    pid: int
    hugepages: bool
    simd_bits: int
    heap_bytes: int  # given out of DPDK's heaps: packet buffers and tables
    cpus: tuple[int, ...]
    clock: ClockInfo
