# SPDX-License-Identifier: Apache-2.0
"""The engine's answers in the form in which the lab takes them, held against known counts."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from headrace.engine.counts import EngineCounts, EngineInfo
from headrace.engine.link_counts import LinkCounts, PortCounts
from headrace.engine.plan_document import (
    Plan,
    PlanClass,
    PlanEngine,
    PlanFunction,
    PlanInput,
    PlanLink,
    PlanLocate,
    PlanParallel,
    PlanSegment,
    PlanWait,
)
from headrace.record.frozen import Record
from support.engine import Engine, memory_engine

PACKETS, FLOWS, DENIED = 4096, 64, 16


def plan(cpus: list[int]) -> dict[str, object]:
    deny = [{"action": "deny", "sport": [1024, 1024 + DENIED - 1]}]
    return {
        "version": 1,
        "engine": memory_engine(mbufs=16383, locate={"every": 8, "classes": [{"name": "any"}]}),
        "links": {
            "gen": {"type": "source", "params": {"frame_bytes": [64], "flows": FLOWS}},
            "wire": {"type": "ring", "params": {"size": 8192}},
            "back": {"type": "ring", "params": {"size": 8192}},
            "meas": {"type": "sink", "params": {}},
            "meas2": {"type": "sink", "params": {}},
            "nic": {"type": "port", "params": {"devargs": "net_ring0", "times": True}},
        },
        "nfs": {
            "acl": {"type": "acl", "params": {"rules": deny, "default": "permit"}},
            "watch": {"type": "delay", "params": {"cycles": 100}},
        },
        "segments": [
            {"name": "generator", "cpus": cpus[:1], "inputs": [{"link": "gen", "to": "link:wire"}]},
            {
                "name": "chain",
                "cpus": cpus[:1],
                "parallel": {"nodes": ["acl", "watch"], "cpus": cpus[-1:]},
                "inputs": [{"link": "wire", "to": "acl"}],
                "nodes": {
                    "acl": {"forward": {"pass": "watch"}},
                    "watch": {"forward": {"out": "link:back"}},
                },
            },
            {
                "name": "measure",
                "cpus": cpus[:1],
                "inputs": [{"link": "back", "to": "link:meas"}],
            },
            {"name": "other", "cpus": cpus[-1:], "inputs": [{"link": "nic", "to": "link:meas2"}]},
        ],
    }


def test_all_parts_of_a_reading(start_engine: Callable[..., Engine], cpus: list[int]) -> None:
    with start_engine(plan(cpus)) as engine:
        info = EngineInfo.model_validate(engine.call("info"))
        before = EngineCounts.model_validate(engine.read())
        # All of them are sent, however busy the machine is.
        run = {"rate_pps": 50_000, "packets": PACKETS, "duration_s": 60}
        engine.call("start", sources={"gen": run})

        def over() -> bool:
            read = EngineCounts.model_validate(engine.read())
            passed = sum(one.nfs["acl"].packets_in for one in read.segments["chain"])
            return read.source("gen").state == "done" and passed == PACKETS

        engine.wait_for(over, "the last packet", 60)
        time.sleep(0.1)
        after = EngineCounts.model_validate(engine.read())
    grown = after.since(before)
    assert info.tsc_hz == after.tsc_hz and sorted(info.cpus) == sorted(after.workers)
    [chain] = grown.segments["chain"]
    denied = PACKETS * DENIED // FLOWS
    acl, sink = chain.nfs["acl"], after.sink("meas")
    assert (acl.packets_in, acl.dropped["denied"], acl.out["pass"]) == (
        PACKETS, denied, PACKETS - denied,
    )  # fmt: skip
    assert sum(acl.ended["denied"]["forward"].values()) == denied
    assert sink.received == sink.latency.count == sink.own.packets == PACKETS - denied
    assert chain.parallel is not None and set(chain.parallel.sides) == {"watch"}
    assert chain.located is not None and chain.located.inputs["wire"].samples > 0
    assert isinstance(port := grown.links["nic"], PortCounts) and port.age_in is not None


@pytest.fixture(scope="module")
def described(engine_binary: Path) -> dict[str, Any]:
    done = subprocess.run([engine_binary, "--describe"], capture_output=True, check=True)
    description: dict[str, Any] = json.loads(done.stdout)
    return description


def test_the_lab_knows_all_types_of_links(described: dict[str, Any]) -> None:
    union, _ = get_args(LinkCounts)
    known = {get_args(kind.model_fields["type"].annotation)[0] for kind in get_args(union)}
    assert known == set(described["links"])


def test_the_labs_plan_has_the_engines_form(described: dict[str, Any]) -> None:
    whole = described["plan"]["properties"]
    engine = whole["engine"]["properties"]
    segment = whole["segments"]["items"]["properties"]
    assert names(Plan) == set(whole)
    assert names(PlanEngine) == set(engine)
    assert names(PlanWait) == set(engine["wait"]["properties"])
    assert names(PlanLocate) == set(engine["locate"]["properties"])
    assert names(PlanClass) == set(engine["locate"]["properties"]["classes"]["items"]["properties"])
    assert names(PlanSegment) == set(segment)
    assert names(PlanParallel) == set(segment["parallel"]["properties"])
    assert names(PlanInput) == set(segment["inputs"]["items"]["properties"])
    for kind, form in ((PlanLink, whole["links"]), (PlanFunction, whole["nfs"])):
        for one in form["additionalProperties"]["oneOf"]:
            assert names(kind) == set(one["properties"])


def names(kind: type[Record]) -> set[str]:
    return set(kind.model_fields)
