# SPDX-License-Identifier: Apache-2.0
"""Where was the packet: the engine's answer where the answer is known.

Limits come from the microbenchmark that places lines on purpose; the packets' lines are placed by
the functions before: a header that another core has just changed is in that core's cache.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from pydantic import TypeAdapter

from headrace.model.locate import classify
from headrace.spec.calibration import Class, Placed
from support.engine import Engine, EngineError, free_cpus, memory_engine

Start = Callable[[dict[str, Any]], Engine]

EVERY = 50
SECONDS = 1.0
# The machine takes CPUs away meanwhile, and what runs there instead evicts lines.
MOST = 0.8

pytestmark = pytest.mark.skipif(len(free_cpus()) < 2, reason="needs two CPUs")


@dataclass(frozen=True)
class Known:
    """What this machine's places cost now."""

    classes: tuple[Class, ...]
    cycles: Mapping[str, float]  # the median of each place

    def between(self, nearer: str, farther: str) -> float:
        """Half-way between two places. How well a class's own limit is placed is calibration's
        matter, and that of a single short round swings with what else the machine does."""
        for place in (nearer, farther):
            if place not in self.cycles:
                pytest.skip(f"no lines were placed in {place}")
        if self.cycles[farther] < 2 * self.cycles[nearer]:
            pytest.skip(f"{nearer} and {farther} cannot be told apart here")
        return (self.cycles[nearer] + self.cycles[farther]) / 2

    def beyond_own(self) -> float:
        """Half-way between the core's own caches and the nearest place that can be told from them.
        That is the last level, or another core's cache where the last level takes but a few
        cycles more: on Zen 5 5 and 11, and loads of either lie between 0 and 15."""
        own = {place for one in self.classes if "l2" in one.places for place in one.places}
        nearer = [taken for place, taken in self.cycles.items() if place in own]
        farther = [taken for place, taken in self.cycles.items() if place not in own]
        # Where a hypervisor had both CPUs on one core for a while, another's lines seem to be own.
        if not nearer or not farther or "other-modified" in own:
            pytest.skip(f"nothing can be told from the core's own caches here: {self.cycles}")
        return (max(nearer) + min(farther)) / 2


@pytest.fixture
def known(engine_binary: Path) -> Known:
    """For each test, and each time that it is run again: a hypervisor moves CPUs meanwhile, and
    what another core's line costs is 60 cycles before and 340 behind that."""
    program = engine_binary.parent / "calibrate/headrace-calibrate"
    windows = []
    for _ in range(2):
        done = subprocess.run(
            [program, "--only", "placed", "--rounds", "1"], capture_output=True, check=True
        )
        placed = json.loads(done.stdout)["placed"]
        windows.append(TypeAdapter(tuple[Placed, ...]).validate_python(placed))
    middles = {one.place: middle(one.counts) for one in windows[0] if one.counts}
    return Known(classify(*windows).classes, middles)


def middle(counts: Iterable[tuple[int, int]]) -> float:
    return median(cycles for cycles, n in counts for _ in range(n))


def chain(writer: int, reader: int, classes: tuple[Class, ...]) -> dict[str, Any]:
    """A function that changes headers, on one CPU; and the one whose packets are located."""
    limits = [
        {"name": one.name}
        | ({} if one.below_cycles is None else {"below_cycles": one.below_cycles})
        for one in classes
    ]
    # Few buffers: all their pages are known to the core, so that no time goes for translations.
    engine = memory_engine(mbufs=2047, locate={"every": EVERY, "classes": limits})
    ring = {"type": "ring", "params": {"size": 256, "on_full": "wait"}}
    return {
        "version": 1,
        "engine": engine,
        "links": {"gen": {"type": "source"}, "hand": ring, "meas": {"type": "sink"}},
        "nfs": {"writer": {"type": "l2fwd"}, "reader": {"type": "null"}},
        "segments": [
            {
                "name": "write",
                "cpus": [writer],
                "inputs": [{"link": "gen", "to": "writer"}],
                "nodes": {"writer": {"forward": {"out": "link:hand"}}},
            },
            {
                "name": "read",
                "cpus": [reader],
                "inputs": [{"link": "hand", "to": "reader"}],
                "nodes": {"reader": {"forward": {"out": "link:meas"}}},
            },
        ],
    }


