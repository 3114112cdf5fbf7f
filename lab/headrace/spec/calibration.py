# SPDX-License-Identifier: Apache-2.0
"""What a server costs, as measured on it: the file that `headrace server calibrate` writes.

Delays and costs are in TSC cycles unless their name says otherwise.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import Field

from headrace.spec.base import MedianRange, Spec
from headrace.spec.server import Server

PlaceName = Literal["l1", "l2", "llc", "other-clean", "other-modified", "memory", "remote-memory"]


class ChasePoint(MedianRange):
    bytes: int


class Curve(Spec):
    """Cycles per access over working-set sizes, in the memory of one node (-1: not chosen)."""

    node: int
    page_bytes: int
    points: tuple[ChasePoint, ...]


class Transfer(Spec):
    """A line that the core `source` has, loaded by the core `target`; `own`: loaded again."""

    source: Annotated[int, Field(alias="from")]
    target: Annotated[int, Field(alias="to")]
    clean: MedianRange | None
    modified: MedianRange
    own: MedianRange


class RingCost(Spec):
    """What a ring costs per packet. `touched`: with the descriptor and header line, which the
    producer wrote."""

    burst: int
    touched: bool
    enqueue: MedianRange
    dequeue: MedianRange
    total: MedianRange
    same_core: MedianRange


class Skew(Spec):
    source: Annotated[int, Field(alias="from")]
    target: Annotated[int, Field(alias="to")]
    offset: float
    bound: float


class Quantiles(Spec):
    count: int
    p50: float
    p99: float
    max: float


class Interruptions(Quantiles):
    per_s: float
    share: float


class Clock(Spec):
    tsc_hz: float
    read_cycles: MedianRange
    step_cycles: int  # the clock advances by no less
    skew: tuple[Skew, ...]
    sleep_late_ns: Quantiles
    interruptions_ns: Interruptions


class Sharing(Spec):
    """Two pollers on one core."""

    wait_ns: MedianRange
    wait_max_ns: float
    switches_per_s: MedianRange
    throughput_lost: MedianRange


class Placed(Spec):
    """Timed loads of lines whose place is known: cycles and how often."""

    place: PlaceName
    counts: tuple[tuple[int, int], ...]


class Measured(Spec):
    """What headrace-calibrate prints; a part that needs a second CPU is null where there is one."""

    cpus: tuple[int, ...]
    l1_bytes: int
    l2_bytes: int
    llc_bytes: int
    rounds: int
    tsc_hz: float
    clock: Clock
    chase: tuple[Curve, ...]
    gather: tuple[Curve, ...]
    transfer: tuple[Transfer, ...] | None
    ring: tuple[RingCost, ...] | None
    share: Sharing | None
    placed: tuple[Placed, ...]


class Level(Spec):
    """A level of the memory hierarchy. `reaches_bytes`: up to where working sets find it; less
    than `bytes` where neighbours have their share of the cache. `cycles`: of a load that waits for
    the one before; `gather_cycles`: of a line of which 32 are fetched at once (None: an older
    headrace calibrated)."""

    name: str
    bytes: int | None
    reaches_bytes: int | None
    cycles: float
    gather_cycles: float | None = None


class Class(Spec):
    """Loads of fewer cycles than this (and not of the class before) came from these places; cycles
    beyond those of a first-level hit."""

    name: str
    places: tuple[PlaceName, ...]
    below_cycles: int | None  # None: the last one
    agreement: float  # share of its own samples, of a second measurement, that it gets right
    # Where its samples of the second measurement were put: a share for each class, in their order.
    put: tuple[float, ...]


class Confusion(Spec):
    """Lines of a known place: into which classes they were put, a share for each in their order.
    `right`: into the class that has this place."""

    place: PlaceName
    samples: int
    put: tuple[float, ...]
    right: float


class Classes(Spec):
    """Where a load came from, by its time. Places that cannot be told apart here are one class."""

    classes: tuple[Class, ...]
    agreement: float  # over all classes alike
    confusion: tuple[Confusion, ...] = ()  # of the second measurement

    def right(self, places: Collection[str]) -> float | None:
        """Share of the samples of these places, each place weighing alike, that is told from the
        other ones; a class of two of them tells nothing. None: none was measured."""
        mixed = {
            place
            for one in self.classes
            if len(shared := set(one.places) & set(places)) > 1
            for place in shared
        }
        shares = [
            0.0 if one.place in mixed else one.right
            for one in self.confusion
            if one.place in places
        ]
        return sum(shares) / len(shares) if shares else None


class Calibration(Spec):
    created_at: str
    headrace: str
    server: Server
    measured: Measured
    levels: tuple[Level, ...]
    locate: Classes
    load_average: float
