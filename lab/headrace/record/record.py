# SPDX-License-Identifier: Apache-2.0
"""The trial record and the result row: what headrace says about a measurement.

Field names are stable: they are the columns of a bundle's Parquet files and the keys
of `headrace run --json` (docs/json.md). Units are in the names; a frame size always
includes the FCS, and `_l1` rates add the 20 bytes of preamble, SFD and gap per frame.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt

L1_OVERHEAD_BYTES = 20  # IEEE 802.3: 7 preamble + 1 SFD + 12 minimum inter-packet gap

Direction = Literal["forward", "reverse", "both"]
Ground = Literal["measured", "predicted", "published"]
Phase = Literal["calibration", "warm-up", "verify", "search", "fixed", "max"]
Verdict = Literal["ok", "generator-bound", "suspect", "invalid", "not-audited"]


# From best to worst.
VERDICTS: tuple[Verdict, ...] = ("ok", "not-audited", "suspect", "generator-bound", "invalid")


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """What can be said of several trials together."""
    return max(verdicts, key=VERDICTS.index, default="not-audited")


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


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


class Finding(Record):
    """One check of the audit. `text` is a whole sentence with the figures in it."""

    check: str  # e.g. "unsent", "stretched", "generator-utilisation", "conservation", "clock"
    ok: bool
    text: str
    value: float | None = None
    limit: float | None = None


class Audit(Record):
    """Whether the figure may be believed, and why.

    ok: every check passed. generator-bound: the generator, not the chain, set the figure.
    suspect: usable with the care its findings name. invalid: not a measurement of the chain
    (counters do not add up, path not verified, engine died). not-audited: nobody looked.
    """

    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    unsent: NonNegativeInt = 0
    behind_max_ns: NonNegativeInt = 0
    duration_ns: NonNegativeInt | None = None
    intended_duration_ns: NonNegativeInt | None = None

    @property
    def failed(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.ok)

    @property
    def trusted(self) -> bool:
        return self.verdict == "ok"


class Account(Record):
    """Where the packets of one direction and size class went:
    sent = received + dropped + held + unknown. What functions made themselves is not among them."""

    direction: Direction
    size: str  # of frames with FCS, RFC 2819's classes: "64", "65-127", ..., "1519-"; or "all"
    sent: NonNegativeInt
    received: NonNegativeInt  # each once
    dropped: dict[str, int] = {}  # "place/reason"; "consumed" is one
    held: int = 0  # more than before the trial: by functions, and in queues
    unknown: int = 0


class Calibration(Record):
    """A direct source -> sink loop: what the tester itself adds to each latency."""

    floor_ns: float  # median of the loop
    floor_p99_ns: float | None = None
    clock_read_cycles: float | None = None
    clock_error_ppm: float | None = None


class Goal(Record):
    """A search goal as the MLRsearch library takes it (draft-ietf-bmwg-mlrsearch)."""

    name: str
    loss_ratio: float
    exceed_ratio: float
    final_trial_s: float
    duration_sum_s: float
    width: float  # relative
    initial_trial_s: float | None = None
    expansion_coefficient: float | None = None
    fail_fast: bool | None = None
    label: str | None = None  # a compliance label, only where the parameters entitle to it


class Bounds(Record):
    """Where the search ended. None: no such bound was found."""

    lower_pps: float | None = None
    upper_pps: float | None = None
    min_load_pps: float | None = None
    max_load_pps: float | None = None
    trials: NonNegativeInt = 0
    seconds: NonNegativeFloat = 0.0
    stopped_by: str | None = None  # "width", "max-load", "min-load", "time", "interrupt"

    @property
    def width(self) -> float | None:
        if not self.lower_pps or not self.upper_pps:
            return None
        return (self.upper_pps - self.lower_pps) / self.upper_pps


class NfReading(Record):
    """An NF's share of one trial: the difference of two reads of the control socket."""

    type: str
    packets_in: NonNegativeInt
    created: NonNegativeInt = 0
    out: dict[str, int] = {}
    dropped: dict[str, int] = {}
    consumed: NonNegativeInt = 0
    aborted: NonNegativeInt = 0
    held_change: int = 0
    batches: NonNegativeInt = 0
    cycles: NonNegativeInt = 0
    cycles_packets: NonNegativeInt = 0
    counters: dict[str, int] = {}

    @property
    def cycles_per_packet(self) -> float | None:
        return self.cycles / self.cycles_packets if self.cycles_packets else None

    @property
    def missing(self) -> int:
        """Packets that the conservation law does not account for; 0 when it holds."""
        gone = sum(self.out.values()) + sum(self.dropped.values()) + self.consumed + self.aborted
        return self.packets_in + self.created - gone - self.held_change