def located(engine: Engine, rate_pps: float) -> dict[str, Any]:
    """What was seen of the reader's packets."""
    engine.call("start", sources={"gen": {"rate_pps": rate_pps, "duration_s": SECONDS}})
    time.sleep(SECONDS)
    engine.wait_for(lambda: engine.read()["links"]["gen"]["state"] == "done", "the trial's end")
    [replica] = engine.read()["segments"]["read"]
    seen: dict[str, Any] = replica["located"]["inputs"]["hand"]
    assert seen["samples"] > 100
    return seen


def nearer(seen: dict[str, Any], cycles: float) -> float:
    taken = sum(n for least, n in seen["cycles"].items() if float(least) < cycles)
    return float(taken / seen["samples"])


def test_a_header_that_another_core_just_changed_is_there(
    start_engine: Start, cpus: list[int], known: Known
) -> None:
    limit = known.between("l2", "other-modified")
    with start_engine(chain(cpus[0], cpus[1], known.classes)) as engine:
        seen = located(engine, 100_000)
    assert 1 - nearer(seen, limit) >= MOST, seen["cycles"]
    # Each sample is in the class that its cycles say.
    assert sum(seen["classes"].values()) == seen["samples"]
    assert list(seen["classes"]) == [one.name for one in known.classes]


def test_no_prefetcher_brings_the_packet_that_is_located(
    start_engine: Start, cpus: list[int], known: Known
) -> None:
    """In bursts a writer that loses its CPU leaves lines to the last level; but two thirds seemed
    to be the reader's own as long as mbufs were read before headers."""
    known.between("l2", "other-modified")
    limit = known.beyond_own()
    with start_engine(chain(cpus[0], cpus[1], known.classes)) as engine:
        assert nearer(located(engine, 0), limit) <= 1 / 3


def test_a_header_that_the_same_core_changed_is_its_own(
    start_engine: Start, cpus: list[int], known: Known
) -> None:
    limit = known.beyond_own()
    with start_engine(chain(cpus[0], cpus[0], known.classes)) as engine:
        seen = located(engine, 0)
    assert nearer(seen, limit) >= MOST, seen["cycles"]


def test_locating_is_switched_off_and_on(
    start_engine: Start, cpus: list[int], known: Known
) -> None:
    with start_engine(chain(cpus[0], cpus[1], known.classes)) as engine:

        def samples(every: int) -> int:
            engine.call("locate", every=every)
            # The one that was due by the old interval is past when so many packets are.
            engine.call("start", sources={"gen": {"rate_pps": 0, "duration_s": 0.2}})
            engine.wait_for(lambda: engine.read()["links"]["gen"]["state"] == "done", "the end")
            [before] = engine.read()["segments"]["read"]
            located(engine, 0)
            [after] = engine.read()["segments"]["read"]
            assert after["in"] - before["in"] > 20_000
            taken = [r["located"]["inputs"]["hand"]["samples"] for r in (before, after)]
            return int(taken[1] - taken[0])

        assert samples(EVERY) > 100
        assert samples(0) == 0
        assert samples(EVERY) > 100
        for bad in (-1, 1.5, 10**10, None):
            with pytest.raises(EngineError, match="every: must be a whole number"):
                engine.call("locate", every=bad)


def test_a_plan_that_does_not_locate_cannot_be_told_to(
    start_engine: Start, cpus: list[int]
) -> None:
    plan = chain(cpus[0], cpus[1], ())
    del plan["engine"]["locate"]
    with start_engine(plan) as engine, pytest.raises(EngineError, match=r"locate is off"):
        engine.call("locate", every=EVERY)
