# SPDX-License-Identifier: Apache-2.0
"""Capacities beside a process that takes 30 % of an lcore in bursts, held against a function of
known cost and against what they are without it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from headrace.engine.sliced import SlicesReply, columns_of
from headrace.host.cpu_time import shield
from headrace.model.undisturbed import capacity
from headrace.record.counters import Counters, ReplicaReading
from headrace.record.segments import Segment
from headrace.record.slices import Sliced
from perf.busy import plan
from perf.stats import Sample
from support.bursty import bursty
from support.engine import Engine

CYCLES = (100, 1000)
SECONDS = 1.5


def _cycles(engine: Engine) -> float:
    """The cycles of a packet of the chain, at its limit, by undisturbed slices."""
    before = engine.read()["segments"]["chain"][0]["in"]
    began = engine.call("start", sources={"gen": {"rate_pps": 0, "duration_s": SECONDS}})
    time.sleep(SECONDS)
    while engine.read()["links"]["gen"]["state"] != "done":
        time.sleep(0.02)
    until = began["start_tsc"] + round(SECONDS * engine.call("info")["tsc_hz"])
    slices = engine.call("slices", since=began["start_tsc"], until=until)
    chain = [
        one for one in columns_of(SlicesReply.model_validate(slices)) if one.segment == "chain"
    ]
    read = engine.read()["segments"]["chain"][0]
    reading = ReplicaReading(
        segment="chain", index=0, cpu=chain[0].cpu, packets_in=read["in"] - before,
        burst=read["burst"], inputs={"wire-forward": read["in"] - before},
    )  # fmt: skip
    counters = Counters(tsc_hz=chain[0].tsc_hz, replicas=(reading,))
    whole = (Segment(name="chain", cpus=(chain[0].cpu,)),)
    capacities = capacity([[Sliced(0.0, whole, counters, tuple(chain))]])
    assert capacities is not None, "too few slices were left alone"
    return capacities.parts[0].cycles_per_packet.value


@contextlib.contextmanager
def _beside(cpu: int | None) -> Iterator[None]:
    with contextlib.nullcontext() if cpu is None else bursty(cpu):
        yield


def rows(
    binary: Path, folder: Path, cpus: tuple[int, int], runs: int
) -> list[tuple[str, Sample, Sample]]:
    """By cycles of the function and the lcore that has the neighbour: what a packet costs beyond
    the engine's own, over the known cost; and what it costs over the same without a neighbour."""
    where = {"none": None, "its lcore": cpus[1], "the generator's": cpus[0]}
    costs: dict[tuple[int, str], list[float]] = {}
    for _ in range(runs):
        for cycles in (0, *CYCLES):
            with Engine(binary, plan(cycles, cpus), folder) as engine:
                shield(engine.process.pid)
                for name, cpu in where.items():
                    with _beside(cpu):
                        costs.setdefault((cycles, name), []).append(_cycles(engine))
    all_rows = []
    for cycles in CYCLES:
        for name in where:
            own = zip(costs[cycles, name], costs[0, "none"], strict=True)
            known = Sample(tuple((cost - free) / cycles for cost, free in own))
            pairs = zip(costs[cycles, name], costs[cycles, "none"], strict=True)
            all_rows.append((f"{cycles} cycles, neighbour on {name}", known,
                         Sample(tuple(a / b for a, b in pairs))))  # fmt: skip
    return all_rows