class OutputReading(Record):
    packets: NonNegativeInt = 0
    full: NonNegativeInt = 0  # packets that found the link full: loss charged to its reader


class Located(Record):
    """Where a sample of packets was when a function first touched their headers.

    `index`: the share that did not come from memory; a lower bound where a class mixes memory with
    another place. For a function that gets its packets from another core or the NIC that is S5's
    Network Efficiency Index (section 5); one behind it in the same segment finds them in its own
    caches, which is no merit of the system's: `behind_first`.
    """

    place: str  # NF instance, or segment without any
    segment: str
    behind_first: bool
    samples: NonNegativeInt
    disturbed: NonNegativeInt = 0  # interrupted while they were timed
    classes: dict[str, int] = {}
    index: float | None = None  # None: no classes, as the server is not calibrated
    mean_cycles: float | None = None  # of the timed loads, beyond a first-level hit


class FastpathReading(Record):
    """What a segment's consolidated fast path did with a trial's packets."""

    hits: NonNegativeInt = 0
    misses: NonNegativeInt = 0  # went through the functions
    recorded: NonNegativeInt = 0
    declined: NonNegativeInt = 0
    evicted: NonNegativeInt = 0
    flushes: NonNegativeInt = 0
    cycles: NonNegativeInt = 0
    cycles_packets: NonNegativeInt = 0

    @property
    def cycles_per_packet(self) -> float | None:
        return self.cycles / self.cycles_packets if self.cycles_packets else None


LINE_TURNS = 100  # fewer tell no line,
LINE_BURST = 1.5  # and neither do polls that mostly find one packet,
LINE_SPREAD = 0.05  # and neither do polls that all find as many; variance over squared mean


class Turns(Record):
    """Sums over a replica's polls that found packets, but no full burst: what a poll takes by
    itself and what each packet takes is a line through them."""

    n: NonNegativeInt = 0
    packets: NonNegativeInt = 0
    packets_squared: NonNegativeInt = 0
    cycles: NonNegativeInt = 0
    cycles_by_packets: NonNegativeInt = 0

    def line(self) -> tuple[float, float] | None:
        """(cycles of a poll, cycles of a packet) by least squares; None: they do not tell."""
        if self.n < LINE_TURNS:
            return None
        mean, cycles = self.packets / self.n, self.cycles / self.n
        variance = self.packets_squared / self.n - mean * mean
        if mean < LINE_BURST or variance < LINE_SPREAD * mean * mean:
            return None
        slope = (self.cycles_by_packets / self.n - mean * cycles) / variance
        fixed = cycles - slope * mean
        return (fixed, slope) if fixed > 0 and slope > 0 else None


class ReplicaReading(Record):
    """One replica of a segment during one trial."""

    segment: str
    index: NonNegativeInt
    cpu: int
    packets_in: NonNegativeInt = 0
    packets_out: NonNegativeInt = 0
    polls: NonNegativeInt = 0
    idle_polls: NonNegativeInt = 0
    ops_cycles: NonNegativeInt = 0
    sending_ops_cycles: NonNegativeInt | None = None  # of them while the sources sent
    burst: NonNegativeInt | None = None  # the most packets that it takes from an input at once
    turns: Turns = Turns()
    rx_cycles: NonNegativeInt = 0
    tx_cycles: NonNegativeInt = 0
    io_packets: NonNegativeInt = 0
    inputs: dict[str, int] = {}  # link: packets
    outputs: dict[str, OutputReading] = {}
    nfs: dict[str, NfReading] = {}
    located: tuple[Located, ...] = ()
    fastpath: FastpathReading | None = None

    @property
    def mean_burst(self) -> float | None:
        found = self.polls - self.idle_polls
        return self.packets_in / found if found else None

    @property
    def full_burst_cycles(self) -> float | None:
        """What a packet takes when each poll finds a full burst; None: not known."""
        line, each = self.turns.line(), self.ops_cycles / (self.packets_in or 1)
        if line is None or not self.burst or not each:
            return None
        return min(each, line[0] / self.burst + line[1])

    @property
    def io_cycles_per_packet(self) -> float | None:
        total = self.rx_cycles + self.tx_cycles
        return total / self.io_packets if self.io_packets else None


