# SPDX-License-Identifier: Apache-2.0
"""Functions side by side on the real engine: the same packets in the same order, the same counts.

With sides that are late, and in every order: engine/tests/parallel_test.c.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from support.engine import Engine, nf_imbalance
from support.plans import Model, Nf, chain_plan, pcap_port
from support.traffic import DST_MAC, SRC_MAC, odd, read_pcap, write_pcap

CHAIN = (
    Nf("slow", "delay", "out", {"cycles": 3000, "touch_bytes": 64}),
    Nf("acl", "acl", "pass", {"rules": [
       {"action": "deny", "dport": [8080]}, {"action": "permit"}]}),
    Nf("l3fwd", "l3fwd", "out0", {"next_hops": [{"dst_mac": "02:00:00:00:10:01"}],
       "routes": [{"prefix": "192.0.2.0/24", "next_hop": 0}]}),
)  # fmt: skip
RTC = Model("rtc", (tuple(nf.name for nf in CHAIN),))
NAMES = [nf.name for nf in CHAIN]


@pytest.fixture(scope="module")
def packets() -> list[bytes]:
    """Drops by either: denied ports, no route, expired; and what a chain does not expect."""
    rng = random.Random(11)
    frames = [
        bytes(
            Ether(src=SRC_MAC, dst=DST_MAC)
            / IP(src=f"10.0.0.{i}", dst=rng.choice(("192.0.2.7", "192.0.2.8", "8.8.8.8")), id=i)
            / UDP(sport=2000 + i, dport=rng.choice((53, 443, 8080)))
        )
        for i in range(200)
    ]
    return rng.choices(frames, k=8000) + odd(4, "192.0.2.7") + rng.choices(frames, k=2000)


def through(
    start_engine: Callable[..., Engine], plan: dict[str, Any], packets: list[bytes], out: Path
) -> tuple[list[bytes], dict[str, Any]]:
    with start_engine(plan) as engine:
        reading = engine.settle(len(packets))
    return list(read_pcap(out)), reading


def test_as_in_sequence(
    start_engine: Callable[..., Engine], cpus: list[int], tmp_path: Path, packets: list[bytes]
) -> None:
    incoming = pcap_port(write_pcap(tmp_path / "in.pcap", packets), None, "in")
    plans, out = {}, {True: tmp_path / "beside.pcap", False: tmp_path / "sequence.pcap"}
    for beside in (False, True):
        plans[beside] = chain_plan(CHAIN, RTC, cpus, incoming, pcap_port(None, out[beside], "out"))
    home = plans[True]["segments"][1]["cpus"][0]
    others = [cpu for cpu in cpus if cpu != home] or [home]
    sides = [others[0], home]
    plans[True]["segments"][1]["parallel"] = {"nodes": NAMES, "cpus": sides}

    sequence, without = through(start_engine, plans[False], packets, out[False])
    together, with_it = through(start_engine, plans[True], packets, out[True])

    assert together == sequence
    assert 2000 < len(together) < len(packets) - 2000
    assert nf_imbalance(with_it) == {name: 0 for name in NAMES}
    replicas = [reading["segments"]["s0"][0] for reading in (without, with_it)]
    for name in NAMES:
        one, other = (r["nfs"][name] for r in replicas)
        assert [one[k] for k in ("in", "out", "dropped", "aborted")] == [
            other[k] for k in ("in", "out", "dropped", "aborted")
        ]
    assert replicas[1]["parallel"]["used"] == 0
    apart = replicas[1]["parallel"]["sides"]
    assert {name: side["cpu"] for name, side in apart.items()} == dict(
        zip(NAMES[1:], sides, strict=True)
    )


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("second", "nodes", "message"),
    [
        (
            Nf("fw", "firewall", "pass", {"rules": [{"action": "permit"}]}),
            ["acl", "fw"],
            '"fw" (firewall) cannot run beside another function: it holds fragments',
        ),
        (Nf("fw", "l2fwd"), ["fw", "l3fwd"], '"fw" and "l3fwd" both write mac'),
        (
            Nf("fw", "delay", "out", {"touch": "write", "touch_bytes": 9}),
            ["acl", "fw"],
            "it writes back what it read",
        ),
    ],
)
def test_refused_with_the_reason(
    engine_binary: Path, tmp_path: Path, second: Nf, nodes: list[str], message: str
) -> None:
    chain = (CHAIN[1], second, CHAIN[2])
    model = Model("rtc", (tuple(nf.name for nf in chain),))
    plan = chain_plan(chain, model, [0], pcap_port(None, None, "in"), pcap_port(None, None, "out"))
    plan["segments"][1]["parallel"] = {"nodes": nodes, "cpus": [0]}
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    done = subprocess.run(
        [engine_binary, "--check", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("headrace-engine: segments[1].parallel.nodes: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
