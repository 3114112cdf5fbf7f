# SPDX-License-Identifier: Apache-2.0
"""What a ground saw of a trial, before anybody judged it.

Units are in the names; a frame size always includes the FCS, and `_l1` rates add the 20 bytes of
preamble, SFD and gap per frame.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt

from headrace.record.account import Account
from headrace.record.counters import Counters, Located
from headrace.record.estimates import Capacity, Predicted
from headrace.record.frozen import Record
from headrace.record.identity import Origin
from headrace.record.segments import Anatomy, CpuShare, Limit, Segment

L1_OVERHEAD_BYTES = 20  # IEEE 802.3: 7 preamble + 1 SFD + 12 minimum inter-packet gap


class LatencyNs(Record):
    """One-way latency between stamps of one clock domain, from the intended send time."""

    mean: float
    min: float
    p50: float
    p90: float
    p99: float
    p999: float
    max: float


class PdvNs(Record):
    """Packet delay variation, RFC 5481 section 4.2: latency less the trial's minimum."""

    p50: float
    p99: float


class LatencyFloor(Record):
    """A direct source -> sink loop: what the tester itself adds to each latency."""

    floor_ns: float  # median of the loop
    floor_p99_ns: float | None = None
    clock_read_cycles: float | None = None
    clock_error_ppm: float | None = None


class ApplicationFigures(Record):
    """What clients and third-party VNFs report of a trial on the kernel's path."""

    gbps: NonNegativeFloat  # goodput: of payload that arrived (HTTP: with headers)
    # Frames with FCS that arrived at the servers' and at the clients' interfaces, acknowledgements
    # and all; None where the generator itself counts packets.
    to_servers_gbps: NonNegativeFloat | None = None
    to_clients_gbps: NonNegativeFloat | None = None
    hit_ratio: float | None = Field(default=None, ge=0)  # of requests, by the first cache
    hit_ratio_asked: float | None = None
    requests: NonNegativeInt = 0
    requests_per_s: NonNegativeFloat = 0.0
    errors: NonNegativeInt = 0
    retransmits: NonNegativeInt = 0
    counters: dict[str, dict[str, int]] = {}  # container: its own counters' growth
    cpu: dict[str, float] = {}  # container: CPUs that its processes used
    stack: dict[str, float] = {}  # container, or what forwards between: CPUs, on its packets
    quota: dict[str, float] = {}  # container: share of its `cpus` that it used
    cycles: dict[str, float] = {}  # container: of both, for each packet that it received


class PartitionChange(Record):
    """Functions in other segments, while packets came."""

    to: str  # the execution
    at_s: NonNegativeFloat  # since the sources began
    took_ns: NonNegativeInt
    paused_ns: NonNegativeInt  # all lcores, within that
    pauses: NonNegativeInt
    waited: NonNegativeInt  # packets, in front of the segments that changed
    functions: NonNegativeInt


class ShownFigures(Record):
    """Those that scripts are shown: all but what is too large for them."""

    load_pps: NonNegativeFloat  # intended
    throughput_pps: NonNegativeFloat  # received within the duration; duplicates not counted
    throughput_gbps_l1: NonNegativeFloat
    throughput_gbps_l2: NonNegativeFloat
    offered_pps: NonNegativeFloat  # what the source tried; sent + unsent
    sent_pps: NonNegativeFloat
    received_pps: NonNegativeFloat  # in the end: also what a queue still held
    loss_ratio: float = Field(ge=0, le=1)  # of what was sent; unsent is the generator's

    latency_ns: LatencyNs | None = None
    pdv_ns: PdvNs | None = None
    ipdv_ns_mean: float | None = None  # RFC 5481 section 4.1, mean of absolute values

    nf_cycles: dict[str, float] = {}  # NF instance: TSC cycles per packet
    utilisation: dict[str, float] = {}  # lcore: OPS / REF while sending
    drops: dict[str, int] = {}  # "place/reason": packets
    located: tuple[Located, ...] = ()  # of all replicas
    # What the sources sent, by direction and size class; none where nobody can tell.
    accounts: tuple[Account, ...] = ()
    created: Account | None = None  # `sent` is what functions made: copies, errors, exports

    ground: Origin = "measured"
    duration_s: NonNegativeFloat = 0.0
    frame_bytes_mean: float | None = None
    intended: NonNegativeInt = 0
    sent: NonNegativeInt = 0
    received: NonNegativeInt = 0
    lost: NonNegativeInt = 0
    policy_dropped: NonNegativeInt = 0  # not in `lost`: measure.losses is "unintended"
    reordered: NonNegativeInt = 0
    duplicated: NonNegativeInt = 0
    unstamped: NonNegativeInt = 0  # received but not the source's
    late: NonNegativeInt = 0
    flows: NonNegativeInt | None = None
    calibration: LatencyFloor | None = None
    segments: tuple[Segment, ...] = ()
    application: ApplicationFigures | None = None
    anatomy: Anatomy | None = None  # hosted chains only
    capacity: Capacity | None = None  # by undisturbed slices; None: too few, or none were taken
    predicted: Predicted | None = None  # of a described server; None: measured
    partitions: tuple[PartitionChange, ...] = ()  # of an execution that `becomes` others
    limits: tuple[Limit, ...] = ()  # of a hosted chain's NIC and VNFs, that its spec gives them
    cpu_shares: tuple[CpuShare, ...] = ()  # of hosted VNFs whose spec has `shares`
    labels: tuple[str, ...] = ()  # e.g. "tcg", "no-huge", "shared-lcore": care to take

    @property
    def below_floor(self) -> bool:
        """Below the tester's floor: so that is none, as its calibration was disturbed."""
        if self.latency_ns is None or self.calibration is None:
            return False
        return self.latency_ns.p50 < self.calibration.floor_ns


class Figures(ShownFigures):
    """What a ground saw of a trial, in one direction or the sum of both; nobody has judged it."""

    latency_hdr: str | None = None  # base64 HdrHistogram V2 compressed, ns
    counters: Counters | None = None


def gbps(pps: float, frame_bytes: float, *, layer: Literal[1, 2] = 2) -> float:
    """Bit rate of a packet rate; the frame size includes the FCS."""
    overhead = L1_OVERHEAD_BYTES if layer == 1 else 0
    return pps * (frame_bytes + overhead) * 8 / 1e9
