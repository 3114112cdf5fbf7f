# SPDX-License-Identifier: Apache-2.0
"""The ground of hosted chains: VNFs of headrace's own functions, in processes, containers or
virtual machines, around a host's engine that makes and measures the traffic."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from headrace.collect.collector import Targets, WatchedProcess
from headrace.collect.watch import targets_of
from headrace.engine.plan_compiler import direct_plan
from headrace.engine.plan_document import Plan
from headrace.engine.reading import Reading
from headrace.ground import catalogue
from headrace.ground.contract import Killable, Looking, Offer, Site
from headrace.ground.engine_check import PlanCheck
from headrace.ground.floor import Floor, Floors
from headrace.ground.hosted.anatomy import anatomy
from headrace.ground.hosted.arranged import Hosted, lay_out_hosted
from headrace.ground.hosted.chaos import Victims
from headrace.ground.hosted.container import check as check_containers
from headrace.ground.hosted.handover import Handover
from headrace.ground.hosted.hosted import HostedEngine
from headrace.ground.hosted.limits_used import limits
from headrace.ground.hosted.line_read import LineBetween, pair_of
from headrace.ground.hosted.ovs_dpdk import memory_mb
from headrace.ground.hosted.parts import Vnf
from headrace.ground.hosted.run_queue import WORKER
from headrace.ground.hosted.shares import RateCost, cpu_shares
from headrace.ground.hosted.vm_accel import find_qemu
from headrace.ground.hosted.vm_plan import EAL_MB
from headrace.ground.hosted.where import (
    MACHINE,
    Whereabouts,
    keep_places,
    placement_finding,
    whereabouts,
)
from headrace.ground.inline import DeployedEngine, EnginePoint, engine_of, policy_drops
from headrace.host import hugepages
from headrace.record.facts import Observation
from headrace.record.figures import Figures
from headrace.record.verdict import Finding
from headrace.spec.deployment import OVS_DPDK
from headrace.spec.hosting import RATE_COST
from headrace.spec.study import Experiment

HOST = "host"  # the engine in front of the VNFs


@dataclass(frozen=True, kw_only=True)
class HostedPoint(EnginePoint):
    """An experiment whose functions are in VNFs of their own."""

    hosted: Hosted

    def hosting_of(self, segment: str) -> str:
        if segment not in {vnf.name for vnf in self.hosted.vnfs}:
            return "inline"
        return self.hosted.hosting.kind

    @property
    def hosted_mb(self) -> int:
        each = self.hosted.hosting.memory_mb + EAL_MB if self.hosted.hosting.hugepages else 0
        return each * len(self.hosted.vnfs)

    @property
    def switch_mb(self) -> int:
        on = self.hosted.switch
        return 0 if on is None or on.network != OVS_DPDK else memory_mb(len(on.ports))

    @property
    def runs(self) -> tuple[str, ...]:
        kind, vnfs = self.hosted.hosting.kind, self.hosted.vnfs
        appliances = (one.appliance for one in vnfs if one.appliance is not None)
        files = [file for a in appliances for file in (a.image, a.kernel) if file is not None]
        machines = (str(find_qemu()), *files) if kind == "vm" else ()
        images = (catalogue.find("headrace").image,) if kind == "container" else ()
        return tuple(dict.fromkeys((*super().runs, *machines, *images)))

    @property
    def labels(self) -> tuple[str, ...]:
        hosting = self.hosted.hosting
        own = f"hosting-{hosting.kind}", self.hosted.topology, f"wait-{hosting.wait}"
        pages = ("hosting-hugepages",) if hosting.hugepages else ()
        return (*super().labels, *own, *pages)

    @contextlib.contextmanager
    def deploy(self, site: Site) -> Iterator[DeployedHosted]:
        with super().deploy(site) as up:
            assert isinstance(up, DeployedHosted)
            yield up

    @contextlib.contextmanager
    def started(self, plan: Plan, floor: Floor | None, site: Site) -> Iterator[DeployedHosted]:
        with site.stopwatch.phase("deploying"):
            engine = HostedEngine(self.description.engine, plan, self.hosted, site.state)
        with engine:
            yield DeployedHosted(self, site, engine, plan, floor)


class DeployedHosted(DeployedEngine):
    """The host's engine and its VNFs are one engine to whoever asks them."""

    def __init__(
        self, point: HostedPoint, site: Site, engine: HostedEngine, plan: Plan, floor: Floor | None
    ) -> None:
        self.hosted, self.host = point.hosted, engine
        self._placed: tuple[Finding, ...] = ()
        # Guests' lcores are their hypervisor's, wherever it has them.
        vm = self.hosted.hosting.kind == "vm"
        self._line = LineBetween(None if vm else pair_of(self.hosted.placement))
        super().__init__(point, site, engine, plan, floor)
        self._shares: RateCost | None = None
        if self.hosted.hosting.shares == RATE_COST:
            ways = [way.direction for way in self.ways]
            self._shares = RateCost(engine, engine.vnfs, self.hosted.hosting.chains, ways)

    @property
    def notes(self) -> Sequence[str]:
        return self.host.notes

    @property
    def labels(self) -> Sequence[str]:
        return (*super().labels, *self.host.labels)

    def start(self, offer: Offer, load_pps: float, seconds: float) -> None:
        self._line.begin()
        if self._shares is not None:
            self._shares.begin()
        super().start(offer, load_pps, seconds)

    def wait(self) -> None:
        assert self._run is not None, "nothing was started"
        if self._shares is None:
            super().wait()
            return
        self._shares.take(self._run.began, self._run.duration_s)
        with self.engine.measuring():  # which its looks have ended
            super().wait()

    def looking(self) -> Looking | None:
        """None while VNFs are killed: who restarts them and who looks on would ask at once."""
        return None if self.point.study.measure.chaos else super().looking()

    def killable(self) -> Killable | None:
        frame, chaos = self.point.experiment.frame.mean_bytes, self.point.study.measure.chaos
        over = Handover(self.host) if chaos is not None and chaos.how == "handed-over" else None
        return Victims(self.host, self.ways, self.site.state, frame, over)

    def parts(self) -> Targets:
        own = super().parts()
        vnfs = targets_of(self.host.pids) if self.host.grouped else Targets()
        processes: tuple[WatchedProcess, ...] = (*own.processes, *vnfs.processes)
        more = {"processes": processes, "telemetry": own.telemetry, "ovs": self.host.ovs}
        known = vnfs.model_copy(update=more)
        if self.host.bridge is None:
            return known
        name, namespace = self.host.bridge
        labels = known.labels | {name: "bridge"}
        bridge = {"bridges": (name,), "bridges_in": namespace, "labels": labels}
        return known.model_copy(update=bridge)

    def places(self) -> list[Whereabouts]:
        """Where the host's engine and the VNFs are; the host's first."""
        own = sorted({cpu for segment in self.plan.segments for cpu in segment.cpus})
        hosting = self.hosted.hosting
        workers = MACHINE if hosting.kind == "vm" else WORKER
        page_kb, least_kb = hosting.vm.page_kb, None
        if hosting.hugepages and (pages := hugepages.pool()) is not None:
            page_kb, least_kb = pages.page_kb, hosting.memory_mb << 10
        return [
            whereabouts(HOST, self.host.pid, own),
            *(
                whereabouts(
                    one.vnf.name,
                    one.pid,
                    _lcores(one.vnf),
                    workers=workers,
                    asked_page_kb=page_kb,
                    asked_kb=least_kb,
                    vhost=one.vhost,
                )
                for one in self.host.vnfs
            ),
        ]

    def read(self) -> Sequence[Observation]:
        if self.hosted.hosting.audit_placement:
            places = self.places()
            self._placed = (placement_finding(places),)
            keep_places(self.site.bundle, f"{self.point.chain}, {self.point.execution}", places)
        observed = super().read()
        line = self._line.end()
        return [replace(one, line=line) for one in observed]

    def seen(self, observation: Observation, reading: Reading) -> Observation:
        figures, facts = observation.figures, observation.facts
        ways = [way for way in self.ways if observation.direction in (way.direction, "both")]
        if self._has_anatomy(figures):
            assert figures.latency_ns is not None and self.floor is not None
            parts = anatomy(
                reading.before, reading.after, self.hosted.vnfs, ways, figures.latency_ns.mean,
                self.floor.p50,
            )  # fmt: skip
            figures = figures.model_copy(update={"anatomy": parts})
        used = limits(figures, observation.direction, self.hosted, len(self.ways))
        figures = figures.model_copy(update={"limits": used})
        if self.hosted.hosting.shares is not None:
            shares = cpu_shares(reading.before, reading.after, self.hosted.vnfs)
            figures = figures.model_copy(update={"cpu_shares": shares})
        facts = replace(facts, more=(*facts.more, *self._placed))
        if self.host.emulated:
            facts = replace(facts, more=(*facts.more, _emulated(self.host.emulated)))
        return Observation(observation.direction, figures, facts)

    def _has_anatomy(self, figures: Figures) -> bool:
        """Not where the latency is below the floor: the generator's part would be made up."""
        if figures.latency_ns is None or self.floor is None or self.floor.latency is None:
            return False
        return self.hosted.hosting.times and not figures.below_floor


