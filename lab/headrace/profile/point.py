# SPDX-License-Identifier: Apache-2.0
"""One point: an NF alone in a segment, at full load; what the segment loop sampled."""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from statistics import median
from typing import Any, Literal

import yaml

from headrace.engine import counters as count
from headrace.engine.describe import Description
from headrace.engine.plan_compiler import GENERATOR, SINK, Path, paths
from headrace.engine.plan_document import Plan, ring
from headrace.engine.reading import sending
from headrace.engine.running import RunningEngine
from headrace.ground.contract import Offer
from headrace.ground.floor import Floors
from headrace.ground.inline import DeployedEngine, EnginePoint
from headrace.ground.own_chains import points_of
from headrace.layout.gaps import Gap
from headrace.measure.results import result
from headrace.measure.session import Session
from headrace.model.lines_between import WHOLE, same_state
from headrace.model.undisturbed import ALONE_LEAST, MOSTLY, Alone, alone
from headrace.record.counters import Counters, ReplicaReading, WorkerReading
from headrace.record.identity import Phase
from headrace.record.rows import Trial
from headrace.record.slices import Sliced
from headrace.spec import document
from headrace.spec.base import MedianRange
from headrace.spec.profile import PacketCost, Settings, Speed
from headrace.spec.study import Experiment, expand

Json = dict[str, Any]
# apart: traffic on one lcore, the NF on another. together: three segments on one lcore.
# one-segment: source, NF and sink run to completion on one lcore, with no ring between.
Placement = Literal["apart", "together", "one-segment"]

# A hypervisor that moves lcores leaves them where they are for 5 to 45 s. All of a plan waits so
# long for them to come back, for each repetition; not longer than for so many.
_PATIENCE_S, _PATIENT = 60.0, 3
_DRAIN_S = 0.02  # queues are short, and their end is waited for
_WARM_PPS = 3e6  # the first guess of the rate
_WARM_S, _WARM_MAX_S = 0.15, 20.0
_PAUSE_S = 1e-4  # engine/core/loop/busy.h
_WARM_EACH = 4  # packets per flow, in random order: 2 in 100 flows are not among them
_MEMORY_MB, _MEMORY_PER_ENTRY = 512, 640
# Long enough that nobody waits for want of packets, short enough to stay in a cache.
WAITING_RING = 1024


@dataclass
class Bench:
    """What all points of a profile share."""

    description: Description
    session: Session
    lcores: tuple[int, int]  # traffic, NF
    repetitions: int
    seconds: float
    tsc_hz: float = 0.0
    counted: Counter[tuple[str, ...]] = field(default_factory=Counter)  # repetitions, by identity
    # TSC cycles of a line of another lcore where costs were taken, by the lcores of an engine
    # (model/lines_between.py): what is held against them is of that state of the machine.
    lines: dict[frozenset[int], float] = field(default_factory=dict)
    mixed: bool = False  # some of it could be had in another state only
    waited_s: float = 0.0  # for the state of the machine that costs are of

    @property
    def patience_s(self) -> float:
        """How much longer that is waited for."""
        return _PATIENCE_S * min(self.repetitions, _PATIENT) - self.waited_s

    def worked_s(self) -> float:
        """By a clock that stands still while it is waited for."""
        return time.monotonic() - self.waited_s

    def line_cycles(self, lcores: Sequence[int]) -> float | None:
        """TSC cycles of a line between the first and the last of these, where costs were taken."""
        return self.lines.get(frozenset((lcores[0], lcores[-1])))

    def points(self, experiment: Experiment, doc: document.Document) -> EnginePoint:
        """Ready to be deployed. Cycles are compared with each other, and not with the tester: it
        is not calibrated."""
        [one] = points_of([experiment], doc, self.description, Floors(wanted=False))
        return one


