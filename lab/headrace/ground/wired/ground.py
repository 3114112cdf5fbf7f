# SPDX-License-Identifier: Apache-2.0
"""The ground of a testbed: the tester between its ports, the chain or an external device at the
other end of the wires."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Literal

from headrace.collect.collector import Targets, WatchedProcess
from headrace.collect.elsewhere import AgentsThere, Elsewhere
from headrace.engine.place import place
from headrace.engine.plan_compiler import direct_plan
from headrace.engine.plan_document import Plan, PlanEngine
from headrace.engine.reading import Reading
from headrace.engine.running import RunningEngine
from headrace.ground.contract import AboutEngine, Site
from headrace.ground.engine_check import PlanCheck
from headrace.ground.floor import Floor, Floors
from headrace.ground.inline import DeployedEngine, EnginePoint, engine_of, policy_drops
from headrace.ground.wired.apart import place_apart
from headrace.ground.wired.devices import resolve
from headrace.ground.wired.here import Here, WireEnd
from headrace.ground.wired.pair import TESTER, WiredEngines
from headrace.ground.wired.there import Servers, There, ThereEngine, at_home
from headrace.ground.wired.wiring import CHAIN, chain_plans, entry, hop_name, leaving, tester_plan
from headrace.host.state import telemetry_sockets
from headrace.record.counters import PortReading
from headrace.record.facts import Observation
from headrace.record.verdict import Finding
from headrace.spec.deployment import OVS_DPDK, Deployment
from headrace.spec.study import Experiment, Study
from headrace.spec.testbed import Device, Testbed


@dataclass(frozen=True, kw_only=True)
class WiredPoint(EnginePoint):
    """An experiment between ports. `plan` is the tester's."""

    bed: Testbed
    devices: Mapping[str, Device]
    chain_plans: Mapping[str, Plan]  # by engine; none: the device under test is external
    servers: Servers | None = None  # None: all of it is on this machine

    @property
    def runs(self) -> tuple[str, ...]:
        dut = self.bed.external
        if dut is None:
            return super().runs
        commands = (dut.start, *dut.configure, dut.read)
        return (*super().runs, *(" ".join(one) for one in commands if one is not None))

    @property
    def labels(self) -> tuple[str, ...]:
        kinds = dict.fromkeys(f"port-{to.kind}" for to in self.devices.values())
        external = ("dut-external",) if self.bed.external is not None else ()
        return (*super().labels, *kinds, *external)

    @property
    def cpus(self) -> frozenset[int]:
        """Those of servers are held there."""
        return super().cpus if self.servers is None else frozenset()

    @property
    def notes(self) -> tuple[str, ...]:
        servers = () if self.servers is None else self.servers.there.values()
        own = (f"lcores from {one.first} on are {one.name}'s" for one in servers if one.first)
        return (*super().notes, *own, *self._trusted())

    def _trusted(self) -> tuple[str, ...]:
        """What DPDK's drivers believe is no matter where both ends are headrace's."""
        if self.bed.external is None:
            return ()
        sockets = (to.text for to in self.devices.values() if to.socket is not None)
        names = ", ".join(dict.fromkeys(sockets))
        return (f"trusted as the engine itself: whoever is at {names}",) if names else ()

    def ends(self, site: Site) -> Mapping[str, WireEnd]:
        if self.servers is None:
            here = Here(self.description.engine, site.state)
            return {TESTER: here, CHAIN: here}
        self.servers.provide()
        tester, *chain = lots(self.bed, self.servers)
        dut = self.bed.external
        if dut is not None and dut.server is not None:
            chain = [self.servers.there[dut.server]]
        return {TESTER: tester} | {hop_name(i): one for i, one in enumerate(chain)}

    @contextlib.contextmanager
    def alone(self, plan: Plan, site: Site) -> Iterator[RunningEngine]:
        if self.servers is None:
            with super().alone(plan, site) as engine:
                yield engine
            return
        with self.ends(site)[TESTER].start(plan, "") as engine:
            yield engine

    def chain_at(self, site: Site) -> dict[str, Plan]:
        """The chain's plans with the memory of this run; on ordinary memory where it hands its own
        over."""
        given = site.engine
        hands_over = any(self.bed.ports[one].to.kind == "virtio_user" for one in self.bed.chain)
        return {
            name: plan.having(
                engine=plan.engine.having(
                    hugepages=given.hugepages and not hands_over,
                    file_prefix=f"{given.file_prefix}-{name}",
                )
            )
            for name, plan in self.chain_plans.items()
        }

    def engines(self, plan: Plan, site: Site) -> WiredEngines:
        """The tester's with this plan, and what it tests."""
        return WiredEngines(self.ends(site), plan, self.chain_at(site), self.bed, self.devices)

    @contextlib.contextmanager
    def started(self, plan: Plan, floor: Floor | None, site: Site) -> Iterator[DeployedWired]:
        with site.stopwatch.phase("deploying"):
            pair = self.engines(plan, site)
        with pair:
            yield self.deployed(site, pair, _together(plan, self.chain_at(site)), floor)

    def deployed(
        self, site: Site, engine: WiredEngines, plan: Plan, floor: Floor | None
    ) -> DeployedWired:
        return DeployedWired(self, site, engine, plan, floor)


def _together(tester: Plan, chain: Mapping[str, Plan]) -> Plan:
    """For who looks up what a link or a segment is."""
    every = (tester, *chain.values())
    return tester.having(
        links={name: link for one in every for name, link in one.links.items()},
        nfs={name: nf for one in every for name, nf in one.nfs.items()},
        segments=tuple(segment for one in every for segment in one.segments),
    )


