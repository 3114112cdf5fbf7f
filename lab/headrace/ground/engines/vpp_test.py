# SPDX-License-Identifier: Apache-2.0
"""Functions as lines of VPP's command line, what it cannot be told, and what it prints of its
counters."""

from __future__ import annotations

import ipaddress
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import BadInput
from headrace.ground.engines.acl_rules import AclRule
from headrace.ground.engines.adapter import Work
from headrace.ground.engines.frames import framed, ipv4
from headrace.ground.engines.vpp import no_vpp, vpp
from headrace.ground.engines.vpp_check import check_chain
from headrace.ground.engines.vpp_console import VppConsole, errors, interfaces, nodes
from headrace.ground.engines.vpp_differences import differences
from headrace.ground.engines.vpp_lines import VppLines, _matches, vpp_lines
from headrace.spec import document
from headrace.spec.study import expand

NET = ipaddress.ip_network
MAC = "02:00:00:00:00:01"
DEFAULT = {"l3fwd": {"routes": [{"prefix": "0.0.0.0/0"}]}}


MEMIF = {"left": "memif:/run/l", "in": "memif:/run/l", "right": "memif:/run/r",
         "out": "memif:/run/r"}  # fmt: skip
CABLES = {name: f"af_packet:hr{name}" for name in MEMIF}


def work(
    chain: list[Any], direction: str = "forward", devices: dict[str, str] = MEMIF, **vpp: Any
) -> Work:
    spec = {
        "name": "v", "chain": chain, "workload": {"direction": direction},
        "testbed": {
            "ports": {name: {"device": device} for name, device in devices.items()},
            "tester": ["left", "right"], "chain": ["in", "out"],
        },
        "deployment": {"engine": ["vpp"], "vpp": vpp},
    }  # fmt: skip
    doc = document.parse(json.dumps(spec), Path("v.yaml"))
    [experiment] = expand(doc)
    bed = experiment.study.testbed
    assert bed is not None
    enter, leave = (bed.ports[name].to for name in ("in", "out"))
    ports = {"forward": (enter, leave), "reverse": (leave, enter)}
    if direction == "forward":
        del ports["reverse"]
    return Work(experiment, doc, ports, (1,), (0,))  # type: ignore[arg-type]


def translated(
    chain: list[Any], direction: str = "forward", devices: dict[str, str] = MEMIF, **vpp: Any
) -> VppLines:
    one = work(chain, direction, devices, **vpp)
    check_chain(one)
    bed = one.experiment.study.testbed
    assert bed is not None
    return vpp_lines(one, tuple((name, bed.ports[name]) for name in bed.chain))


def about(lines: VppLines, *starts: str) -> list[str]:
    return [line for line in lines.lines if line.startswith(starts)]


def test_rules() -> None:
    """Ports need a protocol that has them, and addresses of one version of IP."""
    plain = AclRule("permit", src=NET("10.0.0.0/8"), proto=47)
    assert list(_matches(plain, swapped=False)) == ["src 10.0.0.0/8 dst 0.0.0.0/0 proto 47"]
    assert list(_matches(plain, swapped=True)) == ["src 0.0.0.0/0 dst 10.0.0.0/8 proto 47"]
    ports = AclRule("deny", dst=NET("2001:db8::/32"), sport=(1024, 65535), dport=(53, 53))
    assert list(_matches(ports, swapped=False)) == [
        f"src ::/0 dst 2001:db8::/32 proto {proto} sport 1024-65535 dport 53-53"
        for proto in (6, 17)
    ]
    assert list(_matches(ports, swapped=True)) == [
        f"src 2001:db8::/32 dst ::/0 proto {proto} sport 53-53 dport 1024-65535"
        for proto in (6, 17)
    ]
    both = AclRule("permit", proto=17)
    assert list(_matches(both, swapped=False)) == [
        "src 0.0.0.0/0 dst 0.0.0.0/0 proto 17", "src ::/0 dst ::/0 proto 17",
    ]  # fmt: skip


RULES = {"acl": {"rules": [{"action": "deny", "src": "10.0.0.0/8"}], "default": "permit"}}


