# SPDX-License-Identifier: Apache-2.0
"""A published figure measured again, point by point: a spec is run at given rates, and its lcores'
utilisation, its functions' cycles and where its packets were are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from headrace.engine import counters as count
from headrace.engine import reading as trials
from headrace.engine.describe import describe
from headrace.engine.engine import Engine
from headrace.engine.place import usable_cpus
from headrace.engine.plan import GENERATOR, SINK, paths
from headrace.errors import BadInput
from headrace.ground.chains import points_of
from headrace.ground.inline import EnginePoint
from headrace.host import store
from headrace.host.exclusive import Lcores
from headrace.host.memory import provide
from headrace.host.programs import find_engine
from headrace.host.state import RunState
from headrace.measure.progress import waiting_for
from headrace.profile import events, rounds
from headrace.profile import point as points
from headrace.profile.events import Count
from headrace.profile.point import Bench, Json
from headrace.record.counters import Counters, Located
from headrace.spec.calibration import Calibration
from headrace.spec.deployment import Deployment

Say = Callable[[str], None]
Setting = Callable[[Engine], object]
_Trial = tuple[points.Sample, Counters, trials.Flow]
_DRAIN_S = 0.05
_ROUNDS = 3


@dataclass(frozen=True)
class Run:
    """Medians of repetitions at one rate. What a function drops as it is told to (`losses:
    unintended`) it has carried."""

    throughput_pps: float
    loss: float
    cycles: dict[str, float]  # NF: cycles per packet
    utilisation: dict[str, float]  # segment: OPS / REF of its lcores (S5 algorithm 1)
    rx: float
    tx: float
    located: tuple[Located, ...]
    events: dict[str, float] = field(default_factory=dict)  # of the PMU, per packet
    # Cycles per packet of making it and of measuring it, and of all that is between.
    source: float = 0.0
    sink: float = 0.0
    chain: float = 0.0
    # Cycles per packet that the chain's segments, and they alone, take of its busiest lcore.
    busiest: float = 0.0
    tsc_hz: float = 0.0
    heap_bytes: int = 0  # given out of DPDK's heaps: packet buffers and tables
    # Packets/s of each round, where it was measured in turn with others; and `carries_pps`.
    rounds: tuple[float, ...] = ()
    carried: tuple[float, ...] = ()

    def over(self, other: Run) -> float:
        """Throughput over another's, round by round: what the machine does beside is in both."""
        return median(a / b for a, b in zip(self.rounds, other.rounds, strict=True))

    def carries_over(self, other: Run) -> float:
        """The same of what the chains alone have cycles for."""
        return median(a / b for a, b in zip(self.carried, other.carried, strict=True))

    @property
    def carries_pps(self) -> float:
        """What the chain's busiest lcore has cycles for. Where source or sink share its lcores, or
        are slower than the chain, less than that comes through; the papers' traffic comes from
        elsewhere."""
        return self.tsc_hz / self.busiest if self.busiest > 0 else 0.0

    @property
    def received(self) -> Located | None:
        """Packets when the chain's first function got them; not those that the generator makes, on
        its own core, nor those that the sink ends."""
        return next(
            (
                one
                for one in self.located
                if not one.behind_first and one.segment not in (GENERATOR, SINK)
            ),
            None,
        )


@contextmanager
def bench(repetitions: int, seconds: float, memory_mb: int, say: Say) -> Iterator[Bench]:
    """Engine, memory and lcores for as long as the study takes."""
    cpus = usable_cpus()
    state = RunState()
    try:
        with Lcores(cpus, lambda cpu: say(waiting_for(cpu))):
            memory = provide(Deployment.model_validate({"memory_mb": memory_mb}), state)
            say(f"memory: {memory.note}")
            found = describe(find_engine())
            yield Bench(found, state, memory, (cpus[0], cpus[-1]), repetitions, seconds)
    finally:
        state.remove()


def run(
    bench: Bench,
    data: Json,
    origin: Path,
    rates: Sequence[float],
    wait: bool = True,
    count_events: Count | None = None,
) -> list[Run]:
    """One engine, all rates (0: as fast as possible). `wait`: rings hold back, and drop nothing.
    `count_events`: a PMU's, of the chain's lcore."""
    doc, experiment = points.experiment_of(data, origin)
    [one] = points_of([experiment], doc, bench.description)
    with points.running(bench, one, "apart", wait=wait) as engine:
        points.warm_up(engine, one)
        heap_bytes = int(engine.request("info")["heap_bytes"])
        several: list[list[_Trial]] = [[] for _ in rates]
        for turn in range(bench.repetitions):
            for rate, into in rounds.alternating(list(zip(rates, several, strict=True)), turn):
                into += _trials(bench, engine, one, rate, 1)
        found = []
        for rate, samples in zip(rates, several, strict=True):
            made = replace(_run(samples), heap_bytes=heap_bytes)
            if count_events is not None:
                counted = events.per_packet(engine, one, count_events, rate)
                made = replace(made, events=counted)
            found.append(made)
        return found


def in_rounds(
    bench: Bench, several: Sequence[Json], origin: Path, rate: float = 0.0, wait: bool = True
) -> list[Run]:
    """Round after round, with all the others between; 0: as fast as possible."""
    prepared = []
    for data in several:
        doc, experiment = points.experiment_of(data, origin)
        prepared += points_of([experiment], doc, bench.description)
    found: list[list[list[_Trial]]] = [[] for _ in several]
    for turn, trials_each in enumerate(rounds.shares(bench.repetitions, _ROUNDS)):
        for one, into in rounds.alternating(list(zip(prepared, found, strict=True)), turn):
            with points.running(bench, one, "apart", wait=wait) as engine:
                points.warm_up(engine, one)
                into.append(_trials(bench, engine, one, rate, trials_each))
    return [
        replace(
            _run([trial for each in parts for trial in each]),
            rounds=tuple(median(s.throughput_pps for s, _, _ in each) for each in parts),
            carried=tuple(_run(each).carries_pps for each in parts),
        )
        for parts in found
    ]


