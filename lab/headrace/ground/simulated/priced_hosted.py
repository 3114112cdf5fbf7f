# SPDX-License-Identifier: Apache-2.0
"""Chains of VNFs in processes of their own on a described server, as a layout with costs.

A packet's way: source, the host's switch, over a link to a VNF and back, the switch again, and so
on to the sink (docs/hosting.md). The switch's function is there once for each time that it
forwards; limits of its NIC are devices that take as long for a frame as its bits do. Processes
that share an lcore have it by slices (layout/events.py follows them; `_carried` sums them up):

    R = k (slice + change)                      k processes that never sleep
    R = k (S + change) / (1 - load)             k that sleep when they found nothing for so long
    S = patience, or never                      packets come evenly, with such gaps or shorter
    S = (exp(rate x patience) - 1) / rate       until packets at random first leave such a gap

is how long until a process has the lcore again, and its link must hold what comes meanwhile.

With `vepa` frames that come back from the bridge wait in the same queues as those that come for the
first time. Of a limit with room for C packets/s, passed n times, F of them sent, each time the part
q of those that come finds room:

    F (q + q^2 + ... + q^n) = C,   carried: F q^n

The ring from the bridge is polled by the source's own lcore once in a turn: the source fills what
room there is, with a burst of its own, before what comes back is looked at. So that has what is
left of the lcore's time, and of a source that sends as fast as it can nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import cycle, pairwise
from random import Random
from statistics import mean

from headrace.engine.place import Placement
from headrace.ground.hosted.arrangement import Arrangement
from headrace.ground.hosted.parts import Vnf
from headrace.ground.simulated.costs import (
    at_random,
    beside_busy,
    reading_headers,
    traffic_costs,
    with_costs_of,
)
from headrace.ground.simulated.hosted_way import (
    CAP,
    DEVICES,
    EndCosts,
    WayCosts,
    WayStage,
    vnf_idle,
    way_of,
)
from headrace.ground.simulated.priced_layout import PricedLayout
from headrace.layout.events import NEVER, PolledLcores, Queue
from headrace.layout.layout import Hop, Layout, NfCost, Problem, StageShare, Traffic
from headrace.layout.predicted_latency import BURST, QueueStage, straight
from headrace.model.scaled import WorkingSet, at, hand_over, scaled
from headrace.spec.described import DescribedServer, HostedCost
from headrace.spec.study import Experiment

PATIENCE = {"poll": NEVER, "adaptive": 1000.0, "interrupt": 1.0}  # the engine's idle_polls
_ROUNDS = 40
_LONGEST = 50.0  # of a gap, in mean gaps: it never comes
_MAC_OUT = "l2fwd"
# Limits with one queue for all that comes by the wire, or leaves by it (docs/design/nic.md).
_COMING_BACK = {DEVICES[name] for name in ("uplink in", "uplink out", "switch to host")}


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
    kept: float = NEVER  # of a slice, where another process was roused
    give: float = 0.0  # cycles of a packet that finds room, into the first link
    vepa: bool = False  # with VNFs in a row: what leaves one comes back by the bridge
    at_random: bool = False  # flows are sent so, and not in turn: so are gaps of each chain
    names: Mapping[int, str] = field(default_factory=dict)

    @cached_property
    def awake(self) -> Counter[int]:
        busy = Counter(cpu for one in self.way if one.vnf for cpu in one.cpus)
        return busy + Counter(self.standing if self.wait == "poll" else ())

    def lcores_pps(self) -> dict[int, float]:
        hz, awake, limits = self.problem.tsc_hz, self.awake, {}
        for cpu, cycles in self.busiest().items():
            kept = 1.0
            if cpu in self.vnf_cpus and awake[cpu] > 1 and self.wait == "poll":
                busy = sum(one.cpus.count(cpu) for one in self.way if one.vnf)
                kept = busy / awake[cpu] * self.slice / (self.slice + self.doze)
            limits[cpu] = hz * kept / cycles
        return limits

    def _called(self, cpu: int) -> str:
        return self.names.get(cpu, super()._called(cpu))

    def source_pps(self) -> float:
        """It is limited by its lcore: what that does before a packet leaves it is for all, the rest
        for what comes back."""
        [source] = self.stages[0]
        hz, alone, making = self.problem.tsc_hz, self.busiest()[source.cpu], self._making
        least, most = hz / alone, hz / making
        if self._back_to_source:
            return most
        for _ in range(_ROUNDS):  # the less comes back, the more it sends; none is copied in vain
            sent = (least + most) / 2
            carried = min(sent, self.received_pps(sent))
            busy = sent * making + carried * (alone - making)
            least, most = (sent, most) if busy < hz else (least, sent)
        return least

    @property
    def _back_to_source(self) -> bool:
        """Packets come back by a ring that the source's lcore polls."""
        return self.vepa and self.way[0].cpus[0] == self.stages[0][0].cpu

    @cached_property
    def _making(self) -> float:
        """Cycles of the source's lcore for a packet that finds its first link full."""
        source, front = self.stages[0][0].cpu, 0.0
        for several in self.stages:
            if several[0].cpu in DEVICES.values():
                continue  # the wire between source and switch has no cycles of the lcore
            if several[0].cpu != source:
                break
            front += sum(part.cycles for part in several)
        return front - self.give

    def received_pps(self, sent: float) -> float:
        hz, cycles = self.problem.tsc_hz, self.busiest()
        # What its own lcore has for those that come back is the source's (source_pps).
        own = cycles.pop(self.stages[0][0].cpu)
        rate = min(
            [sent, *(self._through(cpu, sent) for cpu in cycles if cpu not in self.vnf_cpus)]
        )
        before: tuple[int, ...] = ()
        for several, one in zip(self.stages[1:-1], self.way, strict=True):
            if one.vnf:
                each, n = rate / len(several), len(several)
                rate = sum(self._carried(each, part.cycles * n, part.cpu, part.cpu in before)
                           for part in several)  # fmt: skip
                before = one.cpus
        if self._back_to_source:
            rate = min(rate, max(0.0, (hz - sent * self._making) / (own - self._making)))
        return rate

    def _through(self, cpu: int, sent: float) -> float:
        """What an lcore or a limit lets through of so many packets/s; see the module's head."""
        most = self.problem.tsc_hz / self.busiest()[cpu]
        times = sum(cpu in one.cpus for one in self.way)
        if not self.vepa or cpu not in _COMING_BACK:
            return most
        return sent * found_room(sent, most * times, times) ** times

    def _carried(self, each: float, cycles: float, cpu: int, behind: bool) -> float:
        """What a VNF carries of so many packets/s that it is sent. See the module's head. `behind`:
        another VNF on this lcore sends them, so that none come while this one runs."""
        hz, tasks = self.problem.tsc_hz, self.awake[cpu]
        if tasks == 1:
            return min(each, hz / cycles)
        rate, load = each / hz, min(1.0, self.busiest()[cpu] * each * self._chains / hz)
        most = tasks * (self.slice + self.doze)
        again, own = most, self.slice
        stays = self._stays(rate)
        if stays < self.slice and load < 1:
            again = min(most, tasks * (stays + self.doze) / (1 - load))
            own = again * load / tasks
        elif cpu in self.in_a_row and self.wait != "poll":
            again, own = self._round(cpu), self._turn(cycles, behind)
        held = (self.slots + (0.0 if behind else rate * own)) / again
        return hz * min(rate, held, max(own, again * load / tasks) / again / cycles)

    @cached_property
    def in_a_row(self) -> frozenset[int]:
        """Lcores on which a VNF sends to another one."""
        vnfs = [set(one.cpus) for one in self.way if one.vnf]
        return frozenset(cpu for first, next in pairwise(vnfs) for cpu in first & next)

    def _turn(self, cycles: float, behind: bool) -> float:
        """How long a process that waits has the lcore at a time, of an overload: one that gets
        nothing meanwhile until its link is empty and it has waited; who rouses such a one until it
        is taken from him."""
        if not behind:
            return min(self.slice, self.kept)
        patience = PATIENCE[self.wait] * vnf_idle(self.cost, self.wait)
        return min(self.slice, self.slots * cycles + patience)

    def _round(self, cpu: int) -> float:
        """Cycles until all processes of an lcore have had it."""
        total, before = 0.0, tuple[int, ...]()
        for several, one in zip(self.stages[1:-1], self.way, strict=True):
            if one.vnf:
                turn = self._turn(several[0].cycles * len(several), cpu in before)
                total += one.cpus.count(cpu) * (turn + self.doze)
                before = one.cpus
        return total

    @property
    def _chains(self) -> int:
        return max(len(one.cpus) for one in self.way if one.vnf)

    def way_at(self, load_pps: float) -> list[tuple[QueueStage, ...]]:
        """The way without VNFs that stand by. One that shares its lcore has its own turns there."""
        queues, _ = self.queues(load_pps)
        return [
            tuple(
                replace(one.stage, cpu=-100 - one.task)
                if one.task and one.stage.cpu in self.vnf_cpus
                else one.stage
                for one in here[: len(several)]
            )
            for several, here in zip(self.stages, queues, strict=True)
        ]

    def _gathered(self, load_pps: float) -> Mapping[int, float]:
        return dict(self._in_turns(load_pps))

    def _in_turns(self, load_pps: float) -> Iterator[tuple[int, float]]:
        """One of k processes that take turns by slices finds all but a k-th of its packets in full
        bursts, as they came while others ran; the others one by one."""
        for number, one in enumerate(self.way, 1):
            k = max(self.awake[cpu] for cpu in one.cpus)
            each = load_pps / len(one.cpus) / self.problem.tsc_hz
            if one.vnf and k > 1 and self._stays(each) >= self.slice:
                yield number, 1 / ((1 - 1 / k) / BURST + 1 / k)

    def _stays(self, rate: float) -> float:
        """Cycles until a VNF that gets so many packets for each is first left alone for so long
        that it sleeps. Packets that come evenly leave such a gap each time, or never."""
        patience = PATIENCE[self.wait] * vnf_idle(self.cost, self.wait)
        if not self.at_random:
            return patience if rate * patience < 1 else NEVER
        return math.expm1(rate * patience) / rate if 0 < rate * patience < _LONGEST else NEVER

    def queues(self, load_pps: float) -> tuple[list[list[Queue]], PolledLcores]:
        """For the events; processes that stand by and poll are behind the others."""
        assert self.cost is not None
        hz, traffic = self.problem.tsc_hz, self.problem.traffic
        rate, polling = load_pps / hz, self.standing if self.wait == "poll" else ()
        given: Counter[int] = Counter()
        source, *between, sink = self.stages
        ways = [[_end(0, source[0], rate, traffic)]]
        for position, (several, one) in enumerate(zip(between, self.way, strict=True), 1):
            beside = polling if len(several) > 1 or one.vnf else ()
            cpus = (*one.cpus, *(cpu if one.vnf else one.cpus[0] for cpu in beside))
            each = several[0].cycles * len(several) - one.extra
            here = []
            for i, cpu in enumerate(cpus):
                share = 1 / len(several) if i < len(several) else 0.0
                knots = straight(one.poll, each)
                stage = QueueStage(position, cpu, rate * share, knots, one.idle)
                patience = PATIENCE[self.wait] if one.vnf else NEVER
                here.append(Queue(stage, given[cpu], one.room, share, patience=patience))
                given[cpu] += one.vnf
            ways.append(here)
        ways.append([_end(len(ways), sink[0], rate, traffic)])
        wake, rouse = (one.value * 1e-6 * hz for one in (self.cost.wake_us, self.cost.rouse_us))
        return ways, PolledLcores(self.slice, self.kept, self.doze, wake, rouse)