def test_an_acl_is_at_its_side_of_the_router() -> None:
    """So that the counters of both directions are told apart, too."""
    first = translated([RULES, DEFAULT], "both")
    assert about(first, "set acl-plugin interface") == [
        "set acl-plugin interface memif1/0 input acl 0",
        "set acl-plugin interface memif1/0 output acl 1",
    ]
    assert first.counted["acl-plugin-out-ip4-fa", "ACL deny packets"] == "reverse/acl/denied"
    last = translated([DEFAULT, RULES], "both")
    assert about(last, "set acl-plugin interface") == [
        "set acl-plugin interface memif2/0 output acl 0",
        "set acl-plugin interface memif2/0 input acl 1",
    ]
    assert last.counted["acl-plugin-out-ip4-fa", "ACL deny packets"] == "forward/acl/denied"
    rules = about(translated([RULES, "l2fwd"], reflect=True), "set acl-plugin acl")
    assert rules == [
        "set acl-plugin acl deny src 10.0.0.0/8 dst 0.0.0.0/0, "
        "permit+reflect src 0.0.0.0/0 dst 0.0.0.0/0, permit+reflect src ::/0 dst ::/0"
    ]


def test_each_side_of_a_router_has_its_routes() -> None:
    hops = [{}, {"dst_mac": "02:00:00:00:00:0a"}]
    router = {"l3fwd": {"next_hops": hops, "routes": [{"prefix": "10.0.0.0/8", "next_hop": 1}]}}
    lines = translated([router], "both")
    assert about(lines, "ip route add 10") == [
        "ip route add 10.0.0.0/8 via 100.64.0.2 memif2/0",
        "ip route add 10.0.0.0/8 table 1 via 100.64.0.2 memif1/0",
    ]
    assert about(lines, "set ip neighbor static memif1/0") == [
        "set ip neighbor static memif1/0 100.64.0.1 02:00:00:00:00:02 no-fib-entry",
        "set ip neighbor static memif1/0 100.64.0.2 02:00:00:00:00:0a no-fib-entry",
    ]
    assert lines.plugins == ("memif_plugin.so",)


def test_ports_take_what_is_addressed_to_them() -> None:
    """Frames leave with the router's MAC address."""
    [enter, leave] = about(translated([DEFAULT]), "create interface memif")
    assert enter.endswith("hw-addr 02:00:00:00:02:01 no-zero-copy")
    assert leave.endswith(f"hw-addr {MAC} no-zero-copy")
    lines = translated([DEFAULT], "both")
    ports = about(lines, "create interface memif")
    assert all(one.endswith(f"hw-addr {MAC} no-zero-copy") for one in ports)
    assert about(lines, "set interface secondary") == [
        f"set interface secondary-mac-address memif{i}/0 02:00:00:00:02:01 add" for i in (1, 2)
    ]


def test_interfaces_of_the_kernel() -> None:
    """No offload header is in front of frames, as VPP writes none at an interface without any."""
    lines = translated([DEFAULT], devices=CABLES)
    assert about(lines, "create", "set interface rx-mode") == [
        "create host-interface name hrin num-rx-queues 1 num-tx-queues 1 "
        "hw-addr 02:00:00:00:02:01 cksum-gso-disable",
        "set interface rx-mode host-hrin polling",
        f"create host-interface name hrout num-rx-queues 1 num-tx-queues 1 hw-addr {MAC} "
        "cksum-gso-disable",
        "set interface rx-mode host-hrout polling",
    ]
    assert lines.plugins == ("af_packet_plugin.so",)
    [route] = about(lines, "ip route add 0.0.0.0/0")
    assert route.endswith(" via 100.64.0.1 host-hrout")
    mixed = MEMIF | {"right": "af_packet:r", "out": "af_packet:o"}
    with pytest.raises(BadInput, match="two kinds; allowed: both memif, or both af_packet"):
        check_chain(work([DEFAULT], devices=mixed))


def test_what_translates() -> None:
    nat = {"nat": {"pool": ["203.0.113.1"], "inside": ["10.1.2.3/8"], "udp_timeout_s": 60}}
    lines = translated([nat, DEFAULT])
    assert about(lines, "nat44 plugin", "set nat", "nat44 add", "set interface nat44") == [
        "nat44 plugin enable sessions 131072", "set nat timeout udp 60",
        "nat44 add address 203.0.113.1", "set interface nat44 in memif1/0 out memif2/0",
    ]  # fmt: skip
    vip = {
        "address": "192.0.2.1",
        "port": 80,
        "protocol": "udp",
        "backends": [{"address": "10.0.0.1", "count": 2}, {"address": "10.0.1.1", "weight": 3}],
    }
    lines = translated([{"lb": {"vips": [vip], "flows": 1000}}, DEFAULT])
    assert about(lines, "lb ") == [
        "lb conf buckets 256 timeout 300",
        "lb vip 192.0.2.1/32 protocol udp port 80 encap nat4 type clusterip target_port 80 "
        "new_len 65536",
        "lb as 192.0.2.1/32 protocol udp port 80 10.0.0.1 10.0.0.2 weight 1",
        "lb as 192.0.2.1/32 protocol udp port 80 10.0.1.1 weight 3",
    ]


