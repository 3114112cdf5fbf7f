# SPDX-License-Identifier: Apache-2.0
"""Functions go from one segment to another under traffic: pipelines become run-to-completion and
pipelines again, with what the functions keep."""

from __future__ import annotations

import copy
import os
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import route_attacks
from support.changing import (
    BEGUN,
    FLOWS,
    LONG_MS,
    MANY,
    NAMES,
    PIPELINE,
    RTC,
    Changes,
    between,
    counters,
    large,
    p999_us,
    plan_of,
)
from support.engine import Engine, EngineError, memory_engine, nf_imbalance
from support.fpm import frames, no_route, route
from support.watched import STREAMS, WATCHING, source_of, streams

PACKETS, RATE_PPS = 10_000, 8000
SOME, LOOK = 40, 8  # changes; and at one in so many what is read is looked at
CHANGES = 1000 if os.environ.get("HEADRACE_SLOW") else SOME
MANY_PPS, MANY_CHANGES = 200_000, 1000


def _ended(engine: Engine) -> dict[str, Any]:
    engine.call("stop")
    engine.wait_for(lambda: engine.read()["links"]["gen"]["state"] == "done", "the end", seconds=60)
    return engine.settle(engine.read()["links"]["gen"]["sent"])


def _all_came(reading: dict[str, Any]) -> None:
    """What was sent, in its flow's order."""
    sink = reading["links"]["meas"]
    assert sink["received"] == reading["links"]["gen"]["sent"] > 0
    assert (sink["lost"], sink["reordered"], sink["duplicated"]) == (0, 0, 0)


def _as_if_nothing_changed(
    changes: Changes, began: float, sources: dict[str, Any], still_s: float, flows: int
) -> None:
    """Traffic that came since `began` ends, and comes again for `still_s` without a change."""
    took = time.monotonic() - began
    changed = _ended(changes.engine)
    changes.engine.call("start", sources=sources)
    time.sleep(min(took, still_s))
    still = _ended(changes.engine)
    for one in (changed, still):
        _all_came(one)
    # With the sessions that it began with.
    begun = {name: counters(still, name, counter) for name, counter in BEGUN.items()}
    assert begun == dict.fromkeys(BEGUN, flows)
    assert not any(nf_imbalance(still).values())
    print(f"{took:.1f} s of changes, {changed['links']['gen']['sent']} packets")
    print(changes.say())
    print(f"p99.9: {p999_us(changed):.0f} us, and {p999_us(still):.0f} without changes")


@pytest.mark.parametrize("elastic", [0, 2], ids=["one-replica", "elastic"])
def test_functions_change_segments_and_nothing_is_lost(
    start_engine: Callable[..., Engine], cpus: list[int], elastic: int
) -> None:
    plan = plan_of(cpus, PIPELINE, [[cpus[-1]]] * len(NAMES), elastic)
    sources = {"gen": {"rate_pps": RATE_PPS, "duration_s": 3600}}
    with start_engine(plan) as engine:
        changes = Changes(engine, plan, cpus, elastic, random.Random(1), PIPELINE)
        began = time.monotonic()
        engine.call("start", sources=sources)
        for turn in range(CHANGES):
            if turn % LOOK:
                changes.one()
                continue
            before = engine.read()
            changes.one()
            after = engine.read()
            assert list(after["segments"]) == [one["name"] for one in changes.plan["segments"]]
            for name in BEGUN:
                assert counters(after, name, BEGUN[name]) >= counters(before, name, BEGUN[name])
        engine.wait_for(
            lambda: engine.read()["links"]["gen"]["sent"] > PACKETS, "traffic", seconds=120
        )
        _as_if_nothing_changed(changes, began, sources, 20 if CHANGES > SOME else 1, FLOWS)
    assert changes.changes["partition"] > CHANGES // 6


@pytest.mark.slow
def test_a_million_flows_change_segments(
    start_engine: Callable[..., Engine], cpus: list[int]
) -> None:
    """IMIX over a million flows, all of which have their sessions before the first change."""
    plan = large(plan_of(cpus, RTC, [[cpus[-1]]], elastic=2))
    with start_engine(plan) as engine:
        changes = Changes(engine, plan, cpus, 2, random.Random(1), RTC, of=large)
        sources = {"gen": {"rate_pps": MANY_PPS, "duration_s": 3600}}
        engine.call("start", sources=sources)
        engine.wait_for(
            lambda: engine.read()["links"]["meas"]["received"] > MANY, "flows", seconds=300
        )
        began = time.monotonic()
        for _ in range(MANY_CHANGES):
            changes.one()
        _as_if_nothing_changed(changes, began, sources, 20, MANY)