def _trials(
    bench: Bench, engine: Engine, one: EnginePoint, rate: float, repetitions: int
) -> list[_Trial]:
    found = []
    for _ in range(repetitions):
        ways = paths(one.experiment)
        reading = trials.run(engine, ways, rate, bench.seconds, _DRAIN_S)
        counters = count.difference(
            reading.before, reading.after, one.plan, sending=reading.sending
        )
        flow = _carried(trials.flow(reading, ways[0]), counters, one)
        sample = points.read(counters, flow.received / flow.duration_s)
        found.append((sample, counters, flow))
    return found


def _carried(flow: trials.Flow, counters: Counters, one: EnginePoint) -> trials.Flow:
    """What was dropped on purpose counts as received, where the spec has it so."""
    meant = sum(
        nf.dropped.get(reason, 0)
        for replica in counters.replicas
        for name, nf in replica.nfs.items()
        for reason in one.policy.get(name, ())
    )
    return replace(flow, received=flow.received + meant)


def in_turn(
    bench: Bench, data: Json, origin: Path, settings: Sequence[Setting], turns: int
) -> list[list[float]]:
    """Packets/s under each of the settings of one engine; which of them is first changes, lest one
    always follow another."""
    doc, experiment = points.experiment_of(data, origin)
    [one] = points_of([experiment], doc, bench.description)
    found: list[list[float]] = [[] for _ in settings]
    with points.running(bench, one, "apart", wait=True) as engine:
        points.warm_up(engine, one)
        for turn in range(turns):
            for i, setting in rounds.alternating(list(enumerate(settings)), turn):
                setting(engine)
                found[i].append(points.sample(engine, one, bench.seconds, one.plan).throughput_pps)
    return found


def _run(samples: Sequence[_Trial]) -> Run:
    counters = [c for _, c, _ in samples]
    return Run(
        throughput_pps=median(s.throughput_pps for s, _, _ in samples),
        loss=median(f.loss_ratio for _, _, f in samples),
        cycles={
            name: median(s.nfs.get(name, 0.0) for s, _, _ in samples) for name in samples[0][0].nfs
        },
        utilisation=_medians([_utilisation(c) for _, c, _ in samples]),
        rx=median(s.rx for s, _, _ in samples),
        tx=median(s.tx for s, _, _ in samples),
        source=median(s.source for s, _, _ in samples),
        sink=median(s.sink for s, _, _ in samples),
        chain=median(s.chain for s, _, _ in samples),
        busiest=median(_busiest(c, f.received) for _, c, f in samples),
        tsc_hz=float(counters[0].tsc_hz),
        located=_together([count.located(c) for c in counters]),
    )


def _utilisation(counters: Counters) -> dict[str, float]:
    """OPS / REF while packets were sent; replicas in the mean."""
    spans = {w.cpu: w.sending_ref_cycles for w in counters.workers}
    found: dict[str, list[float]] = {}
    for replica in counters.replicas:
        if span := spans.get(replica.cpu):
            share = (replica.sending_ops_cycles or 0) / span
            found.setdefault(replica.segment, []).append(share)
    return {segment: sum(shares) / len(shares) for segment, shares in found.items()}


def _busiest(counters: Counters, packets: int) -> float:
    cycles: dict[int, int] = {}
    for replica in counters.replicas:
        if replica.segment not in (GENERATOR, SINK):
            cycles[replica.cpu] = cycles.get(replica.cpu, 0) + replica.ops_cycles
    return max(cycles.values(), default=0) / max(1, packets)


def _medians(several: list[dict[str, float]]) -> dict[str, float]:
    return {key: median(one.get(key, 0.0) for one in several) for key in several[0]}


def _together(several: list[tuple[Located, ...]]) -> tuple[Located, ...]:
    """Samples of all repetitions."""
    found: dict[str, Located] = {}
    for one in (located for trial in several for located in trial):
        before = found.get(one.place)
        found[one.place] = one if before is None else _sum(before, one)
    return tuple(found.values())


def _sum(a: Located, b: Located) -> Located:
    samples = a.samples + b.samples
    classes = {k: a.classes.get(k, 0) + b.classes.get(k, 0) for k in {**a.classes, **b.classes}}

    def mean(first: float | None, second: float | None) -> float | None:
        if not samples:
            return None
        return ((first or 0.0) * a.samples + (second or 0.0) * b.samples) / samples

    return a.model_copy(
        update={
            "samples": samples,
            "disturbed": a.disturbed + b.disturbed,
            "classes": classes,
            "index": mean(a.index, b.index) if classes else None,
            "mean_cycles": mean(a.mean_cycles, b.mean_cycles),
        }
    )


def workload(frame: int, flows: int, **others: Any) -> Json:
    """Clients of RFC 2544's range, one server: what the studies' functions expect."""
    return {
        "frame": frame,
        "flows": {"count": flows, "vary": ["src_ip", "src_port"], "order": "random"},
        "headers": {"src_ip": "198.18.0.1", "dst_ip": "198.19.0.1", "dst_port": 80},
        **others,
    }


def calibrated(part: str) -> Calibration:
    file = store.calibration_file()
    if not file.exists():
        raise BadInput(
            f"{part}: {file}: no such file; allowed: what `headrace server calibrate` writes"
        )
    return store.load(file, Calibration)
