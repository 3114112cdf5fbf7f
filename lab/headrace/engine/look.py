# SPDX-License-Identifier: Apache-2.0
"""Looks at a running engine from another thread than the one that measures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headrace.engine.accounts import HELD, books, without_consumed
from headrace.engine.counters import difference
from headrace.engine.engine import Engine
from headrace.engine.reading import Wires
from headrace.errors import HeadraceError
from headrace.record.moment import LatencySoFar, Moment, WayNow

Json = dict[str, Any]


class EngineLook:
    """One reading for each look; what grew is its difference to the one before."""

    def __init__(self, engine: Engine, ways: Sequence[Wires], plan: Json) -> None:
        self._engine, self._ways, self._plan = engine, ways, plan
        self._before = self._first = self._read()

    def look(self) -> Moment:
        before, now = self._before, self._read()
        self._before = now
        seconds = (int(now["tsc"]) - int(before["tsc"])) / int(now["tsc_hz"])
        return Moment(
            seconds=seconds,
            ways=tuple(_way(way, before, now, seconds) for way in self._ways),
            counters=difference(before, now, self._plan),
            dropped=_dropped(before, now),
            dropped_ever=_dropped(self._first, now),
        )

    def exposed(self) -> Mapping[str, str]:
        return self._engine.exposed()

    def _read(self) -> Json:
        now = self._engine.request("read")
        if "segments" not in now:  # the answer to a request that an interrupt cut off
            raise HeadraceError("engine: the answer to 'read' has no counters")
        return now


def _way(way: Wires, before: Json, now: Json, seconds: float) -> WayNow:
    """Rates from segments' counters: a source and a sink count from the start of their trial."""
    source, sink = now["links"][way.source], now["links"][way.sink]
    made = _through(now, "inputs", way.source) - _through(before, "inputs", way.source)
    came = _through(now, "outputs", way.sink) - _through(before, "outputs", way.sink)
    return WayNow(
        direction=way.direction,
        sending=source["state"] == "running",
        sent_pps=made / seconds if seconds else 0.0,
        received_pps=came / seconds if seconds else 0.0,
        sent=int(source["sent"]),
        received=int(sink["own"]["packets"]),
        latency=_latency(sink.get("latency") or {}),
    )


def _through(read: Json, side: str, link: str) -> int:
    return sum(int(r.get(side, {}).get(link, {}).get("packets", 0)) for r in _replicas(read))


def _replicas(read: Json) -> Iterable[Json]:
    return (replica for each in read["segments"].values() for replica in each)


def _latency(reading: Json) -> LatencySoFar | None:
    if not reading.get("count"):
        return None
    return LatencySoFar(
        packets=int(reading["count"]),
        mean_ns=float(reading["mean_ns"]),
        min_ns=float(reading["min_ns"]),
        max_ns=float(reading["max_ns"]),
        hdr=reading["hdr"],
    )


def _dropped(before: Json, now: Json) -> dict[str, int]:
    """Whoever's packets they were; what is held may come yet."""
    grown = books(before, now)
    counts = {
        place: sum(n for sizes in owners.values() for n in sizes.values())
        for place, owners in grown.ends.items()
    }
    found = without_consumed(counts | grown.plain)
    return {place: n for place, n in found.items() if n and not place.endswith(f"/{HELD}")}