def _watching(capture: Path, cpus: list[int], cut: bool) -> dict[str, Any]:
    """Both in one segment, or each in its own."""
    wait = {"type": "ring", "params": {"size": 1024, "on_full": "wait", "spare": 1}}
    to = {"dpi": "link:between" if cut else "ids", "ids": "drop"}
    nodes = {name: {"forward": {"out": to[name]}} for name in WATCHING}
    parts = [["dpi"], ["ids"]] if cut else [["dpi", "ids"]]
    chain = [
        {
            "name": "-".join(part), "cpus": [cpus[-1]],
            "inputs": [{"link": "wire" if "dpi" in part else "between", "to": part[0]}],
            "nodes": {name: nodes[name] for name in part},
        }
        for part in parts
    ]  # fmt: skip
    ends = {"name": "ends", "cpus": [cpus[0]], "inputs": [{"link": "gen", "to": "link:wire"}]}
    return {
        "version": 1,
        "engine": memory_engine(),
        "links": {"gen": source_of(capture), "wire": wait, "between": wait},
        "nfs": WATCHING,
        "segments": [ends, *chain],
    }


def test_streams_under_inspection_go_along(
    start_engine: Callable[..., Engine], cpus: list[int], open_folder: Path
) -> None:
    """Each stream has half of a text before, and half of it behind a change: both functions see all
    of it, in every stream, whatever segments they were in meanwhile."""
    capture = streams(open_folder / "streams.pcap")
    one, two = (_watching(capture, cpus, cut) for cut in (False, True))
    two["engine"] = one["engine"]
    with start_engine(one) as engine:
        source = {"rate_pps": 1000, "packets": 3 * STREAMS}
        engine.call("start", sources={"gen": source})
        changes = 0
        while engine.read()["links"]["gen"]["state"] != "done":
            answer = engine.call("plan", plan=one if changes % 2 else two, within_ms=LONG_MS)
            assert answer["partition"]["functions"] == 2
            changes += 1
        reading = engine.settle(3 * STREAMS)
        hits = [
            engine.call("update", nf=name, op={"show": "rules"})["reply"]["rules"][0]["hits"]
            for name in WATCHING
        ]
    assert hits == [STREAMS, STREAMS] and changes > 10
    assert not any(nf_imbalance(reading).values())


ROUTED, TO_VNF = 2000, "02:00:00:00:00:00"


def _routing(cpus: list[int], port: int, cut: bool) -> dict[str, Any]:
    """An acl in front of a router, whose routes a peer announces, in one segment or each in its
    own."""
    plan = route_attacks.plan(cpus[0], [port])
    wait = {"type": "ring", "params": {"size": 1024, "on_full": "wait", "spare": 1}}
    source = {"frame_bytes": [64], "flows": 16, "dst_macs": [TO_VNF], "dst_ip": "20.0.0.1"}
    plan["links"] |= {"gen": {"type": "source", "params": source}, "wire": wait, "between": wait}
    plan["nfs"]["acl"] = {"type": "acl", "params": {"rules": [{"action": "permit"}]}}
    nodes = {
        "acl": {"forward": {"pass": "link:between" if cut else "router"}},
        "router": {"forward": {"out0": "link:meas"}},
    }
    parts = [["acl"], ["router"]] if cut else [["acl", "router"]]
    ends = [plan["segments"][0]]
    plan["links"] |= {"back": wait}
    nodes["router"]["forward"]["out0"] = "link:back"
    chain = [
        {
            "name": "-".join(part), "cpus": [cpus[-1]],
            "inputs": [{"link": "wire" if "acl" in part else "between", "to": part[0], "port": 0}],
            "nodes": {name: nodes[name] for name in part},
        }
        for part in parts
    ]  # fmt: skip
    sink = {"name": "sink", "cpus": [cpus[0]], "inputs": [{"link": "back", "to": "link:meas"}]}
    plan["segments"] = [*ends, *chain, sink]
    return plan


