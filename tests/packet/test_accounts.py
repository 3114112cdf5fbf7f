# SPDX-License-Identifier: Apache-2.0
"""Every packet has a place: an overloaded engine, traffic both ways, sizes mixed, and copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.engine.accounts import Way, books, settle, waiting
from headrace.engine.counts import EngineCounts
from support.engine import Engine, memory_engine

Json = dict[str, Any]
SIZES = ["64", "512-1023", "1024-1518"]


def plan(cpus: list[int]) -> Json:
    """tee -> slow forwards, slow -> tee in reverse; an ACL denies some of the copies."""

    def source(base: int) -> Json:
        params = {"frame_bytes": [64, 64, 594, 1518], "flows": 64, "flow_base": base}
        return {"type": "source", "params": params}

    def ring(size: int) -> Json:
        return {"type": "ring", "params": {"size": size}}

    def passing(name: str, cpu: int, ways: list[tuple[str, str, str]]) -> Json:
        inputs = [{"link": a, "to": f"link:{b}", "direction": d} for a, b, d in ways]
        return {"name": name, "cpus": [cpu], "inputs": inputs}

    acl = {"rules": [{"action": "deny", "sport": [1024, 1040]}], "default": "permit"}
    copies = {"pass": "drop"}
    return {
        "version": 1,
        "engine": memory_engine(mbufs=16383),
        "links": {
            "gen": source(0), "gen-r": source(64), "wire": ring(256), "wire-r": ring(256),
            "back": ring(1024), "back-r": ring(1024),
            "meas": {"type": "sink", "params": {}}, "meas-r": {"type": "sink", "params": {}},
        },
        "nfs": {
            "tee": {"type": "tee", "params": {}},
            "slow": {"type": "delay", "params": {"cycles": 100000}},
            "watch": {"type": "acl", "params": acl},
        },
        "segments": [
            passing("generator", cpus[0], [("gen", "wire", "forward"),
                                           ("gen-r", "wire-r", "reverse")]),
            {
                "name": "chain",
                "cpus": [cpus[-1]],
                "inputs": [{"link": "wire", "to": "tee"},
                           {"link": "wire-r", "to": "slow", "direction": "reverse"}],
                "nodes": {
                    "tee": {"forward": {"out": "slow", "copy": "watch"},
                            "reverse": {"out": "link:back-r", "copy": "watch"}},
                    "slow": {"forward": {"out": "link:back"}, "reverse": {"out": "tee"}},
                    "watch": {"forward": copies, "reverse": copies},
                },
            },
            passing("measure", cpus[0], [("back", "meas", "forward"),
                                         ("back-r", "meas-r", "reverse")]),
        ],
    }  # fmt: skip


def test_every_packet_has_a_place(start_engine: Callable[..., Engine], cpus: list[int]) -> None:
    with start_engine(plan(cpus)) as engine:

        def counts() -> EngineCounts:
            return EngineCounts.model_validate(engine.read())

        before = counts()
        # All of them are sent, however busy the machine is; and too fast for the slow function.
        run = {"rate_pps": 300_000, "packets": 60_000, "duration_s": 60}
        engine.call("start", sources={"gen": run, "gen-r": run})

        came: list[int] = []

        def over() -> bool:
            """Nothing waits in a queue any more, and nothing has come since the last look."""
            came.append(sum(counts().sink(name).received for name in ("meas", "meas-r")))
            done = all(counts().source(name).state == "done" for name in ("gen", "gen-r"))
            return done and not waiting(counts()) and came[-2:] == [came[-1]] * 2

        engine.wait_for(over, "an empty engine", 90)
        last = counts()
    grown = books(before, last)
    forward = Way("forward", last.source("gen"), last.sink("meas"))
    reverse = Way("reverse", last.source("gen-r"), last.sink("meas-r"))
    for way, ring in ((forward, "wire/full"), (reverse, "wire-r/full")):
        one = settle(grown, [way], 2)
        assert [(a.size, a.unknown) for a in one.accounts] == [(s, 0) for s in ("all", *SIZES)]
        # Of its own direction only, and each size class has its share.
        assert set(one.dropped) == {ring} and one.dropped[ring] > 0
        sent = {a.size: a.sent for a in one.accounts}
        assert sent["64"] > 1.9 * sent["1024-1518"] > 0
    both = settle(grown, [forward, reverse], 2)
    assert all(a.unknown == 0 for a in both.accounts)
    assert both.created is not None and both.created.unknown == 0
    assert both.created.sent == sum(last.sink(name).own.packets for name in ("meas", "meas-r"))
    assert set(both.created.dropped) == {"watch/denied", "watch/no-route-out"}
