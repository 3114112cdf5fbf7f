# SPDX-License-Identifier: Apache-2.0
"""Lcores of several servers: their numbers, and which of them run what."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headrace.engine.counts_testdata import counts
from headrace.engine.place import Placement, Topology
from headrace.engine.plan_document import Plan, PlanEngine, PlanInput, PlanSegment
from headrace.errors import BadInput
from headrace.ground.wired.apart import place_apart
from headrace.ground.wired.there import LCORES, at_home, moved, renumbered
from headrace.spec import document
from headrace.spec.study import expand


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


GEN, DUT = FakeLot("gen", 0), FakeLot("dut", LCORES)
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
    return place_apart(one, doc, tester, chain)


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


def test_numbers_go_there_and_come_back() -> None:
    links: dict[str, Any] = {}
    entry = PlanInput(link="in", to="link:out")
    segments = (PlanSegment(name="chain", cpus=(2, 5), inputs=(entry,)),)
    plan = Plan(engine=PlanEngine(), links=links, nfs={}, segments=segments)
    assert moved(plan, 1000).segments[0].cpus == (1002, 1005)
    assert at_home(moved(plan, 1000)) == plan == at_home(plan)
    read = counts({"links": {}, "workers": {3: {"ref_cycles": 9, "ops_cycles": 1}}})
    assert set(renumbered(read, 2000).workers) == {2003}