NAT = {"nat": {"pool": ["203.0.113.1"]}}


@pytest.mark.parametrize(
    ("chain", "why"),
    [
        ([NAT], "chain[0].nat: vpp: routes what it translates"),
        ([DEFAULT, NAT], "translates before it routes"),
        ([DEFAULT, "l2fwd"], "its router sets MAC addresses"),
        ([RULES, {"acl": {"name": "b"}}], "a second acl has no place"),
        (
            [{"acl": {"fragments": "deny"}}],
            "fragments: got 'deny'; vpp: has no rules for fragments alone",
        ),
        ([{"nat": {**NAT["nat"], "seed": 7}}, DEFAULT], "vpp: draws ports by itself"),
        ([{"nat": {**NAT["nat"], "udp_timeout_s": 0.5}}, DEFAULT], "has whole seconds"),
        (
            [{"lb": {"vips": [{"address": "192.0.2.1", "port": 80}]}}, DEFAULT],
            "vips: vpp: 192.0.2.1: its nat4 translates UDP of one port",
        ),
        (
            [{"l3fwd": {"next_hops": [{}, {"src_mac": "02:00:00:00:00:0b"}]}}],
            "next_hops: vpp: a port has one MAC address",
        ),
        (["dpi"], "cannot express dpi"),
    ],
)
def test_what_is_refused(chain: list[Any], why: str) -> None:
    with pytest.raises(BadInput) as refusal:
        check_chain(work(chain))
    assert why in str(refusal.value)


def test_a_translator_lets_in_answers_only() -> None:
    with pytest.raises(BadInput, match=r"chain\[0\]\.nat: vpp: lets in what sessions get back"):
        check_chain(work([NAT, DEFAULT], "both"))
    vip = {"address": "192.0.2.1", "port": 80, "protocol": "udp", "backends": []}
    with pytest.raises(BadInput, match=r"chain\[0\]\.lb: vpp: lets in what backends say"):
        check_chain(work([{"lb": {"vips": [vip]}}, DEFAULT], "both"))


def test_sessions_permit_answers_too() -> None:
    with pytest.raises(BadInput, match=r"reverse: got 'match'; vpp: with vpp\.reflect answers"):
        check_chain(work([RULES, "l2fwd"], "both", reflect=True))
    check_chain(work([{"acl": {**RULES["acl"], "reverse": "permit"}}], "both", reflect=True))


def test_frames_that_are_not_given() -> None:
    """A router and a nat are given only what VPP does as they do."""

    def given(frame: bytes) -> bool:
        asked = [one.given for one in declared if one.given is not None]
        return all(one("forward", frame) for one in asked)

    mac = bytes.fromhex("020000000001")
    syn = b"\0\7\0\7" + bytes(8) + b"\x50\x02" + bytes(6)
    chain = [{"nat": {**NAT["nat"], "inside": ["10.0.0.0/8"]}}, DEFAULT]
    declared = differences(work(chain))
    assert given(framed(ipv4("10.0.0.1", "192.0.2.1", 17, bytes(8)), mac, mac))
    assert given(framed(ipv4("10.0.0.1", "192.0.2.1", 6, syn), mac, mac))
    for proto, data in ((47, syn), (6, syn.replace(b"\x50\x02", b"\x50\x10"))):
        assert not given(framed(ipv4("10.0.0.1", "192.0.2.1", proto, data), mac, mac))
    assert not given(framed(ipv4("10.0.0.1", "192.0.2.1", 17, bytes(8)), b"\xff" * 6, mac))
    assert not given(framed(ipv4("192.0.2.7", "192.0.2.1", 17, bytes(8)), mac, mac))
    back = framed(ipv4("192.0.2.1", "203.0.113.1", 17, bytes(8)), mac, mac)
    assert not given(back)
    strange = framed(ipv4("127.0.0.1", "192.0.2.1", 17, bytes(8)), mac, mac)
    assert None in [one.without(strange) for one in declared]
    assert back in [one.without(back) for one in declared]