class RingReading(Record):
    size: NonNegativeInt
    full: NonNegativeInt = 0
    used: NonNegativeInt = 0  # at the trial's end
    on_full: Literal["drop", "wait"] = "drop"


class PortReading(Record):
    """A device, as DPDK's driver counts; `device_*` is what the kernel's driver of it counted."""

    rx_packets: NonNegativeInt = 0
    tx_packets: NonNegativeInt = 0
    rx_missed: NonNegativeInt = 0  # no room in its receive queue
    rx_errors: NonNegativeInt = 0
    tx_errors: NonNegativeInt = 0
    rx_no_mbuf: NonNegativeInt = 0  # times that it found no buffer: no loss by itself
    device_rx: NonNegativeInt | None = None
    device_tx: NonNegativeInt | None = None


class WorkerReading(Record):
    """An lcore: total (REF) and busy (OPS) cycles (Sieber et al. 2017, algorithm 1).

    Both are of the whole trial, the wait for the last packets included, in which a poller is idle
    as the trial is over, or works off a queue: its use is told by the time of sending.
    """

    cpu: int
    ref_cycles: NonNegativeInt
    ops_cycles: NonNegativeInt
    sending_ref_cycles: NonNegativeInt | None = None  # of them while the sources sent
    sending_ops_cycles: NonNegativeInt | None = None
    sending_pauses_cycles: NonNegativeInt | None = None
    segments: tuple[str, ...] = ()
    pace: float | None = None  # TSC cycles of an addition: over 1 below the base frequency
    width: float | None = None  # additions at once, of four: 2 beside a busy hyperthread
    pauses_cycles: NonNegativeInt = 0  # somebody kept it from working; no packet's cost
    standstill_cycles: NonNegativeInt = 0  # of them in pauses of over a millisecond
    waited_ns: NonNegativeInt | None = None  # ready, but kept from running; None: nobody looked

    @property
    def utilisation(self) -> float:
        """OPS / REF."""
        if self.sending_ref_cycles:
            return (self.sending_ops_cycles or 0) / self.sending_ref_cycles
        return self.ops_cycles / self.ref_cycles if self.ref_cycles else 0.0


class Counters(Record):
    """Everything the engine counted in one trial; the bottleneck's explanation reads this."""

    tsc_hz: NonNegativeInt
    workers: tuple[WorkerReading, ...] = ()
    replicas: tuple[ReplicaReading, ...] = ()
    rings: dict[str, RingReading] = {}
    ports: dict[str, PortReading] = {}  # a VNF's own are VNF:LINK


class Segment(Record):
    """How the chain was cut. `role` tells the tester's own segments from the chain's."""

    name: str
    cpus: tuple[int, ...]
    nfs: tuple[str, ...] = ()  # in the chain's order
    role: Literal["chain", "generator", "sink"] = "chain"
    shares_cpu_with: tuple[str, ...] = ()
    hosting: str = "inline"


class Anatomy(Record):
    """Mean time of a packet in each part of a hosted chain (S1 figure 8); they add up to the mean
    latency. Queueing is in front of a VNF that runs; the scheduler's part is what packets waited
    while it did not. The switch's part is what the others leave, its own queues included."""

    generator_ns: NonNegativeFloat  # the tester alone: its median in a direct loop, or what is left
    switch_ns: NonNegativeFloat
    queue_ns: float
    scheduler_ns: NonNegativeFloat
    vnf_ns: NonNegativeFloat
    of_which_back_ns: NonNegativeFloat  # of the switch's: waiting for it on the way back from VNFs
    over_ns: NonNegativeFloat = 0.0  # by which what was measured exceeded the mean; scaled to it
    undivided: str = ""  # the part that could not be told from another, and where it is


