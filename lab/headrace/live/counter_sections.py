# SPDX-License-Identifier: Apache-2.0
"""What grew in the engine's counters between two looks: segments, functions, lcores, rings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.live.course import busy, per_second, replicas_of
from headrace.live.scene import Scene
from headrace.record.moment import Moment
from headrace.record.segments import Segment
from headrace.report.document_model import Cell, Column, Section, Table

HELD = ("lcore", Column("kept from working", "share"), Column("of it over 1 ms", "share"))
HELD_WORTH = 0.001  # of the time between two looks


def held_up(scene: Scene) -> Iterator[tuple[Cell, ...]]:
    """Lcores that something else than their packets kept busy; by polls that came late."""
    if (moment := scene.moment) is None:
        return
    for worker in moment.counters.workers:
        if worker.ref_cycles and worker.pauses_cycles > HELD_WORTH * worker.ref_cycles:
            ref = worker.ref_cycles
            yield str(worker.cpu), worker.pauses_cycles / ref, worker.standstill_cycles / ref


def sections(scene: Scene) -> Iterator[Section]:
    if (moment := scene.moment) is None:
        return
    note = f"What grew in {moment.seconds:.2f} s."
    yield Section("Segments", note, (_segments(scene.segments, moment),), anchor="counters")
    yield Section("Functions", "Cycles are of the polls that were timed.", (_nfs(moment),))
    if moment.counters.rings:
        yield Section("Rings", blocks=(_rings(moment),))
    yield Section("Lcores", blocks=(_lcores(moment),))


def _segments(segments: Sequence[Segment], moment: Moment) -> Table:
    columns = (
        "segment",
        Column("lcores", "text"),
        Column("in", "rate"),
        Column("out", "rate"),
        Column("busy", "share"),
        Column("cycles", unit="per packet"),
        Column("burst", unit="packets"),
    )
    return Table(columns, tuple(_segment(segment, moment) for segment in segments))


def _segment(segment: Segment, moment: Moment) -> tuple[Cell, ...]:
    replicas = replicas_of(segment, moment.counters)
    came = sum(r.packets_in for r in replicas)
    polls = sum(r.polls - r.idle_polls for r in replicas)
    return (
        segment.name,
        ", ".join(map(str, segment.cpus)),
        per_second(came, moment),
        per_second(sum(r.packets_out for r in replicas), moment),
        busy(segment.cpus, moment.counters),
        sum(r.ops_cycles for r in replicas) / came if came else None,
        came / polls if polls else None,
    )


def _nfs(moment: Moment) -> Table:
    columns = (
        "function",
        Column("type", "text"),
        Column("in", "rate"),
        # Mostly none or few, which the unit of all that came in would be far too large for.
        Column("dropped", "own-rate"),
        Column("consumed", "own-rate"),
        Column("created", "own-rate"),
        Column("held", "count", "change"),
        Column("cycles", unit="per packet"),
    )
    names = dict.fromkeys(name for r in moment.counters.replicas for name in r.nfs)
    return Table(columns, tuple(_nf(name, moment) for name in names))


def _nf(name: str, moment: Moment) -> tuple[Cell, ...]:
    readings = [r.nfs[name] for r in moment.counters.replicas if name in r.nfs]
    timed = sum(nf.cycles_packets for nf in readings)
    dropped = sum(sum(nf.dropped.values()) + nf.aborted for nf in readings)
    return (
        name,
        readings[0].type,
        per_second(sum(nf.packets_in for nf in readings), moment),
        per_second(dropped, moment),
        per_second(sum(nf.consumed for nf in readings), moment),
        per_second(sum(nf.created for nf in readings), moment),
        sum(nf.held_change for nf in readings),
        sum(nf.cycles for nf in readings) / timed if timed else None,
    )


def _rings(moment: Moment) -> Table:
    columns = (
        "ring",
        Column("packets in it", "count"),
        Column("room", "count"),
        Column("found full", "own-rate"),
    )
    rows = tuple(
        (name, ring.used, ring.size, per_second(ring.full, moment))
        for name, ring in moment.counters.rings.items()
    )
    return Table(columns, rows)


def _lcores(moment: Moment) -> Table:
    columns = (
        "lcore",
        Column("segments", "text"),
        Column("busy", "share"),
        Column("kept from working", "share"),
        Column("polls", unit="M/s"),
    )
    polls: dict[int, int] = {}
    for replica in moment.counters.replicas:
        polls[replica.cpu] = polls.get(replica.cpu, 0) + replica.polls
    rows = tuple(
        (
            str(w.cpu),
            ", ".join(w.segments),
            w.ops_cycles / w.ref_cycles if w.ref_cycles else None,
            w.pauses_cycles / w.ref_cycles if w.ref_cycles else None,
            per_second(polls.get(w.cpu, 0), moment) / 1e6,
        )
        for w in moment.counters.workers
    )
    return Table(columns, rows)
