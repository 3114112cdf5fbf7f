# SPDX-License-Identifier: Apache-2.0
"""`veb` between links of a plan: who gets which frames, from whom, and how many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.engine import Engine, EngineError, memory_engine

PACKETS = 2000
STATIONS = [f"02:00:00:00:00:{i:02x}" for i in range(4)]


def plan(
    cpu: int, sends: dict[int, int], params: dict[str, Any], ports: int = 4, name_ports: bool = True
) -> dict[str, Any]:
    """Each sender (a port) makes frames for one receiver; all ports are measured."""
    links: dict[str, Any] = {f"meas{i}": {"type": "sink"} for i in range(ports)}
    inputs = []
    for sender, receiver in sends.items():
        links[f"gen{sender}"] = {
            "type": "source",
            "params": {
                "frame_bytes": [64],
                "src_mac": STATIONS[sender],
                "dst_macs": [STATIONS[receiver]],
            },
        }
        port = {"port": sender} if name_ports else {}
        inputs.append({"link": f"gen{sender}", "to": "veb", **port})
    return {
        "version": 1,
        "engine": memory_engine(),
        "links": links,
        "nfs": {"veb": {"type": "veb", "params": params}},
        "segments": [
            {
                "name": "nic",
                "cpus": [cpu],
                "inputs": inputs,
                "nodes": {"veb": {"forward": {f"p{i}": f"link:meas{i}" for i in range(ports)}}},
            }
        ],
    }


def check_receivers(engine: Engine, sends: dict[int, int], receivers: dict[int, list[int]]) -> None:
    """Send, and compare: which ports get the frames of which senders."""
    engine.call(
        "start",
        sources={f"gen{i}": {"rate_pps": 100_000, "packets": PACKETS} for i in sends},
    )
    engine.wait_for(
        lambda: all(engine.read()["links"][f"gen{i}"]["state"] == "done" for i in sends),
        "the trial's end",
        seconds=60,
    )
    reading = engine.settle(len(sends))
    nf = reading["segments"]["nic"][0]["nfs"]["veb"]
    assert nf["in"] + nf["created"] == sum(nf["out"].values()) + sum(nf["dropped"].values())
    sent = {i: reading["links"][f"gen{i}"]["sent"] for i in sends}
    assert all(sent.values())
    for port in range(len(STATIONS)):
        got = reading["links"][f"meas{port}"]["received"]
        assert got == sum(sent[sender] for sender in receivers.get(port, [])), f"port {port}"


def static(uplinks: int = 1) -> list[dict[str, Any]]:
    return [
        {"uplink": True} if i < uplinks else {"macs": [STATIONS[i]]} for i in range(len(STATIONS))
    ]


def test_between_ports(start_engine: Callable[..., Engine], cpus: list[int]) -> None:
    sends = {0: 1, 1: 2, 2: 0, 3: 1}
    params = {"ports": static(), "unknown": "uplink"}
    with start_engine(plan(cpus[-1], sends, params)) as engine:
        check_receivers(engine, sends, {0: [2], 1: [0, 3], 2: [1]})


def test_vepa(start_engine: Callable[..., Engine], cpus: list[int]) -> None:
    sends = {0: 1, 1: 2, 2: 3}
    params = {"ports": static(), "mode": "vepa"}
    with start_engine(plan(cpus[-1], sends, params)) as engine:
        check_receivers(engine, sends, {0: [1, 2], 1: [0]})


def test_flood_then_learn(start_engine: Callable[..., Engine], cpus: list[int]) -> None:
    """Port 2's station is unknown until it speaks; each port that floods gets a copy."""
    sends = {1: 2}
    params = {"ports": [{}, {}, {}, {}], "flood_pps": 1_000_000, "flood_burst": PACKETS}
    with start_engine(plan(cpus[-1], sends, params)) as engine:
        check_receivers(engine, sends, {0: [1], 2: [1], 3: [1]})
        engine.call("update", nf="veb", op={"op": "add", "mac": STATIONS[2], "port": 2})
        check_receivers(engine, sends, {2: [1]})


@pytest.mark.parallel
def test_port_must_be_said(start_engine: Callable[..., Engine], cpus: list[int]) -> None:
    params = {"ports": [{}, {}, {}, {}]}
    with pytest.raises(EngineError, match=r'inputs\[0\].*"port" is missing'):
        start_engine(plan(cpus[-1], {1: 2}, params, name_ports=False)).__enter__()
