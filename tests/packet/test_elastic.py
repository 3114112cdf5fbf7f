# SPDX-License-Identifier: Apache-2.0
"""An elastic segment gets and loses replicas under traffic, and its flows are not harmed."""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.engine.counts import EngineCounts
from support.engine import Engine, EngineError, nf_imbalance
from support.plans import beside_its_ends
from support.watched import STREAMS, WATCHING, source_of, streams

PACKETS, RATE_PPS, FLOWS, CHANGES = 10_000, 8000, 1000, 60
BUCKETS = 256
VIP = {
    "address": "203.0.113.1",
    "backends": [{"address": "198.51.100.1"}, {"address": "198.51.100.2"}],
}
NAT = {"pool": ["192.0.2.1", "192.0.2.2"], "seed": 1}
STATIC = {
    "protocol": "tcp", "inside": "10.0.0.1", "inside_port": 80,
    "outside": "192.0.2.1", "outside_port": 8080,
}  # fmt: skip
BACK = [{"link": "back", "to": "link:meas"}]
LONG_MS = 10_000  # where a machine that others load may stand still


def _plan(cpus: list[int], nfs: dict[str, Any], edges: dict[str, str], most: int) -> dict[str, Any]:
    """A chain of these functions, whose first edges are given, in a segment on the first CPU."""
    onwards = [*list(nfs)[1:], "link:back"]
    nodes = {name: {"forward": {edges[name]: to}} for name, to in zip(nfs, onwards, strict=True)}
    segment = {"inputs": [{"link": "wire", "to": next(iter(nfs))}], "nodes": nodes}
    plan = beside_its_ends([cpus[0], cpus[0]], nfs, {**segment, "elastic": most})
    plan["links"]["gen"]["params"]["flows"] = FLOWS
    plan["engine"]["spare_cpus"] = [cpus[-1]]
    return plan


def _counting(cpus: list[int], most: int = 2) -> dict[str, Any]:
    nfs = {"mon": {"type": "monitor"}, "nat": {"type": "nat", "params": NAT}}
    return _plan(cpus, nfs, {"mon": "out", "nat": "out"}, most)


def _on(plan: dict[str, Any], cpus: list[int]) -> dict[str, Any]:
    other = copy.deepcopy(plan)
    other["segments"][1]["cpus"] = cpus
    return other


def _changes(
    engine: Engine, plan: dict[str, Any], cpus: list[int], seed: int
) -> Iterator[dict[str, Any]]:
    """Replicas come and go and buckets move, at random; what the engine says of each."""
    draw, replicas = random.Random(seed), 1
    while True:
        if draw.random() < 0.4:
            replicas = 3 - replicas
            answer = engine.call("plan", plan=_on(plan, cpus[:replicas]), within_ms=LONG_MS)
            assert "late" not in answer
            yield from answer["moves"]
        else:
            some = draw.sample(range(BUCKETS), draw.randrange(1, BUCKETS))
            to = draw.randrange(replicas)
            moved = engine.call("move", segment="chain", buckets=some, to=to, within_ms=LONG_MS)
            assert "late" not in moved
            yield moved


def _sum(reading: dict[str, Any], function: str, counter: str) -> int:
    return sum(one["nfs"][function]["counters"][counter] for one in reading["segments"]["chain"])


def _whole(cpus: list[int]) -> dict[str, Any]:
    """Functions that keep something of flows, and flows to a virtual address."""
    nfs = {
        "acl": {"type": "acl", "params": {"rules": [{"action": "permit"}]}},
        "nat": {"type": "nat", "params": NAT},
        "fw": {"type": "firewall", "params": {"rules": [{"action": "permit"}]}},
        "lb": {"type": "lb", "params": {"vips": [VIP], "table_size": 251}},
        "mon": {"type": "monitor"},
    }
    edges = {"acl": "pass", "nat": "out", "fw": "pass", "lb": "out", "mon": "out"}
    plan = _plan(cpus, nfs, edges, 2)
    plan["links"]["gen"]["params"] |= {"dst_ip": VIP["address"], "vary": ["src_ip"]}
    return plan