def _lcores(vnf: Vnf) -> list[int]:
    """The lcores of all its vCPUs, where it is a machine."""
    return sorted({cpu for cpus in vnf.vcpus for cpu in cpus} | set(vnf.lcores))


def _emulated(how: str) -> Finding:
    """Nobody may take the figures of emulated CPUs for a server's: `suspect` at best."""
    return Finding(
        check="emulated",
        ok=False,
        text=f"The VNFs' CPUs are emulated ({how}): it is shown that packets pass, not how fast.",
    )


def hosted_point(
    experiment: Experiment, check: PlanCheck, available: list[int], floors: Floors
) -> HostedPoint:
    doc, description = check.doc, check.description
    engine = engine_of(experiment)
    hosted = lay_out_hosted(experiment, description, doc, available, engine)
    # What is wrong in the spec comes before what this machine or user lacks.
    if experiment.hosting.kind == "container":
        check_containers(doc)
    direct = direct_plan(experiment, hosted.placement, description, doc, engine)
    # VNFs of one kind differ in addresses only.
    kinds = {vnf.nodes: vnf.plan for vnf in hosted.vnfs}
    for plan in (hosted.plan, *filter(None, kinds.values())):
        check.check(plan, experiment)
    return HostedPoint(
        experiment, doc, description, hosted.placement, hosted.plan, direct,
        policy_drops(experiment, description), floors=floors, hosted=hosted,
    )  # fmt: skip
