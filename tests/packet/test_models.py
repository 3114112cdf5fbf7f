# SPDX-License-Identifier: Apache-2.0
"""The same packets come out under every execution model, and no packet is unaccounted for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether

from support.engine import Engine, nf_imbalance
from support.plans import Model, Nf, chain_plan, models, pcap_port
from support.traffic import as_set, odd, ordinary, read_pcap, write_pcap

VIP, BACKENDS = "198.51.100.1", [f"192.0.2.{i}" for i in range(1, 8)]
PLAIN = ["203.0.113.5", "203.0.113.6", "2001:db8:2::5"]
DENIED_PORT = 8080

NEXT_HOPS = ["02:00:00:00:10:01", "02:00:00:00:10:02"]

RULES = [
    {"action": "deny", "dport": [DENIED_PORT]},
    {"action": "deny", "src": "10.3.0.0/16", "proto": "udp"},
    {"action": "permit"},
]
ROUTES = [
    {"prefix": "192.0.2.0/24", "next_hop": 0},
    {"prefix": "203.0.113.0/24", "next_hop": 1},
    {"prefix": "203.0.113.6/32", "next_hop": 0},
    {"prefix": "2001:db8:2::/64", "next_hop": 1},
]
CHAIN = (
    Nf("acl", "acl", "pass", {"rules": RULES, "default": "deny"}),
    Nf("lb", "lb", "out", {"vips": [{"address": VIP, "backends": [{"address": address}
       for address in BACKENDS]}]}),
    Nf("l3fwd", "l3fwd", "out0", {
        "next_hops": [{"dst_mac": mac} for mac in NEXT_HOPS], "routes": ROUTES}),
)  # fmt: skip

Outcome = tuple[Counter[bytes], dict[str, Any]]


@pytest.fixture(scope="module")
def packets() -> list[bytes]:
    return ordinary(3000, 1, [VIP, VIP, *PLAIN]) + odd(2, VIP) + odd(3, PLAIN[0])


@pytest.fixture
def push(
    start_engine: Callable[..., Engine], cpus: list[int], tmp_path: Path, packets: list[bytes]
) -> Callable[[Model], Outcome]:
    """Send all packets through the chain under a model; what came out, and the counters."""

    def through(model: Model) -> Outcome:
        incoming = write_pcap(tmp_path / "in.pcap", packets)
        outgoing = tmp_path / "out.pcap"
        plan = chain_plan(
            CHAIN, model, cpus, pcap_port(incoming, None, "in"), pcap_port(None, outgoing, "out")
        )
        with start_engine(plan) as engine:
            reading = engine.settle(len(packets))
        return as_set(read_pcap(outgoing)), reading

    return through


@pytest.fixture(scope="module")
def reference() -> dict[str, Counter[bytes]]:
    """What the first model gave; the others must give the same."""
    return {}


@pytest.mark.parametrize("model", models([nf.name for nf in CHAIN]), ids=lambda model: model.name)
def test_same_packets_out(
    model: Model,
    push: Callable[[Model], Outcome],
    packets: list[bytes],
    reference: dict[str, Counter[bytes]],
) -> None:
    out, reading = push(model)

    assert sum(r["in"] for r in reading["segments"]["reader"]) == len(packets)
    assert nf_imbalance(reading) == {"acl": 0, "lb": 0, "l3fwd": 0}
    assert sum(r["out"] for r in reading["segments"]["writer"]) == sum(out.values())
    assert sum(out.values()) > 1000
    assert out == reference.setdefault("out", out)


def test_what_comes_out_is_right(push: Callable[[Model], Outcome], packets: list[bytes]) -> None:
    """Against the packets' own meaning, not against another run."""
    out, _ = push(Model("rtc", (tuple(nf.name for nf in CHAIN),)))

    for data in out:
        packet = Ether(data)
        if IP not in packet:
            continue
        ip = packet[IP]
        assert ip.dst != VIP, "the VIP's traffic goes to a backend"
        assert ip.ttl >= 1
        assert packet.dst == NEXT_HOPS[ip.dst == PLAIN[0]]
        assert getattr(ip.payload, "dport", None) != DENIED_PORT
        stated = ip.chksum
        del ip.chksum
        assert IP(bytes(ip)).chksum == stated, "header checksum after TTL and address change"
