# SPDX-License-Identifier: Apache-2.0
"""Chains of VNFs in processes of their own on a described server, as a layout with costs.

A packet's way: source, the host's switch, over a link to a VNF and back, the switch again, and so
on to the sink (docs/hosting.md). The switch's function is there once for each time that it
forwards; limits of its NIC are devices that take as long for a frame as its bits do. Processes
that share an lcore have it by slices (layout/events.py follows them; `_carried` sums them up):

    R = k (slice + change)                      k processes that never sleep
    R = k (patience + change) / (1 - load)      k that sleep when they found nothing for so long

is how long until a process has the lcore again, and its link must hold what comes meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.engine.place import Placement
from headrace.ground.hosted.arrangement import Arrangement
from headrace.ground.hosted.parts import NIC, Vnf
from headrace.ground.simulated.costs import (
    SHORTEST,
    PricedLayout,
    beside_busy,
    traffic_costs,
    with_costs_of,
)
from headrace.layout.events import NEVER, PolledLcores, Queue
from headrace.layout.latency import BURST, QueueStage, straight
from headrace.layout.layout import Hop, Layout, NfCost, Problem
from headrace.model.scaled import ScaledFunction, WorkingSet, at, hand_over, scaled
from headrace.record.figures import L1_OVERHEAD_BYTES
from headrace.spec.described import DescribedServer, HostedCost
from headrace.spec.study import Experiment

PATIENCE = {"poll": NEVER, "adaptive": 1000.0, "interrupt": 1.0}  # the engine's idle_polls
_DEVICES = {"uplink in": -2, "switch to host": -3, "switch from host": -4, "uplink out": -5}
_CAP = -10  # of the first VNF's licence; the next one's is one less
_MAC_OUT = "l2fwd"


@dataclass(frozen=True)
class WayStage:
    """Functions on a replica for each chain, or on one for all. `extra`: cycles of `nfs` that the
    polls of many links cost at the maximum rate; the events have these polls themselves."""

    nfs: tuple[str, ...]
    cpus: tuple[int, ...]
    owners: tuple[str, ...]
    room: int
    poll: float = 0.0
    idle: float = 1.0
    extra: float = 0.0
    vnf: bool = False


@dataclass(frozen=True)
class HostedLayout(PricedLayout):
    """`awake`: processes of each lcore that want it; `standing`: VNFs without traffic."""

    way: tuple[WayStage, ...] = ()
    cost: HostedCost | None = None
    wait: str = "adaptive"
    slots: int = 1024
    standing: tuple[int, ...] = ()  # their lcores
    vnf_cpus: frozenset[int] = frozenset()
    doze: float = 0.0  # cycles from one process to another
    slice: float = NEVER
    names: Mapping[int, str] = field(default_factory=dict)

    @property
    def awake(self) -> Counter[int]:
        busy = Counter(cpu for one in self.way if one.vnf for cpu in one.cpus)
        return busy + Counter(self.standing if self.wait == "poll" else ())

    def capacity(self) -> tuple[float, str]:
        hz, awake = self.problem.tsc_hz, self.awake
        limits: dict[str, float] = {}
        for cpu, cycles in self.busiest().items():
            kept = 1.0
            if cpu in self.vnf_cpus and awake[cpu] > 1 and self.wait == "poll":
                busy = sum(one.cpus.count(cpu) for one in self.way if one.vnf)
                kept = busy / awake[cpu] * self.slice / (self.slice + self.doze)
            limits[self.names.get(cpu, f"lcore {cpu}")] = hz * kept / cycles
        name = min(limits, key=lambda one: limits[one])
        return limits[name], name

    def source_pps(self) -> float:
        """By its lcore: what that does before a packet leaves it is for all, the rest for what
        comes back."""
        [source] = self.stages[0]
        hz, cycles = self.problem.tsc_hz, self.busiest()
        alone = cycles.pop(source.cpu)
        front = 0.0
        for several in self.stages:
            if several[0].cpu != source.cpu:
                break
            front += sum(part.cycles for part in several)
        rest = min(hz / one for one in cycles.values())
        return max(hz / alone, (hz - rest * (alone - front)) / front)

    def received_pps(self, sent: float) -> float:
        hz, cycles = self.problem.tsc_hz, self.busiest()
        rate = min([sent, *(hz / c for cpu, c in cycles.items() if cpu not in self.vnf_cpus)])
        for several, one in zip(self.stages[1:-1], self.way, strict=True):
            if one.vnf:
                each = rate / len(several)
                rate = sum(self._carried(each, part.cycles * len(several), part.cpu)
                           for part in several)  # fmt: skip
        return rate

    def _carried(self, each: float, cycles: float, cpu: int) -> float:
        """What a VNF carries of so many packets/s that it is sent. See the module's head."""
        hz, tasks = self.problem.tsc_hz, self.awake[cpu]
        if tasks == 1:
            return min(each, hz / cycles)
        rate, load = each / hz, min(1.0, self.busiest()[cpu] * each * self._chains / hz)
        most = tasks * (self.slice + self.doze)
        again, own = most, self.slice
        if self.wait != "poll" and load < 1:
            assert self.cost is not None
            tail = PATIENCE[self.wait] * self.cost.vnf_idle.value + self.doze
            again = min(most, tasks * tail / (1 - load))
            own = again * load / tasks
        held = (self.slots + rate * own) / again
        return hz * min(rate, held, max(own, again * load / tasks) / again / cycles)

    @property
    def _chains(self) -> int:
        return max(len(one.cpus) for one in self.way if one.vnf)

    def queues(self, load_pps: float) -> tuple[list[list[Queue]], PolledLcores]:
        """For the events; processes that stand by and poll are behind the others."""
        assert self.cost is not None
        hz, idle = self.problem.tsc_hz, self.problem.traffic.idle
        rate, polling = load_pps / hz, self.standing if self.wait == "poll" else ()
        given: Counter[int] = Counter()
        source, *between, sink = self.stages
        ways = [[_queue(0, source[0].cpu, rate, source[0].cycles, idle)]]
        for position, (several, one) in enumerate(zip(between, self.way, strict=True), 1):
            beside = polling if len(several) > 1 or one.vnf else ()
            cpus = (*one.cpus, *(cpu if one.vnf else one.cpus[0] for cpu in beside))
            each = several[0].cycles * len(several) - one.extra
            here = []
            for i, cpu in enumerate(cpus):
                share = 1 / len(several) if i < len(several) else 0.0
                knots = straight(one.poll, each - one.poll / BURST)
                stage = QueueStage(position, cpu, rate * share, knots, one.idle)
                patience = PATIENCE[self.wait] if one.vnf else NEVER
                here.append(Queue(stage, given[cpu], one.room, share, patience=patience))
                given[cpu] += one.vnf
            ways.append(here)
        ways.append([_queue(len(ways), sink[0].cpu, rate, sink[0].cycles, idle)])
        wake, rouse = (one.value * 1e-6 * hz for one in (self.cost.wake_us, self.cost.rouse_us))
        return ways, PolledLcores(self.slice, self.doze, wake, rouse)