@dataclass(frozen=True)
class PointSample:
    """One trial's cycles per packet."""

    nfs: dict[str, float]
    rx: float
    tx: float
    loop: float
    source: float
    source_tx: float
    sink: float
    throughput_pps: float
    packets: int
    passed: float  # share of what the chain got that it sent on
    burst: float = 0.0  # packets of a poll of the chain's that found some
    idle: float = 0.0  # cycles of a poll that found none
    pace: float | None = None  # TSC cycles of an addition, the lcores' mean
    width: float | None = None  # additions at once, of four: 2 beside a busy hyperthread
    replicas: tuple[ReplicaReading, ...] = ()  # of all segments
    workers: tuple[WorkerReading, ...] = ()
    sent_pps: float = 0.0  # by the source
    # TSC cycles of a line that another lcore wrote; None: not measured, or it changed meanwhile.
    line: float | None = None
    # An lcore, by the hypervisor, while it was taken; or hardly any slice of it was left alone.
    moved: bool = False

    @property
    def lcores(self) -> frozenset[int]:
        return frozenset(worker.cpu for worker in self.workers)

    def of_state(self, lines: Mapping[frozenset[int], float]) -> bool:
        """Whether it was taken where a line between its lcores costs so much."""
        return not self.moved and same_state(self.line, lines.get(self.lcores))

    @property
    def chain(self) -> float:
        """All that the chain's segments pay for a packet."""
        return self.rx + sum(self.nfs.values()) + self.tx + self.loop


def memory_mb(states: Sequence[int]) -> int:
    return _MEMORY_MB + int(max(states) * _MEMORY_PER_ENTRY / (1 << 20))


def study(chain: list[Json], settings: Settings, workload: Json, name: str) -> Json:
    """A study of one chain at these settings; `workload` has what the NFs need beside."""
    flows: Json = {"count": settings.state, "vary": ["src_ip", "src_port"], "order": "random"}
    if settings.skew:
        flows |= {"order": "zipf", "zipf_exponent": settings.skew}
    return {
        "name": name,
        "chain": chain,
        "deployment": {
            "execution": "rtc",
            "burst": settings.burst,
            "memory_mb": memory_mb([settings.state]),
        },
        "workload": {"frame": settings.frame_bytes, "flows": flows, **workload},
        "measure": {"max": True, "drain": _DRAIN_S},
    }


def experiment_of(data: Json, origin: FilePath) -> tuple[document.Document, Experiment]:
    """`origin`: what errors name, and what relative paths are relative to."""
    doc = document.parse(yaml.safe_dump(data), origin)
    [experiment] = expand(doc)
    return doc, experiment


def prepare_at(bench: Bench, data: Json, placement: Placement, origin: str) -> EnginePoint:
    traffic, nf = bench.lcores
    data = copy.deepcopy(data)
    if placement == "apart":
        lcores: Json = {"traffic": [traffic], "chain": [nf]}
    else:
        lcores = {"traffic": [nf], "chain": [nf], "shared": True}
    data["deployment"]["lcores"] = lcores
    doc, experiment = experiment_of(data, FilePath(origin))
    return bench.points(experiment, doc)


@dataclass
class RunningPoint:
    """A point that is up: its trials are the session's."""

    bench: Bench
    one: EnginePoint
    deployed: DeployedEngine
    offer: Offer

    @property
    def engine(self) -> RunningEngine:
        return self.deployed.engine

    def trial(
        self,
        seconds: float,
        rate_pps: float = 0.0,
        phase: Phase | None = None,
        slices: list[Sliced] | None = None,
    ) -> Trial:
        """`rate_pps`: 0 is as fast as possible. All directions together; the result is kept unless
        it is of a warm-up. `slices`: where the trial's are put."""
        phase = phase or ("fixed" if rate_pps else "max")
        identity = self.one.chain, self.one.execution, self.offer.workload, f"{phase} {rate_pps:g}"
        self.bench.counted[identity] += 1
        session, turn = self.bench.session, self.bench.counted[identity]
        judged = session.trial(
            self.deployed, self.one, self.offer, rate_pps, seconds, phase, turn, slices=slices
        )
        if phase != "warm-up":
            session.keep([result(each, phase) for each in judged])
        return judged[-1]


@contextmanager
def running(
    bench: Bench, one: EnginePoint, placement: Placement, wait: bool, beside: str = ""
) -> Iterator[RunningPoint]:
    """The engine with this plan. `wait`: the generator stops where the chain has no room, so that
    the slowest lcore sets the rate of all; else it floods, and the chain's lcore is never idle.
    `beside`: what sets this point apart and its workload's name does not say."""
    if placement == "one-segment":
        one = replace(one, plan=one_segment(one.plan, paths(one.experiment)))
    elif wait:
        one = replace(one, plan=waiting(one.plan))
    [offer] = one.offers
    offer = replace(offer, workload=f"{offer.workload} {beside}".strip())
    with bench.session.deployed(one) as deployed:
        assert isinstance(deployed, DeployedEngine)
        if not bench.tsc_hz:
            bench.tsc_hz = float(deployed.engine.info().tsc_hz)
        yield RunningPoint(bench, one, deployed, offer)


