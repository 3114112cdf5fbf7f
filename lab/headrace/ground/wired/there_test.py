# SPDX-License-Identifier: Apache-2.0
"""Lcores of several servers: their numbers, and which of them run what."""

from __future__ import annotations

import json
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.engine.counts_testdata import counts
from headrace.engine.describe import Description
from headrace.engine.place import Placement, Topology
from headrace.engine.plan_document import Plan, PlanEngine, PlanFunction, PlanInput, PlanSegment
from headrace.errors import BadInput, HeadraceError
from headrace.ground.wired.apart import place_apart
from headrace.ground.wired.there import LCORES, There, at_home, moved, renumbered
from headrace.ground.wired.wiring import chain_plans, wires
from headrace.spec import document
from headrace.spec.study import Experiment, expand
from headrace.spec.testbed import Device, SshServer


@dataclass
class FakeLot:
    """A server with so many CPUs, two threads to a core."""

    name: str
    first: int
    count: int = 8
    cpus: list[int] = field(init=False)
    topology: Topology = field(init=False)

    def __post_init__(self) -> None:
        self.cpus = [self.first + cpu for cpu in range(self.count)]
        half = self.count // 2
        self.topology = Topology(
            lambda cpu: [one for one in self.cpus if (one - cpu) % half == 0],
            lambda cpu: int(cpu - self.first >= half),
        )


GEN, DUT, NEXT = FakeLot("gen", 0), FakeLot("dut", LCORES), FakeLot("next", 2 * LCORES)
TEXT = """
name: x
chain: [l2fwd, {{nf: l2fwd, name: again}}]
servers: {{gen: {{ssh: a}}, dut: {{ssh: b}}}}
testbed:
  ports:
    left: {{device: "af_xdp:l", server: gen}}
    in: {{device: "af_xdp:i", server: dut}}
  tester: left
  chain: in
deployment: {deployment}
"""


def placed(deployment: str, tester: FakeLot = GEN, chain: FakeLot = DUT) -> Placement:
    doc = document.parse(TEXT.format(deployment=deployment), Path("x.yaml"))
    [one] = expand(doc)
    return place_apart(one, doc, tester, [chain])


def lcores(placement: Placement) -> list[tuple[int, ...]]:
    return [segment.cpus for segment in placement.segments]


def test_each_server_runs_its_own_part() -> None:
    """A source and a sink that share no core; the chain's lcores are the other server's."""
    one = placed("{execution: pipeline}")
    assert (one.generator, one.sink) == (0, 1)
    assert lcores(one) == [(1000,), (1001,)]


def test_lcores_in_a_spec_are_the_servers() -> None:
    one = placed("{execution: rtc, lcores: {traffic: [2], chain: [2, 3]}}")
    assert (one.generator, one.sink, lcores(one)) == (2, 2, [(1002, 1003)])
    told = placed("{execution: {segments: [[l2fwd], [again]], lcores: [[5], [node 1]]}}")
    assert lcores(told) == [(1005,), (1004,)]
    with pytest.raises(BadInput, match="chain names lcore 8, which dut does not give us"):
        placed("{lcores: {traffic: [0], chain: [8]}}")


def test_both_ends_on_one_server_share_its_lcores() -> None:
    one = placed("{execution: rtc, lcores: {traffic: [2], chain: [3]}}", DUT, DUT)
    assert (one.generator, lcores(one)) == (1002, [(1003,)])


ALONG = """
name: x
chain:
  - {{nf: l2fwd, name: a, server: dut{to}}}
  - {{nf: l2fwd, name: b, server: dut}}
  - {{nf: l2fwd, name: c, server: next}}
servers: {{gen: {{ssh: a}}, dut: {{ssh: b}}, next: {{ssh: c}}}}
testbed:
  ports:
    left: {{device: "af_xdp:l", server: gen}}
    right: {{device: "af_xdp:r", server: gen}}
    in: {{device: "af_xdp:i", server: dut}}
    east: {{device: "af_xdp:e", server: dut}}
    west: {{device: "af_xdp:w", server: next}}
    out: {{device: "af_xdp:o", server: next}}
  tester: [left, right]
  chain: [in, east, west, out]
workload: {{direction: both}}
deployment: {deployment}
"""


