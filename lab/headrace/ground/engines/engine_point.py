# SPDX-License-Identifier: Apache-2.0
"""A chain on an engine that is not headrace's, as a point of a study."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.engine.plan_compiler import paths
from headrace.engine.plan_document import Plan
from headrace.ground.contract import Offer, Site
from headrace.ground.engine_check import PlanCheck
from headrace.ground.engines.adapter import Adapter, Work
from headrace.ground.engines.equivalence import Equivalences
from headrace.ground.engines.nftables import nftables
from headrace.ground.engines.ovs import ovs_dpdk
from headrace.ground.engines.testpmd import testpmd
from headrace.ground.engines.vpp import vpp
from headrace.ground.engines.xdp import xdp
from headrace.ground.floor import Floor, Floors
from headrace.ground.wired.ground import DeployedWired, WiredPoint, wired_point
from headrace.ground.wired.pair import WiredEngines
from headrace.ground.wired.wiring import entry, leaving
from headrace.host.ledger import Ledger
from headrace.record.equivalence import Equivalence
from headrace.record.verdict import Finding
from headrace.spec.deployment import HEADRACE, Execution
from headrace.spec.study import Experiment
from headrace.spec.testbed import ExternalDut, Testbed

_ADAPTERS: Mapping[str, Callable[[Work], Adapter]] = {
    "nftables": nftables, "ovs-dpdk": ovs_dpdk, "testpmd": testpmd, "vpp": vpp, "xdp": xdp,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ForeignPoint(WiredPoint):
    """`ours`: headrace's chain at the same ports, which it is compared with."""

    ours: WiredPoint
    adapter: Adapter
    verdicts: list[Equivalence] = field(default_factory=list)  # one, when it was compared

    @property
    def runs(self) -> tuple[str, ...]:
        return (str(self.description.engine), *self.adapter.programs)

    @property
    def labels(self) -> tuple[str, ...]:
        return (*super().labels, f"engine-{self.experiment.engine}")

    def engines(self, plan: Plan, site: Site) -> WiredEngines:
        ledger = Ledger(site.state.path)
        try:
            commands = self.adapter.commands(site, ledger)
            ends = self.ends(site)
            return WiredEngines(ends, plan, {}, self.bed, self.devices, commands)
        except BaseException:
            ledger.undo()
            raise

    @contextlib.contextmanager
    def started(self, plan: Plan, floor: Floor | None, site: Site) -> Iterator[DeployedWired]:
        if not self.verdicts:
            verdict = Equivalences(self.ours, self, self.adapter).verdict(site)
            self.verdicts.append(verdict)
            packets = f"{verdict.own + verdict.probes} packets"
            site.say(f"  {verdict.engine}: {verdict.verdict} of {packets} as headrace's chain")
        with super().started(plan, floor, site) as deployed:
            yield deployed

    def deployed(
        self, site: Site, engine: WiredEngines, plan: Plan, floor: Floor | None
    ) -> DeployedWired:
        return DeployedForeign(self, site, engine, plan, floor, self.verdicts[0])


class DeployedForeign(DeployedWired):
    """An engine that does something else to packets has no figures."""

    def __init__(
        self,
        point: WiredPoint,
        site: Site,
        engine: WiredEngines,
        plan: Plan,
        floor: Floor | None,
        verdict: Equivalence,
    ) -> None:
        self._verdict = verdict
        super().__init__(point, site, engine, plan, floor)

    def verify(self) -> Sequence[Finding]:
        return super().verify() if self._verdict.equal else ()

    def lacks(self, offer: Offer) -> str | None:
        if self._verdict.equal:
            return super().lacks(offer)
        return f"its packets are not those of headrace's chain: {self._verdict.verdict}"


def foreign_point(
    experiment: Experiment, check: PlanCheck, available: list[int], floors: Floors
) -> ForeignPoint:
    whole = replace(experiment, engine=HEADRACE, execution=Execution(name=HEADRACE, model="rtc"))
    ours = wired_point(whole, check, available, floors)
    bed = ours.bed
    cpus = {cpu for segment in ours.placement.segments for cpu in segment.all_cpus}
    work = Work(
        experiment, check.doc,
        {way.direction: (ours.devices[entry(bed.chain, way.direction)],
                         ours.devices[leaving(bed.chain, way.direction)])
         for way in paths(experiment)},
        tuple(sorted(cpus)), (*ours.placement.making, *ours.placement.measuring),
    )  # fmt: skip
    return ForeignPoint(
        experiment, check.doc, check.description,
        replace(ours.placement, segments=(), others=work.cpus), ours.plan, ours.direct, ours.policy,
        floors=floors, chain_plans={}, ours=ours, adapter=_ADAPTERS[experiment.engine](work),
        bed=Testbed(
            ports={name: bed.ports[name] for name in bed.tester}, tester=bed.tester,
            dut=ExternalDut(),
        ),
        devices={name: ours.devices[name] for name in bed.tester},
    )  # fmt: skip