def waiting(plan: Plan) -> Plan:
    links = dict(plan.links)
    for name, one in plan.rings.items():
        links[name] = ring(min(one.params["size"], WAITING_RING), "wait")
    return plan.having(links=links)


def one_segment(plan: Plan, ways: Sequence[Path]) -> Plan:
    """Source and sink take the place of the rings at the chain's ends."""
    [chain] = [s for s in plan.segments if s.name not in (GENERATOR, SINK)]
    instead = {way.wire: way.source for way in ways}
    instead |= {f"link:{way.back}": f"link:{way.sink}" for way in ways}
    inputs = tuple(
        one.model_copy(
            update={"link": instead.get(one.link, one.link), "to": instead.get(one.to, one.to)}
        )
        for one in chain.inputs
    )
    nodes = {
        name: {
            direction: {edge: instead.get(to, to) for edge, to in targets.items()}
            for direction, targets in node.items()
        }
        for name, node in (chain.nodes or {}).items()
    }
    chain = chain.model_copy(update={"inputs": inputs, "nodes": nodes or None})
    gone = {name for way in ways for name in (way.wire, way.back)}
    links = {name: link for name, link in plan.links.items() if name not in gone}
    return plan.having(links=links, segments=(chain,))


def warm_up(up: RunningPoint) -> None:
    """Sends until nearly all flows have been seen. A chain that learns them carries far fewer
    packets/s than one that knows them, so that packets are counted, not seconds."""
    wanted = _WARM_EACH * up.one.experiment.flows
    seconds, left = max(_WARM_S, wanted / _WARM_PPS), _WARM_MAX_S
    seen, spent = 0, 0.0
    while True:
        seconds = min(left, seconds)
        one = up.trial(seconds, phase="warm-up")
        left -= seconds
        seen, spent = seen + got(up.one, one), spent + one.duration_s
        if seen >= wanted or left < _WARM_S or not seen:
            return
        seconds = max(_WARM_S, (wanted - seen) * spent / seen)


def got(one: EnginePoint, trial: Trial) -> int:
    """Packets that the chain's first segment got."""
    first = one.placement.segments[0].name
    replicas = trial.counters.replicas if trial.counters else ()
    return sum(replica.packets_in for replica in replicas if replica.segment == first)


@contextmanager
def loaded(up: RunningPoint, seconds: float, rate_pps: float = 0.0) -> Iterator[None]:
    """Each source at this rate meanwhile, 0: as fast as possible."""
    with up.engine.measuring(), sending(up.engine, up.deployed.ways, rate_pps, seconds):
        yield


def interruptions(samples: Sequence[PointSample], tsc_hz: float) -> dict[int, tuple[Gap, ...]]:
    """What interrupts each lcore, per cycle in which it had nothing to do; longer ones are pauses,
    which are no layout's (docs/measuring.md)."""
    several: dict[int, list[WorkerReading]] = {}
    for sample in samples:
        for worker in sample.workers:
            several.setdefault(worker.cpu, []).append(worker)
    gaps = {}
    for cpu, workers in several.items():
        idle = sum(max(0, w.ref_cycles - w.ops_cycles) for w in workers)
        classes = zip(*(w.gaps for w in workers), strict=True)
        summed = [(sum(n for n, _ in one), sum(c for _, c in one)) for one in classes]
        known = [Gap(n / idle, cycles / n) for n, cycles in summed if n and idle]
        gaps[cpu] = tuple(gap for gap in known if gap.cycles < _PAUSE_S * tsc_hz)
    return gaps


@dataclass(frozen=True)
class PointCount:
    packets: int
    seconds: float  # of the engine's clock


def packets(up: RunningPoint) -> PointCount:
    """That the chain's first segment has got so far."""
    first = up.one.placement.segments[0].name
    reading = up.engine.read()
    total = sum(replica.packets_in for replica in reading.segments[first])
    return PointCount(total, reading.tsc / reading.tsc_hz)