class Limit(Record):
    """What bounds a hosted chain and is no CPU: the way between the NIC and its host (`switch`),
    its wire (`uplink`), a VNF's licence (`rate-cap`).

    `used` is the share that frames took of it while packets were sent, layer 1, of the way that
    had more; of a licence the share that the VNF's frames asked for. `crossings`: how often it was
    charged for each packet that arrived, that way.
    """

    kind: Literal["switch", "uplink", "rate-cap"]
    place: str  # the NIC, or the VNF
    gbps: float
    used: NonNegativeFloat
    crossings: NonNegativeFloat
    dropped: NonNegativeInt = 0  # its queues were full


class Application(Record):
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


class Identity(Record):
    """What a figure is of: one chain, in one direction, deployed and loaded in one way.

    `direction` "both" is the sum over the two directions (latency: their merged histogram).
    """

    chain: str
    direction: Direction
    repetition: NonNegativeInt  # from 1; 0: outside of any repetition
    execution: str
    workload: str


class Figures(Record):
    """What a ground saw of a trial, in one direction or the sum of both; nobody has judged it."""

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

    ground: Ground = "measured"
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
    latency_hdr: str | None = None  # base64 HdrHistogram V2 compressed, ns
    calibration: Calibration | None = None
    segments: tuple[Segment, ...] = ()
    counters: Counters | None = None
    application: Application | None = None
    anatomy: Anatomy | None = None  # hosted chains only
    limits: tuple[Limit, ...] = ()  # of a hosted chain's NIC and VNFs, that its spec gives them
    labels: tuple[str, ...] = ()  # e.g. "tcg", "no-huge", "shared-lcore": care to take

    @property
    def below_floor(self) -> bool:
        """Below the tester's floor: so that is none, as its calibration was disturbed."""
        if self.latency_ns is None or self.calibration is None:
            return False
        return self.latency_ns.p50 < self.calibration.floor_ns


class Measurement(Figures, Identity):
    """What a trial and a result have in common."""

    audit: Audit


class Trial(Measurement):
    """One trial: sources started at one instant, run for a time, drained, read."""

    trial: NonNegativeInt  # number within the bundle; shared by its chains and directions
    phase: Phase
    started_at: str  # ISO 8601, UTC
    intended_duration_s: NonNegativeFloat


class Result(Measurement):
    """One row of `headrace run --json`: what a repetition found for one goal."""

    goal: str  # a search goal's name, "fixed" or "max"
    goal_parameters: Goal | None = None
    bounds: Bounds | None = None
    trial: NonNegativeInt | None = None  # the trial that showed it
    provenance: str | None = None  # predicted and published rows: from what


class Environment(Record):
    """The machine and the software, as flat facts per topic.

    Facts are open-ended (each collector adds its own), hence mappings and not fields; what
    could not be read is absent, never guessed.
    """

    collected_at: str
    hostname: str = ""
    headrace: dict[str, Any] = {}  # version, commit, python, libraries
    engine: dict[str, Any] = {}  # version, build, dpdk, tsc_hz, hugepages, simd_bits
    cpu: dict[str, Any] = {}  # model, cores, threads_per_core, governor, caches
    memory: dict[str, Any] = {}  # total_bytes, numa_nodes, hugepages
    kernel: dict[str, Any] = {}  # release, cmdline, lockdown
    mitigations: dict[str, str] = {}
    virtualisation: dict[str, Any] = {}
    network: dict[str, Any] = {}  # NIC: driver, firmware, numa node
    noise: dict[str, Any] = {}  # load average before and after, other busy processes


def gbps(pps: float, frame_bytes: float, *, layer: Literal[1, 2] = 2) -> float:
    """Bit rate of a packet rate; the frame size includes the FCS."""
    overhead = L1_OVERHEAD_BYTES if layer == 1 else 0
    return pps * (frame_bytes + overhead) * 8 / 1e9
