# SPDX-License-Identifier: Apache-2.0
"""What the engine counted in one trial: the difference of two reads of its control socket."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeInt

from headrace.record.frozen import Record


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
    another place. For a function that gets its packets from another core or the NIC that is Sieber
    et al.'s Network Efficiency Index (section 5); one behind it in the same segment finds them in
    its own caches, which is no merit of the system's: `behind_first`.
    """

    place: str  # NF instance, or segment without any
    segment: str
    behind_first: bool
    samples: NonNegativeInt
    disturbed: NonNegativeInt = 0  # interrupted while they were timed
    classes: dict[str, int] = {}
    index: float | None = None  # None: no classes, as the server is not calibrated
    # The same with what calibration found of lines of one place that are taken for another's.
    corrected: float | None = None
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


# Additions at once, of four: a core to itself does 3.5 and more, beside a busy hyperthread 2.
WIDTH_LIMIT = 2.8
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


_PARTS = ("ops_cycles", "rx_cycles", "tx_cycles")


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
    # Of rx_cycles: reading packets' headers, once in a segment; None: an older engine, or a model.
    headers_cycles: NonNegativeInt | None = None
    tx_cycles: NonNegativeInt = 0
    io_packets: NonNegativeInt = 0
    inputs: dict[str, int] = {}  # link: packets
    outputs: dict[str, OutputReading] = {}
    nfs: dict[str, NfReading] = {}
    located: tuple[Located, ...] = ()
    fastpath: FastpathReading | None = None

    @property
    def mean_burst(self) -> float | None:
        full_polls = self.polls - self.idle_polls
        return self.packets_in / full_polls if full_polls else None

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

    @property
    def sampled_share(self) -> float:
        """What parts' sampled cycles are multiplied by: 1, or less where they come out as more
        than all busy time, which is counted. Polls that are timed part by part take a little
        longer than others, and a packet cannot cost more than there was."""
        sampled = (self.io_cycles_per_packet or 0.0) * self.packets_in
        sampled += sum((nf.cycles_per_packet or 0.0) * nf.packets_in for nf in self.nfs.values())
        if self.fastpath:
            sampled += (self.fastpath.cycles_per_packet or 0.0) * self.packets_in
        return min(1.0, self.ops_cycles / sampled) if sampled and self.ops_cycles else 1.0

    @property
    def linkless_cycles(self) -> float | None:
        """All that it was busy with but its links: reading headers, its functions, and what is
        between them. None: nobody told headers and links apart."""
        if self.headers_cycles is None or not self.io_packets:
            return None
        links = self.rx_cycles - self.headers_cycles + self.tx_cycles
        return self.ops_cycles - links / self.io_packets * self.packets_in * self.sampled_share

    def costing(self, factor: float) -> ReplicaReading:
        """The same packets, where each part of what they take is so many times as much."""
        cycles = {key: round(getattr(self, key) * factor) for key in _PARTS}
        if self.headers_cycles is not None:
            cycles["headers_cycles"] = round(self.headers_cycles * factor)
        nfs = {
            name: nf.model_copy(update={"cycles": round(nf.cycles * factor)})
            for name, nf in self.nfs.items()
        }
        fast = self.fastpath
        if fast is not None:
            fast = fast.model_copy(update={"cycles": round(fast.cycles * factor)})
        return self.model_copy(update={**cycles, "nfs": nfs, "fastpath": fast})


class OffloadReading(Record):
    """What the host did to a VNF's packets in its place, by what that told it (docs/hosting.md)."""

    hits: NonNegativeInt = 0  # packets
    held: NonNegativeInt = 0  # of them, until none of their flow was inside the VNF
    published: NonNegativeInt = 0  # flows
    voided: NonNegativeInt = 0
    stale: NonNegativeInt = 0  # of tables that were changed meanwhile
    no_room: NonNegativeInt = 0
    evicted: NonNegativeInt = 0
    refused: NonNegativeInt = 0  # nonsense, or `apart`
    fragments: NonNegativeInt = 0  # each voids all flows of its VNF
    apart: bool = False  # another lcore reads the link than writes it: nothing is offloaded


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
    tx_capped: NonNegativeInt = 0  # sent, and dropped by who keeps its owner's `rate_cap_gbps`
    rx_no_mbuf: NonNegativeInt = 0  # times that it found no buffer: no loss by itself
    device_rx: NonNegativeInt | None = None
    device_tx: NonNegativeInt | None = None
    up: bool = True  # its link, at the trial's end
    speed_mbps: NonNegativeInt | None = None  # None: the device does not say
    flow_control: str = "none"  # off, rx, tx, full; none: the device knows nothing of pause frames


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
    # Turns that found no packet and took far longer than that takes: how many, and their cycles, in
    # classes of 2^13 to 2^14 cycles, to 2^15, and so on.
    gaps: tuple[tuple[NonNegativeInt, NonNegativeInt], ...] = ()
    pauses_cycles: NonNegativeInt = 0  # somebody kept it from working; no packet's cost
    standstill_cycles: NonNegativeInt = 0  # of them in pauses of over a millisecond
    waited_ns: NonNegativeInt | None = None  # ready, but kept from running; None: nobody looked

    @property
    def utilisation(self) -> float:
        """OPS / REF."""
        if self.sending_ref_cycles:
            return (self.sending_ops_cycles or 0) / self.sending_ref_cycles
        return self.ops_cycles / self.ref_cycles if self.ref_cycles else 0.0

    @property
    def away(self) -> float:
        """The share of the time of sending in which somebody else had the lcore."""
        if self.sending_ref_cycles and self.sending_pauses_cycles is not None:
            return self.sending_pauses_cycles / self.sending_ref_cycles
        lost = max(self.pauses_cycles, self.standstill_cycles)
        return lost / self.ref_cycles if self.ref_cycles else 0.0


class Counters(Record):
    """Everything the engine counted in one trial; the bottleneck's explanation reads this."""

    tsc_hz: NonNegativeInt
    workers: tuple[WorkerReading, ...] = ()
    replicas: tuple[ReplicaReading, ...] = ()
    rings: dict[str, RingReading] = {}
    ports: dict[str, PortReading] = {}  # a VNF's own are VNF:LINK
    dut: dict[str, int] = {}  # what an external device's own counters grew by
    offload: dict[str, OffloadReading] = {}  # by the host's link to a VNF