def sample(up: RunningPoint, seconds: float, rate_pps: float = 0.0) -> PointSample:
    """`rate_pps`: 0 is as fast as possible; what is sent (where the source waits for the chain) and
    carried is then of slices in which nothing kept an lcore from working. A host that lends its
    cores to others takes 5 to 25 % of one trial, and not the same of the next one, which is no
    layout's doing."""
    slices: list[Sliced] = []
    trial = up.trial(seconds, rate_pps, slices=slices)
    if rate_pps or not slices:
        return sampled(trial)
    seen = alone(slices[0], SINK)
    one = sampled(trial, seen)
    many = max(each["ref"].size for each in slices[0].replicas) >= 2 * ALONE_LEAST
    return replace(one, moved=True) if seen is None and many else one


def sampled(trial: Trial, seen: Alone | None = None) -> PointSample:
    """`seen`: by it what a trial says is stated as of slices in which nothing disturbed it."""
    counters = trial.counters
    assert counters is not None  # an engine has some
    if seen is not None:
        replicas = tuple(
            one.costing(seen.cycles.get((one.segment, one.index), 1.0)) for one in counters.replicas
        )
        counters = counters.model_copy(update={"replicas": replicas})
    rate, least = (1.0, WHOLE) if seen is None else (seen.rate, MOSTLY)
    return replace(
        read(counters, trial.received_pps * rate),
        sent_pps=trial.sent_pps * rate,
        line=trial.line_cycles,
        moved=trial.line_share is not None and trial.line_share < least,
    )


def read(counters: Counters, throughput_pps: float) -> PointSample:
    """Cycles per packet of the chain's segments together, each per packet that it got."""
    rx = tx = busy = 0.0
    nfs = count.nf_cycles(counters)
    source = source_tx = sink = 0.0
    packets = 0
    passed = 1.0
    for segment in {r.segment for r in counters.replicas}:
        replicas = [r for r in counters.replicas if r.segment == segment]
        got = sum(r.packets_in for r in replicas)
        sampled = sum(r.io_packets for r in replicas)
        if not got or not sampled:
            continue
        rx_each = sum(r.rx_cycles for r in replicas) / sampled
        tx_each = sum(r.tx_cycles for r in replicas) / sampled
        if segment == GENERATOR:
            source, source_tx = rx_each + tx_each, tx_each
        elif segment == SINK:
            sink = rx_each + tx_each
        else:
            rx, tx, packets = rx + rx_each, tx + tx_each, max(packets, got)
            passed *= sum(r.packets_out for r in replicas) / got
            busy += sum(r.ops_cycles for r in replicas) / got
    loop = max(0.0, busy - rx - tx - sum(nfs.values()))
    return PointSample(
        nfs=nfs,
        rx=rx,
        tx=tx,
        loop=loop,
        source=source,
        source_tx=source_tx,
        sink=sink,
        throughput_pps=throughput_pps,
        packets=packets,
        passed=passed,
        burst=_burst(counters),
        idle=_idle(counters),
        pace=_known([w.pace for w in counters.workers]),
        width=_known([w.width for w in counters.workers]),
        replicas=counters.replicas,
        workers=counters.workers,
    )


def _known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def speed(samples: Sequence[PointSample], tsc_hz: float) -> Speed:
    """How fast the lcores were meanwhile; what short trials could not take is not known."""
    paces = [s.pace for s in samples if s.pace]
    widths = [s.width for s in samples if s.width]
    return Speed(
        mhz=tsc_hz / 1e6 / median(paces) if paces else None,
        at_once=median(widths) if widths else None,
    )


def _burst(counters: Counters) -> float:
    chain = [r for r in counters.replicas if r.segment not in (GENERATOR, SINK)]
    polls = sum(r.polls - r.idle_polls for r in chain)
    return sum(r.packets_in for r in chain) / polls if polls else 0.0


def _idle(counters: Counters) -> float:
    """Segments are taken alike: what an lcore was not busy for, over its polls that were empty."""
    spare = sum(max(0, w.ref_cycles - w.ops_cycles) for w in counters.workers)
    polls = sum(r.idle_polls for r in counters.replicas)
    return spare / polls if polls else 0.0


def spread(values: Sequence[float]) -> MedianRange:
    return MedianRange(median=median(values), min=min(values), max=max(values))


def cost(samples: Sequence[PointSample]) -> PacketCost:
    return PacketCost(
        nf=spread([sum(s.nfs.values()) for s in samples]),
        rx=spread([s.rx for s in samples]),
        tx=spread([s.tx for s in samples]),
        loop=spread([s.loop for s in samples]),
        throughput_pps=spread([s.throughput_pps for s in samples]),
    )
