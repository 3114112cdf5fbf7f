# SPDX-License-Identifier: Apache-2.0
"""What `headrace provision` says: how many servers of which type carry a study's chains."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headrace.spec.base import Spec


class PowerAtLoad(Spec):
    """`load`: share of the row's rate; `weight`: of it in the weighted sums. `least`, `most`: by
    the spread of the description's watts. `gbps`: layer 2."""

    load: float
    weight: float
    watts: float
    least: float
    most: float
    gbps: float


class PredictedPower(Spec):
    """Terms of draft-ietf-bmwg-powerbench-02, predicted by the description's idle and busy watts;
    `sources` says what these are. `base_watts`: nothing runs. `weighted_watts` and
    `weighted_gbps`: its P and T; `gbps_per_watt`: its EER, `eer_least` and `eer_most` by the watts'
    spread. Intervals of stabilising and measuring are not stated, as nothing was measured."""

    kind: Literal["predicted"] = "predicted"
    base_watts: float
    loads: tuple[PowerAtLoad, ...]
    weighted_watts: float
    weighted_gbps: float
    gbps_per_watt: float
    eer_least: float
    eer_most: float
    sources: tuple[str, ...]


class ChainVnfs(Spec):
    """What one chain has on each server: `copies`, of `vnfs` VNFs each."""

    copies: int
    vnfs: int


class HostedVnfs(Spec):
    """VNFs hosted apart on each server: `chains` copies of the chain, of `vnfs` VNFs each as
    `execution` cuts it, `oversubscription` of them on a physical core at most. Of several chains
    `by_chain` says what each has; then `chains` are all copies, `vnfs` all VNFs."""

    kind: str
    execution: str
    vnfs: int
    chains: int
    oversubscription: int
    limit: str  # what has the least left of all: an lcore, the NIC's switch, a licence
    by_chain: dict[str, ChainVnfs] = Field(default_factory=dict)


class ServersNeeded(Spec):
    """Servers of one type for `factor` times the rates that are asked for. `servers` None: there
    is no placement, or none was met; `why_not` says which. `fewest`: one server less is refuted by
    a bound. `lcores_proven`: no placement on these servers uses fewer. `lcores_least`,
    `lcores_most`: proven at the costs' least, met at their most. `latency_us`: of the slowest
    chain, between `latency_least_us` and `latency_most_us` by the costs' spread, in this very
    layout; None: with costs at their most it does not carry the rate. `servers_least`: fewer are
    too few with costs at their least; `servers_most`: so many do with costs at their most (None:
    none were met). `hosted`: by the simulated ground, of layouts that were all computed: nothing is
    proven but that fewer servers are too few for these. `usd`: in all the hours of use, the less of
    what buying and renting cost, as `paid` says; `usd_least`, `usd_most`: of these servers, by the
    spread of the description's prices, too. Watts are by the description's idle and busy watts,
    never measured."""

    server: str
    factor: float
    rate_pps: float
    servers: int | None
    servers_least: int | None = None
    servers_most: int | None = None
    fewest: bool
    lcores: int | None
    lcores_proven: int | None
    lcores_least: int | None
    lcores_most: int | None
    cores: int | None  # physical ones, that have these lcores
    latency_us: float | None
    latency_least_us: float | None = None
    latency_most_us: float | None = None
    usd: float | None
    usd_least: float | None = None
    usd_most: float | None = None
    paid: Literal["bought", "rented"] | None = None
    watts: float | None
    why_not: str = ""
    power: PredictedPower | None = None
    hosted: HostedVnfs | None = None  # None: inline
    pareto: bool = False  # none of the others is as good in all, and better in one


class Provision(Spec):
    """What `headrace provision` prints."""

    study: str
    busy: float
    hours: float  # of use, in which all costs are
    usd_per_kwh: float | None  # None: power that bought servers draw is not counted
    needs: tuple[ServersNeeded, ...]
    cautions: tuple[str, ...]