SHOWN = """Thread 0 vpp_main (lcore 0)
Time 1.0, 10 sec internal node vector rate 0.00 loops/sec 100.00
  vector rates in 0.0000e0, out 0.0000e0, drop 0.0000e0, punt 0.0000e0
             Name                 State         Calls          Vectors        Suspends      Packet-Clocks   Vectors/Call
unix-epoll-input                 polling              7               0               0          9.99e3            0.00
---------------
Thread 1 vpp_wk_0 (lcore 1)
Time 1.0, 10 sec internal node vector rate 2.00 loops/sec 100.00
  vector rates in 2.0000e2, out 2.0000e2, drop 0.0000e0, punt 0.0000e0
             Name                 State         Calls          Vectors        Suspends      Packet-Clocks   Vectors/Call
acl-plugin-in-ip4-fa             active              100             200               0          4.00e1            2.00
ethernet-input                   active              100             200               0          1.50e1            2.00
memif-input                      polling            1100             200               0          3.00e2             .18
unix-epoll-input                 polling               2               0               0          7.00e2            0.00
     Count                  Node                              Reason               Severity
        30    acl-plugin-in-ip4-fa              ACL deny packets            error
       170    acl-plugin-in-ip4-fa             ACL permit packets           error
         2    ip4-input                       ip4 ttl <= 1                 error
              Name               Idx    State  MTU (L3/IP4/IP6/MPLS)     Counter          Count
local0                            0     down          0/0/0/0
memif1/0                          1      up          9000/0/0/0     rx packets                   200
                                                                    rx bytes                   12000
                                                                    drops                         32
                                                                    ip4                          200
memif2/0                          2      up          9000/0/0/0     tx packets                   168
                                                                    tx bytes                   10080
"""  # noqa: E501


def test_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cycles of a worker's nodes; polls that found nothing cost 50 each."""
    did = nodes(SHOWN)
    assert (did["memif-input"].calls, did["memif-input"].cycles) == (1100, 60000)
    assert did["unix-epoll-input"].cycles == 1400
    assert errors(SHOWN)["ip4-input", "ip4 ttl <= 1"] == 2
    ports = {"memif1/0": "in", "memif2/0": "out"}
    shown = interfaces(SHOWN, ports)
    assert (shown["in/rx"], shown["in/drops"], shown["out/tx"], shown["out/rx"]) == (
        200,
        32,
        168,
        0,
    )
    counted = {("acl-plugin-in-ip4-fa", "ACL deny packets"): "forward/acl/denied"}
    console = VppConsole(Path(), Path(), Path(), (), (), ports, counted, _poll=50.0)
    monkeypatch.setattr(VppConsole, "_ask", lambda *_: SHOWN)
    assert console.counters()["cycles"] == 8000 + 3000 + 10000
    again = console.counters()
    assert (again["cycles"], again["idle-cycles"]) == (2 * 21000, 2 * 50000)
    assert again["memif-input/calls"] == 200
    assert (again["forward/acl/denied"], again["ip4-input/ip4 ttl <= 1"]) == (30, 2)
    packets = SHOWN.replace("memif-input    ", "af-packet-input")
    monkeypatch.setattr(VppConsole, "_ask", lambda *_: packets)
    polled = VppConsole(Path(), Path(), Path(), (), (), ports, counted, _poll=50.0).counters()
    assert (polled["cycles"], polled["idle-cycles"]) == (21000, 50000)


def test_an_input_that_counts_no_vectors_has_its_cycles_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its mean is of calls then: 1100 of 60, of which 1000 found nothing."""
    shown = SHOWN.replace(
        "1100             200               0          3.00e2             .18",
        "1100               0               0          6.00e1            0.00",
    )
    assert shown != SHOWN
    monkeypatch.setattr(VppConsole, "_ask", lambda *_: shown)
    did = VppConsole(Path(), Path(), Path(), (), (), {}, {}, _poll=50.0).counters()
    assert (did["cycles"], did["idle-cycles"]) == (8000 + 3000 + 16000, 50000)


def test_a_socket_that_nobody_listens_at_is_not_asked_yet(tmp_path: Path) -> None:
    """A slow start ended with `connect: Connection refused`."""
    path = tmp_path / "cli.sock"
    console = VppConsole(Path("/nowhere/vppctl"), path, tmp_path / "lines", (), (), {}, {})
    assert not console.forwards()
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(path))
        assert not console.forwards()


def test_a_point_without_a_vpp_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that its spec names is looked at when it is checked."""
    monkeypatch.delenv("HEADRACE_VPP", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert no_vpp({}) == (
        "vpp: not found; name its program in deployment.vpp.path or HEADRACE_VPP, or put it on PATH"
    )
    assert no_vpp({"deployment": {"vpp": {"path": "/opt/vpp"}}}) is None
    with pytest.raises(BadInput, match=r"deployment\.vpp\.path: got '/nowhere/vpp'; no program"):
        vpp(work(["l2fwd"], path="/nowhere/vpp"))