@pytest.mark.parametrize(
    ("chain", "begun"),
    [
        (_counting, {"nat": "new-sessions", "mon": "new-flows"}),
        (
            _whole,
            {"nat": "new-sessions", "fw": "new-flows", "lb": "new-flows", "mon": "new-flows"},
        ),
    ],
    ids=["monitor-nat", "acl-nat-firewall-lb-monitor"],
)
def test_flows_move_and_nothing_is_lost(
    start_engine: Callable[..., Engine],
    cpus: list[int],
    chain: Callable[[list[int]], dict[str, Any]],
    begun: dict[str, str],
) -> None:
    plan = chain(cpus)
    with start_engine(plan) as engine:
        engine.call("start", sources={"gen": {"rate_pps": RATE_PPS, "duration_s": 600}})
        changes = _changes(engine, plan, [cpus[0], cpus[-1]], 1)
        waited = moved = 0
        took: list[int] = []
        for _ in range(CHANGES):
            one = next(changes)
            waited, moved = waited + one["waited"], moved + one["buckets"]
            took.append(one["took_ns"])
        engine.wait_for(
            lambda: engine.read()["links"]["gen"]["sent"] > PACKETS, "traffic", seconds=120
        )
        engine.call("stop")
        engine.wait_for(
            lambda: engine.read()["links"]["gen"]["state"] == "done", "the end", seconds=60
        )
        sent = engine.read()["links"]["gen"]["sent"]
        reading = engine.settle(sent)
    # What was sent has come, in its flow's order, with the session that it began with.
    sink = reading["links"]["meas"]
    assert sink["received"] == sent
    assert (sink["lost"], sink["reordered"], sink["duplicated"]) == (0, 0, 0)
    assert {nf: _sum(reading, nf, name) for nf, name in begun.items()} == dict.fromkeys(
        begun, FLOWS
    )
    assert not any(nf_imbalance(reading).values())
    # Both replicas have had packets, and what waited was let go.
    replicas = reading["segments"]["chain"]
    assert all(one["in"] for one in replicas)
    assert sum(one["elastic"]["buckets"] for one in replicas) == BUCKETS
    waiting = reading["segments"]["ends"][0]["outputs"]["wire"]["waiting"]
    assert (waiting["waited"], waiting["now"], moved > 0) == (waited, 0, True)
    middle, most = sorted(took)[CHANGES // 2] // 1000, max(took) // 1000
    print(f"{CHANGES} changes, {moved} buckets moved, {waited} of {sent} packets waited")
    print(f"a move took {middle} us in the median, {most} us at most")


CIR_BPS, BUCKET_BYTES, FRAME = 4_000_000, 16384, 128


def _metered(cpus: list[int]) -> dict[str, Any]:
    """A class of all packets, which gets about half of them."""
    meter = {"dscp": [0], "meter": "srtcm", "cir_bps": CIR_BPS}
    nfs = {"qos": {"type": "qos", "params": {"classes": [meter]}}, "mon": {"type": "monitor"}}
    return _plan(cpus, nfs, {"qos": "out", "mon": "out"}, 2)


def test_a_meter_is_of_all_replicas(start_engine: Callable[..., Engine], cpus: list[int]) -> None:
    """RFC 2697: in any time so much passes as the rate brings, and both buckets had. With a meter
    for each replica it would be twice as much while there are two."""
    plan = _metered(cpus)
    with start_engine(plan) as engine:
        engine.call("start", sources={"gen": {"rate_pps": RATE_PPS, "duration_s": 600}})
        changes = _changes(engine, plan, [cpus[0], cpus[-1]], 1)
        for _ in range(CHANGES):
            next(changes)
        # Both replicas at work, each with half of the buckets.
        engine.call("plan", plan=_on(plan, [cpus[0], cpus[-1]]), within_ms=LONG_MS)
        spread = list(range(0, BUCKETS, 2)), list(range(1, BUCKETS, 2))
        for replica, buckets in enumerate(spread):
            engine.call("move", segment="chain", buckets=buckets, to=replica, within_ms=LONG_MS)
        engine.wait_for(
            lambda: engine.read()["links"]["gen"]["sent"] > 4 * PACKETS, "traffic", seconds=120
        )
        engine.call("stop")
        engine.wait_for(
            lambda: engine.read()["links"]["gen"]["state"] == "done", "the end", seconds=60
        )
        source = engine.read()["links"]["gen"]
        reading = engine.settle(source["sent"])
    colors = {one: _sum(reading, "qos", one) for one in ("green", "yellow", "red")}
    assert sum(colors.values()) == source["sent"]
    assert not any(nf_imbalance(reading).values())
    passed = colors["green"] + colors["yellow"]
    assert reading["links"]["meas"]["received"] == passed
    brought = CIR_BPS / 8 * source["duration_ns"] * 1e-9
    most = (brought + 2 * BUCKET_BYTES) / FRAME
    # What comes late, while its lcore stood still, finds buckets that were full meanwhile.
    assert 0.85 * most < passed < 1.02 * most
    assert colors["red"] > source["sent"] / 4


def test_streams_under_inspection_move(
    start_engine: Callable[..., Engine], cpus: list[int], open_folder: Path
) -> None:
    """Each stream has the half of a text before, and the half of it behind moves of its bucket."""
    capture = streams(open_folder / "streams.pcap")
    plan = _plan(cpus, WATCHING, dict.fromkeys(WATCHING, "out"), 2)
    plan["links"]["gen"] = source_of(capture)
    with start_engine(plan) as engine:
        source = {"rate_pps": 1000, "packets": 3 * STREAMS}
        engine.call("start", sources={"gen": source})
        changes, moved = _changes(engine, plan, [cpus[0], cpus[-1]], 1), 0
        while engine.read()["links"]["gen"]["state"] != "done":
            moved += next(changes)["buckets"]
        reading = engine.settle(3 * STREAMS)
        hits = [
            engine.call("update", nf=name, op={"show": "rules"})["reply"]["rules"][0]["hits"]
            for name in WATCHING
        ]
    assert hits == [STREAMS, STREAMS] and moved > 10 * BUCKETS
    assert {name: _sum(reading, name, "new-flows") for name in WATCHING} == dict.fromkeys(
        WATCHING, STREAMS
    )
    assert all(one["in"] for one in reading["segments"]["chain"])
    assert not any(nf_imbalance(reading).values())


def test_what_is_moved_is_where_its_packets_go(
    start_engine: Callable[..., Engine], cpus: list[int]
) -> None:
    """The counts of buckets, and a move of all, against what replicas have had."""
    plan = _on(_counting(cpus), [cpus[0], cpus[-1]])
    with start_engine(plan) as engine:
        before = engine.call("buckets", segment="chain")
        assert before["owners"] == [0] * 128 + [1] * 128
        engine.call("start", sources={"gen": {"rate_pps": 0, "packets": 5000}})
        reading = engine.settle(5000)
        had = engine.call("buckets", segment="chain")["packets"]
        assert [one["in"] for one in reading["segments"]["chain"]] == [
            sum(had[:128]), sum(had[128:])
        ]  # fmt: skip
        answer = engine.call("move", segment="chain", buckets=list(range(BUCKETS)), to=1)
        assert (answer["buckets"], answer["waited"]) == (128, 0)
        first = reading["segments"]["chain"][0]["in"]
        engine.call("start", sources={"gen": {"rate_pps": 0, "packets": 5000}})
        reading = engine.settle(10_000 - first)
        assert [one["in"] for one in reading["segments"]["chain"]] == [first, 10_000 - first]
        # As many to each again, by as few moves as that takes.
        answer = engine.call("plan", plan=plan)
        assert [one["buckets"] for one in answer["moves"]] == [128]
        assert EngineCounts.model_validate(engine.read()).segments["chain"][0].elastic is not None


@pytest.mark.parametrize(
    ("nf", "edge", "says"),
    [
        (
            {"type": "qos", "params": {"classes": [], "shaper": {"rate_bps": 10**8}}},
            "out", "params.shaper: in an elastic segment, .* allowed: meters",
        ),
        ({"type": "dpi", "params": {"labels": True}}, "out", "params.labels: in an elastic seg"),
        ({"type": "delay"}, "out", r'segments\[1\]: elastic, but "f", a delay, keeps'),
        (
            {"type": "nat", "params": {**NAT, "mapping": "endpoint-independent"}},
            "out", "params.mapping: endpoint-independent in an elastic segment",
        ),
        (
            {"type": "nat", "params": {**NAT, "port_min": 2000, "port_max": 2200}},
            "out", "params.port_min: 201 ports in an elastic segment",
        ),
        (
            {"type": "nat", "params": {**NAT, "static": [STATIC]}},
            "out", "params.static: in an elastic segment, where what begins outside",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_elastic_is_named(
    start_engine: Callable[..., Engine], cpus: list[int], nf: dict[str, Any], edge: str, says: str
) -> None:
    with (
        pytest.raises(EngineError, match=says),
        start_engine(_plan(cpus, {"f": nf}, {"f": edge}, 2)),
    ):
        pass


def test_a_static_mapping_is_refused_later_too(
    start_engine: Callable[..., Engine], cpus: list[int]
) -> None:
    """What begins outside would be in another bucket than its answers, which begin anew."""
    with (
        start_engine(_counting(cpus)) as engine,
        pytest.raises(EngineError, match="op: static mappings in an elastic segment"),
    ):
        engine.call("update", nf="nat", op={"op": "add", **STATIC})


V6 = {"address": "2001:db8::1", "backends": [{"address": "2001:db8::2"}]}


@pytest.mark.parametrize(
    ("nat", "lb", "says"),
    [
        ({}, {"vips": [VIP, V6]}, '"lb" has IPv6 addresses, and nothing tells'),
        ({"inside": ["10.0.0.0/8"]}, {"vips": [VIP]}, '"nat" has `inside`, so that others pass'),
        ({}, {"vips": [VIP]}, None),
        # Nothing else changes endpoints: what is not translated has one hash both ways.
        ({"inside": ["10.0.0.0/8"]}, None, None),
    ],
)
def test_answers_that_no_nat_steers_are_refused(
    start_engine: Callable[..., Engine],
    cpus: list[int],
    nat: dict[str, Any],
    lb: dict[str, Any] | None,
    says: str | None,
) -> None:
    """They would come to a replica that does not know their flows; any nat was enough before."""
    nfs = {"nat": {"type": "nat", "params": {**NAT, **nat}}}
    nfs |= {} if lb is None else {"lb": {"type": "lb", "params": {**lb, "table_size": 251}}}
    plan = _plan(cpus, nfs, dict.fromkeys(nfs, "out"), 2)
    plan["links"] |= {"in": {"type": "ring"}, "home": {"type": "ring"}}
    first, *_, last = [*nfs, *nfs]
    ends, chain = plan["segments"][:2]
    chain["inputs"].append({"link": "in", "to": last, "direction": "reverse"})
    chain["nodes"][first]["reverse"] = {"out": "link:home"}
    if lb is not None:
        chain["nodes"]["lb"]["reverse"] = {"out": "nat"}
    ends["inputs"].append({"link": "home", "to": "link:in", "direction": "reverse"})
    if says is None:
        with start_engine(plan) as engine:
            assert engine.call("move", segment="chain", buckets=[1], to=0)["buckets"] == 0
        return
    with pytest.raises(EngineError, match=says), start_engine(plan):
        pass


def test_a_move_that_nobody_lets_through_ends_soon(
    start_engine: Callable[..., Engine], cpus: list[int]
) -> None:
    """Source and sink are one segment, and the ring behind the chain is too small for what rings
    in front of it hold: each waits for the other. The control thread, which other clients wait for,
    was away for 20 s; and a plan that was in force by then was answered with an error."""
    plan = _counting(cpus)
    plan["links"]["back"]["params"]["size"] = 64
    plan["segments"] = [
        {**plan["segments"][0], "inputs": [*plan["segments"][0]["inputs"], *BACK]},
        plan["segments"][1],
    ]
    del plan["engine"]["spare_cpus"]
    plan, two = _on(plan, [cpus[-1]]), _on(plan, [cpus[-1], cpus[0]])
    with start_engine(plan) as engine:
        engine.call("start", sources={"gen": {"rate_pps": 0, "duration_s": 600}})
        engine.wait_for(lambda: _stands(engine), "a standstill", seconds=60)
        began = time.monotonic()
        answer = engine.call("plan", plan=two, within_ms=100)
        assert "within 100 ms" in answer["late"] and answer["moves"] == []
        assert [one["elastic"]["rests"] for one in engine.read()["segments"]["chain"]] == [
            False, False
        ]  # fmt: skip
        with pytest.raises(EngineError, match="within 200 ms"):
            engine.call("move", segment="chain", buckets=[0], to=1, within_ms=200)
        assert time.monotonic() - began < 8  # the machine may be others' for seconds
        with pytest.raises(EngineError, match="within_ms: must be a whole number, 1 to 10000"):
            engine.call("move", segment="chain", buckets=[0], to=1, within_ms=0)


def test_a_plan_without_a_new_replica_leaves_buckets_where_they_are(
    start_engine: Callable[..., Engine], cpus: list[int]
) -> None:
    """Somebody gave the first replica more of them than the second. A plan that is about another
    segment, or other CPUs, made them even again."""
    plan = _counting(cpus)
    two = _on(plan, [cpus[0], cpus[-1]])
    with start_engine(plan) as engine:
        answer = engine.call("plan", plan=two, within_ms=LONG_MS)
        assert [one["buckets"] for one in answer["moves"]] == [BUCKETS // 2]
        engine.call("move", segment="chain", buckets=list(range(100)), to=0, within_ms=LONG_MS)
        owners = engine.call("buckets", segment="chain")["owners"]
        assert BUCKETS // 2 < owners.count(0) < BUCKETS
        turned = _on(plan, [cpus[-1], cpus[0]])
        answer = engine.call("plan", plan=turned, within_ms=LONG_MS)
        assert answer["moves"] == [] and "late" not in answer
        assert engine.call("buckets", segment="chain")["owners"] == owners


def _stands(engine: Engine) -> bool:
    before = engine.read()["links"]["gen"]["sent"]
    time.sleep(1)
    return bool(before and engine.read()["links"]["gen"]["sent"] == before)


def test_a_segment_of_one_cannot_be_elastic(
    start_engine: Callable[..., Engine], cpus: list[int]
) -> None:
    with (
        pytest.raises(EngineError, match=r"elastic is 1 with 1 CPUs; allowed: .* 2 at least"),
        start_engine(_counting(cpus, 1)),
    ):
        pass


def test_wrong_moves_are_refused(start_engine: Callable[..., Engine], cpus: list[int]) -> None:
    plan = _counting(cpus)
    too_many = _on(plan, [cpus[0]] * 3)
    with start_engine(plan) as engine:
        for arguments, says in (
            ({"segment": "nowhere"}, "segment: there is no segment"),
            ({"segment": "ends"}, 'segment: "ends" is not elastic'),
            ({"segment": "chain"}, "to: must be a replica that runs, 0 to 0"),
            ({"segment": "chain", "to": 1, "buckets": [1]}, "to: must be a replica"),
            ({"segment": "chain", "to": 0, "buckets": []}, "buckets: must be a list"),
            ({"segment": "chain", "to": 0, "buckets": [256]}, r"buckets\[0\]: must be .* to 255"),
        ):
            with pytest.raises(EngineError, match=says):
                engine.call("move", **arguments)
        with pytest.raises(EngineError, match="elastic is 2 with 3 CPUs"):
            engine.call("plan", plan=too_many)
        assert engine.call("buckets", segment="chain")["owners"] == [0] * BUCKETS
