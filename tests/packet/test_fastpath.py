# SPDX-License-Identifier: Apache-2.0
"""The consolidated fast path on the real engine: the same packets out, tables changing meanwhile.

In lockstep on a virtual clock, packet by packet: engine/tests/fastpath_test.c.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether

from support.engine import Engine, nf_imbalance
from support.plans import Model, Nf, chain_plan, pcap_port
from support.traffic import DST_MAC, SRC_MAC, as_set, odd, read_pcap, write_pcap

VIP, POOL = "198.51.100.1", "203.0.113.9"
CHAIN = (
    Nf("acl", "acl", "pass", {"rules": [
       {"action": "deny", "dport": [8080]}, {"action": "permit"}]}),
    Nf("firewall", "firewall", "pass", {"rules": [{"action": "permit"}], "tcp_loose": True}),
    Nf("nat", "nat", "out", {"seed": 1, "pool": [POOL], "inside": ["10.0.0.0/8"]}),
    Nf("lb", "lb", "out", {"vips": [{"address": VIP, "backends": [
        {"address": f"192.0.2.{i}"} for i in range(1, 5)]}]}),
    Nf("l3fwd", "l3fwd", "out0", {"next_hops": [{"dst_mac": "02:00:00:00:10:01"},
       {"dst_mac": "02:00:00:00:10:02"}], "routes": [{"prefix": "192.0.2.0/24", "next_hop": 0},
       {"prefix": "203.0.113.0/24", "next_hop": 1}]}),
)  # fmt: skip
RTC = Model("rtc", (tuple(nf.name for nf in CHAIN),))


@pytest.fixture(scope="module")
def packets() -> list[bytes]:
    """Few flows, many packets of each, and what no fast path may take."""
    rng = random.Random(7)
    flows = [
        Ether(src=SRC_MAC, dst=DST_MAC)
        / IP(src=f"10.0.{i % 3}.{i + 1}", dst=rng.choice((VIP, VIP, "203.0.113.77")))
        / (UDP if i % 2 else TCP)(sport=2000 + i, dport=rng.choice((53, 80, 443, 8080)))
        for i in range(60)
    ]
    for flow in flows:
        if TCP in flow:
            flow[TCP].flags = "A"
    frames = [bytes(flow) for flow in flows]
    return [rng.choice(frames) for _ in range(6000)] + odd(4, VIP) + rng.choices(frames, k=2000)


@pytest.fixture
def push(
    start_engine: Callable[..., Engine], cpus: list[int], tmp_path: Path, packets: list[bytes]
) -> Callable[[int], tuple[list[bytes], dict[str, Any]]]:
    def through(flows: int) -> tuple[list[bytes], dict[str, Any]]:
        incoming = write_pcap(tmp_path / "in.pcap", packets)
        outgoing = tmp_path / "out.pcap"
        plan = chain_plan(
            CHAIN, RTC, cpus, pcap_port(incoming, None, "in"), pcap_port(None, outgoing, "out")
        )
        plan["segments"][1]["fastpath"] = flows
        with start_engine(plan) as engine:
            reading = engine.settle(len(packets))
        return list(read_pcap(outgoing)), reading

    return through


def _without_choices(packets: list[bytes]) -> Counter[bytes]:
    """Port and checksum as NAT's random choice has them are blanked out; the rest must agree."""
    blanked = []
    for data in packets:
        frame = bytearray(data)
        if frame[12:14] == b"\x08\x00" and frame[26:30] == bytes(map(int, POOL.split("."))):
            l4 = 14 + (frame[14] & 15) * 4
            frame[l4 : l4 + 2] = b"\0\0"
            at = l4 + (16 if frame[23] == 6 else 6)
            frame[at : at + 2] = b"\0\0"
        blanked.append(bytes(frame))
    return as_set(blanked)


def _counts(reading: dict[str, Any]) -> dict[str, Any]:
    nfs = reading["segments"]["s0"][0]["nfs"]
    return {name: (nf["in"], nf["out"], nf["dropped"], nf["aborted"]) for name, nf in nfs.items()}


def test_same_packets_and_counts(
    push: Callable[[int], tuple[list[bytes], dict[str, Any]]],
) -> None:
    off, without = push(0)
    on, with_it = push(1024)

    assert _without_choices(on) == _without_choices(off)
    assert len(on) > 5000
    assert nf_imbalance(with_it) == {nf.name: 0 for nf in CHAIN}
    assert _counts(with_it) == _counts(without)
    assert "fastpath" not in without["segments"]["s0"][0]
    fast = with_it["segments"]["s0"][0]["fastpath"]
    assert fast["hits"] > 0.8 * len(on)
    assert fast["hits"] + fast["misses"] == with_it["segments"]["s0"][0]["in"]


def test_checksums_are_right(push: Callable[[int], tuple[list[bytes], dict[str, Any]]]) -> None:
    on, _ = push(1024)

    for data in set(on):
        packet = Ether(data)
        if IP not in packet or packet[IP].frag or packet[IP].flags.MF or packet.src == SRC_MAC:
            continue
        again = packet.copy()
        del again[IP].chksum
        for l4 in (TCP, UDP):
            if l4 in again and packet[IP].src == POOL and packet[l4].chksum:
                del again[l4].chksum
        assert bytes(Ether(bytes(again))[IP])[:40] == bytes(packet[IP])[:40]


def _more(count: Callable[[Engine], tuple[int, int]], engine: Engine, wanted: int) -> bool:
    return sum(count(engine)) > wanted


def test_an_update_holds_for_the_next_packet(
    start_engine: Callable[..., Engine], cpus: list[int]
) -> None:
    """Traffic runs all the time; after each change of the rules nothing of before comes through."""
    plan = chain_plan(CHAIN, RTC, cpus, None, None)
    source = {"frame_bytes": [64], "flows": 64, "stamp": False, "src_ip": "10.0.0.1", "dst_ip": VIP}
    plan["links"]["in"] = {"type": "source", "params": source}
    plan["links"]["out"] = {"type": "sink", "params": {}}
    plan["segments"][1]["fastpath"] = 1024

    def passed(engine: Engine) -> tuple[int, int]:
        acl = engine.read()["segments"]["s0"][0]["nfs"]["acl"]
        return acl["out"]["pass"], sum(acl["dropped"].values())

    with start_engine(plan) as engine:
        engine.call("start", sources={"in": {"rate_pps": 20000, "duration_s": 60}})
        engine.wait_for(lambda: passed(engine)[0] > 2000, "traffic")
        for default in ("deny", "permit") * 3:
            engine.call("update", nf="acl", op={"rules": [], "default": default})
            # What was counted at the instant of the answer belongs to the rules before, at most.
            before = passed(engine)
            wanted = sum(before) + 2000
            engine.wait_for(partial(_more, passed, engine, wanted), "more traffic")
            after = passed(engine)
            came, dropped = after[0] - before[0], after[1] - before[1]
            late = came if default == "deny" else dropped
            assert late <= 64, f"{late} packets after {default}"
        fast = engine.read()["segments"]["s0"][0]["fastpath"]
        assert fast["flushes"] == 6
        assert fast["hits"] > 10000
        engine.call("stop")
