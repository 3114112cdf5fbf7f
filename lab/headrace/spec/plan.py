# SPDX-License-Identifier: Apache-2.0
"""What `headrace plan` says: layouts of a chain, predicted and measured."""

from __future__ import annotations

from typing import Literal

from pydantic import RootModel

from headrace.spec.base import Spec
from headrace.spec.profile import Speed

Role = Literal["best", "rtc", "pipeline", "given"]
Aim = Literal["throughput", "latency", "lcores"]
CostSource = Literal["measured", "profiles"]
CHOICE_CLOSE = 0.03  # a choice no slower than this is as good as the best that was measured


class SegmentPlan(Spec):
    """`parallel`: functions that work on a packet side by side, those behind the first on the
    lcores of `beside`."""

    functions: tuple[str, ...]
    lcores: tuple[int, ...]
    parallel: tuple[str, ...] = ()
    beside: tuple[int, ...] = ()


class OverChosen(Spec):
    """A rate over that of the layout that was chosen, by rounds in which both ran; and between what
    it lies nine times in ten, by how starts scatter."""

    over: float
    least: float
    most: float


class LayoutPlan(Spec):
    role: Role
    # Costs were taken from this very layout: what is predicted of it is what it did then.
    taken: bool = False
    segments: tuple[SegmentPlan, ...]
    predicted_pps: float
    cycles_per_lcore: dict[int, float]  # per packet of the chain's throughput
    measured_pps: float | None = None
    measured_min_pps: float | None = None
    measured_max_pps: float | None = None
    # What was measured, at the pace that the machine had when costs were taken: by the reference;
    # None: nothing tells it, as where lcores were elsewhere.
    paced_pps: float | None = None
    # A hypervisor had the lcores elsewhere than when costs were taken, in all of its rounds: what
    # was measured is another machine's, and the prediction is not held against it.
    elsewhere: bool = False
    # None: it was not verified, or had no round with the chosen layout while lcores were where they
    # were when costs were taken.
    over_chosen: OverChosen | None = None
    # The same of its latencies, in all trials at the load: a line that another lcore wrote is in
    # each packet's way.
    latency_elsewhere: bool = False
    # At the load that was asked for; None: none was, or it is more than the layout carries.
    predicted_latency_us: float | None = None
    # Measured are medians of slices of 10 ms in which, and shortly before, nothing kept an lcore
    # from working for over 0.1 ms; None: hardly any were so. What is shorter is in both.
    measured_latency_us: float | None = None  # median packet
    predicted_p99_us: float | None = None
    measured_p99_us: float | None = None
    quiet_share: float | None = None  # of those slices
    whole_p99_us: float | None = None  # of whole trials: with what else the machine did

    @property
    def error(self) -> float | None:
        """Relative error of the prediction; positive: it promised too much."""
        if not self.reached_pps or self.elsewhere:
            return None
        return self.predicted_pps / self.reached_pps - 1

    @property
    def reached_pps(self) -> float | None:
        """What a prediction is held against; as measured where nothing tells the pace."""
        return self.paced_pps or self.measured_pps


class Reference(Spec):
    """The same chain of functions run when costs were taken, and again beside each round of what
    was verified: how fast the machine was then and later."""

    what: str
    then_pps: float
    now_pps: float  # median of the rounds
    now_min_pps: float
    now_max_pps: float
    speed_then: Speed | None = None
    speed_now: Speed | None = None

    @property
    def pace(self) -> float:
        return self.now_pps / self.then_pps


class FunctionCost(Spec):
    """Cycles per packet, each pair: the packet's other place on the same lcore, or on another."""

    name: str
    work: tuple[float, float]
    receive: tuple[float, float]
    send: tuple[float, float]
    loop: float
    poll: float = 0.0  # what a poll that finds packets costs once
    replicated: float | None = None  # itself, in a replica
    share: float = 1.0  # of the source's packets that come to it


class ChainPlan(Spec):
    chain: str
    workload: str
    lcores: tuple[int, ...]
    generator: int
    measure: int
    tsc_hz: float
    how: str
    bound_pps: float
    rate_pps: float | None  # asked for
    within_us: float | None = None  # asked for
    aim: Aim = "throughput"
    costs: CostSource = "measured"
    functions: tuple[FunctionCost, ...]
    source: tuple[float, float]
    sink: tuple[float, float]
    # Some runs could be made only while a hypervisor had the lcores elsewhere than for others: what
    # no other run tells is of another state.
    mixed: bool = False
    # TSC cycles of a line that the other lcore wrote, where costs were taken; None: not known.
    line_cycles: float | None = None
    kept: float = 1.0  # predicted throughput over what cycles_per_lcore alone would allow
    layouts: tuple[LayoutPlan, ...]
    reference: Reference | None = None  # None: nothing was verified, or nothing told the pace

    def layout(self, role: Role) -> LayoutPlan:
        return next(one for one in self.layouts if one.role == role)

    @property
    def choice_loss(self) -> float | None:
        """How much slower the chosen layout is than the fastest that was verified, by starts that
        had no part in choosing it. None: not all of them ran beside it on the machine that costs
        are of."""
        leads = [one.over_chosen for one in self.layouts]
        if not all(leads):
            return None
        return 1 - 1 / max(one.over for one in leads if one)

    @property
    def choice_sure(self) -> bool:
        """Whether nine times in ten the choice is within CHOICE_CLOSE of each of the others, or
        behind one of them by more."""
        bound = 1 / (1 - CHOICE_CLOSE)
        leads = [one.over_chosen for one in self.layouts if one.over_chosen]
        return all(one.most <= bound for one in leads) or any(one.least > bound for one in leads)


class ChainPlans(RootModel[tuple[ChainPlan, ...]]):
    """What `headrace plan` prints."""
