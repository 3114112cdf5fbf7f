# SPDX-License-Identifier: Apache-2.0
"""What `headrace plan` says: layouts of a chain, predicted and measured."""

from __future__ import annotations

from typing import Literal

from headrace.spec.base import Spec

Role = Literal["best", "rtc", "pipeline"]
Aim = Literal["throughput", "latency", "lcores"]
CostSource = Literal["measured", "profiles"]


class SegmentPlan(Spec):
    """`parallel`: functions that work on a packet side by side, those behind the first on the
    lcores of `beside`."""

    functions: tuple[str, ...]
    lcores: tuple[int, ...]
    parallel: tuple[str, ...] = ()
    beside: tuple[int, ...] = ()


class LayoutPlan(Spec):
    role: Role
    segments: tuple[SegmentPlan, ...]
    predicted_pps: float
    cycles_per_lcore: dict[int, float]  # per packet of the chain's throughput
    measured_pps: float | None = None
    measured_min_pps: float | None = None
    measured_max_pps: float | None = None
    # At the load that was asked for; None: none was, or it is more than the layout carries.
    predicted_latency_us: float | None = None
    measured_latency_us: float | None = None  # median packet

    @property
    def error(self) -> float | None:
        """Of the prediction; positive: promised too much."""
        if not self.measured_pps:
            return None
        return self.predicted_pps / self.measured_pps - 1


class FunctionCost(Spec):
    """Cycles per packet, each pair: the packet's other place on the same lcore, or on another."""

    name: str
    work: tuple[float, float]
    receive: tuple[float, float]
    send: tuple[float, float]
    loop: float
    poll: float = 0.0  # what a poll that finds packets costs once
    replicated: float | None = None  # itself, in a replica


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
    kept: float = 1.0  # predicted throughput over what cycles_per_lcore alone would allow
    layouts: tuple[LayoutPlan, ...]

    def layout(self, role: Role) -> LayoutPlan:
        return next(one for one in self.layouts if one.role == role)

    @property
    def choice_loss(self) -> float | None:
        """How much slower the chosen layout is than the fastest that was measured."""
        rates = [one.measured_pps for one in self.layouts if one.measured_pps]
        chosen = self.layout("best").measured_pps
        return 1 - chosen / max(rates) if chosen and rates else None
