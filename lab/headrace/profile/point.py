# SPDX-License-Identifier: Apache-2.0
"""One point: an NF alone in a segment, at full load; what the segment loop sampled."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from statistics import median
from typing import Any, Literal

import yaml

from headrace.engine import counters as count
from headrace.engine import reading as trials
from headrace.engine.describe import Description
from headrace.engine.engine import Engine
from headrace.engine.plan import GENERATOR, SINK, Path, paths
from headrace.ground.chains import points_of
from headrace.ground.inline import EnginePoint
from headrace.host.memory import Memory
from headrace.host.state import RunState, dpdk_prefix
from headrace.record.counters import Counters, ReplicaReading
from headrace.spec import document
from headrace.spec.profile import Cost, Settings, Speed, Spread
from headrace.spec.study import Experiment, expand

Json = dict[str, Any]
# apart: traffic on one lcore, the NF on another. together: three segments on one lcore.
# one-segment: source, NF and sink run to completion on one lcore, with no ring between.
Placement = Literal["apart", "together", "one-segment"]

_DRAIN_S = 0.02
_WARM_PPS = 3e6  # the first guess of the rate
_WARM_S, _WARM_MAX_S = 0.3, 20.0
_WARM_EACH = 4  # packets per flow, in random order: 2 in 100 flows are not among them
_MEMORY_MB, _MEMORY_PER_ENTRY = 512, 640
# Long enough that nobody waits for want of packets, short enough to stay in a cache.
_WAITING_RING = 1024


@dataclass
class Bench:
    """What all points of a profile share."""

    description: Description
    state: RunState
    memory: Memory
    lcores: tuple[int, int]  # traffic, NF
    repetitions: int
    seconds: float
    tsc_hz: float = 0.0
    prepared: dict[str, EnginePoint] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
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
    sent_pps: float = 0.0  # by the source

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
    [prepared] = points_of([experiment], doc, bench.description)
    return prepared


@contextmanager
def running(bench: Bench, one: EnginePoint, placement: Placement, wait: bool) -> Iterator[Engine]:
    """The engine with this plan. `wait`: the generator stops where the chain has no room, so that
    the slowest lcore sets the rate of all; else it floods, and the chain's lcore is never idle."""
    plan = one.with_memory(
        {"hugepages": bench.memory.hugepages, "file_prefix": dpdk_prefix(bench.state.path)}
    )
    ways = paths(one.experiment)
    if placement == "one-segment":
        plan = one_segment(plan, ways)
    elif wait:
        plan = waiting(plan)
    with Engine(bench.description.engine, plan, bench.state) as engine:
        if not bench.tsc_hz:
            bench.tsc_hz = float(engine.request("info")["tsc_hz"])
        yield engine


def waiting(plan: Json) -> Json:
    plan = copy.deepcopy(plan)
    for link in plan["links"].values():
        if link["type"] == "ring":
            link["params"]["on_full"] = "wait"
            link["params"]["size"] = min(link["params"]["size"], _WAITING_RING)
    return plan


def one_segment(plan: Json, ways: Sequence[Path]) -> Json:
    """Source and sink take the place of the rings at the chain's ends."""
    plan = copy.deepcopy(plan)
    [chain] = [s for s in plan["segments"] if s["name"] not in (GENERATOR, SINK)]
    for way in ways:
        for entry in chain["inputs"]:
            if entry["link"] == way.wire:
                entry["link"] = way.source
            if entry["to"] == f"link:{way.back}":
                entry["to"] = f"link:{way.sink}"
        for node in chain.get("nodes", {}).values():
            for edges in node.values():
                for edge, target in edges.items():
                    if target == f"link:{way.back}":
                        edges[edge] = f"link:{way.sink}"
        del plan["links"][way.wire], plan["links"][way.back]
    plan["segments"] = [chain]
    return plan


def warm_up(engine: Engine, one: EnginePoint) -> None:
    """Until nearly all flows have been seen. A chain that learns them carries far fewer packets/s
    than one that knows them, so that packets are counted, not seconds."""
    wanted = _WARM_EACH * one.experiment.study.workload.flows.count
    seconds, left = max(_WARM_S, wanted / _WARM_PPS), _WARM_MAX_S
    began = packets(engine, one)
    while True:
        seconds = min(left, seconds)
        trials.run(engine, paths(one.experiment), 0, seconds, _DRAIN_S)
        left -= seconds
        now = packets(engine, one)
        seen = now.packets - began.packets
        if seen >= wanted or left < _WARM_S or not seen:
            return
        seconds = max(_WARM_S, (wanted - seen) * (now.seconds - began.seconds) / seen)


@contextmanager
def loaded(
    engine: Engine, one: EnginePoint, seconds: float, rate_pps: float = 0.0
) -> Iterator[None]:
    """Each source at this rate meanwhile, 0: as fast as possible."""
    with engine.measuring(), trials.sending(engine, paths(one.experiment), rate_pps, seconds):
        yield


@dataclass(frozen=True)
class Count:
    packets: int
    seconds: float  # of the engine's clock


def packets(engine: Engine, one: EnginePoint) -> Count:
    """That the chain's first segment has got so far."""
    first = one.placement.segments[0].name
    reading = engine.request("read")
    total = sum(int(replica["in"]) for replica in reading["segments"][first])
    return Count(total, reading["tsc"] / reading["tsc_hz"])


def sample(
    engine: Engine, one: EnginePoint, seconds: float, plan: Json, rate_pps: float = 0.0
) -> Sample:
    """`rate_pps`: 0 is as fast as possible."""
    ways = paths(one.experiment)
    reading = trials.run(engine, ways, rate_pps, seconds, _DRAIN_S)
    counters = count.difference(reading.before, reading.after, plan, sending=reading.sending)
    flows = [trials.flow(reading, way) for way in ways]
    seconds = max(f.duration_s for f in flows)
    sent, received = (sum(getattr(f, key) for f in flows) / seconds for key in ("sent", "received"))
    return replace(read(counters, received), sent_pps=sent)


def read(counters: Counters, throughput_pps: float) -> Sample:
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
    return Sample(
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
    )


def _known(values: Sequence[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else None


def speed(samples: Sequence[Sample], tsc_hz: float) -> Speed:
    """Of the lcores meanwhile; what short trials could not take is not known."""
    paces = [s.pace for s in samples if s.pace]
    widths = [s.width for s in samples if s.width]
    return Speed(
        mhz=tsc_hz / 1e6 / median(paces) if paces else None,
        at_once=median(widths) if widths else None,
    )


def _burst(counters: Counters) -> float:
    chain = [r for r in counters.replicas if r.segment not in (GENERATOR, SINK)]
    found = sum(r.polls - r.idle_polls for r in chain)
    return sum(r.packets_in for r in chain) / found if found else 0.0


def _idle(counters: Counters) -> float:
    """Of all segments alike: what an lcore was not busy for, over its polls that found nothing."""
    spare = sum(max(0, w.ref_cycles - w.ops_cycles) for w in counters.workers)
    polls = sum(r.idle_polls for r in counters.replicas)
    return spare / polls if polls else 0.0


def spread(values: Sequence[float]) -> Spread:
    return Spread(median=median(values), min=min(values), max=max(values))


def cost(samples: Sequence[Sample]) -> Cost:
    return Cost(
        nf=spread([sum(s.nfs.values()) for s in samples]),
        rx=spread([s.rx for s in samples]),
        tx=spread([s.tx for s in samples]),
        loop=spread([s.loop for s in samples]),
        throughput_pps=spread([s.throughput_pps for s in samples]),
    )
