# SPDX-License-Identifier: Apache-2.0
"""A port's times, of which the anatomy of chains behind devices is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.engine import Engine, memory_engine

Start = Callable[..., Engine]
PACKETS = 3000
ROUNDING_NS = 2.0  # of each sum


def through_two_ports(cpu: int, times: bool, stamp: bool = True) -> dict[str, Any]:
    """Source, a ring device, another one, sink: one packet after the other, on one lcore."""

    def port(number: int) -> dict[str, Any]:
        devargs = f"net_ring_hr{number}"
        return {"type": "port", "params": {"devargs": devargs, "times": times}}

    hops = [("gen", "a"), ("a", "b"), ("b", "meas")]
    return {
        "version": 1,
        "engine": memory_engine(),
        "links": {
            "gen": {"type": "source", "params": {"frame_bytes": [64, 777], "stamp": stamp}},
            "a": port(0),
            "b": port(1),
            "meas": {"type": "sink", "params": {}},
        },
        "segments": [
            {"name": f"to-{to}", "cpus": [cpu], "inputs": [{"link": one, "to": f"link:{to}"}]}
            for one, to in hops
        ],
    }


def read(start_engine: Start, plan: dict[str, Any]) -> dict[str, Any]:
    with start_engine(plan) as engine:
        engine.call("start", sources={"gen": {"rate_pps": 20_000, "packets": PACKETS}})
        links: dict[str, Any] = {}

        def through() -> bool:
            links.update(engine.read()["links"])
            return (
                links["gen"]["state"] == "done"
                and links["meas"]["received"] == links["gen"]["sent"] > 0
            )

        engine.wait_for(through, "the packets", 60)
    return links


def test_ages_and_stays_add_up(start_engine: Start, cpus: list[int]) -> None:
    links = read(start_engine, through_two_ports(cpus[0], times=True))
    sent, a, b = links["gen"]["sent"], links["a"], links["b"]
    moments = [a["age_out"], a["age_in"], b["age_out"], b["age_in"]]
    assert [one["count"] for one in moments] == [sent] * 4
    sums = [one["sum_ns"] for one in moments]
    assert sums == sorted(sums) and sums[0] > 0
    latency = links["meas"]["latency"]
    assert sums[3] <= latency["mean_ns"] * latency["count"] + ROUNDING_NS * sent
    # From one port to the other: the very packets whose ages are known at both.
    assert b["stay"]["count"] == sent
    assert b["stay"]["sum_ns"] == pytest.approx(sums[2] - sums[1], abs=ROUNDING_NS * 2)


def test_packets_without_a_stamp_have_no_age(start_engine: Start, cpus: list[int]) -> None:
    links = read(start_engine, through_two_ports(cpus[0], times=True, stamp=False))
    assert links["a"]["age_in"] == links["b"]["age_out"] == {"count": 0, "sum_ns": 0}
    assert links["b"]["stay"]["count"] == links["gen"]["sent"]


def test_not_asked_not_taken(start_engine: Start, cpus: list[int]) -> None:
    links = read(start_engine, through_two_ports(cpus[0], times=False))
    assert not {"age_in", "age_out", "stay"} & set(links["a"])
