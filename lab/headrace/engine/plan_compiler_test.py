# SPDX-License-Identifier: Apache-2.0
"""Compiling plans: pure, from a description as the engine prints it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.engine.describe import Description
from headrace.engine.partitions import with_partitions
from headrace.engine.place import place
from headrace.engine.plan_compiler import check_nodes, compile_plan, with_short_wire
from headrace.engine.plan_document import Plan, PlanEngine, chain_of
from headrace.errors import BadInput
from headrace.spec import document
from headrace.spec.study import Experiment, expand

ANY: dict[str, Any] = {"type": "object"}
PARAMS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "default": {"type": "string", "enum": ["permit", "deny"]},
        "size": {"type": "integer", "minimum": 1, "maximum": 9, "unit": "packets"},
        "file": {"type": "string", "format": "file"},
        "vip": {"type": "array", "items": {"type": "string", "format": "ip"}},
    },
}
DESCRIPTION = Description(
    Path("headrace-engine"),
    {
        "nfs": {
            "acl": {"params": PARAMS, "edges": ["pass", "alert"]},
            "lb": {"params": PARAMS, "edges": ["out"]},
            "l3fwd": {"params": PARAMS, "edges": ["out0", "out1"]},
        },
        "links": {"source": {"params": ANY}, "sink": {"params": ANY}, "ring": {"params": ANY}},
    },
)
CHAIN = "chain: [acl, lb, l3fwd]\n"
BESIDE = "parallel: [lb, l3fwd]"


def experiments(text: str) -> tuple[document.Document, list[Experiment]]:
    doc = document.parse("name: x\n" + text, Path("x.yaml"))
    return doc, list(expand(doc))


def plans(text: str, cpus: list[int]) -> list[dict[str, Any]]:
    doc, every = experiments(text)
    return [
        compile_plan(e, place(e, doc, cpus), DESCRIPTION, doc, PlanEngine()).as_json()
        for e in every
    ]


def walk(plan: dict[str, Any], direction: str) -> list[str]:
    """Follow edge 0 from the source to the sink, through rings."""
    readers = {
        entry["link"]: (segment, entry)
        for segment in plan["segments"]
        for entry in segment["inputs"]
    }
    seen, link = [], f"gen-{direction}"
    while plan["links"][link]["type"] != "sink":
        segment, entry = readers[link]
        assert entry["direction"] == direction
        target = entry["to"]
        while not target.startswith("link:"):
            seen.append(target)
            edges = segment["nodes"][target].get(direction, segment["nodes"][target]["forward"])
            target = next(iter(edges.values()))
        link = target.removeprefix("link:")
    return seen


@pytest.mark.parametrize("execution", ["rtc", "pipeline", "{segments: [[acl], [lb, l3fwd]]}"])
@pytest.mark.parametrize("cpus", [[0, 1], [0, 1, 2, 3]])
def test_both_directions_meet_all_functions(execution: str, cpus: list[int]) -> None:
    [plan] = plans(
        CHAIN + f"deployment: {{execution: {execution}}}\nworkload: {{direction: both}}\n", cpus
    )
    assert walk(plan, "forward") == ["acl", "lb", "l3fwd"]
    assert walk(plan, "reverse") == ["l3fwd", "lb", "acl"]


def test_the_empty_chain_is_a_segment_without_functions() -> None:
    for plan in plans("chain: []\ndeployment: {execution: [rtc, pipeline]}\n", [0, 1]):
        assert walk(plan, "forward") == []
        assert [s["name"] for s in plan["segments"]] == ["generator", "chain", "sink"]


def test_an_edge_to_a_later_segment_has_a_ring() -> None:
    text = "chain: [{nf: acl, to: {alert: l3fwd}}, lb, l3fwd]\ndeployment: {execution: pipeline}\n"
    [plan] = plans(text, [0, 1])
    acl = next(s for s in plan["segments"] if s["name"] == "acl")
    assert acl["nodes"]["acl"]["forward"] == {"pass": "link:to-lb", "alert": "link:to-l3fwd"}
    readers = [e["link"] for s in plan["segments"] for e in s["inputs"]]
    assert len(readers) == len(set(readers))  # a link has one reading segment


BRANCHED = "chain: [lb, {nf: acl, to: {alert: watch}}, {name: end, nf: lb, to: {out: out}}, %s]\n"
WATCH = "{name: watch, nf: lb, to: {out: drop}}"


@pytest.mark.parametrize("execution", ["rtc", "pipeline", "{segments: [[lb], [acl, end, watch]]}"])
@pytest.mark.parametrize("direction", ["both", "reverse"])
def test_reverse_traffic_enters_where_forward_traffic_leaves(
    execution: str, direction: str
) -> None:
    """Not at a leaf that happens to be named last; the leaf gets copies of both directions."""
    deployed = f"deployment: {{execution: {execution}}}\nworkload: {{direction: {direction}}}\n"
    [plan] = plans(BRANCHED % WATCH + deployed, [0, 1, 2, 3])
    assert walk(plan, "reverse") == ["end", "acl", "lb"]
    way = chain_of(Plan.model_validate(plan), "wire-reverse", "back-reverse", "reverse")
    assert way == ["end", "acl", "lb"]
    nodes = {name: edges for s in plan["segments"] for name, edges in s.get("nodes", {}).items()}
    assert nodes["acl"]["reverse"]["alert"] in ("watch", "link:to-watch-r")
    assert nodes["watch"]["reverse"] == {"out": "drop"}
    if direction == "both":
        assert walk(plan, "forward") == ["lb", "acl", "end"]
        assert nodes["acl"]["forward"]["alert"] in ("watch", "link:to-watch")


def test_what_leaves_elsewhere_sees_forward_traffic_only() -> None:
    aside = (
        "chain: [{nf: acl, to: {pass: end, alert: aside}}, {name: aside, nf: lb}, "
        "{name: end, nf: lb}]\nworkload: {direction: both}\n"
    )
    [plan] = plans(aside, [0, 1])
    [chain] = [s for s in plan["segments"] if s["name"] == "chain"]
    assert chain["nodes"]["acl"]["forward"] == {"pass": "end", "alert": "aside"}
    assert chain["nodes"]["acl"]["reverse"] == {"pass": "link:back-reverse"}
    assert walk(plan, "reverse") == ["end", "acl"]


def test_a_drop_holds_in_both_directions() -> None:
    [plan] = plans(
        "chain: [{nf: l3fwd, to: {out1: drop}}, lb]\nworkload: {direction: both}\n", [0, 1]
    )
    [chain] = [s for s in plan["segments"] if s["name"] == "chain"]
    assert chain["nodes"]["l3fwd"]["reverse"] == {"out0": "link:back-reverse", "out1": "drop"}


def test_reverse_traffic_needs_a_way_in() -> None:
    doc, [one] = experiments(
        "chain: [acl, {nf: lb, to: {out: drop}}]\nworkload: {direction: both}\n"
    )
    with pytest.raises(BadInput) as caught:
        check_nodes(one, doc, DESCRIPTION)
    for words in ("x.yaml:3: workload.direction", "'both'", "leads out", "lb", "allowed: forward"):
        assert words in str(caught.value)


def test_placement_says_what_shares_an_lcore() -> None:
    doc, [one] = experiments(CHAIN + "deployment: {execution: pipeline}\n")
    two, four = place(one, doc, [0, 1]), place(one, doc, [0, 1, 2, 3])
    assert any("acl, lb, l3fwd share lcore 1" in note for note in two.notes)
    assert [s.cpus for s in four.segments] == [(1,), (2,), (3,)]
    assert not any("segments" in note for note in four.notes)


def test_rtc_has_a_replica_on_each_of_the_chains_lcores() -> None:
    doc, [one] = experiments(CHAIN)
    assert place(one, doc, [0, 1, 2, 3]).segments[0].cpus == (1, 2, 3)


@pytest.mark.parametrize(
    ("chain", "words"),
    [
        ("[nat]", ["chain[0].nat", "'nat'", "acl, l3fwd, lb"]),
        (
            "[{acl: {defaults: deny}}]",
            ["chain[0].acl.defaults", "did you mean 'default'?", "default, size"],
        ),
        ("[{acl: {default: maybe}}]", ["chain[0].acl.default", "'maybe'", "permit, deny"]),
        ("[{acl: {size: 10}}]", ["chain[0].acl.size", "10", "from 1 to 9 (packets)"]),
        ("[{acl: {size: x}}]", ["chain[0].acl.size", "'x'", "an integer"]),
        ("[{acl: {file: no/such.file}}]", ["chain[0].acl.file", "no such file"]),
        ("[{acl: {vip: [10.0.0.1, 10.0.0.300]}}]", ["chain[0].acl.vip[1]", "10.0.0.300"]),
        ("[{nf: acl, params: {size: 0}}]", ["chain[0].params.size", "0"]),
        ("[{nf: lb, to: {alert: drop}}]", ["chain[0].to.alert", "no edge", "out"]),
    ],
)
def test_bad_parameters_are_named_in_the_spec(chain: str, words: list[str]) -> None:
    doc, [one] = experiments(f"chain: {chain}\n")
    with pytest.raises(BadInput) as caught:
        check_nodes(one, doc, DESCRIPTION)
    for word in ["x.yaml:2", *words]:
        assert word in str(caught.value)


def test_more_lcores_than_there_are() -> None:
    doc, [one] = experiments(CHAIN + "deployment: {lcores: [0, 7]}\n")
    with pytest.raises(
        BadInput, match=r"x.yaml:3: deployment.lcores: chain names lcore 7.*\[0, 1]"
    ):
        place(one, doc, [0, 1])


@pytest.mark.parametrize(
    ("execution", "cpus", "placed"),
    [
        (f"{{model: rtc, {BESIDE}}}", [0, 1, 2], {"chain": ([1], [2])}),
        (f"{{model: rtc, {BESIDE}}}", [0, 1], {"chain": ([1], [1])}),
        (f"{{model: rtc, replicas: 2, {BESIDE}}}", [0, 1, 2, 3, 4], {"chain": ([1, 2], [3, 4])}),
        (
            f"{{model: pipeline, {BESIDE}}}",
            [0, 1, 2, 3],
            {"acl": ([1], []), "lb.l3fwd": ([2], [3])},
        ),
        (
            f"{{segments: [[acl], [lb, l3fwd]], replicas: [1, 2], {BESIDE}}}",
            [0, 1, 2, 3, 4, 5],
            {"acl": ([1], []), "lb.l3fwd": ([2, 3], [4, 5])},
        ),
        (
            "{model: rtc, parallel: [acl, lb, l3fwd]}",
            [0, 1, 2, 3],
            {"chain": ([1], [2, 3])},
        ),
        (
            f"{{segments: [[acl], [lb, l3fwd]], lcores: [[2], [1]], {BESIDE}, beside: [3]}}",
            [0, 1, 2, 3],
            {"acl": ([2], []), "lb.l3fwd": ([1], [3])},
        ),
    ],
)
def test_functions_side_by_side(
    execution: str, cpus: list[int], placed: dict[str, tuple[list[int], list[int]]]
) -> None:
    [plan] = plans(CHAIN + f"deployment: {{execution: {execution}}}\n", cpus)
    chain = plan["segments"][1:-1]
    assert walk(plan, "forward") == ["acl", "lb", "l3fwd"]
    assert {s["name"]: (s["cpus"], s.get("parallel", {}).get("cpus", [])) for s in chain} == placed
    assert chain[-1]["parallel"]["nodes"][-2:] == ["lb", "l3fwd"]
    assert plan["engine"]["mbufs"] > in_rings(plan) + 16384 + 1024


def in_rings(plan: dict[str, Any]) -> int:
    """Packets in all rings when they are full; each replica that reads one has its own."""
    readers = {i["link"]: len(s["cpus"]) for s in plan["segments"] for i in s["inputs"]}
    rings = {n: link["params"] for n, link in plan["links"].items() if link["type"] == "ring"}
    return sum(int(params["size"]) * readers[name] for name, params in rings.items())


@pytest.mark.parametrize(("asked", "size"), [("auto", 4096), ("65536", None), ("1024", None)])
def test_a_wire_that_is_always_full_is_no_longer_than_a_nics_queue(
    asked: str, size: int | None
) -> None:
    """One that the spec asks for stays as it is. Nothing else of the plan changes but the buffers
    for what waits in it."""
    doc, [one] = experiments(CHAIN + f"deployment: {{wire: {asked}}}\n")
    short = with_short_wire(one, place(one, doc, [0, 1]))
    if size is None:
        assert short is None
        return
    assert short is not None
    plan, shorter = (
        compile_plan(e, place(e, doc, [0, 1]), DESCRIPTION, doc, PlanEngine()).as_json()
        for e in (one, short)
    )
    wires = [each["links"]["wire-forward"]["params"].pop("size") for each in (plan, shorter)]
    assert wires == [65536, size]
    assert plan["engine"].pop("mbufs") - shorter["engine"].pop("mbufs") == 65536 - 4096
    assert plan == shorter


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_there_are_buffers_for_full_rings_of_all_replicas(replicas: int) -> None:
    """Two wires of 65536 had buffers for one: a source that finds none makes no packets."""
    [plan] = plans(CHAIN, list(range(1 + replicas)))
    assert len(plan["segments"][1]["cpus"]) == replicas
    assert plan["engine"]["mbufs"] >= in_rings(plan) + 16383
    wire = plan["links"]["wire-forward"]["params"]["size"] * replicas
    assert 49152 <= wire <= 65536  # as long as one reader's, in time


@pytest.mark.parametrize(
    ("execution", "more", "message"),
    [
        ("{model: rtc, parallel: [lb, acl]}", "", "follow each other, in the chain's order"),
        ("{model: rtc, parallel: [acl, l3fwd]}", "", "follow each other"),
        ("{model: rtc, parallel: [acl, nat]}", "", "follow each other"),
        ("{model: rtc, parallel: [acl]}", "", "parallel"),
        ("{model: rtc, parallel: [acl, acl]}", "", "each function once"),
        ("{model: rtc, fastpath: true, parallel: [acl, lb]}", "", "not with `fastpath`"),
        ("{segments: [[acl], [lb, l3fwd]], parallel: [acl, lb]}", "", "in one segment"),
        ("{segments: [[acl, lb, l3fwd]], lcores: [[1]], parallel: [acl, lb]}", "", "`beside` must"),
        (
            "{segments: [[acl, lb, l3fwd]], lcores: [[1]], parallel: [acl, lb], beside: [2, 2]}",
            "",
            "1 functions behind the first",
        ),
        (
            "{segments: [[acl, lb, l3fwd]], lcores: [[1, 2]], parallel: [acl, lb], beside: [0]}",
            "",
            "allowed: one, for one replica",
        ),
        (
            "{segments: [[acl, lb, l3fwd]], lcores: [[1]], parallel: [acl, lb], beside: [7]}",
            "",
            "beside names lcore 7",
        ),
        ("{model: rtc, parallel: [acl, lb], beside: [2]}", "", "together with `lcores`"),
        (
            "{model: rtc, parallel: [acl, lb]}",
            "workload: {direction: both}",
            "forward traffic only",
        ),
        ("{model: rtc, parallel: [acl, lb]}", "workload: {direction: reverse}", "allowed: forward"),
    ],
)
def test_what_may_not_be_side_by_side(execution: str, more: str, message: str) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        plans(CHAIN + f"deployment: {{execution: {execution}}}\n{more}\n", [0, 1, 2])
    assert "execution" in str(caught.value)


def test_an_elastic_segment_has_spare_lcores_and_room_for_all_its_replicas() -> None:
    """It begins with one. By hand: two more rings of 1024 packets, and a waiting place of 4096."""
    text = CHAIN + (
        "deployment: {{wire: 1024, lcores: {{traffic: [0], chain: [1, 2, 3, 4]}},\n"
        "  execution: [{{model: rtc, replicas: 1{}}}]}}\n"
    )
    [plain], [plan] = (
        plans(text.format(""), [*range(5)]),
        plans(text.format(", elastic: 3"), [*range(5)]),
    )
    chain = plan["segments"][1]
    assert (chain["cpus"], chain["elastic"]) == ([1], 3)
    assert plan["engine"]["spare_cpus"] == [2, 3, 4]
    assert plan["engine"]["mbufs"] - plain["engine"]["mbufs"] == 2 * 1024 + 4096
    [pipeline] = plans(
        CHAIN + "deployment: {execution: [{model: pipeline, elastic: 2}], ring: 1024}\n",
        [*range(9)],
    )
    assert [one.get("elastic") for one in pipeline["segments"]] == [None, 2, 2, 2, None]
    [auto] = plans(
        CHAIN + "deployment: {execution: [{model: rtc, replicas: 1, elastic: 3}]}\n", [*range(9)]
    )
    assert len(auto["engine"]["spare_cpus"]) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{model: rtc, elastic: 1}", "elastic"),
        ("{model: rtc, elastic: 2, replicas: 3}", "a segment begins with 3; allowed: 3 or more"),
        ("{model: rtc, elastic: 2, fastpath: true}", "elastic: beside fastpath"),
        ("{model: rtc, elastic: 2}], steer: even, x: [", "elastic: with steer even"),
        ("{model: rtc, elastic: 2}], hosting: process, x: [", "elastic: with hosting process"),
    ],
)
def test_what_cannot_be_elastic_is_said(text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        experiments(f"{CHAIN}deployment: {{execution: [{text}]}}\n".replace(", x: []", ""))


def test_a_chain_that_becomes_others_has_their_links_and_lcores() -> None:
    """Rings that rtc alone has not, and buffers for those of the pipeline."""
    text = CHAIN + (
        "deployment: {wire: 1024, ring: 64, lcores: {traffic: [0], chain: [1, 2, 3]}, "
        "execution: [{model: rtc, becomes: [pipeline, [[acl, lb], [l3fwd]]]}]}\n"
    )
    doc, [one] = experiments(text)

    def compiled(each: Experiment) -> Plan:
        return compile_plan(each, place(each, doc, [0, 1, 2, 3]), DESCRIPTION, doc, PlanEngine())

    plan, partitions = with_partitions(one, compiled)
    rings = {name: link.params.get("spare") for name, link in plan.rings.items()}
    assert rings == {
        "wire-forward": None, "back-forward": 1, "to-lb": 1, "to-l3fwd": 1
    }  # fmt: skip
    assert [one.name for one in partitions] == ["rtc", "pipeline", "hybrid acl+lb|l3fwd"]
    cut = [[(part.name, part.cpus) for part in one.segments[1:-1]] for one in partitions]
    assert cut == [
        [("chain", (1,))],
        [("acl", (1,)), ("lb", (2,)), ("l3fwd", (3,))],
        [("acl.lb", (1,)), ("l3fwd", (2,))],
    ]
    assert plan.engine.spare_cpus == (2, 3)
    pipeline = replace(one, execution=one.execution.others[0])
    assert plan.engine.mbufs == compiled(pipeline).engine.mbufs
    assert with_partitions(pipeline, compiled)[1] == ()