def along(deployment: str, to: str = "") -> tuple[Experiment, document.Document, Placement]:
    doc = document.parse(ALONG.format(deployment=deployment, to=to), Path("x.yaml"))
    [one] = expand(doc)
    return one, doc, place_apart(one, doc, GEN, [DUT, NEXT])


def test_a_chain_on_two_servers_is_cut_between_them() -> None:
    *_, one = along("{execution: rtc}")
    assert [(s.nodes, s.cpus) for s in one.segments] == [(("a", "b"), (1000,)), (("c",), (2000,))]
    *_, one = along("{execution: {model: rtc, replicas: [2]}}")
    assert lcores(one) == [(1000, 1001), (2000, 2001)]
    *_, one = along("{execution: {model: pipeline, replicas: [2]}}")
    assert lcores(one) == [(1000, 1001), (1002,), (2000,)]
    told = "{execution: {segments: [[a], [b], [c]], lcores: [[3], [4], [5]]}}"
    assert lcores(along(told)[2]) == [(1003,), (1004,), (2005,)]
    with pytest.raises(BadInput, match="segment b, c is on 2 servers"):
        along("{execution: {segments: [[a], [b, c]]}}")
    with pytest.raises(BadInput, match="chain: it is on several servers"):
        along("{lcores: {traffic: [0], chain: [1]}}")


ANY: dict[str, Any] = {"params": {"type": "object"}}
DESCRIPTION = Description(
    Path("headrace-engine"),
    {"nfs": {"l2fwd": {**ANY, "edges": ["out"]}}, "links": {"source": ANY, "sink": ANY}},
)
DEVICES = {name: Device("af_xdp", name) for name in ("left", "right", "in", "east", "west", "out")}


def test_where_a_chain_goes_to_the_next_server_are_ports() -> None:
    """Forward: in -> a, b -> east ~ west -> c -> out; reverse the other way."""
    one, doc, placement = along("{execution: rtc}")
    given = (one, DESCRIPTION, doc, PlanEngine(), placement, DEVICES)
    first, second = chain_plans(*given).values()
    assert (set(first.links), set(second.links)) == ({"in", "east"}, {"west", "out"})
    assert (set(first.nfs), set(second.nfs)) == ({"a", "b"}, {"c"})
    assert [(i.link, i.to) for i in first.segments[0].inputs] == [("in", "a"), ("east", "b")]
    assert [(i.link, i.to) for i in second.segments[0].inputs] == [("west", "c"), ("out", "c")]
    for plan, node, ways in (
        (first, "b", {"forward": "link:east", "reverse": "a"}),
        (first, "a", {"forward": "b", "reverse": "link:in"}),
        (second, "c", {"forward": "link:out", "reverse": "link:west"}),
    ):
        nodes = plan.segments[0].nodes
        assert nodes is not None
        assert {way: set(to.values()) for way, to in nodes[node].items()} == {
            way: {to} for way, to in ways.items()
        }
    bed = one.study.testbed
    assert bed is not None
    assert wires(bed) == {"left": "in", "right": "out", "east": "west"}


def test_a_way_past_a_server_is_refused() -> None:
    """From the first server's function straight to the chain's end, which is on the second."""
    one, doc, placement = along("{execution: rtc}", ", to: {out: out}")
    given = (one, DESCRIPTION, doc, PlanEngine(), placement, DEVICES)
    with pytest.raises(BadInput, match="another that is not its neighbour"):
        chain_plans(*given)


