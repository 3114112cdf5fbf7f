# SPDX-License-Identifier: Apache-2.0
"""How many servers chains of VNFs hosted apart need: as the simulated ground has them, with more
and more copies side by side, so many VNFs on a physical core (Ben Hamed et al. 2020)."""

from __future__ import annotations

import functools
import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from headrace.errors import BadInput
from headrace.ground.hosted.arrangement import vnf_groups
from headrace.ground.simulated.ground import SimulatedGround, SimulatedPoint
from headrace.ground.simulated.priced_layout import PricedLayout
from headrace.ground.simulated.queueing import delays_ns
from headrace.ground.simulated.refuse import check_covered
from headrace.profile.machine_links import links_cautions
from headrace.profile.provisioned import LOADS, Costing, ServersInUse, predicted_power, unmet
from headrace.spec.described import DescribedServer
from headrace.spec.document import Document
from headrace.spec.hosting import VFS_MAX
from headrace.spec.provision import HostedVnfs, ServersNeeded
from headrace.spec.study import Experiment

_LOST = 1e-5  # of the packets: the loss of Ben Hamed et al. 2020
_ROUNDS = 40
HOSTED_CAUTION = (
    "Hosted VNFs are as the simulated ground has them: the rate is the most without loss (under "
    "0.001 %), the delay the median at the rate asked for, and fewest is of the layouts that were "
    "computed, VNFs on as few cores as their oversubscription allows."
)


@dataclass(frozen=True)
class _Option:
    """A cut of the chain, and how many VNFs may be on a physical core."""

    experiment: Experiment
    ratio: int

    @property
    def vnfs(self) -> int:
        """How many one chain has."""
        return len(vnf_groups(self.experiment))


@dataclass(frozen=True)
class _Filled:
    """A server with so many chains on it."""

    point: SimulatedPoint
    layout: PricedLayout
    pps: float  # carried without loss