def found_room(sent: float, capacity: float, times: int) -> float:
    """The part of packets that finds room each time, where each needs it so many times."""
    if sent * times <= capacity:
        return 1.0
    least, most = 0.0, 1.0
    for _ in range(_ROUNDS):
        part = (least + most) / 2
        asked = sent * sum(part**i for i in range(1, times + 1))
        least, most = (part, most) if asked < capacity else (least, part)
    return least


def _end(position: int, part: StageShare, rate: float, traffic: Traffic) -> Queue:
    """Source or sink: what a poll costs once is in a full burst's packets, as a part."""
    apart = min(part.cycles, traffic.poll / BURST)
    knots = straight(apart * BURST, part.cycles - apart)
    return Queue(QueueStage(position, part.cpu, rate, knots, traffic.idle))


def spread(bare: Arrangement) -> Arrangement:
    """Where the kernel's scheduler has VNFs that may run anywhere: as few to an lcore as there can
    be, whichever socket it is of. What it costs that they move is not counted."""
    lcores = list(bare.chains[0][0].lcores)
    Random(1).shuffle(lcores)
    turns = cycle(lcores)
    chains = [[replace(vnf, lcores=(next(turns),)) for vnf in chain] for chain in bare.chains]
    return replace(bare, chains=chains)


def priced_hosted(
    home: DescribedServer,
    server: DescribedServer,
    experiment: Experiment,
    bare: Arrangement,
    placement: Placement,
    count: Mapping[str, int],
    corner: float = 0.0,
) -> HostedLayout:
    """Works as `priced`; `bare` says where the VNFs are."""
    cost = _polls_of(home, server, experiment.hosting.kind)
    carrying = bare.chains[: experiment.hosting.carrying]
    vnfs = [one for chain in carrying for one in chain]
    standing = tuple(v.lcores[0] for chain in bare.chains[len(carrying) :] for v in chain)
    sriov = experiment.study.deployment.network == "sriov"
    hz = server.clock_mhz.value * 1e6
    nic_cpu = bare.traffic[0] if sriov else placement.segments[0].cpus[0]
    remote = [server.socket_of(one.lcores[0]) != server.socket_of(nic_cpu) for one in vnfs]
    awake, frame = {one.lcores[0] for one in vnfs}, experiment.frame.mean_bytes
    slower = beside_busy(server, {nic_cpu, placement.generator, placement.sink, *awake}, corner)
    sets = list(_sets(experiment, home, vnfs, count, len(carrying)))
    gbps, reading = switch_gbps_of(experiment, server), reading_headers(experiment)
    way = tuple(way_of(experiment, carrying, standing, nic_cpu, cost, hz, corner, gbps))

    def ends(away: float) -> EndCosts:
        if sriov:
            return EndCosts.by_functions(server, cost, away, corner)
        return EndCosts.of(home, server, cost, frame, away, corner)

    def nfs(cpu: int) -> tuple[NfCost, ...]:
        away = [there for one, there in zip(vnfs, remote, strict=True) if one.lcores[0] == cpu]
        links = ends(mean(away or remote))
        own = {
            node.name: scaled(home, server, one, cpu, sets, corner, frame)
            for node, one in with_costs_of(experiment, home)
        }
        out = scaled(home, server, home.functions[_MAC_OUT], cpu, (), corner)
        costs = WayCosts(links, own, out, hz, experiment, slower.get(cpu, 1), gbps, reading)
        return tuple(costs.function(name, stage) for stage in way for name in stage.nfs)

    cpus = sorted({cpu for one in way for cpu in one.cpus})
    links = ends(mean(remote))
    traffic = traffic_costs(home, server, experiment, placement, [(nic_cpu,)], corner)
    into_first = placement.generator == nic_cpu and not sriov
    give = links.give * slower.get(nic_cpu, 1) if into_first else 0.0
    layout = Layout(tuple(len(one.nfs) for one in way), tuple(one.cpus for one in way))
    problem = Problem(
        nfs(nic_cpu), _by_functions(traffic, links) if sriov else traffic, tuple(cpus), hz,
        special={cpu: nfs(cpu) for cpu in cpus},
    )  # fmt: skip
    return HostedLayout(
        problem, layout, (1.0,) * len(way),
        way=way, cost=cost, wait=experiment.hosting.wait, slots=experiment.hosting.slots,
        standing=standing, vnf_cpus=frozenset(awake), doze=cost.change_us.at(corner) * 1e-6 * hz,
        slice=_slice_us(server, cost, vnfs, standing, experiment) * 1e-6 * hz, give=give,
        kept=_kept_us(server, cost) * 1e-6 * hz,
        names=_called(carrying), at_random=at_random(experiment),
        owners=((), *(one.owners for one in way), ()),
        vepa=experiment.study.deployment.network == "vepa" and len(bare.chains[0]) > 1,
    )  # fmt: skip


