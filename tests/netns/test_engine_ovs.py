# SPDX-License-Identifier: Apache-2.0
"""A chain on Open vSwitch with DPDK: proved to do the same as headrace's, measured, undone."""

from __future__ import annotations

from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.utils import PcapWriter

from headrace.ground.engines.translation import BALANCED, CHOSEN
from headrace.host.openvswitch import dpdk_lacking
from headrace.record.bundle import Bundle
from headrace.record.equivalence import equivalences
from support.engines import ROUTER, TRANSLATED, run, spec_of, whole
from support.lab import runtime_dir
from support.netns import Lan

pytestmark = [
    pytest.mark.beside,
    pytest.mark.needs_root,
    pytest.mark.skipif(dpdk_lacking() is not None, reason=str(dpdk_lacking())),
]


def spec(folder: Path, chain: str, kind: str, direction: str) -> str:
    """`vhost`: the tester listens at sockets of this folder, the switch has virtio_user ports."""
    text = spec_of(chain, "af_xdp" if kind == "vhost" else kind, direction, "ovs-dpdk")
    text = text.replace("engine:", "ovs: {expand: true}, engine:")
    if kind == "vhost":
        for name, there in (("left", "vhost"), ("in", "virtio_user"), ("right", "vhost"),
                            ("out", "virtio_user")):  # fmt: skip
            wire = "l" if name in ("left", "in") else "r"
            text = text.replace(f"af_xdp:hr{name}", f"{there}:{folder}/{wire}")
    return text


DENIED = """
  - acl: {rules: [{action: deny, sport: [1536, 2046]}], default: permit, reverse: swap}
  - l2fwd
"""


def capture(file: Path) -> str:
    """A workload of TCP and UDP packets, some of which DENIED denies, of IPv4 and IPv6."""
    with PcapWriter(str(file), nano=False) as to:
        for i in range(60):
            ip = IPv6(src="2001:db8::1", dst="2001:db8::2") if i % 5 == 0 else IP(
                src=f"10.0.{i}.1", dst="10.1.0.1", ttl=64 + i)  # fmt: skip
            l4 = TCP(sport=1500 + 10 * i, dport=80) if i % 2 else UDP(sport=1500 + 10 * i, dport=53)
            to.write(Ether(src=f"02:00:00:00:01:{i:02x}", dst="02:00:00:00:00:01") / ip / l4)
    return f"{{kind: pcap, file: {file}, direction: both}}"


@pytest.mark.parametrize(
    ("kind", "chain", "direction"),
    [("af_xdp", ROUTER, "forward"), ("vhost", DENIED, "both")],
)
def test_rules_and_routes(
    lan: Lan, engine_binary: Path, tmp_path: Path, kind: str, chain: str, direction: str
) -> None:
    """The same packets out, of a capture, too; as many counted in as the tester sent, as many
    dropped by policy as headrace dropped, and as many looked up as came."""
    text = spec(runtime_dir(tmp_path), chain, kind, direction)
    if chain == DENIED:
        generated = "{direction: both, headers: {dst_port: 53}}"
        assert generated in text
        text = text.replace(generated, capture(tmp_path / "own.pcap"))
    run(lan, tmp_path, engine_binary, text)
    [verdict] = equivalences(tmp_path / "b")
    assert (verdict.verdict, verdict.engine) == ("the same", "ovs-dpdk"), verdict
    assert 0 < verdict.came <= verdict.own + verdict.probes
    every = Bundle(tmp_path / "b").trials()
    trials = [one for one in every if one.direction == "forward"]
    assert [one.execution for one in trials] == ["rtc", "ovs-dpdk"]
    assert all(whole(one, 600) for one in trials)
    differ = abs(trials[1].policy_dropped - trials[0].policy_dropped)
    assert differ <= abs(trials[1].sent - trials[0].sent)
    assert (0 < trials[0].policy_dropped < 600) == (chain == DENIED)
    assert trials[1].counters is not None
    dut = trials[1].counters.dut
    sent = next(
        one.sent for one in every if (one.execution, one.direction) == ("ovs-dpdk", direction)
    )
    assert dut["forward/in"] == trials[1].sent
    assert dut["received"] == sent
    counters = ("simple-match-hits", "emc-hits", "smc-hits", "megaflow-hits", "misses")
    assert sum(dut[name] for name in counters) == sent
    assert dut["cycles"] > 0


def test_translation(lan: Lan, engine_binary: Path, tmp_path: Path) -> None:
    """By the connection tracker and select groups: chosen ports and backends may differ, and
    nothing else; answers to each engine's own come back the same."""
    run(lan, tmp_path, engine_binary, spec(runtime_dir(tmp_path), TRANSLATED, "vhost", "both"))
    [verdict] = equivalences(tmp_path / "b")
    assert verdict.verdict == "the same", verdict
    # Some frames have a wrong checksum, and are dropped by the tracker.
    assert verdict.came > verdict.came_engine > verdict.own
    assert verdict.answers > 20
    assert all(any(text in one for one in verdict.declared) for text in (CHOSEN, BALANCED))
    trials = [one for one in Bundle(tmp_path / "b").trials() if one.direction == "both"]
    assert len(trials) == 2 and all(whole(one, 1200) for one in trials)


FAULT = """
from headrace.ground.engines import openflow
whole = openflow.acl_rules
openflow.acl_rules = lambda params, doc: whole(params, doc)[:-1]
"""


def test_a_rule_that_is_missing_is_found(lan: Lan, engine_binary: Path, tmp_path: Path) -> None:
    """The engine that has it not has no figures, but a diff."""
    text = spec(runtime_dir(tmp_path), ROUTER, "vhost", "forward")
    run(lan, tmp_path, engine_binary, text, FAULT)
    [verdict] = equivalences(tmp_path / "b")
    assert (verdict.engine, verdict.surplus, verdict.missing > 0) == ("ovs-dpdk", 0, True)
    assert " > 10." in verdict.first_missing[0].words
    assert {one.execution for one in Bundle(tmp_path / "b").trials()} == {"rtc"}
