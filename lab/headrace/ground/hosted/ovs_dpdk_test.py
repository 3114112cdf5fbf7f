# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from headrace.engine.counts_testdata import counts
from headrace.engine.link_counts import DeviceCounts, PortCounts
from headrace.ground.hosted.arrangement import arrange
from headrace.ground.hosted.ovs_dpdk import as_capped, counted, flows, memory_mb, settings
from headrace.ground.hosted.parts import RUN, WRITABLE
from headrace.ground.hosted.ports import OnSwitch, SwitchPort
from headrace.ground.hosted.switch import SwitchCounts, as_port, with_counts
from headrace.spec import document
from headrace.spec.study import expand

# Open vSwitch 3.1
SHOWN = """\
netdev@ovs-netdev:
  lookups: hit:3 missed:1 lost:0
  flows: 1
  port 0: ovs-netdev (tap)
    RX packets:0 errors:0 dropped:0 overruns:0 frame:0
    TX packets:0 errors:0 dropped:0 aborted:0 carrier:0 collisions:0
    RX bytes:0  TX bytes:0
  port 2: p1 (dpdkvhostuserclient: configured_rx_queues=1, configured_tx_queues=1)
    RX packets:1008029 errors:0 dropped:7 overruns:? frame:?
    TX packets:12 errors:? dropped:3 aborted:? carrier:? collisions:?
    RX bytes:1526155906 (1.4 GiB)  TX bytes:0
  port 3: p2 (dpdkvhostuserclient: configured_rx_queues=1)
    RX packets:? errors:? dropped:? overruns:? frame:?
"""


def on(ports: int, shared: bool = False) -> OnSwitch:
    ends = (SwitchPort("", i, f"wire{i}", f"02:00:00:00:00:{i:02x}", f"s{i}") for i in range(ports))
    return OnSwitch(
        "ovs-dpdk", tuple(ends), slots=1024, wire=4096, lcore=2, shared=shared, times=True
    )


@pytest.mark.parametrize(
    ("kind", "network", "below"),
    [
        ("container", "ovs-dpdk", f"{WRITABLE}/"),
        ("process", "ovs-dpdk", ""),
        ("container", "bridge", ""),
    ],
)
def test_a_container_awaits_the_switch_where_it_may_write(
    kind: str, network: str, below: str
) -> None:
    """Its folder is read-only there but for one in it: each such run ended as the socket could not
    be bound."""
    text = f"""
name: awaited
chain: [l2fwd]
deployment: {{hosting: {kind}, network: {network}}}
workload: {{direction: both}}
"""
    doc = document.parse(text, Path("awaited.yaml"))
    [one] = expand(doc)
    [[vnf]] = arrange(one, doc, [0, 1, 2]).chains
    assert [face.socket for face in vnf.faces] == [
        f"{RUN}/{vnf.folder}/{below}{name}.sock" for name in ("left", "right")
    ]


def test_counters_of_ports() -> None:
    assert counted(SHOWN)["p1"] == SwitchCounts(1008029, 12, 7, 3)
    assert "p2" not in counted(SHOWN)


def test_what_the_switch_had_no_room_for_is_missed() -> None:
    read = counts({"links": {"vf": {"type": "port"}, "other": {"type": "port"}}})
    switch = {
        ("vnf1.1", "vf"): SwitchCounts(10, 20, 0, 3),
        ("vnf2.1", "other"): SwitchCounts(9, 9, 9, 9),
    }
    seen = with_counts(read, "vnf1.1", switch).links
    port = seen["vf"]
    assert isinstance(port, PortCounts)
    assert (port.rx_missed, port.tx_errors) == (3, 0)
    assert port.device == DeviceCounts(rx_packets=20, tx_packets=10)
    assert seen["other"] == read.links["other"]


def test_what_the_policer_dropped_had_been_sent() -> None:
    """Open vSwitch counts it apart from what it received."""
    switch = {("vnf1.1", "vf"): as_capped(counted(SHOWN)["p1"])}
    read = counts({"links": {"vf": {"type": "port"}}})
    port = with_counts(read, "vnf1.1", switch).links["vf"]
    assert isinstance(port, PortCounts) and port.device
    assert (port.device.tx_packets, port.tx_capped, port.tx_errors) == (1008029 + 7, 7, 0)


def test_a_port_of_who_counts_for_nobody_is_the_switchs() -> None:
    port = as_port("02:00:00:00:00:01", SwitchCounts(10, 20, 1, 2, 3))
    assert (port.rx_packets, port.tx_packets, port.tx_capped) == (20, 10, 3)
    assert (port.rx_missed, port.tx_errors) == (2, 1)


def test_frames_go_by_address() -> None:
    assert flows(on(2).ports) == [
        "dl_dst=02:00:00:00:00:00,actions=output:1",
        "dl_dst=02:00:00:00:00:01,actions=output:2",
    ]


def test_settings() -> None:
    few = " ".join(settings(on(3), "x", huge=False))
    many = " ".join(settings(on(64, shared=True), "x", huge=True))
    assert "pmd-cpu-mask=0x4" in few and "per-port-memory=true" in few
    assert "pmd-maxsleep=0" in few and "pmd-maxsleep=0" not in many
    assert "per-port-memory=false" in many and "--file-prefix=x" in many
    assert f"-m {memory_mb(3)} " in few and "--no-huge" in few and "socket-mem" not in few
    assert str(memory_mb(64)) in many and "--in-memory" in many and "--no-huge" not in many
