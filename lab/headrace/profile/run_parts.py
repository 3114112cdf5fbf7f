# SPDX-License-Identifier: Apache-2.0
"""What the parts of a measured trial were busy for, beside what a described server's model says of
the same packets in the same bursts.

A deployment's lcores are told by the engine's counters: busy cycles of each replica, of turns that
found packets, and how many did. The model has a line for each: what a poll costs once, and what
each of its packets does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

import numpy as np

from headrace.ground.hosted.host import DOWN, OUTSIDE, UP
from headrace.ground.hosted.parts import NIC
from headrace.ground.simulated.ground import SimulatedGround, SimulatedPoint
from headrace.ground.simulated.hosted_way import vnf_idle
from headrace.ground.simulated.priced_hosted import HostedLayout
from headrace.ground.simulated.priced_layout import PricedLayout
from headrace.ground.simulated.queueing import delays_ns
from headrace.layout.predicted_latency import BURST, stages
from headrace.record.counters import Counters, ReplicaReading
from headrace.record.rows import Result
from headrace.spec.described import DescribedServer, MeasuredPauses, Sourced

_CARRIED = 0.01  # of the packets are lost of a load that is carried, at most
_AWAKE = 2e5  # packets/s, more of which leave no VNF alone until it sleeps
_LENGTHS = 64  # of pauses, each as likely
PAUSES = "pauses"
_IDLE = 0.2  # of an lcore's time, at the least, to tell what polls in vain take


@dataclass(frozen=True)
class Pair:
    """Core cycles of a trial's part, nanoseconds of its delay, or packets/s."""

    part: str
    predicted: float
    counted: float

    @property
    def error(self) -> float:
        return self.predicted / self.counted - 1


@dataclass(frozen=True)
class RunTrial:
    """A trial that was measured, and the same on the described server. `line`: TSC cycles of a line
    of another lcore meanwhile; None: not known. `moved`: it took several times."""

    name: str
    point: SimulatedPoint
    result: Result
    line: float | None
    moved: bool = False

    @property
    def counters(self) -> Counters:
        assert self.result.counters is not None  # usable
        return self.result.counters

    @cached_property
    def clock_hz(self) -> float:
        """Says the clock of its lcores, by what an addition took."""
        paces = [one.pace for one in self.counters.workers if one.pace]
        return self.counters.tsc_hz / median(paces) if paces else float(self.counters.tsc_hz)

    @property
    def cycles(self) -> float:
        """Core cycles of one of the TSC."""
        return self.clock_hz / self.counters.tsc_hz

    @property
    def load_pps(self) -> float:
        """0: as fast as possible."""
        return 0.0 if self.result.goal == "max" else self.result.load_pps

    def has(self, path: str) -> bool:
        """Whether a figure of the description is one of this trial's costs."""
        kind, name, *_ = path.split(".")
        if kind == "functions":
            own = {node.nf for node in self.point.experiment.nodes}
            return name in own or (name == "l2fwd" and self.point.bare is not None)
        return kind != "hosting" or self.point.bare is not None

    def priced(self, server: DescribedServer) -> PricedLayout:
        return self.point.priced(ground=SimulatedGround(server, server, self.point.ground.engine))

    def busy(self, server: DescribedServer) -> list[Pair]:
        """Core cycles that each part was busy for, and that each lcore polled in vain."""
        here = self.priced(server)
        if isinstance(here, HostedLayout):
            pairs = list(_ends(here, self))
            # Who sleeps is roused, which no packet's cost has: there only the highest rate tells.
            if not self.load_pps or here.wait == "poll":
                pairs += [*_vnfs(here, self), *_switch(here, self)]
        else:
            pairs = list(_inline(here, self))
        pairs = [one for one in pairs if one.counted > 0]
        return [*pairs, *_lcores(pairs, self), *_idle(here, self)]

    def scheduled(self, server: DescribedServer) -> list[Pair]:
        """What the kernel's scheduler is part of: the median of its packets' delays, of loads that
        are carried; and what VNFs in a row on one lcore carry at the highest rate."""
        latency, here = self.result.latency_ns, self.priced(server)
        if not self.load_pps:
            received = self.result.received_pps
            in_turns = isinstance(here, HostedLayout) and here.in_a_row and received
            if not in_turns:
                return []
            return [Pair("carried", here.received_pps(here.source_pps()), received)]
        if latency is None or self.result.loss_ratio > _CARRIED:
            return []
        experiment, most = self.point.experiment, here.capacity()[0]
        delays = delays_ns(here, self.load_pps, most, experiment, server, "events")
        return [] if delays is None else [Pair("p50", float(np.median(delays)), latency.p50)]

    def replicas(self, segment: str) -> list[ReplicaReading]:
        return [one for one in self.counters.replicas if one.segment == segment]