def _queue(position: int, cpu: int, rate: float, each: float, idle: float) -> Queue:
    return Queue(QueueStage(position, cpu, rate, straight(0.0, each), idle))


def priced_hosted(
    home: DescribedServer,
    server: DescribedServer,
    experiment: Experiment,
    bare: Arrangement,
    placement: Placement,
    count: Mapping[str, int],
    corner: float = 0.0,
) -> HostedLayout:
    """As `priced`; `bare` says where the VNFs are."""
    cost = home.hosting
    assert cost is not None  # refuse.py
    carrying = bare.chains[: experiment.hosting.carrying]
    vnfs = [one for chain in carrying for one in chain]
    standing = tuple(v.lcores[0] for chain in bare.chains[len(carrying) :] for v in chain)
    links = LinkCosts.of(home, server, cost, experiment.frame.mean_bytes, corner)
    nic_cpu = placement.segments[0].cpus[0]
    awake = {one.lcores[0] for one in vnfs}
    slower = beside_busy(server, {nic_cpu, placement.generator, placement.sink, *awake}, corner)
    sets = list(_sets(experiment, home, vnfs, count, len(carrying)))
    way = tuple(_way(experiment, carrying, standing, nic_cpu, cost, corner))

    def nfs(cpu: int) -> tuple[NfCost, ...]:
        own = {
            node.name: scaled(home, server, one, cpu, sets, corner)
            for node, one in with_costs_of(experiment, home)
        }
        out = scaled(home, server, home.functions[_MAC_OUT], cpu, (), corner)
        costs = _FunctionCosts(
            links, own, out, server.clock_mhz.value * 1e6, experiment, slower.get(cpu, 1)
        )
        return tuple(costs.function(name, stage) for stage in way for name in stage.nfs)

    cpus = sorted({cpu for one in way for cpu in one.cpus})
    layout = Layout(tuple(len(one.nfs) for one in way), tuple(one.cpus for one in way))
    problem = Problem(
        nfs(nic_cpu), traffic_costs(home, server, experiment, placement, corner), tuple(cpus),
        server.clock_mhz.value * 1e6, special={cpu: nfs(cpu) for cpu in cpus},
    )  # fmt: skip
    hz = server.clock_mhz.value * 1e6
    return HostedLayout(
        problem, layout, (1.0,) * len(way),
        way=way, cost=cost, wait=experiment.hosting.wait, slots=experiment.hosting.slots,
        standing=standing, vnf_cpus=frozenset(awake), doze=cost.change_us.at(corner) * 1e-6 * hz,
        slice=cost.slice_us.value * 1e-6 * hz,
        names={cpu: name for name, cpu in _DEVICES.items()}
        | {_CAP - i: f"rate cap of {one.name}" for i, one in enumerate(vnfs)},
        owners=((), *(one.owners for one in way), ()),
    )  # fmt: skip


