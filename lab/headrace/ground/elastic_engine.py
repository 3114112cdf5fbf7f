# SPDX-License-Identifier: Apache-2.0
"""What a chain in an elastic segment would do on more lcores or fewer, measured before it is asked
to; and its runs, one for each policy."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headrace.engine.counters import difference
from headrace.engine.link_counts import RingCounts
from headrace.engine.reading import Reading, run, sending
from headrace.errors import HeadraceError
from headrace.ground.elastic_plant import ElasticEngine, EnginePlant
from headrace.ground.lined_elastic import LcoreFigures, LinedElastic
from headrace.ground.load_curve import load_of
from headrace.ground.operable import Foresight, Numbers
from headrace.record.counters import ReplicaReading
from headrace.record.identity import Origin
from headrace.record.latency import latency
from headrace.record.text import rate
from headrace.record.text import time as duration_text
from headrace.spec.document import Document
from headrace.spec.study import Experiment

_SATURATED_S, _AT_S, _DRAIN_S = 0.5, 0.3, 0.05
_CHANGE_MOST_S = 60.0
_PARTS = (0.05, 0.2, 0.4, 0.6, 0.8, 0.95)  # of what one lcore carries


@dataclass(frozen=True)
class MeasuredElastic(LinedElastic):
    """It is known by trials with one lcore. `change_s`: what giving it another one, and half of the
    buckets, took at half of its load."""

    most: int
    buckets: int
    change_s: float
    bucket_s: float = 0.0  # nothing goes with it (docs/design/elastic.md)


@dataclass(frozen=True)
class EngineOperable:
    of: ElasticEngine
    future: Foresight
    frame_bytes: float
    labels: Sequence[str]
    model: MeasuredElastic
    origin: Origin = "measured"

    def plant(self, lcores: int, repetition: int) -> EnginePlant:
        """The state of flows is what the run before left: they are the same."""
        spread(self.of, lcores)
        return EnginePlant(self.of, self.future)


def operable_of(
    of: ElasticEngine, experiment: Experiment, doc: Document, labels: Sequence[str]
) -> EngineOperable:
    """Measures first, for some seconds."""
    model = measured(of)
    of.say(
        f"  one lcore carries {rate(model.one.carried_pps)}; another one, with its share of the "
        f"flows, is there after {duration_text(model.change_s * 1e9)}"
    )
    future = load_of(experiment, doc)
    return EngineOperable(of, future, experiment.frame.mean_bytes, labels, model)


def check_tells_each(of: ElasticEngine, program: Path) -> None:
    """Refuses a program that is too old for what is asked of it."""
    wire = of.engine.read().links[of.way.wire]
    if not isinstance(wire, RingCounts) or len(wire.used_each) != wire.rings:
        why = "does not say how much waits for each replica; allowed: one of this version"
        raise HeadraceError(f"deployment.engine: {program}: {why}")


def spread(of: ElasticEngine, lcores: int) -> None:
    """The first of them, each with as many buckets."""
    of.use(tuple(range(lcores)))
    owners, _ = of.steered()
    of.move(np.arange(len(owners), dtype=np.int64) % lcores)


def measured(of: ElasticEngine) -> MeasuredElastic:
    """Takes some seconds."""
    spread(of, 1)
    full = _trial(of, 0, _SATURATED_S)
    lcore = _replica(of, full)
    if not lcore.packets_in or not lcore.ops_cycles:
        raise HeadraceError(f"{of.segment}: no packet came in {_SATURATED_S:g} s")
    hz = full.after.tsc_hz
    carried = hz * lcore.packets_in / lcore.ops_cycles
    reads = [_trial(of, part * carried, _AT_S) for part in _PARTS]
    polls = [_poll(_replica(of, one)) for one in (*reads, full)]
    bursts, cycles = (np.array(column) for column in zip(*polls, strict=True))
    delays = [latency(one.after.sink(of.way.sink).latency) for one in reads]
    known = [(part, d.p50, d.p99) for part, d in zip(_PARTS, delays, strict=True) if d is not None]
    if not known:
        raise HeadraceError(f"{of.segment}: no packet told how long it took")
    parts, p50, p99 = (np.array(column) for column in zip(*known, strict=True))
    return MeasuredElastic(
        LcoreFigures(carried, hz, _line(bursts, cycles), (parts, p50 * 1e-9, p99 * 1e-9)),
        most=len(of.cpus),
        buckets=len(of.steered()[0]),
        change_s=_change_s(of, carried / 2),
    )


def _trial(of: ElasticEngine, load_pps: float, seconds: float) -> Reading:
    return run(of.engine, (of.way,), load_pps, seconds, _DRAIN_S)


def _replica(of: ElasticEngine, reading: Reading) -> ReplicaReading:
    grown = difference(reading.before, reading.after, of.plan)
    return next(one for one in grown.replicas if one.segment == of.segment)


def _poll(one: ReplicaReading) -> tuple[float, float]:
    """Packets and cycles of a poll that found some, in the mean."""
    full = one.polls - one.idle_polls
    return one.packets_in / full, one.ops_cycles / full


def _line(bursts: Numbers, cycles: Numbers) -> tuple[float, float]:
    """Cycles of a poll and of each packet; where short polls are no dearer for each of their
    packets than long ones, polls cost nothing by themselves."""
    each, fixed = np.polyfit(bursts, cycles, 1)
    if fixed <= 0 or each <= 0:
        return 0.0, float(cycles[-1] / bursts[-1])
    return float(fixed), float(each)


def _change_s(of: ElasticEngine, load_pps: float) -> float:
    """What one lcore more takes; nothing where there is none."""
    if len(of.cpus) < 2:
        return 0.0
    with of.engine.measuring(), sending(of.engine, (of.way,), load_pps, _CHANGE_MOST_S):
        time.sleep(_DRAIN_S)
        began = time.monotonic()
        spread(of, 2)
        took = time.monotonic() - began
    spread(of, 1)
    return took