def _polls(replicas: Sequence[ReplicaReading]) -> int:
    """Polls that found packets."""
    return sum(one.polls - one.idle_polls for one in replicas)


def _inline(here: PricedLayout, trial: RunTrial) -> Iterator[Pair]:
    """Each replica by the bursts that it had."""
    segments, rate = trial.point.segments, trial.result.sent / trial.result.duration_s
    names = (segments[0].name, *here.order, segments[-1].name)
    counted = {(one.segment, one.cpu): one for one in trial.counters.replicas}
    for name, several in zip(names, stages(here.problem, here.layout, rate), strict=True):
        for part in several:
            one = counted.get((name, part.cpu))
            if one is not None and one.mean_burst:
                each = part.takes(one.mean_burst) / one.mean_burst
                yield Pair(name, each * one.packets_in, one.ops_cycles * trial.cycles)


def _ends(here: HostedLayout, trial: RunTrial) -> Iterator[Pair]:
    """Source and sink, by the bursts that they had."""
    [[source], *_, [sink]] = here.way_at(trial.result.load_pps)
    for segment, stage in ((trial.point.segments[0], source), (trial.point.segments[-1], sink)):
        for one in trial.replicas(segment.name):
            if one.mean_burst:
                each = stage.takes(one.mean_burst) / one.mean_burst
                yield Pair(segment.name, each * one.packets_in, one.ops_cycles * trial.cycles)


def _vnfs(here: HostedLayout, trial: RunTrial) -> Iterator[Pair]:
    """Those that do the same are one part."""
    for several, way in zip(here.stages[1:-1], here.way, strict=True):
        if way.vnf:
            each = several[0].cycles * len(several) - way.extra
            taken = [one for name in way.owners for one in trial.replicas(name)]
            packets = sum(one.packets_in for one in taken)
            yield Pair(
                way.nfs[0], each * packets + way.poll * _polls(taken),
                sum(one.ops_cycles for one in taken) * trial.cycles,
            )  # fmt: skip


def _switch(here: HostedLayout, trial: RunTrial) -> Iterator[Pair]:
    """What found a link full was not copied. A turn with packets polls all links: each that has
    some costs its poll once, and each other one what that takes. By the bridge outside packets come
    in that one's bursts."""
    [nic], bridge = trial.replicas(NIC), trial.replicas(OUTSIDE)
    came = {name for name in nic.inputs if name == DOWN or name.startswith("wire")}
    wire = sum(nic.inputs[name] for name in came)
    full = sum(one.full for name, one in nic.outputs.items() if name != UP)
    links, turns = nic.packets_in - wire, _polls([nic])
    wires = _polls(bridge or trial.replicas("generator"))
    vnfs = {name for way in here.way if way.vnf for name in way.owners}
    count = len(nic.inputs) - len(came)
    asked = min(_polls([one for name in vnfs for one in trial.replicas(name)]), turns * count)
    steps = sum(one.nfs[0].startswith("link") for one in here.way)
    total = 0.0
    for several, way in zip(here.stages[1:-1], here.way, strict=True):
        each = several[0].cycles * len(several) - way.extra
        if way.nfs[0] == "ring to link":
            total += (
                wire * each - full * here.give + wires * (way.poll + _reach(here, wire / wires))
            )
        elif way.nfs[0].startswith("link"):
            total += (links * each + asked * way.poll + (turns * count - asked) * way.idle) / steps
    yield Pair(NIC, total, nic.ops_cycles * trial.cycles)
    yield from _bridge(here, trial)