def _sets(
    experiment: Experiment,
    home: DescribedServer,
    vnfs: Sequence[Vnf],
    count: Mapping[str, int],
    chains: int,
) -> Iterator[WorkingSet]:
    """Each process has tables of its own; flows are spread over the chains."""
    costs = {node.name: one for node, one in with_costs_of(experiment, home)}
    for one in vnfs:
        for name in one.nodes:
            size = at(costs[name].bytes_per_entry, 0.0) * count[name]
            share = chains if costs[name].entries == "flows" else 1
            yield WorkingSet(one.lcores[0], size / share)


def _way(
    experiment: Experiment,
    chains: Sequence[Sequence[Vnf]],
    standing: Sequence[int],
    nic: int,
    cost: HostedCost,
    corner: float,
) -> Iterator[WayStage]:
    """In a packet's order, docs/design/nic.md's table of hops: with `vepa` each frame that leaves a
    VNF goes by the wire to the bridge outside."""
    hosting, vepa = experiment.hosting, experiment.study.deployment.network == "vepa"
    deployment, n = experiment.study.deployment, len(chains)
    wire = 4096 if deployment.wire == "auto" else deployment.wire
    idle, poll = cost.idle.at(corner), cost.poll.at(corner)
    unused = len(standing) if hosting.wait != "poll" else 0
    ring = deployment.ring.size

    def switch(name: str, room: int, of_all: bool = True) -> WayStage:
        if of_all:
            return WayStage((name,), (nic,), (NIC,), room, unused * idle, idle * (1 + unused))
        lcores = len({chain[-1].lcores[0] for chain in chains})
        at_once, links = min(lcores, n), n + len(standing)
        extra = poll * min(1.0, at_once / BURST) + idle * max(0, links - at_once) / BURST
        return WayStage((name,), (nic,) * n, (NIC,) * n, hosting.slots, poll, idle, extra)

    def device(name: str, cpu: int) -> WayStage:
        return WayStage((name,), (cpu,), ("",), hosting.nic_queue)

    def wire_to(name: str) -> list[WayStage]:
        return [] if hosting.uplink_gbps is None else [device(name, _DEVICES[name])]

    def host_to(name: str) -> list[WayStage]:
        return [] if hosting.switch_gbps is None else [device(name, _DEVICES[name])]

    if vepa:
        yield switch("bridge", wire)
    yield from wire_to("uplink in")
    yield switch("ring to link", ring if vepa else wire)
    for step in range(len(chains[0])):
        here = [chain[step] for chain in chains]
        yield from host_to("switch to host")
        yield WayStage(
            (*here[0].nodes, "mac-out"), tuple(v.lcores[0] for v in here),
            tuple(v.name for v in here), hosting.slots, cost.vnf_poll.at(corner),
            cost.vnf_idle.at(corner), vnf=True,
        )  # fmt: skip
        if hosting.rate_cap_gbps is not None:
            first = _CAP - step * n
            cpus = tuple(first - i for i in range(n))
            yield WayStage(("rate cap",), cpus, ("",) * n, hosting.nic_queue)
        yield from host_to("switch from host")
        last = step == len(chains[0]) - 1
        yield switch("link to ring" if last or vepa else "link to link", 0, of_all=False)
        if last or vepa:
            yield from wire_to("uplink out")
        if vepa:
            yield switch("bridge", ring)
            if not last:
                yield from wire_to("uplink in")
                yield switch("ring to link", ring)


