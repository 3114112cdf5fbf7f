# SPDX-License-Identifier: Apache-2.0
"""A running engine takes a plan with its replicas on other CPUs, and loses nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from support.engine import Engine, EngineError
from support.plans import beside_its_ends, on_cpus

PACKETS, RATE_PPS = 20_000, 5000


def _plan(cpus: list[int]) -> dict[str, Any]:
    """Two segments, one of a function with flows."""
    nodes = {"fw": {"forward": {"pass": "link:back"}}}
    return beside_its_ends(
        cpus,
        {"fw": {"type": "firewall", "params": {"default": "permit"}}},
        {"inputs": [{"link": "wire", "to": "fw"}], "nodes": nodes},
    )


def _came(engine: Engine, wanted: int) -> bool:
    """So many packets, or all that there will be."""
    links = engine.read()["links"]
    return bool(links["meas"]["received"] >= wanted or links["gen"]["state"] == "done")


def test_segments_move_and_nothing_is_lost(
    start_engine: Callable[..., Engine], cpus: list[int]
) -> None:
    a, b = cpus[:2]
    plan = _plan([a, b])
    ways = [(b, a), (a, a), (a, b), (b, b), (a, b)]
    moved_under_way = 0
    with start_engine(plan) as engine:
        engine.call("start", sources={"gen": {"rate_pps": RATE_PPS, "packets": PACKETS}})
        for way in ways * 2:
            wanted = engine.read()["links"]["meas"]["received"] + 100
            engine.wait_for(partial(_came, engine, wanted), "traffic", seconds=30)
            moved_under_way += engine.read()["links"]["gen"]["state"] == "running"
            before = engine.read()
            assert engine.call("plan", plan=on_cpus(plan, *way))["paused_ns"] > 0
            after = engine.read()
            for cpu, worker in after["workers"].items():
                assert worker["ref_cycles"] >= before["workers"][cpu]["ref_cycles"]
            where = {s: w for w, one in after["workers"].items() for s in one["segments"]}
            assert where == {
                "ends.0": str(way[0]), "chain.0": str(way[1]), "sink.0": str(way[0])
            }  # fmt: skip
        engine.wait_for(
            lambda: engine.read()["links"]["gen"]["state"] == "done", "the end", seconds=60
        )
        sent = engine.read()["links"]["gen"]["sent"]
        reading = engine.settle(sent)
    sink = reading["links"]["meas"]
    # On a busy machine it cannot make all in time; what it made must all have come through.
    assert moved_under_way >= 3
    assert sink["received"] == sent
    assert (sink["lost"], sink["reordered"], sink["duplicated"]) == (0, 0, 0)
    firewall = reading["segments"]["chain"][0]["nfs"]["fw"]
    assert firewall["in"] == firewall["out"]["pass"] == sent
    assert firewall["counters"]["new-flows"] == 100


def test_what_cannot_change_is_named(start_engine: Callable[..., Engine], cpus: list[int]) -> None:
    plan = _plan(cpus)
    other_ring = copy.deepcopy(plan)
    other_ring["links"]["wire"]["params"]["size"] = 2048
    other_nf = copy.deepcopy(plan)
    other_nf["nfs"]["fw"]["params"]["default"] = "deny"
    replicas = copy.deepcopy(plan)
    replicas["segments"][1]["cpus"] = cpus[:2]
    with start_engine(plan) as engine:
        for wrong, message in (
            (other_ring, "plan.links: differs"),
            (other_nf, "plan.nfs: differs.*`update`"),
            (replicas, r"plan.segments\[1\]: 2 replicas; allowed: as many as there are, 1"),
            (on_cpus(plan, cpus[0], 250), r"plan.segments\[1\]: CPU 250; allowed: .*started with"),
            ({"version": 1}, "links"),
        ):
            with pytest.raises(EngineError, match=message):
                engine.call("plan", plan=wrong)
        assert engine.read()["workers"][str(cpus[1])]["segments"] == ["chain.0"]
