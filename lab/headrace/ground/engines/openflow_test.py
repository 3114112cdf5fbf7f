# SPDX-License-Identifier: Apache-2.0
"""Port ranges under masks, rules and pools as OpenFlow's tables have them, and their counters."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.ground.engines.acl_rules import AclRule
from headrace.ground.engines.openflow import FlowTables, matches, pieces
from headrace.ground.engines.openflow_ends import _hosts, _sources
from headrace.ground.engines.openflow_stats import packets, polled

PORTS = st.integers(0, 65535)


@given(PORTS, PORTS, PORTS)
def test_pieces_are_the_range(one: int, other: int, port: int) -> None:
    low, high = sorted((one, other))
    masked = list(pieces(low, high))
    for probe in (port, low, high, low - 1, high + 1):
        if 0 <= probe <= 65535:
            hits = [value for value, mask in masked if probe & mask == value]
            assert len(hits) == (low <= probe <= high)


@pytest.mark.parametrize(
    ("low", "high", "count"), [(0, 65535, 1), (53, 53, 1), (1024, 65535, 6), (1, 65534, 30)]
)
def test_pieces_are_few(low: int, high: int, count: int) -> None:
    """Srinivasan et al. 1998: a range of w bits needs 2w - 2 at most."""
    assert len(list(pieces(low, high))) == count


def test_rules_match_as_the_acl_does() -> None:
    net = ipaddress.ip_network
    plain = AclRule("permit", src=net("10.0.0.0/8"), dst=net("0.0.0.0/0"), proto=17)
    assert list(matches(plain, swapped=False)) == ["ip,nw_proto=17,nw_src=10.0.0.0/8"]
    assert list(matches(plain, swapped=True)) == ["ip,nw_proto=17,nw_dst=10.0.0.0/8"]
    # Of no version of IP, and of all protocols with ports: never of a fragment.
    ports = AclRule("permit", dport=(53, 53))
    assert list(matches(ports, swapped=True)) == [
        f"{name}{version},nw_frag=no,{name}_src=0x35/0xffff"
        for version in ("", "6") for name in ("tcp", "udp", "sctp")
    ]  # fmt: skip
    assert list(matches(AclRule("permit", dport=(53, 53), proto=1), swapped=False)) == []


def test_dropped_packets_are_counted_by_name() -> None:
    tables = FlowTables()
    tables.enter("forward", 1)
    for _ in range(2):  # one counter, however many flows drop
        assert tables.drop("forward/acl/denied") == "set_field:1->reg0,goto_table:250"
    shown = "\n".join(
        f" cookie={cookie:#x}, duration=2.3s, table=0, n_packets={7 + i}, n_bytes=9, priority=1"
        for i, cookie in enumerate(tables.counted)
    )
    assert packets(shown, tables.counted) == {"forward/in": 7, "forward/acl/denied": 8}


def test_each_host_has_one_address_of_the_pool() -> None:
    params = {"pool": ["203.0.113.1", "203.0.113.2", "203.0.113.3"], "inside": ["10.0.0.0/30"]}
    hosts = list(_hosts(params))
    nets = [ipaddress.ip_network(match.removeprefix("nw_src=")) for match, _ in hosts]
    assert [str(one) for one in nets] == [f"10.0.0.{i}/32" for i in range(4)]
    sources = [dict(_sources(params, turn)) for _, turn in hosts]
    assert [one["udp"] for one in sources] == [*params["pool"], "203.0.113.1"]
    params["inside"] = ["10.0.0.2/32"]
    assert list(_hosts(params)) == [("nw_src=10.0.0.2/255.255.255.255", 2)]


def test_a_static_mapping_s_port_is_no_session_s() -> None:
    fixed = {"protocol": "udp", "outside": "203.0.113.1", "outside_port": 53}
    two = {"pool": ["203.0.113.1", "203.0.113.2"], "static": [fixed]}
    assert dict(_sources(two, 0))["udp,udp_src=53"] == "203.0.113.2"
    assert "udp,udp_src=53" not in dict(_sources(two, 1))
    one = {"pool": ["203.0.113.1"], "static": [fixed]}
    assert dict(_sources(one, 0))["udp,udp_src=53"] == "203.0.113.1:1024-65535"


# Open vSwitch 3.1
SHOW = """\
pmd thread numa_id 0 core_id 1:
  packets received: 1200
  packet recirculations: 600
  avg. datapath passes per packet: 1.50
  phwol hits: 0
  mfex opt hits: 0
  simple match hits: 0
  emc hits: 30
  smc hits: 2
  megaflow hits: 1749
  avg. subtable lookups per megaflow hit: 1.00
  miss with success upcall: 19
  miss with failed upcall: 0
  avg. packets per output batch: 1.00
  idle cycles: 3960983135 (99.07%)
  processing cycles: 37060265 (0.93%)
  avg cycles per packet: 3331702.83 (3998043400/1200)
main thread:
  packets received: 1
  packet recirculations: 0
"""


def test_pollers_are_summed() -> None:
    assert polled(SHOW) == {
        "received": 1200, "recirculated": 600, "simple-match-hits": 0, "emc-hits": 30,
        "smc-hits": 2, "megaflow-hits": 1749, "misses": 19, "failed-misses": 0,
        "idle-cycles": 3960983135, "cycles": 37060265,
    }  # fmt: skip