@dataclass(frozen=True)
class LinkCosts:
    """Cycles of a packet at the ends of a link to a VNF, and of the switch between them."""

    take: float
    give: float
    vnf_take: float
    vnf_give: float
    switch: float

    @classmethod
    def of(
        cls, home: DescribedServer, server: DescribedServer, cost: HostedCost, frame: float,
        corner: float,
    ) -> LinkCosts:  # fmt: skip
        """Each end copies the frame; who takes waits for lines that another core wrote."""
        kib = max(0.0, frame - SHORTEST) / 1024
        far = hand_over(home, server, cost.far.at(corner) + kib * cost.far_kib.at(corner))
        near = kib * cost.copy_kib.at(corner)
        return cls(
            cost.take.at(corner) + near + far, cost.give.at(corner) + near,
            cost.vnf_take.at(corner) + near + far, cost.vnf_give.at(corner) + near,
            cost.switch.at(corner),
        )  # fmt: skip


@dataclass(frozen=True)
class _FunctionCosts:
    """Functions of the way on one lcore."""

    links: LinkCosts
    own: Mapping[str, ScaledFunction]
    out: ScaledFunction  # of the VNF's addresses
    hz: float
    experiment: Experiment
    longer: float

    def function(self, name: str, stage: WayStage) -> NfCost:
        links, out = self.links, self.out
        if stage.vnf and name in self.own:
            one = self.own[name]
            sorting = one.rx - one.rx_known
            return self._cost(name, links.vnf_take + sorting, one.base + one.wait, 0.0, one.loop)
        if stage.vnf:
            return self._cost(name, links.vnf_take, out.base, links.vnf_give, out.loop)
        if name in ("uplink in", "uplink out", "switch to host", "switch from host", "rate cap"):
            hosting = self.experiment.hosting
            gbps = {"u": hosting.uplink_gbps, "s": hosting.switch_gbps, "r": hosting.rate_cap_gbps}
            bits = (self.experiment.frame.mean_bytes + L1_OVERHEAD_BYTES) * 8
            took = self.hz * bits / ((gbps[name[0]] or 0.0) * 1e9)
            return NfCost(name, Hop(0, 0), Hop(took, took), Hop(0, 0), 0)
        rx = links.take if name.startswith("link") else out.rx
        tx = links.give if name.endswith("link") else out.tx
        return self._cost(NIC, rx, links.switch, tx + stage.extra, 0.0, out.far)

    def _cost(
        self, name: str, rx: float, work: float, tx: float, loop: float, far: float = 0.0
    ) -> NfCost:
        rx, work, tx, far = (self.longer * one for one in (rx, work, tx, far))
        far = 0.0 if rx == self.longer * self.links.take else far
        return NfCost(name, Hop(rx, rx + far), Hop(work, work), Hop(tx, tx), self.longer * loop)
