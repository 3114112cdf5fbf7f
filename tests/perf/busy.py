# SPDX-License-Identifier: Apache-2.0
"""OPS / REF held against a function of known cost, by load and by where the generator runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from numpy import interp, polyfit

from headrace.host.cpu_time import shield
from perf.engine import chain_plan
from perf.stats import Sample
from support.engine import Engine

Planned = Callable[[int, tuple[int, int]], dict[str, Any]]
CYCLES = (100, 500, 2000, 5000)
LOADS = (0.1, 0.3, 0.5, 0.7, 0.9)
WINDOWS = 5
WINDOW_S = 0.2
WARM_S = 0.2
OTHERS = (0.7, 1.3, 1.7)  # times the cycles of a function
_USED_MOST = 0.85  # of an lcore
_FASTER = (8e6, 16e6, 24e6, 32e6)  # packets/s, at which turns find from a few packets to 32


def plan(cycles: int, cpus: tuple[int, int]) -> dict[str, Any]:
    return chain_plan({"frame_bytes": [64]}, [("delay", "out", {"cycles": cycles})], cpus, 512)


def direct_plan(cycles: int, cpus: tuple[int, int]) -> dict[str, Any]:
    """The source is the segment's own input and the sink its output: nothing comes from another
    core, and no ring lies between."""
    whole = plan(cycles, cpus)
    [chain] = [one for one in whole["segments"] if one["name"] == "chain"]
    chain["inputs"] = [{"link": "gen", "to": "delay"}]
    chain["nodes"] = {"delay": {"forward": {"out": "link:meas"}}}
    links = {name: whole["links"][name] for name in ("gen", "meas")}
    return {**whole, "links": links, "segments": [chain]}


@dataclass(frozen=True)
class Window:
    """What the chain's lcore did in some time, in TSC cycles."""

    span: int
    packets: int
    turns: int  # polls that found packets
    ops: int
    idle_turns: int = 0
    pauses: int = 0  # others had the lcore

    def beside_idle(self, idle_turn: float) -> float:
        """What is left beside the turns that found nothing, by their number and what one takes."""
        return self.span - self.pauses - self.idle_turns * idle_turn


def _window(before: dict[str, Any], after: dict[str, Any]) -> Window:
    was, now = (read["segments"]["chain"][0] for read in (before, after))
    cpu = str(now["cpu"])
    pauses = [int(read["workers"][cpu]["pace"]["pauses_cycles"]) for read in (before, after)]
    grown = {
        key: int(now[key]) - int(was[key]) for key in ("in", "polls", "idle_polls", "ops_cycles")
    }
    return Window(
        span=int(after["tsc"]) - int(before["tsc"]),
        packets=grown["in"],
        turns=grown["polls"] - grown["idle_polls"],
        ops=grown["ops_cycles"],
        idle_turns=grown["idle_polls"],
        pauses=pauses[1] - pauses[0],
    )


def _idle_turn(engine: Engine) -> float:
    """Cycles of a turn that finds nothing, where nothing is sent: by their number and the clock."""
    each = []
    for _ in range(WINDOWS):
        before = engine.read()
        time.sleep(WINDOW_S)
        window = _window(before, engine.read())
        each.append((window.span - window.pauses) / window.idle_turns)
    return median(each)


def _windows(engine: Engine, rate: float) -> list[Window]:
    """Several windows at one rate; 0: as fast as possible."""
    seconds = WARM_S + WINDOWS * (WINDOW_S + 0.05)
    engine.call("start", sources={"gen": {"rate_pps": rate, "duration_s": seconds}})
    time.sleep(WARM_S)
    windows = []
    for _ in range(WINDOWS):
        before = engine.read()
        time.sleep(WINDOW_S)
        windows.append(_window(before, engine.read()))
    engine.call("stop")
    while engine.read()["links"]["gen"]["state"] != "done":
        time.sleep(0.02)
    return windows


def _peak(engine: Engine, hz: float) -> float:
    return median(w.packets / w.span for w in _windows(engine, 0)) * hz


def _turns(
    binary: Path, folder: Path, direct: dict[str, Any], rates: list[float]
) -> list[tuple[float, float]]:
    """With a function of no cost: packets that a turn found, and what it took."""
    with Engine(binary, direct, folder) as engine:
        shield(engine.process.pid)
        windows = [w for rate in rates for w in _windows(engine, rate) if w.turns]
    return sorted((w.packets / w.turns, w.ops / w.turns) for w in windows)


def line(turns: Sequence[tuple[float, float]]) -> Callable[[float], float]:
    """What a turn takes by how many packets it finds: so much a turn and so much a packet."""
    slope, fixed = polyfit(*zip(*turns, strict=True), 1)
    return lambda packets: float(fixed + slope * packets)


