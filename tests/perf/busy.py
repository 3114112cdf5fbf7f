# SPDX-License-Identifier: Apache-2.0
"""OPS / REF held against a function of known cost, by load and by where the generator runs."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Any

from perf.boost import boost
from perf.engine import host
from perf.stats import Sample
from support.engine import Engine

CYCLES = (100, 500, 2000, 5000)
LOADS = (0.1, 0.3, 0.5, 0.7, 0.9)
WINDOWS = 5
WINDOW_S = 0.2
WARM_S = 0.2


def plan(cycles: int, generator: int, chain: int) -> dict[str, Any]:
    return {
        "version": 1,
        "engine": host(),
        "links": {
            "gen": {"type": "source", "params": {"frame_bytes": [64]}},
            "wire": {"type": "ring", "params": {"size": 4096}},
            "back": {"type": "ring", "params": {"size": 4096}},
            "meas": {"type": "sink", "params": {}},
        },
        "nfs": {"delay": {"type": "delay", "params": {"cycles": cycles}}},
        "segments": [
            {
                "name": "generator",
                "cpus": [generator],
                "inputs": [{"link": "gen", "to": "link:wire"}],
            },
            {
                "name": "chain",
                "cpus": [chain],
                "inputs": [{"link": "wire", "to": "delay"}],
                "nodes": {"delay": {"forward": {"out": "link:back"}}},
            },
            {
                "name": "sink",
                "cpus": [generator],
                "inputs": [{"link": "back", "to": "link:meas"}],
            },
        ],
    }


def _chain(read: dict[str, Any]) -> tuple[int, int, int]:
    chain = read["segments"]["chain"][0]
    return int(read["tsc"]), int(chain["in"]), int(chain["ops_cycles"])


def _windows(engine: Engine, rate: float) -> list[tuple[float, float]]:
    """(packets per cycle, OPS / REF) of several windows at one rate; 0: as fast as possible."""
    seconds = WARM_S + WINDOWS * (WINDOW_S + 0.05)
    engine.call("start", sources={"gen": {"rate_pps": rate, "duration_s": seconds}})
    time.sleep(WARM_S)
    found = []
    for _ in range(WINDOWS):
        tsc, packets, ops = _chain(engine.read())
        time.sleep(WINDOW_S)
        then, more, busier = _chain(engine.read())
        found.append(((more - packets) / (then - tsc), (busier - ops) / (then - tsc)))
    engine.call("stop")
    while engine.read()["links"]["gen"]["state"] != "done":
        time.sleep(0.02)
    return found


def shares(
    binary: Path, folder: Path, cpus: tuple[int, int]
) -> list[tuple[int, float, float, Sample]]:
    """(cycles, load, offered x cycles, what the function added to OPS / REF over that).

    The load is a share of the highest rate. What the engine itself costs a packet depends on the
    rate, not on the function: it is OPS / REF of a function of no cost at the same rate, taken off.
    """
    made = []
    for cycles in CYCLES:
        with Engine(binary, plan(cycles, *cpus), folder) as engine:
            boost(engine.process.pid)
            hz = float(engine.call("info")["tsc_hz"])
            peak = median(packets for packets, _ in _windows(engine, 0)) * hz
            made += [(cycles, load, _windows(engine, load * peak), load * peak) for load in LOADS]
    rows = []
    with Engine(binary, plan(0, *cpus), folder) as engine:
        boost(engine.process.pid)
        for cycles, load, windows, rate in made:
            own = median(ops for _, ops in _windows(engine, rate))
            known = median(packets for packets, _ in windows) * cycles
            ratios = Sample(tuple((ops - own) / (pace * cycles) for pace, ops in windows))
            rows.append((cycles, load, known, ratios))
    return rows
