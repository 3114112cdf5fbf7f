# SPDX-License-Identifier: Apache-2.0
"""Looks at a running engine from another thread than the one that measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.engine.accounts import HELD, books, without_consumed
from headrace.engine.counters import difference
from headrace.engine.counts import EngineCounts
from headrace.engine.plan_document import Plan
from headrace.engine.reading import Wires
from headrace.engine.running import RunningEngine
from headrace.record.moment import Moment, WayNow


class EngineLook:
    """One reading for each look; what grew is its difference to the one before."""

    def __init__(self, engine: RunningEngine, ways: Sequence[Wires], plan: Plan) -> None:
        self._engine, self._ways, self._plan = engine, ways, plan
        self._before = self._first = engine.read()

    def look(self) -> Moment:
        before, now = self._before, self._engine.read()
        self._before = now
        seconds = (now.tsc - before.tsc) / now.tsc_hz
        return Moment(
            seconds=seconds,
            ways=tuple(_way(way, before, now, seconds) for way in self._ways),
            counters=difference(before, now, self._plan),
            dropped=_dropped(before, now),
            dropped_ever=_dropped(self._first, now),
        )

    def exposed(self) -> Mapping[str, str]:
        return self._engine.exposed()


def _way(way: Wires, before: EngineCounts, now: EngineCounts, seconds: float) -> WayNow:
    """Rates from segments' counters: a source and a sink count from the start of their trial."""
    source, sink = now.source(way.source), now.sink(way.sink)
    (sent, came), (had_made, had_come) = _through(now, way), _through(before, way)
    return WayNow(
        direction=way.direction,
        sending=source.state == "running",
        sent_pps=(sent - had_made) / seconds if seconds else 0.0,
        received_pps=(came - had_come) / seconds if seconds else 0.0,
        sent=source.sent,
        received=sink.own.packets,
        latency=sink.latency if sink.latency.count else None,
    )


def _through(read: EngineCounts, way: Wires) -> tuple[int, int]:
    """Packets out of the source, and into the sink."""
    inputs = (one.inputs.get(way.source) for one in read.replicas)
    outputs = (one.outputs.get(way.sink) for one in read.replicas)
    return sum(i.packets for i in inputs if i), sum(o.packets for o in outputs if o)


def _dropped(before: EngineCounts, now: EngineCounts) -> dict[str, int]:
    """Whoever's packets they were; what is held may come yet."""
    grown = books(before, now)
    counts = {
        place: sum(n for sizes in owners.values() for n in sizes.values())
        for place, owners in grown.ends.items()
    }
    drops = without_consumed(counts | grown.plain)
    return {place: n for place, n in drops.items() if n and not place.endswith(f"/{HELD}")}