@dataclass(frozen=True)
class HostedProvisioning:
    """`experiments`: executions of one chain."""

    doc: Document
    experiments: Sequence[Experiment]
    ratios: Sequence[int]
    full: float
    most: int  # servers
    costing: Costing
    _filled: dict[tuple[str, str, int, int, float], _Filled] = field(default_factory=dict)

    def check(self, server: DescribedServer, home: DescribedServer) -> None:
        check_asked(self.doc, self.experiments)
        for each in self.experiments:
            check_covered(each, self.doc, home, server)

    def links(self, homes: Iterable[DescribedServer]) -> tuple[str, ...]:
        """Whose figures links to machines are."""
        return links_cautions(self.experiments[0], homes)

    def needed(
        self, server: DescribedServer, home: DescribedServer, factor: float
    ) -> list[ServersNeeded]:
        """One row for each cut and oversubscription, without those of the layout of a lower one."""
        ground = SimulatedGround(server, home, "events")
        rows: dict[tuple[object, ...], ServersNeeded] = {}
        for one in self.experiments:
            for ratio in self.ratios:
                row = self._row(ground, _Option(one, ratio), factor)
                vnfs = None if row.hosted is None else row.hosted.chains
                same = one.execution.name, row.servers, vnfs, row.cores, row.lcores, row.why_not
                rows.setdefault(same, row)
        return list(rows.values())

    def _row(self, ground: SimulatedGround, option: _Option, factor: float) -> ServersNeeded:
        rate = factor * self._rate(option.experiment)
        best = self._best(ground, option, 0.0)
        servers = math.ceil(rate / best) if best else self.most + 1
        if servers > self.most:
            why = f"{_named(option)}: one server carries {best / 1e6:.3g} Mpps of it"
            return unmet(ground.server, factor, rate, f"{why}; --most {self.most}")
        each = rate / servers
        enough = {corner: self._fewest(ground, option, each, corner) for corner in (-1.0, 0.0, 1.0)}
        quick = self._quick(ground, option, each, enough[0.0])
        if quick is None:
            why = f"{_named(option)}: no number of chains has the delay that is asked"
            return unmet(ground.server, factor, rate, why)
        chains, latency_us = quick
        filled = self._fill(ground, option, chains, 0.0)
        server = ground.server
        uses = self._uses(ground, option, rate, chains) | {
            0.0: ServersInUse(servers, servers * _busy(filled, server, each))
        }
        lcores = {
            corner: None if n is None else servers * self._lcores(ground, option, max(n, more))
            for corner, n in enough.items()
            for more in [chains if corner >= 0 else 1]
        }
        gbps = rate * option.experiment.frame.mean_bytes * 8 / 1e9
        busy = [servers * _busy(filled, server, load * each) for load, _ in LOADS]
        power = predicted_power(server, servers, busy, gbps)
        return ServersNeeded(
            server=server.name,
            factor=factor,
            rate_pps=rate,
            servers=servers,
            fewest=servers == 1,
            lcores=lcores[0.0],
            lcores_proven=None,
            lcores_least=lcores[-1.0],
            lcores_most=lcores[1.0],
            cores=servers * len(_cores(filled, server)),
            latency_us=latency_us,
            latency_least_us=self._delay_at(ground, option, chains, each, -1.0),
            latency_most_us=self._delay_at(ground, option, chains, each, 1.0),
            **self.costing.of(server, uses),
            watts=None if power is None else power.loads[0].watts,
            power=power,
            hosted=HostedVnfs(
                kind=option.experiment.hosting.kind,
                execution=option.experiment.execution.name,
                vnfs=option.vnfs,
                chains=chains,
                oversubscription=option.ratio,
                limit=filled.layout.capacity()[1],
            ),
        )

    def _best(self, ground: SimulatedGround, option: _Option, corner: float) -> float:
        """What one server carries at most, as busy as it may be."""
        every = range(1, self._chains_most(ground.server, option) + 1)
        return max((self._pps(ground, option, n, corner) for n in every), default=0.0) * self.full

    def _uses(
        self, ground: SimulatedGround, option: _Option, rate: float, chains: int
    ) -> dict[float, ServersInUse]:
        """Servers with costs at their least and at their most, each with enough chains for its
        part of the rate; without a corner at which --most are too few."""
        uses = {}
        for corner in (-1.0, 1.0):
            best = self._best(ground, option, corner)
            if not best or (servers := math.ceil(rate / best)) > self.most:
                continue
            enough = self._fewest(ground, option, rate / servers, corner)
            assert enough is not None  # the best of all carries it
            filled = self._fill(
                ground, option, max(enough, chains) if corner > 0 else enough, corner
            )
            busy = servers * _busy(filled, ground.server, rate / servers)
            uses[corner] = ServersInUse(servers, busy)
        return uses

    def _delay_at(
        self, ground: SimulatedGround, option: _Option, chains: int, rate: float, corner: float
    ) -> float | None:
        """None: so many chains do not carry the rate there."""
        filled = self._fill(ground, option, chains, corner)
        return self._latency_us(filled, rate, ground.server) if filled.pps >= rate else None

    def _rate(self, one: Experiment) -> float:
        return float(one.study.demands[one.chain].rate)

    def _fewest(
        self, ground: SimulatedGround, option: _Option, rate: float, corner: float
    ) -> int | None:
        for chains in range(1, self._chains_most(ground.server, option) + 1):
            if self._pps(ground, option, chains, corner) * self.full >= rate:
                return chains
        return None

    def _quick(
        self, ground: SimulatedGround, option: _Option, rate: float, chains: int | None
    ) -> tuple[int, float | None] | None:
        """So many chains, or more, as have the delay that is asked for; and their delay, which is
        taken to fall with each chain more."""
        assert chains is not None  # the best of all carries it
        within = option.experiment.study.demands[option.experiment.chain].latency

        @functools.cache
        def us(n: int) -> float | None:
            return self._latency_us(self._fill(ground, option, n, 0.0), rate, ground.server)

        first = us(chains)
        if within is None or (first is not None and first <= within * 1e6):
            return chains, first
        carrying = [
            n
            for n in range(chains + 1, self._chains_most(ground.server, option) + 1)
            if self._pps(ground, option, n) * self.full >= rate
        ]

        def quick(n: int) -> bool:
            return (us(n) or math.inf) <= within * 1e6

        # Delays of many take long to compute: by steps of a third, then between the last two.
        low = 0
        while low < len(carrying):
            high = min(len(carrying) - 1, low + carrying[low] // 3)
            if quick(carrying[high]):
                fewest = carrying[bisect_left(carrying, True, low, high, key=quick)]
                return fewest, us(fewest)
            low = high + 1
        return None

    def _pps(
        self, ground: SimulatedGround, option: _Option, chains: int, corner: float = 0.0
    ) -> float:
        return self._fill(ground, option, chains, corner).pps

    def _fill(
        self, ground: SimulatedGround, option: _Option, chains: int, corner: float
    ) -> _Filled:
        key = ground.server.name, option.experiment.execution.name, option.ratio, chains, corner
        if key not in self._filled:
            point = ground.hosted_point(self._with(ground.server, option, chains), self.doc)
            layout = point.priced(corner)
            self._filled[key] = _Filled(point, layout, _lossless(layout))
        return self._filled[key]

    def _with(self, server: DescribedServer, option: _Option, chains: int) -> Experiment:
        study = option.experiment.study
        cores = self._free_cores(server, option)[: math.ceil(chains * option.vnfs / option.ratio)]
        threads = tuple(cpu for core in cores for cpu in server.threads_of(core))
        hosting = study.deployment.hosting.model_copy(
            update={"chains": chains, "oversubscription": option.ratio}
        )
        traffic = tuple(self._traffic(option))
        lcores = study.deployment.lcores.model_copy(update={"traffic": traffic, "chain": threads})
        deployment = study.deployment.model_copy(update={"hosting": hosting, "lcores": lcores})
        return replace(option.experiment, study=study.model_copy(update={"deployment": deployment}))

    def _traffic(self, option: _Option) -> Sequence[int]:
        return option.experiment.study.deployment.lcores.traffic or (0,)

    def _free_cores(self, server: DescribedServer, option: _Option) -> list[int]:
        """Leave out those of traffic, whose siblings stay free; the NIC's socket is first."""
        traffic = self._traffic(option)
        if unknown := [cpu for cpu in traffic if cpu not in server.cpus]:
            raise BadInput(f"server {server.name} has no lcore {unknown[0]}, of the traffic")
        taken = {server.core_of(cpu) for cpu in traffic}
        near = server.socket_of(traffic[0])
        cores = [c for c in range(server.cores) if c not in taken]
        if server.remote_cycles is None:
            cores = [core for core in cores if server.socket_of(core) == near]
        return sorted(cores, key=lambda core: server.socket_of(core) != near)

    def _chains_most(self, server: DescribedServer, option: _Option) -> int:
        places = len(self._free_cores(server, option)) * option.ratio
        return min(places, VFS_MAX) // option.vnfs

    def _lcores(self, ground: SimulatedGround, option: _Option, chains: int) -> int:
        return len(_cpus(self._fill(ground, option, chains, 0.0)))

    def _latency_us(self, filled: _Filled, rate: float, server: DescribedServer) -> float | None:
        capacity = filled.layout.capacity()[0]
        delays = delays_ns(
            filled.layout, rate, capacity, filled.point.experiment, server, "events"
        )  # fmt: skip
        return None if delays is None else float(np.median(delays)) / 1e3


def check_asked(doc: Document, experiments: Sequence[Experiment]) -> None:
    """BadInput where a chain has no demand, or the study says what is to be computed."""
    for one in experiments:
        if one.chain not in one.study.demands:
            raise doc.error((), "no `demands`; allowed: chain: {rate: ...}")
    deployment = experiments[0].study.deployment
    hosting, at = experiments[0].hosting, ("deployment", "hosting")
    for key, given in (
        ("chains", hosting.chains != 1),
        ("active", hosting.active is not None),
        ("lcores", hosting.lcores is not None),
        ("oversubscription", hosting.oversubscription is not None),
    ):
        if given:
            raise doc.error((*at, key), "is what `headrace provision` computes")
    if deployment.lcores.chain is not None:
        raise doc.error(("deployment", "lcores", "chain"), "is what `headrace provision` computes")


def _cpus(filled: _Filled) -> set[int]:
    bare = filled.point.bare
    assert bare is not None  # it is hosted
    return {vnf.lcores[0] for chain in bare.chains for vnf in chain} | set(bare.traffic)


def _cores(filled: _Filled, server: DescribedServer) -> set[int]:
    return {server.core_of(cpu) for cpu in _cpus(filled)}


def _named(option: _Option) -> str:
    return f"{option.experiment.execution.name} at {option.ratio}:1"


def _lossless(layout: PricedLayout) -> float:
    """The most packets/s of which no more than _LOST are lost."""
    least, most = 0.0, layout.source_pps()
    if layout.received_pps(most) >= most * (1 - _LOST):
        return most
    for _ in range(_ROUNDS):
        load = (least + most) / 2
        if layout.received_pps(load) >= load * (1 - _LOST):
            least = load
        else:
            most = load
    return least


def _busy(filled: _Filled, server: DescribedServer, rate: float) -> float:
    """Servers' worth of busy cores: those of traffic and switch poll, VNFs as they wait."""
    hz = server.clock_mhz.value * 1e6
    point, idle = filled.point, dict[int, float]()
    assert point.bare is not None
    cycles, polls = filled.layout.busiest(), point.experiment.hosting.wait == "poll"
    for cpu in _cpus(filled):
        share = 1.0 if polls or cpu in point.bare.traffic else cycles[cpu] * rate / hz
        assert share <= 1, f"lcore {cpu} is {share:.3f} busy at a rate that it carries"
        # Threads of a core work independently of each other.
        core = server.core_of(cpu)
        idle[core] = idle.get(core, 1.0) * (1 - share)
    return sum(1 - share for share in idle.values()) / server.cores