def lots(bed: Testbed, servers: Servers) -> list[There]:
    """The tester's server, and the chain's in their order."""
    names = [bed.tester_server, *(server for server, _ in bed.hops)]
    return [servers.there[name] for name in names if name is not None]


class DeployedWired(DeployedEngine):
    """The tester's engine and the chain's are one engine to whoever asks them."""

    def __init__(
        self, point: WiredPoint, site: Site, engine: WiredEngines, plan: Plan, floor: Floor | None
    ) -> None:
        self.bed, self.pair, self.wired = point.bed, engine, point
        super().__init__(point, site, engine, plan, floor)

    def about(self) -> AboutEngine:
        engines = (self.pair.tester, *self.pair.chain.values())
        known = {one.server: one.environment() for one in engines if isinstance(one, ThereEngine)}
        return AboutEngine(self.engine.info(), self.engine.shielded, known)

    @property
    def hugepages(self) -> bool:
        servers = self.wired.servers
        if servers is None:
            return super().hugepages
        return all(one.hugepages for one in servers.there.values() if one.used)

    def elsewhere(self) -> Elsewhere | None:
        """The servers' agents, which know the engines that they have started."""
        servers = self.wired.servers
        if servers is None:
            return None
        engines = (self.pair.tester, *self.pair.chain.values())
        own = [one.name for one in engines if isinstance(one, ThereEngine)]
        return AgentsThere(servers.there, own)

    def parts(self) -> Targets:
        own = super().parts()
        more = (WatchedProcess(name=name, pid=pid) for name, pid in self.pair.pids.items())
        telemetry = (*own.telemetry, *telemetry_sockets(self.site.state.path, self.pair.chain))
        update = {"processes": (*own.processes, *more), "telemetry": telemetry}
        return own.model_copy(update=update)

    def seen(self, observation: Observation, reading: Reading) -> Observation:
        """Adds what the tester's own ports did. What a device did not take never reached the chain;
        memory that both ends share is full where the chain's end does not take what is there."""
        ways = [way for way in self.ways if observation.direction in (way.direction, "both")]
        out = {entry(self.bed.tester, way.direction) for way in ways}
        back = {leaving(self.bed.tester, way.direction) for way in ways}
        shared = all(self.wired.devices[one].socket for one in out)
        return with_ports(observation, out, back, "chain" if shared else "tester")


def with_ports(
    observation: Observation, out: Set[str], back: Set[str], kept_by: Literal["tester", "chain"]
) -> Observation:
    """What the tester's ports did by which packets left it and came back."""
    counters, facts = observation.figures.counters, observation.facts
    assert counters is not None
    refused = sum(
        outlet.full
        for replica in counters.replicas
        for link, outlet in replica.outputs.items()
        if link in out
    )
    facts = replace(
        facts,
        sink_full=(facts.sink_full or 0) + sum(counters.ports[name].rx_missed for name in back),
        kept=refused,
        kept_by=kept_by,
        more=(*facts.more, *links_of(counters.ports)),
    )
    return replace(observation, facts=facts)


def links_of(ports: Mapping[str, PortReading]) -> list[Finding]:
    """Links that are down, and receivers that hold their senders back (IEEE 802.3, annex 31B)."""
    down = [name for name, one in ports.items() if not one.up]
    paused = [f"{name} ({one.flow_control})" for name, one in ports.items()
              if one.flow_control not in ("off", "none")]  # fmt: skip
    return [
        Finding(
            check="link",
            ok=not down,
            text=f"The link of {', '.join(down)} was down." if down else "All links were up.",
        ),
        Finding(
            check="flow control",
            ok=not paused,
            text=(
                f"Flow control is on at {', '.join(paused)}: what is lost there cannot be told."
                if paused
                else "No port has flow control on."
            ),
        ),
    ]


def memory_of(study: Study) -> Deployment:
    """What a testbed asks of a machine that has both of its ends, or of each that has one."""
    deployment, bed = study.deployment, study.testbed
    if bed is not None and (bed.shares_memory or OVS_DPDK in deployment.engine):
        deployment = deployment.model_copy(update={"hugepages": False})
    if bed is None or bed.external is not None:
        return deployment
    if [server for server, _ in bed.hops] != [bed.tester_server]:
        return deployment
    return deployment.model_copy(update={"memory_mb": 2 * deployment.memory_mb})


def wired_point(
    experiment: Experiment,
    check: PlanCheck,
    available: list[int],
    floors: Floors,
    servers: Servers | None = None,
) -> WiredPoint:
    """`servers`: those of the study, where it has any; `available` is this machine's."""
    doc, description = check.doc, check.description
    bed = experiment.study.testbed
    assert bed is not None
    if servers is None:
        devices = resolve(bed, doc)
        placement = place(experiment, doc, available)
    else:
        there = servers.there
        devices = resolve(bed, doc, {name: one.devices for name, one in there.items()})
        tester, *of_chain = lots(bed, servers)
        placement = place_apart(experiment, doc, tester, of_chain or [tester])
        servers.want(placement.cpus, memory_of(experiment.study))
    engine: PlanEngine = engine_of(experiment)
    common = (experiment, description, doc, engine)
    chain = {} if bed.external is not None else chain_plans(*common, placement, devices)
    if bed.external is not None:
        placement = replace(placement, segments=())
    plan = tester_plan(*common, placement, devices)
    for one in (plan, *chain.values()):
        check.check(at_home(one), experiment)
    return WiredPoint(
        experiment, doc, description, placement, plan,
        direct_plan(experiment, placement, description, doc, engine),
        policy_drops(experiment, description), floors=floors,
        bed=bed, devices=devices, chain_plans=chain, servers=servers,
    )  # fmt: skip