def _bridge(here: HostedLayout, trial: RunTrial) -> Iterator[Pair]:
    """A frame passes the bridge outside once for each time that it is on the wire."""
    costs = [
        (several[0].cycles - way.extra, way.poll)
        for several, way in zip(here.stages[1:-1], here.way, strict=True)
        if way.nfs[0] == "bridge"
    ]
    for one in trial.replicas(OUTSIDE):
        each, once = costs[0]
        counted = one.ops_cycles * trial.cycles
        yield Pair(OUTSIDE, each * one.packets_in + once * _polls([one]), counted)


def _reach(here: HostedLayout, burst: float) -> float:
    """Cycles of a burst that is divided over the chains' links."""
    assert here.cost is not None
    chains = max(len(one.cpus) for one in here.way if one.vnf)
    return here.cost.reach.value * max(0.0, min(chains, BURST, burst) - 1)


def _lcores(pairs: Sequence[Pair], trial: RunTrial) -> Iterator[Pair]:
    """The sums, which a rate comes of."""
    cpus = {one.name: one.cpus for one in trial.point.segments}
    cpus |= {nf: one.cpus for one in trial.point.segments for nf in one.nfs[:1]}
    for cpu in sorted({cpu for on in cpus.values() for cpu in on}):
        own = [one for one in pairs if cpus.get(one.part) == (cpu,)]
        if len(own) > 1:
            predicted, counted = sum(p.predicted for p in own), sum(p.counted for p in own)
            yield Pair(f"lcore {cpu}", predicted, counted)


def _idle(here: PricedLayout, trial: RunTrial) -> Iterator[Pair]:
    """Each lcore's time without packets. One that several processes share has others' in it."""
    for worker in trial.counters.workers:
        own = [one for one in trial.counters.replicas if one.cpu == worker.cpu]
        vnfs = sum(one.segment.startswith("vnf") for one in own)
        waits = isinstance(here, HostedLayout) and here.wait != "poll"
        idle = worker.ref_cycles - worker.ops_cycles - worker.pauses_cycles
        if vnfs and waits:  # awake while so many packets come that it is never idle for long
            idle = (worker.sending_ref_cycles or 0) - worker.ops_cycles
        if vnfs > 1 or (vnfs and waits and not trial.load_pps > _AWAKE):
            continue
        predicted = sum(one.idle_polls * _in_vain(here, one) for one in own)
        if predicted and idle > _IDLE * worker.ref_cycles:
            yield Pair(f"idle {worker.cpu}", predicted, idle * trial.cycles)


def _in_vain(here: PricedLayout, one: ReplicaReading) -> float:
    """Cycles of a poll of all of its inputs that finds nothing."""
    if not isinstance(here, HostedLayout) or here.cost is None:
        return here.problem.traffic.idle
    if one.segment == NIC:
        return here.cost.idle.value * max(1, len(one.inputs))
    if one.segment.startswith("vnf"):
        return vnf_idle(here.cost, here.wait)
    return here.problem.traffic.idle


def pauses_of(trials: Sequence[RunTrial]) -> MeasuredPauses | None:
    """How often lcores of one task stood still while they looked for packets, and for how long."""
    seconds, lengths = 0.0, list[tuple[float, int]]()
    for trial in trials:
        hz = trial.counters.tsc_hz
        for worker in trial.counters.workers:
            if sum(one.segment.startswith("vnf") for one in trial.counters.replicas
                   if one.cpu == worker.cpu) or trial.load_pps == 0:  # fmt: skip
                continue
            seconds += (worker.ref_cycles - worker.ops_cycles) / hz
            lengths += [(cycles / n / hz * 1e6, n) for n, cycles in worker.gaps if n]
    if not lengths or not seconds:
        return None
    us, counts = (np.array(one, dtype=np.float64) for one in zip(*sorted(lengths), strict=True))
    at = (np.arange(_LENGTHS) + 0.5) / _LENGTHS * counts.sum()
    drawn = us[np.searchsorted(np.cumsum(counts), at)]
    return MeasuredPauses(
        per_s=Sourced(value=round(float(counts.sum() / seconds), 1), source=PAUSES),
        us=tuple(round(float(one), 2) for one in drawn),
    )