def test_numbers_go_there_and_come_back() -> None:
    links: dict[str, Any] = {}
    entry = PlanInput(link="in", to="link:out")
    segments = (PlanSegment(name="chain", cpus=(2, 5), inputs=(entry,)),)
    plan = Plan(engine=PlanEngine(), links=links, nfs={}, segments=segments)
    assert moved(plan, 1000).segments[0].cpus == (1002, 1005)
    assert at_home(moved(plan, 1000)) == plan == at_home(plan)
    read = counts({"links": {}, "workers": {3: {"ref_cycles": 9, "ops_cycles": 1}}})
    assert set(renumbered(read, 2000).workers) == {2003}


class FakeProgram:
    """An agent that answers each request with the next of these."""

    last_words = ""

    def __init__(self, answers: list[Any]) -> None:
        self.socket, self._theirs = socket.socketpair()
        threading.Thread(target=self._serve, args=(answers,), daemon=True).start()

    def _serve(self, answers: list[Any]) -> None:
        with self._theirs, self._theirs.makefile("rw") as lines:
            for answer, _ in zip(answers, lines, strict=False):
                lines.write((answer if isinstance(answer, str) else json.dumps(answer)) + "\n")
                lines.flush()

    def close(self) -> None:
        self.socket.close()


HELLO = {"ok": True, "version": headrace.__version__, "cpus": [0, 1, 2000, -1],
         "threads": {"0": [0], "1": [1], "2000": [0]}, "nodes": {"0": 0, "1": 0}}  # fmt: skip


def there(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> There:
    program = FakeProgram([*answers])
    monkeypatch.setattr("headrace.host.ssh.SshProgram", lambda to, command: program)
    try:
        return There("gen", SshServer(ssh="a"), 1)
    finally:
        if not answers or answers[0] is not HELLO:
            program.close()


@pytest.mark.parametrize(
    "answer",
    [
        {"ok": True}, [], 5, "{", "[" * 100_000, {**HELLO, "cpus": "all"},
        {**HELLO, "threads": {"0": "a"}}, {**HELLO, "nodes": {"x": 0}}, {**HELLO, "version": 1},
        {**HELLO, "more": 1},
    ],
)  # fmt: skip
def test_what_a_server_says_may_be_anything(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    """It is told in one line."""
    with pytest.raises(HeadraceError, match=r"^servers\.gen: [^\n]*$"):
        there(monkeypatch, answer)


def test_a_servers_ports_are_those_that_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = {"ok": True, "devices": {"a": "tap:t", "b": "nonsense:x", "z": "tap:z"},
             "unfit": {"c": "it is in use", "y": "why"}}  # fmt: skip
    environment = {"ok": True, "environment": {}}
    one = there(monkeypatch, HELLO, ports, environment, {"ok": True, "refused": ["a"]})
    assert one.cpus == [LCORES, LCORES + 1]
    answers = one.devices({name: Device("tap", "t") for name in "abcd"})
    assert (answers["a"], answers["c"]) == (Device("tap", "t"), "it is in use")
    assert "'nonsense:x', which is no device" in str(answers["b"])
    assert "'', which is no device" in str(answers["d"]) and len(answers) == 4
    with pytest.raises(HeadraceError, match=r"^servers\.gen: [^\n]*environment"):
        one.environment("engine")
    one.close()


def test_files_and_functions_are_taken_there_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A plan names them as they are called there; a second plan asks for nothing."""
    own, rules = tmp_path / "own.so", tmp_path / "my.rules"
    for file in (own, rules):
        file.write_text(file.name)
    stored = [{"ok": True, "path": f"/there/{name}"} for name in ("rules", "own")]
    one = there(monkeypatch, HELLO, *stored)
    params = {"properties": {"rules_file": {"format": "file"}}}
    one.knows(Description(Path("x"), {"nfs": {"acl": {"params": params}}, "links": {}}))
    plan = Plan(
        engine=PlanEngine(), functions=(str(own),), links={}, segments=(),
        nfs={"acl": PlanFunction(type="acl", params={"rules_file": str(rules)})},
    )  # fmt: skip
    for _ in range(2):
        moved_there = one.with_files(plan)
        assert moved_there.functions == ("/there/own",)
        assert moved_there.nfs["acl"].params == {"rules_file": "/there/rules"}
    one.close()
