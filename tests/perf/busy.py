# SPDX-License-Identifier: Apache-2.0
"""OPS / REF held against a function of known cost, by load and by where the generator runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from numpy import polyfit

from perf.boost import boost
from perf.engine import chain_plan
from perf.stats import Sample
from support.engine import Engine

Planned = Callable[[int, tuple[int, int]], dict[str, Any]]
CYCLES = (100, 500, 2000, 5000)
LOADS = (0.1, 0.3, 0.5, 0.7, 0.9)
WINDOWS = 5
WINDOW_S = 0.2
WARM_S = 0.2


def plan(cycles: int, cpus: tuple[int, int]) -> dict[str, Any]:
    return chain_plan({"frame_bytes": [64]}, [("delay", "out", {"cycles": cycles})], cpus, 512)


def direct_plan(cycles: int, cpus: tuple[int, int]) -> dict[str, Any]:
    """The source is the segment's own input and the sink its output: nothing comes from another
    core, and no ring lies between."""
    made = plan(cycles, cpus)
    [chain] = [one for one in made["segments"] if one["name"] == "chain"]
    chain["inputs"] = [{"link": "gen", "to": "delay"}]
    chain["nodes"] = {"delay": {"forward": {"out": "link:meas"}}}
    links = {name: made["links"][name] for name in ("gen", "meas")}
    return {**made, "links": links, "segments": [chain]}


@dataclass(frozen=True)
class Window:
    """What the chain's lcore did in some time, in TSC cycles."""

    span: int
    packets: int
    turns: int  # polls that found packets
    ops: int


def _window(before: dict[str, Any], after: dict[str, Any]) -> Window:
    was, now = (read["segments"]["chain"][0] for read in (before, after))
    grown = {
        key: int(now[key]) - int(was[key]) for key in ("in", "polls", "idle_polls", "ops_cycles")
    }
    return Window(
        span=int(after["tsc"]) - int(before["tsc"]),
        packets=grown["in"],
        turns=grown["polls"] - grown["idle_polls"],
        ops=grown["ops_cycles"],
    )


def _windows(engine: Engine, rate: float) -> list[Window]:
    """Several windows at one rate; 0: as fast as possible."""
    seconds = WARM_S + WINDOWS * (WINDOW_S + 0.05)
    engine.call("start", sources={"gen": {"rate_pps": rate, "duration_s": seconds}})
    time.sleep(WARM_S)
    found = []
    for _ in range(WINDOWS):
        before = engine.read()
        time.sleep(WINDOW_S)
        found.append(_window(before, engine.read()))
    engine.call("stop")
    while engine.read()["links"]["gen"]["state"] != "done":
        time.sleep(0.02)
    return found


def _peak(engine: Engine, hz: float) -> float:
    return median(w.packets / w.span for w in _windows(engine, 0)) * hz


def _own(
    binary: Path, folder: Path, made: dict[str, Any], rates: list[float]
) -> tuple[float, float]:
    """(cycles of a turn, cycles of a packet) that the engine itself takes: a line through what
    turns take with a function of no cost, by how many packets they find."""
    with Engine(binary, made, folder) as engine:
        boost(engine.process.pid)
        windows = [w for rate in rates for w in _windows(engine, rate) if w.turns]
    slope, fixed = polyfit(
        [w.packets / w.turns for w in windows], [w.ops / w.turns for w in windows], 1
    )
    return float(fixed), float(slope)


def shares(
    binary: Path, folder: Path, cpus: tuple[int, int], planned: Planned = plan
) -> tuple[tuple[float, float], list[tuple[int, float, Sample, Sample]]]:
    """The engine's own cycles (of a turn, of a packet), and by cycles of the function and load (a
    share of the highest rate): OPS / REF as printed, and that over what the known cost makes of it.
    """
    made = []
    for cycles in CYCLES:
        with Engine(binary, planned(cycles, cpus), folder) as engine:
            boost(engine.process.pid)
            hz = float(engine.call("info")["tsc_hz"])
            peak = _peak(engine, hz)
            made += [(cycles, load, _windows(engine, load * peak), load * peak) for load in LOADS]
    turn, packet = _own(binary, folder, planned(0, cpus), sorted({rate for *_, rate in made})[::3])
    rows = []
    for cycles, load, windows, _ in made:
        printed = Sample(tuple(w.ops / w.span for w in windows))
        over = tuple(w.ops / (w.packets * (cycles + packet) + w.turns * turn) for w in windows)
        rows.append((cycles, load, printed, Sample(over)))
    return (turn, packet), rows
