# SPDX-License-Identifier: Apache-2.0
"""Chains in one engine keep their own names, and none has another's counters."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from typing import Any

import pytest

from headrace.engine.control import ControlError, ControlLost
from headrace.engine.counts import EngineCounts
from headrace.engine.counts_testdata import counts
from headrace.engine.plan_document import (
    Plan,
    PlanEngine,
    PlanFunction,
    PlanInput,
    PlanLink,
    PlanSegment,
    ring,
)
from headrace.engine.running import RunningEngine
from headrace.engine.together import EngineTogether, together
from headrace.errors import HeadraceError
from headrace.host.scheduling import Snapshot


def plan_of(nf: str, mbufs: int, data: int) -> Plan:
    """Source, one elastic segment with one function, sink."""
    forward: dict[str, str] = {"pass": "link:back", "alert": "drop"}
    chain = PlanSegment(
        name="chain", cpus=(2,), elastic=2, inputs=(PlanInput(link="wire", to="nf"),),
        nodes={"nf": {"forward": forward}},
    )  # fmt: skip
    tester = PlanSegment(
        name="tester", cpus=(0,),
        inputs=(PlanInput(link="gen", to="link:wire"), PlanInput(link="back", to="link:sink")),
    )  # fmt: skip
    return Plan(
        engine=PlanEngine(mbufs=mbufs, mbuf_data_bytes=data, spare_cpus=(3,)),
        links={
            "gen": PlanLink(type="source", params={"flows": 4}),
            "wire": ring(1024, "drop"),
            "back": ring(1024),
            "sink": PlanLink(type="sink", params={"sources": ["gen"]}),
        },
        nfs={"nf": PlanFunction(type=nf)},
        segments=(tester, chain),
    )


TWO = {"edge": plan_of("nat", 1000, 640), "core": plan_of("acl", 500, 2176)}


class AnsweringEngine(RunningEngine):
    """An engine that remembers what it was asked, and may refuse a plan."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.refuses = False

    @property
    def pid(self) -> int | None:
        return 7

    def measuring(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def scheduled(self) -> Snapshot:
        return Snapshot({}, {})

    def scheduled_beside(self) -> Snapshot | None:
        return None

    def lost(self, why: ControlLost) -> HeadraceError:
        return why

    def close(self) -> None:
        """Nothing is there to be closed."""

    def read(self) -> EngineCounts:
        replica = {"cpu": 2, "inputs": {}, "outputs": {}, "nfs": {}}
        first = {**replica, "in": 5, "inputs": {"1.wire": {"packets": 5}}, "nfs": {"1.nf": {}}}
        second = {**replica, "in": 9, "inputs": {"2.wire": {"packets": 9}}, "nfs": {"2.nf": {}}}
        return counts(
            {
                "workers": {2: {"ref_cycles": 77}},
                "segments": {"1.chain": [first], "2.chain": [second]},
                "links": {
                    "1.gen": {"type": "source", "sent": 5},
                    "2.gen": {"type": "source", "sent": 9},
                },
            }
        )

    def request(self, cmd: str, **arguments: Any) -> dict[str, Any]:
        if self.refuses:
            raise ControlError(cmd, "plan", "is refused")
        self.asked.append((cmd, arguments))
        if cmd == "slices":
            both = {"1.chain": "first", "2.chain": "second"}
            return {"ok": True, "segments": both, "delays": {"1.sink": "own", "2.sink": "other"}}
        return {"ok": True, "start_tsc": 11}


def test_one_plan_has_the_chains_apart() -> None:
    """Each function, link and segment is there once, under its chain's number. Buffers are the sum,
    and each has room for the larger frame."""
    whole = together(TWO)
    assert set(whole.links) == {
        f"{number}.{name}" for number in (1, 2) for name in ("gen", "wire", "back", "sink")
    }
    assert {name: nf.type for name, nf in whole.nfs.items()} == {"1.nf": "nat", "2.nf": "acl"}
    assert [one.name for one in whole.segments] == [
        "1.tester", "1.chain", "2.tester", "2.chain",
    ]  # fmt: skip
    second = whole.segments[3]
    assert second.inputs == (PlanInput(link="2.wire", to="2.nf"),)
    assert second.nodes == {"2.nf": {"forward": {"pass": "link:2.back", "alert": "drop"}}}
    assert whole.links["2.sink"].params == {"sources": ["2.gen"]}
    assert (whole.engine.mbufs, whole.engine.mbuf_data_bytes) == (1500, 2176)
    assert whole.engine.spare_cpus == (3,) and whole.engine.mbufs_hot is None


def test_a_chain_reads_its_own_counters() -> None:
    view = EngineTogether(AnsweringEngine(), together(TWO), tuple(TWO)).view("core")
    read = view.read()
    assert set(read.links) == {"gen"} and read.source("gen").sent == 9
    [replica] = read.segments["chain"]
    assert replica.packets_in == 9 and set(replica.inputs) == {"wire"}
    assert set(replica.nfs) == {"nf"} and read.workers[2].ref_cycles == 77
    reply = view.request("slices", since=3)
    assert reply["segments"] == {"chain": "second"} and reply["delays"] == {"sink": "other"}


def test_what_a_chain_asks_is_of_its_own() -> None:
    engine = AnsweringEngine()
    whole = EngineTogether(engine, together(TWO), tuple(TWO))
    view = whole.view("core")
    view.request("set", link="gen", rate_pps=2.0)
    view.request("move", segment="chain", buckets=[1], to=1)
    view.request("start", sources={"gen": {"rate_pps": 1}})
    assert whole.start({"edge": {"gen": {"a": 1}}, "core": {"gen": {"b": 2}}}) == 11
    assert engine.asked == [
        ("set", {"link": "2.gen", "rate_pps": 2.0}),
        ("move", {"segment": "2.chain", "buckets": [1], "to": 1}),
        ("start", {"sources": {"2.gen": {"rate_pps": 1}}}),
        ("start", {"sources": {"1.gen": {"a": 1}, "2.gen": {"b": 2}}}),
    ]


def on(plan: Plan, *cpus: int) -> dict[str, Any]:
    segments = tuple(
        one.model_copy(update={"cpus": cpus}) if one.elastic else one for one in plan.segments
    )
    return plan.having(segments=segments).as_json()


def test_a_plan_of_one_chain_leaves_the_others_where_they_are() -> None:
    """Each chain knows its own CPUs only. One that was refused changes nothing."""
    engine = AnsweringEngine()
    whole = EngineTogether(engine, together(TWO), tuple(TWO))

    def cpus() -> list[list[int]]:
        cmd, asked = engine.asked[-1]
        assert cmd == "plan" and len(asked["plan"]["links"]) == 8
        return [one["cpus"] for one in asked["plan"]["segments"]]

    whole.view("edge").request("plan", plan=on(TWO["edge"], 2, 3))
    assert cpus() == [[0], [2, 3], [0], [2]]
    engine.refuses = True
    with pytest.raises(ControlError):
        whole.view("core").request("plan", plan=on(TWO["core"], 3, 2))
    engine.refuses = False
    whole.view("core").request("plan", plan=on(TWO["core"], 3))
    assert cpus() == [[0], [2, 3], [0], [3]]