def _called(chains: Sequence[Sequence[Vnf]]) -> dict[int, str]:
    """What limits and licences are called, which are no lcores."""
    licences = {CAP - i: f"rate cap of {one.name}" for i, one in enumerate(_by_step(chains))}
    return {cpu: name for name, cpu in DEVICES.items()} | licences


def _by_step(chains: Sequence[Sequence[Vnf]]) -> list[Vnf]:
    """The first VNF of each chain, then the second of each: as `way_of` numbers their licences."""
    return [vnf for step in zip(*chains, strict=True) for vnf in step]


def _slice_us(
    server: DescribedServer,
    cost: HostedCost,
    vnfs: Sequence[Vnf],
    standing: Sequence[int],
    experiment: Experiment,
) -> float:
    """Goes by how many processes want the lcore that most of them want."""
    if server.scheduler is None:
        return cost.slice_us.value
    polling = standing if experiment.hosting.wait == "poll" else ()
    tasks = Counter([*(one.lcores[0] for one in vnfs), *polling])
    return server.scheduler.slice_us(max(tasks.values()))


def _kept_us(server: DescribedServer, cost: HostedCost) -> float:
    """It was measured of the kernel that slices are of, and of no other scheduler."""
    if server.scheduler is not None or cost.kept_us is None:
        return NEVER
    return cost.kept_us.value


def _polls_of(home: DescribedServer, server: DescribedServer, kind: str) -> HostedCost:
    """A packet that comes alone waits for its lines one after the other."""
    cost = home.links_to(kind)
    assert cost is not None  # refuse.py
    polls = {
        name: figure.model_copy(update={"value": hand_over(home, server, figure.value)})
        for name, figure in (("poll", cost.poll), ("vnf_poll", cost.vnf_poll))
    }
    return cost.model_copy(update=polls)


def switch_gbps_of(experiment: Experiment, server: DescribedServer) -> float | None:
    """A real NIC's switch has what its ports have."""
    if experiment.study.deployment.network == "sriov":
        return sum(port.gbps.value for port in server.ports)
    return experiment.hosting.switch_gbps


def _by_functions(traffic: Traffic, ends: EndCosts) -> Traffic:
    """Source and sink have virtual functions of the NIC, too."""
    source, sink = traffic.source.same + ends.give, traffic.sink.same + ends.take
    return replace(traffic, source=Hop(source, source), sink=Hop(sink, sink))


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
