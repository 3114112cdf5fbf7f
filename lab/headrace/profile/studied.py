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

from headrace.engine.describe import describe
from headrace.engine.engine import Engine
from headrace.engine.place import usable_cpus
from headrace.engine.plan import GENERATOR, SINK
from headrace.errors import BadInput
from headrace.host import store
from headrace.host.programs import find_engine
from headrace.measure.session import measuring
from headrace.profile import events, rounds
from headrace.profile import point as points
from headrace.profile.events import Count
from headrace.profile.point import Bench, Json
from headrace.record.counters import Counters, Located
from headrace.record.rows import Trial
from headrace.spec.calibration import Calibration
from headrace.spec.deployment import Deployment

Say = Callable[[str], None]
Setting = Callable[[Engine], object]
_ROUNDS = 3


@dataclass(frozen=True)
class StudiedRun:
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

    def over(self, other: StudiedRun) -> float:
        """Throughput over another's, round by round: what the machine does beside is in both."""
        return median(a / b for a, b in zip(self.rounds, other.rounds, strict=True))

    def carries_over(self, other: StudiedRun) -> float:
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
def bench(
    name: str, repetitions: int, seconds: float, deployment: Json, say: Say
) -> Iterator[Bench]:
    """Engine, memory and lcores for as long as the study takes, and a bundle of what it measured.
    `deployment`: of the engines, as a spec says it."""
    cpus = usable_cpus()
    with measuring(name) as session:
        session.hold(cpus)
        session.provide(Deployment.model_validate(deployment))
        found = describe(find_engine())
        yield Bench(found, session, (cpus[0], cpus[-1]), repetitions, seconds)
    say(f"bundle: {session.bundle.path}")


def run(
    bench: Bench,
    data: Json,
    origin: Path,
    rates: Sequence[float],
    wait: bool = True,
    count_events: Count | None = None,
) -> list[StudiedRun]:
    """One engine, all rates (0: as fast as possible). `wait`: rings hold back, and drop nothing.
    `count_events`: a PMU's, of the chain's lcore."""
    doc, experiment = points.experiment_of(data, origin)
    one = bench.points(experiment, doc)
    with points.running(bench, one, "apart", wait=wait) as up:
        points.warm_up(up)
        heap_bytes = int(up.engine.request("info")["heap_bytes"])
        several: list[list[Trial]] = [[] for _ in rates]
        for turn in range(bench.repetitions):
            for rate, into in rounds.alternating(list(zip(rates, several, strict=True)), turn):
                into.append(up.trial(bench.seconds, rate))
        found = []
        for rate, samples in zip(rates, several, strict=True):
            made = replace(_run(samples), heap_bytes=heap_bytes)
            if count_events is not None:
                counted = events.per_packet(up, count_events, rate)
                made = replace(made, events=counted)
            found.append(made)
        return found


def in_rounds(
    bench: Bench, several: Sequence[Json], origin: Path, rate: float = 0.0, wait: bool = True
) -> list[StudiedRun]:
    """Round after round, with all the others between; 0: as fast as possible."""
    prepared = []
    for data in several:
        doc, experiment = points.experiment_of(data, origin)
        prepared.append(bench.points(experiment, doc))
    found: list[list[list[Trial]]] = [[] for _ in several]
    for turn, trials_each in enumerate(rounds.shares(bench.repetitions, _ROUNDS)):
        for one, into in rounds.alternating(list(zip(prepared, found, strict=True)), turn):
            with points.running(bench, one, "apart", wait=wait) as up:
                points.warm_up(up)
                into.append([up.trial(bench.seconds, rate) for _ in range(trials_each)])
    return [
        replace(
            _run([trial for each in parts for trial in each]),
            rounds=tuple(median(_carried_pps(trial) for trial in each) for each in parts),
            carried=tuple(_run(each).carries_pps for each in parts),
        )
        for parts in found
    ]


def carried(trial: Trial) -> int:
    """What was dropped on purpose counts as received, where the spec has it so."""
    return trial.received + trial.policy_dropped


def _carried_pps(trial: Trial) -> float:
    return carried(trial) / trial.duration_s


def in_turn(
    bench: Bench, data: Json, origin: Path, settings: Sequence[Setting], turns: int
) -> list[list[float]]:
    """Packets/s under each of the settings of one engine; which of them is first changes, lest one
    always follow another."""
    doc, experiment = points.experiment_of(data, origin)
    one = bench.points(experiment, doc)
    found: list[list[float]] = [[] for _ in settings]
    with points.running(bench, one, "apart", wait=True) as up:
        points.warm_up(up)
        for turn in range(turns):
            for i, setting in rounds.alternating(list(enumerate(settings)), turn):
                setting(up.engine)
                found[i].append(points.sample(up, bench.seconds).throughput_pps)
    return found


def _run(trials: Sequence[Trial]) -> StudiedRun:
    counters = [one.counters for one in trials if one.counters is not None]
    samples = [points.read(c, _carried_pps(one)) for one, c in zip(trials, counters, strict=True)]
    return StudiedRun(
        throughput_pps=median(s.throughput_pps for s in samples),
        loss=median(one.loss_ratio for one in trials),
        cycles={name: median(s.nfs.get(name, 0.0) for s in samples) for name in samples[0].nfs},
        utilisation=_medians([_utilisation(c) for c in counters]),
        rx=median(s.rx for s in samples),
        tx=median(s.tx for s in samples),
        source=median(s.source for s in samples),
        sink=median(s.sink for s in samples),
        chain=median(s.chain for s in samples),
        busiest=median(_busiest(c, carried(one)) for one, c in zip(trials, counters, strict=True)),
        tsc_hz=float(counters[0].tsc_hz),
        located=_together([one.located for one in trials]),
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
