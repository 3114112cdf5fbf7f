# SPDX-License-Identifier: Apache-2.0
"""What lies between two lcores, as an engine reads it beside its work, held against a program that
does nothing else."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from headrace.model.lines_between import same_state
from perf.engine import chain_plan, transfer_cycles
from support.engine import Engine, free_cpus, memory_engine

SECONDS, STARTS, TRIES, READINGS = 0.4, 4, 12, 10


def waiting_plan(cycles: int, cpus: tuple[int, int]) -> dict[str, Any]:
    """The source makes packets faster than a function of so many cycles takes them, and waits for
    room: it then writes its clock every few dozen cycles."""
    chain = [("delay", "out", {"cycles": cycles})]
    plan = chain_plan({"frame_bytes": [64]}, chain, cpus, 1024) | {"engine": memory_engine()}
    for link in plan["links"].values():
        if link["type"] == "ring":
            link["params"] = {"size": 1024, "on_full": "wait"}
    plan["segments"][-1]["cpus"] = [cpus[1]]  # the source has nothing else to do
    return plan


def lines(binary: Path, plan: dict[str, Any], folder: Path) -> dict[int, float]:
    """By lcore: the median of its slices, where it has enough of them."""
    with Engine(binary, plan, folder) as engine:
        engine.call("start", sources={"gen": {"rate_pps": 0, "duration_s": SECONDS}})
        time.sleep(SECONDS)
        reply = engine.call("slices")
    column = reply["columns"].index("line")
    read: dict[int, list[int]] = {}
    for replicas in reply["segments"].values():
        for one in replicas:
            read[one["cpu"]] = [row[column] for row in one["rows"] if row[column]]
    return {cpu: median(some) for cpu, some in read.items() if len(some) >= READINGS}


@pytest.mark.parametrize("cycles", [50, 1000])
def test_a_line_costs_what_it_costs_beside_nothing(
    engine_binary: Path, tmp_path: Path, cycles: int
) -> None:
    """In starts during which the host left the lcores where they were; the host moves them between
    two looks as well, now and then. Of the clock of a source that waits, which was read before, the
    other lcore said 260 cycles for 78, and 500 to 770 for 325."""
    cpus = (free_cpus()[0], free_cpus()[1])
    calibrate = engine_binary.parent / "calibrate/headrace-calibrate"
    plan, steady, right = waiting_plan(cycles, cpus), [], 0
    for _ in range(TRIES):
        before = transfer_cycles(calibrate, cpus)
        read = lines(engine_binary, plan, tmp_path)
        after = transfer_cycles(calibrate, cpus)
        if len(read) == 2 and same_state(before, after):
            steady.append((before, read, after))
            right += all(same_state(line, (before + after) / 2) for line in read.values())
        if len(steady) == STARTS:
            break
    if len(steady) < STARTS:
        pytest.skip("the host left the lcores nowhere for long enough")
    assert right >= STARTS - 1, steady