def test_a_router_goes_along(start_engine: Callable[..., Engine], cpus: list[int]) -> None:
    """Its routes are there whatever segment it is in, what is announced meanwhile, too; and what is
    withdrawn is gone."""
    [port] = route_attacks.free_ports(1)
    one, two = (_routing(cpus, port, cut) for cut in (False, True))
    two["engine"] = one["engine"]
    with start_engine(one) as engine, socket.create_connection(("127.0.0.1", port)) as peer:
        peer.sendall(frames([route("20.0.0.0/24", "10.0.0.2")]))
        engine.wait_for(lambda: route_attacks.routes_of(engine, 0) == 1, "the route", 60)
        engine.call("start", sources={"gen": {"rate_pps": 1000, "packets": ROUTED}})
        changes = 0
        while engine.read()["links"]["gen"]["state"] != "done":
            changes += 1
            wanted = two if changes % 2 else one
            answer = engine.call("plan", plan=wanted, within_ms=LONG_MS)
            assert answer["partition"]["functions"] == 2
            peer.sendall(frames([route(f"30.{changes % 200}.0.0/24", "10.0.0.3")]))
        reading = engine.settle(ROUTED)
        assert reading["links"]["meas"]["received"] == ROUTED
        known = 1 + min(changes, 200)
        engine.wait_for(lambda: route_attacks.routes_of(engine, 0) == known, "all routes", 60)
        peer.sendall(frames([no_route("20.0.0.0/24")]))
        engine.wait_for(lambda: route_attacks.routes_of(engine, 0) == known - 1, "its end", 60)
        engine.call("start", sources={"gen": {"rate_pps": 0, "packets": ROUTED}})
        reading = engine.settle(2 * ROUTED)
    assert changes > 10
    [router] = [
        replica["nfs"]["router"]
        for replicas in reading["segments"].values()
        for replica in replicas
        if "router" in replica["nfs"]
    ]
    assert (router["in"], router["out"]["out0"]) == (2 * ROUTED, ROUTED)
    assert sum(router["dropped"].values()) == ROUTED
    assert not any(nf_imbalance(reading).values())


def test_what_cannot_be_is_named(start_engine: Callable[..., Engine], cpus: list[int]) -> None:
    on = [[cpus[-1]]]
    rtc = plan_of(cpus, RTC, on)
    without = plan_of(cpus, [NAMES[:-1]], on)
    without["segments"][1]["nodes"]["lb"]["forward"]["out"] = "link:back"
    two = plan_of(cpus, RTC, [[cpus[0], cpus[-1]]])
    elastic = plan_of(cpus, RTC, on)
    elastic["segments"][1]["elastic"] = 2
    fast = plan_of(cpus, RTC, on)
    fast["segments"][1]["fastpath"] = 64
    elsewhere = plan_of(cpus, PIPELINE, [[250], *([[cpus[0]]] * (len(NAMES) - 1))])
    torn = plan_of(cpus, PIPELINE, [[cpus[0]]] * len(NAMES))
    torn["segments"][2]["inputs"] = [{"link": "between2", "to": "nat"}]
    source = plan_of(cpus, RTC, on)
    source["segments"][0]["name"] = "other"
    for plan in (without, two, elastic, fast, elsewhere, torn, source):
        plan["engine"] = rtc["engine"]
    with start_engine(rtc) as engine:
        for wrong, says in (
            (without, 'plan.segments: "monitor" would be in no segment'),
            (two, r"plan.segments\[1\]: 2 replicas; allowed: as many as there are, 1"),
            (elastic, r'segments\[1\]: "acl" keeps what it keeps for one worker, and .* is `ela'),
            (fast, r"segments\[1\]: .* has a fast path, which stays as it is"),
            (elsewhere, r"segments\[1\]: CPU 250; allowed: .* started with"),
            (torn, 'link "between2" is read twice'),
            (source, 'plan.segments: "ends" has "gen", a source, which stays where it is'),
        ):
            with pytest.raises(EngineError, match=says):
                engine.call("plan", plan=wrong)
        engine.call("start", sources={"gen": {"rate_pps": 0, "packets": 1000}})
        assert engine.settle(1000)["links"]["meas"]["received"] == 1000


def test_rings_that_are_not_spare_stay(
    start_engine: Callable[..., Engine], cpus: list[int]
) -> None:
    """A ring that nobody reads or writes is one only by its word."""
    plan = plan_of(cpus, PIPELINE, [[cpus[-1]]] * len(NAMES))
    for i in range(len(NAMES) - 1):
        del plan["links"][between(i)]["params"]["spare"]
    rtc = copy.deepcopy(plan)
    rtc["segments"] = plan_of(cpus, RTC, [[cpus[-1]]])["segments"]
    with (
        start_engine(plan) as engine,
        pytest.raises(EngineError, match=r"plan.links.between0: no segment .*; allowed: `spare`"),
    ):
        engine.call("plan", plan=rtc)
    with (
        pytest.raises(EngineError, match=r"links\.between0: a ring needs a reader"),
        start_engine(rtc),
    ):
        pass
