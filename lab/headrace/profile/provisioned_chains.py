# SPDX-License-Identifier: Apache-2.0
"""How many servers several chains of VNFs hosted apart need: servers that are all alike, each with
an equal part of each chain, placed as `headrace plan --server` does (hosted_placeable.py)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from headrace.errors import HeadraceError
from headrace.layout.placing import SAME, loads_of, segment_work, share, up
from headrace.layout.provable import Placing
from headrace.profile.hosted_placeable import HostedPlaceable
from headrace.profile.machine_links import links_cautions
from headrace.profile.placeable import PlacementWish
from headrace.profile.provisioned import LOADS, Costing, ServersInUse, predicted_power, unmet
from headrace.profile.provisioned_hosted import check_asked
from headrace.spec.described import DescribedServer
from headrace.spec.document import Document
from headrace.spec.placement import WHOLE, PlacementAnswer
from headrace.spec.provision import ChainVnfs, HostedVnfs, ServersNeeded
from headrace.spec.study import Experiment

CHAINS_CAUTION = (
    "Several hosted chains: servers are all alike, each has an equal part of each chain; fewest "
    "is of such servers. VNFs on one lcore take of it what they take by themselves: what is lost "
    "while one waits for its turn is not counted, and neither are delays."
)


@dataclass(frozen=True)
class _Fitted:
    """One of the servers, which are alike."""

    servers: int
    there: HostedPlaceable
    answer: PlacementAnswer

    @property
    def lcores(self) -> int:
        """Counts one server's, with the host's."""
        return self.answer.value + len(self.there.host_cpus)

    @property
    def proven(self) -> int:
        return self.answer.certificate.bound + len(self.there.host_cpus)

    def busy(self, load: float) -> float:
        """Servers' worth of busy cores: the host's poll, VNFs as they wait."""
        answer, cores = self.answer, self.there.server.cores
        loads = loads_of(answer.problem, answer.placement).lcores.values()
        polls = self.there.experiments[0].hosting.wait == "poll"
        vnfs = sum(1.0 if polls else load * each / WHOLE for each in loads)
        return self.servers * (len(self.there.host_cpus) + vnfs) / cores

    @property
    def limit(self) -> str:
        """What has the least left."""
        problem = self.answer.problem
        loads = loads_of(problem, self.answer.placement)
        named = {
            limit.name.removeprefix(f"{self.there.server.name}: "): up(used * WHOLE, limit.capacity)
            for used, limit in zip(loads.limits, problem.limits, strict=True)
        }
        named["an lcore of VNFs"] = max(loads.lcores.values())
        return max(named, key=lambda name: named[name])

    @property
    def chains(self) -> dict[str, ChainVnfs]:
        ways = zip(self.there.experiments, self.answer.placement.ways, strict=True)
        return {
            one.chain: ChainVnfs(copies=self.there.copies_of(one), vnfs=len(way.segments))
            for one, way in ways
        }


@dataclass(frozen=True)
class ChainsProvisioning:
    """`experiments`: one of each chain."""

    doc: Document
    experiments: Sequence[Experiment]
    ratios: Sequence[int]
    full: float
    seconds: float  # for each placement
    most: int  # servers
    costing: Costing

    def check(self, server: DescribedServer, home: DescribedServer) -> None:
        check_asked(self.doc, self.experiments)
        for ratio in self.ratios:
            self._there(server, home, ratio, 1.0).check()

    def links(self, homes: Iterable[DescribedServer]) -> tuple[str, ...]:
        """Whose figures links to machines are."""
        return links_cautions(self.experiments[0], homes)

    def needed(
        self, server: DescribedServer, home: DescribedServer, factor: float
    ) -> list[ServersNeeded]:
        """One row for each oversubscription, without those of the layout of a lower one."""
        rows: dict[tuple[object, ...], ServersNeeded] = {}
        for ratio in self.ratios:
            row = self._row(server, home, ratio, factor)
            rows.setdefault((row.servers, row.lcores, row.cores, row.why_not), row)
        return list(rows.values())

    def _row(
        self, server: DescribedServer, home: DescribedServer, ratio: int, factor: float
    ) -> ServersNeeded:
        one = self._there(server, home, ratio, factor)
        rate = sum(one.demand(each).rate for each in self.experiments)
        refuted, fitted = self._fewest(one)
        if fitted is None:
            why = f"at {ratio}:1 no placement was met on up to {self.most} servers"
            return unmet(server, factor, rate, why)
        few, low = self._fewest(replace(one, wish=replace(one.wish, corner=-1.0)))
        _, high = self._fewest(replace(one, wish=replace(one.wish, corner=1.0)))
        servers = fitted.servers
        uses = {0.0: ServersInUse(servers, fitted.busy(1.0))}
        uses[-1.0] = ServersInUse(min(servers, few + 1), (low or fitted).busy(1.0))
        if high is not None:
            uses[1.0] = ServersInUse(high.servers, high.busy(1.0))
        gbps = sum(one.demand(e).rate * e.frame.mean_bytes * 8 / 1e9 for e in self.experiments)
        power = predicted_power(server, servers, [fitted.busy(load) for load, _ in LOADS], gbps)
        chains = fitted.chains
        return ServersNeeded(
            server=server.name,
            factor=factor,
            rate_pps=rate,
            servers=servers,
            fewest=servers == refuted + 1,
            lcores=servers * fitted.lcores,
            lcores_proven=servers * fitted.proven,
            lcores_least=None if low is None else low.servers * low.proven,
            lcores_most=None if high is None else high.servers * high.lcores,
            cores=servers * fitted.lcores,  # of each core one thread is used
            latency_us=None,
            **self.costing.of(server, uses),
            watts=None if power is None else power.loads[0].watts,
            power=power,
            hosted=HostedVnfs(
                kind=self.experiments[0].hosting.kind,
                execution="placed",
                vnfs=sum(each.copies * each.vnfs for each in chains.values()),
                chains=sum(each.copies for each in chains.values()),
                oversubscription=ratio,
                limit=fitted.limit,
                by_chain=chains,
            ),
        )

    def _fewest(self, one: HostedPlaceable) -> tuple[int, _Fitted | None]:
        """So many servers are too few, by the bound of how busy they would be at least; and the
        fewest on which a placement was met."""
        refuted = 0
        for servers in range(1, self.most + 1):
            there = self._part(one, servers)
            if there is None:
                continue
            if self._too_busy(there):
                refuted += servers == refuted + 1
                continue
            try:
                answer = Placing(there.problem(), self.seconds).answer()
            except HeadraceError:
                continue
            return refuted, _Fitted(servers, there, answer)
        return refuted, None

    def _too_busy(self, there: HostedPlaceable) -> bool:
        problem = replace(there, wish=replace(there.wish, aim="rate")).problem()
        try:
            return Placing(problem, self.seconds).bound() > problem.full
        except HeadraceError:
            return False

    def _part(self, one: HostedPlaceable, servers: int) -> HostedPlaceable | None:
        """One of so many servers, each chain with as many copies as a VNF of all of its functions
        needs; None: an lcore or a licence for each of them is more than there is of it."""
        wish = replace(one.wish, factor=one.wish.factor / servers)
        there = replace(one, wish=wish, copies={})
        copies = {e.chain: self._copies(there, i) for i, e in enumerate(there.experiments)}
        if any(several is None for several in copies.values()):
            return None
        return replace(there, copies={name: n for name, n in copies.items() if n is not None})

    def _copies(self, there: HostedPlaceable, number: int) -> int | None:
        """As a VNF of one copy has it, near the switch."""
        problem = there.problem()
        chain = problem.chains[number]
        near = min(range(len(problem.areas)), key=lambda a: chain.apart[a])
        whole = segment_work(chain, 0, len(chain.functions), near, SAME)
        uses = dict(chain.doors[0].uses)
        licence = there.licence_of(there.experiments[number])
        needs = [share(chain, whole, 1), 0 if licence is None else uses[licence]]
        copies = max(math.ceil(load / problem.full) for load in needs)
        lcores = problem.areas[near].cores
        return copies if copies <= lcores else None

    def _there(
        self, server: DescribedServer, home: DescribedServer, ratio: int, factor: float
    ) -> HostedPlaceable:
        wish = PlacementWish("lcores", self.full, 1, factor=factor)
        experiments = [_at(one, ratio) for one in self.experiments]
        return HostedPlaceable(self.doc, experiments, server, home, wish)


def _at(one: Experiment, ratio: int) -> Experiment:
    study = one.study
    hosting = study.deployment.hosting.model_copy(update={"oversubscription": ratio})
    deployment = study.deployment.model_copy(update={"hosting": hosting})
    return replace(one, study=study.model_copy(update={"deployment": deployment}))