def between(turns: Sequence[tuple[float, float]]) -> Callable[[float], float]:
    """The same by the turns that found as many: a source makes one packet for more than a
    thirty-second part of what it takes for 32, and not by a line."""
    packets, cycles = zip(*turns, strict=True)
    return lambda each: float(interp(each, packets, cycles))


def shares(
    binary: Path, folder: Path, cpus: tuple[int, int], planned: Planned = plan
) -> list[tuple[int, float, Sample, Sample, Sample]]:
    """By cycles of the function and load (a share of the highest rate): OPS / REF as printed; that
    over what the known cost makes of it, the function's and the engine's own with a function of
    none; and over what the turns that found nothing leave of the lcore's time, which is known
    where it does nothing else."""
    measured, idle_turns = [], dict[int, float]()
    for cycles in CYCLES:
        with Engine(binary, planned(cycles, cpus), folder) as engine:
            shield(engine.process.pid)
            hz = float(engine.call("info")["tsc_hz"])
            idle_turns[cycles] = _idle_turn(engine)
            peak = _peak(engine, hz)
            measured += [
                (cycles, load, _windows(engine, load * peak), load * peak) for load in LOADS
            ]
    rates = sorted({rate for *_, rate in measured})[::3]
    if planned is direct_plan:
        own = between(_turns(binary, folder, planned(0, cpus), [*rates, *_FASTER, 0.0]))
    else:
        own = line(_turns(binary, folder, planned(0, cpus), rates))
    rows = []
    for cycles, load, windows, _ in measured:
        printed = Sample(tuple(w.ops / w.span for w in windows))
        over = tuple(
            w.ops / (w.packets * cycles + w.turns * own(w.packets / w.turns)) for w in windows
        )
        left = tuple(w.ops / w.beside_idle(idle_turns[cycles]) for w in windows)
        rows.append((cycles, load, printed, Sample(over), Sample(left)))
    return rows


def over_others(
    own: Sequence[Window], cycles: int, others: Mapping[int, Sequence[Window]]
) -> Sample | None:
    """OPS over what is known of it: the function's cycles, and the rest of what a packet costs, by
    functions of other cycles (`others`) at the same rate, less what these are known to take. None:
    they leave too little of the lcore, where polls find more at a time, and a packet costs less."""
    rest = [
        median(w.ops / w.packets for w in windows) - each
        for each, windows in others.items()
        if _used(windows) < _USED_MOST
    ]
    if not rest or _used(own) >= _USED_MOST:
        return None
    return Sample(tuple(w.ops / (w.packets * (cycles + median(rest))) for w in own))


def _used(windows: Sequence[Window]) -> float:
    return median(w.ops / w.span for w in windows)


def beside_others(
    binary: Path, folder: Path, cpus: tuple[int, int]
) -> list[tuple[int, float, Sample | None]]:
    """The same by cycles of the function and load, as of `shares`."""
    rows: list[tuple[int, float, Sample | None]] = []
    for cycles in CYCLES:
        seen: dict[int, list[list[Window]]] = {}
        rates: list[float] = []
        for each in (cycles, *(round(times * cycles) for times in OTHERS)):
            with Engine(binary, plan(each, cpus), folder) as engine:
                shield(engine.process.pid)
                if not rates:
                    peak = _peak(engine, float(engine.call("info")["tsc_hz"]))
                    rates = [load * peak for load in LOADS]
                seen[each] = [_windows(engine, rate) for rate in rates]
        own = seen.pop(cycles)
        rows += [
            (cycles, load, over_others(own[i], cycles, {c: s[i] for c, s in seen.items()}))
            for i, load in enumerate(LOADS)
        ]
    return rows


def added(binary: Path, folder: Path, cpu: int, burst: int) -> list[tuple[int, Sample]]:
    """What a function of known cost adds to a packet, over that cost, by the packets that came
    through and the clock alone, where source, function and sink are one segment that is never idle.
    Less than 1 is work that goes on beside the function's: no estimate can find it."""
    cycles = (0, *CYCLES)
    took: dict[int, list[float]] = {each: [] for each in cycles}
    for _ in range(WINDOWS):
        for each in cycles:
            direct = direct_plan(each, (cpu, cpu))
            [chain] = direct["segments"]
            chain["burst"] = burst
            with Engine(binary, direct, folder) as engine:
                shield(engine.process.pid)
                engine.call("start", sources={"gen": {"rate_pps": 0, "duration_s": 1.0}})
                time.sleep(WARM_S)
                before = engine.read()
                time.sleep(WINDOW_S)
                window = _window(before, engine.read())
                took[each].append(window.span / window.packets)
    bare = took.pop(0)
    return [
        (each, Sample(tuple((t - b) / each for t, b in zip(took[each], bare, strict=True))))
        for each in CYCLES
    ]
