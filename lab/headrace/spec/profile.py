# SPDX-License-Identifier: Apache-2.0
"""What an NF costs here, over what its cost depends on: the file `headrace profile` writes."""

from __future__ import annotations

from typing import Any, Literal

from headrace.spec.base import MedianRange, Spec

Sweep = Literal["state", "rules", "frame", "burst", "skew"]


class Speed(Spec):
    """How fast the lcores were while something was measured on them. None: too short to tell."""

    mhz: float | None  # by a chain of additions, each of which takes one core cycle
    at_once: float | None  # of four additions: 3.5 and more; 2 beside a busy hyperthread


class Settings(Spec):
    """What a point of a profile was measured at."""

    state: int  # flows; routes or destinations for an NF without flow state
    rules: int
    frame_bytes: int
    burst: int
    skew: float  # Zipf exponent of the flows; 0: all alike


class PacketCost(Spec):
    """TSC cycles per packet, as the segment loop samples them."""

    nf: MedianRange
    rx: MedianRange
    tx: MedianRange
    loop: MedianRange  # the rest of the busy time
    throughput_pps: MedianRange

    @property
    def total(self) -> float:
        return self.nf.median + self.rx.median + self.tx.median + self.loop.median


class ProfilePoint(Spec):
    sweep: Sweep
    settings: Settings
    cost: PacketCost
    pmu: dict[str, float] | None = None  # per packet, of its lcore: of points of state


class TablePoint(Spec):
    """A function whose table has so many rules, one flow for each, at a given load."""

    rules: int
    table_bytes: int  # of what it looks up in: the engine's heap beside that of one rule
    cycles: MedianRange  # of the function, per packet
    utilisation: MedianRange  # of its lcore: busy cycles over all
    pmu: dict[str, float] | None = None  # per packet, of its lcore


class TableSweep(Spec):
    """What a function costs while its table grows beyond the caches, as in Sieber et al. 2017,
    figures 6, 7a and 7b."""

    load_pps: float
    points: tuple[TablePoint, ...]
    fit: Fit | None  # over bytes of table
    absent: dict[str, str]  # rules: why this size was not measured


class CoRun(Spec):
    """The same function with nobody beside it, and beside one that walks through the last-level
    cache. Source, function and sink are on one lcore here, so that the other is free for the
    neighbour."""

    settings: Settings
    alone: MedianRange
    beside: MedianRange
    thrash_bytes: int


class FitPoint(Spec):
    """One measured point beside the fit. `left_out`: cycles that a fit to all the other points
    predicts here. None: an older headrace made it, or there were too few points."""

    state: int
    measured: float
    modelled: float
    left_out: float | None = None

    @property
    def error(self) -> float | None:
        """Error of the prediction, relative to what was measured."""
        return self.left_out / self.measured - 1 if self.left_out and self.measured else None


class Penalty(Spec):
    """What a miss of `level` costs more than a hit, in TSC cycles: all accesses of a packet
    together; one that waits for the one before (`alone`); and one while others are under way
    (`together`), as the calibrated gather has it."""

    level: str
    size_bytes: int
    cycles: float
    alone: float = 0.0
    together: float = 0.0
    accesses: float | None = None  # an older headrace's: fitted for each level apart

    @property
    def parallelism(self) -> float | None:
        """Memory-level parallelism: how many such misses a core has under way. None: overlapped
        altogether, or not calibrated."""
        return self.alone / self.together if self.together > 0 else None


class Fit(Spec):
    """The model of average memory access time, fitted (Sieber et al. 2017, Towards Optimal
    Adaptation of NFV Packet Processing to Modern CPU Memory Architectures, section 4.3). Miss rates
    come from sizes, what a miss costs from the calibration; fitted are `base_cycles`, `accesses`
    and `bytes_per_entry`, and whether the accesses of a packet wait for one another (`overlapped`
    false) or are under way at once."""

    base_cycles: float
    bytes_per_entry: float
    penalties: tuple[Penalty, ...]
    points: tuple[FitPoint, ...]
    accesses: float | None = None  # None: an older headrace's, whose penalties were fitted freely
    overlapped: bool = False

    @property
    def errors(self) -> tuple[float, ...]:
        """Errors of leave-one-out predictions, without their sign."""
        return tuple(abs(p.error) for p in self.points if p.error is not None)


class PlaceCost(Spec):
    """The NF in one neighbourhood: cycles per packet, medians; `poll`: of a poll that finds
    packets, once; `idle`: of one that finds none."""

    nf: float
    rx: float
    tx: float
    loop: float
    source: float
    source_tx: float
    sink: float
    poll: float
    idle: float
    passed: float
    kept: float = 1.0  # the throughput over what the cycles of the busiest lcore would allow
    throughput_pps: float = 0.0  # 0: not noted, as an older headrace made it


class Places(Spec):
    """Neighbours on the same lcore or on another: what planning needs of an NF. Packets are made on
    one lcore and measured on another; the NF is on the first, on the second, or on both."""

    settings: Settings
    near: PlaceCost
    far: PlaceCost
    spread: PlaceCost
    line_cycles: float | None = None  # TSC cycles of a line that the other lcore had written


class ReplicaCost(Spec):
    """The NF in two replicas at once, one on the traffic's lcore and one on the other: `nf` is each
    one's own cycles per packet. Each has half of the flows, and they share what their cores do."""

    settings: Settings  # of both together
    nf: MedianRange


class Profile(Spec):
    nf: str
    params: dict[str, Any]
    created_at: str
    headrace: str
    host: str
    cpu: str | None
    tsc_hz: float
    hugepages: bool
    repetitions: int
    speed: Speed | None = None  # None: an older headrace made it
    points: tuple[ProfilePoint, ...]
    fit: Fit | None
    places: Places | None = None
    replicas: tuple[ReplicaCost, ...] = ()  # none: no state, or an older headrace made it
    corun: tuple[CoRun, ...]
    pmu: dict[str, float] | None  # per packet at the first point: cycles, instructions, misses
    pmu_absent: str | None
    tables: TableSweep | None = None  # only where it was asked for
