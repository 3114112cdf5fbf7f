# SPDX-License-Identifier: Apache-2.0
"""Addresses and routes: every layout is walked as a packet would, hop by hop, there and back."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from headrace.errors import BadInput
from headrace.graph.count import GraphCounter
from headrace.graph.enumerate import Graph, parse, stream
from headrace.graph.knowledge import load
from headrace.graph.problem import compile_problem, resolve
from headrace.ground.appliances.addressing import ContainerLayout, ContainerNode, lay_out
from headrace.ground.catalogue import VnfDefinition, catalogue

DEFINITIONS = {name: entry.definition for name, entry in catalogue().items()}


def row(*vnfs: str, instances: dict[str, int] | None = None, servers: int = 2) -> ContainerLayout:
    graph: Graph = {}
    trunk: str | None = None
    for vnf in vnfs:
        graph[vnf] = trunk
        trunk = trunk if DEFINITIONS[vnf].kind == "leaf" else vnf
    return lay_out(graph, {v: v for v in graph}, DEFINITIONS, instances or {}, servers)


def owner(layout: ContainerLayout, address: str) -> list[ContainerNode]:
    return [
        n
        for n in layout.nodes
        if address == n.service or address in [i.address for i in n.interfaces]
    ]


def next_hops(layout: ContainerLayout, node: ContainerNode, address: str) -> list[str]:
    """As the kernel would: what is on a LAN directly, else the longest prefix."""
    target = ip_address(address)
    for interface in node.interfaces:
        if target in ip_network(f"{interface.address}/24", strict=False):
            return [address]
    routes = [r for r in node.routes if target in ip_network(r.destination)]
    assert routes, f"{node.name} has no route to {address}"
    return list(max(routes, key=lambda r: ip_network(r.destination).prefixlen).via)


def walk(layout: ContainerLayout, node: ContainerNode, address: str) -> list[str]:
    """Names of the nodes that a packet passes, by the first of several ways."""
    passed: list[str] = []
    for _ in range(20):
        if node in owner(layout, address):
            return passed
        hop = next_hops(layout, node, address)[0]
        neighbours = {i.lan for i in node.interfaces}
        node = next(
            n for n in owner(layout, hop) for i in n.interfaces
            if i.address == hop and i.lan in neighbours
        )  # fmt: skip
        passed.append(node.name)
    raise AssertionError("a loop")


def test_empty_chain() -> None:
    layout = row()
    assert layout.target == "198.18.0.220"
    assert walk(layout, layout.client, layout.target) == ["server1"]


def test_whole_chain_is_passed_in_order() -> None:
    layout = row("nat", "ids", "ip-firewall", "l7-cache", "l4-lb")
    nodes = {n.name: n for n in layout.nodes}
    assert walk(layout, layout.client, layout.target) == ["nat", "ip-firewall", "l7-cache"]
    assert nodes["l7-cache"].upstreams == (nodes["l4-lb"].service,)
    assert walk(layout, nodes["l7-cache"], nodes["l7-cache"].upstreams[0]) == ["l4-lb"]
    assert nodes["l4-lb"].upstreams == ("198.18.4.220", "198.18.4.221")
    assert walk(layout, nodes["l4-lb"], "198.18.4.220") == ["server1"]
    assert nodes["ids"].mirrors == (("nat", "down"),)


def test_answers_go_back_the_same_way() -> None:
    layout = row("router", "ip-firewall", "traffic-shaper")
    server = next(n for n in layout.nodes if n.kind == "server")
    client = layout.client.interfaces[0].address
    assert walk(layout, server, client) == ["traffic-shaper", "ip-firewall", "router", "client"]


def test_nothing_is_known_in_front_of_a_translation() -> None:
    layout = row("router", "nat", "ip-firewall")
    server = next(n for n in layout.nodes if n.kind == "server")
    nat = next(n for n in layout.nodes if n.name == "nat")
    with pytest.raises(AssertionError, match="no route"):
        walk(layout, server, layout.client.interfaces[0].address)
    assert walk(layout, server, nat.interface("down").address) == ["ip-firewall", "nat"]


def test_scale_out_shares_by_flow_or_by_balancer() -> None:
    layout = row("nat", "l7-cache", instances={"l7-cache": 3})
    nat = next(n for n in layout.nodes if n.name == "nat")
    assert len(next_hops(layout, nat, layout.target)) == 3
    layout = row("l4-lb", "l7-cache", instances={"l7-cache": 2})
    balancer = next(n for n in layout.nodes if n.name == "l4-lb")
    caches = [n for n in layout.nodes if n.vnf == "l7-cache"]
    assert balancer.upstreams == tuple(n.interface("up").address for n in caches)


def test_pair_has_a_network_between() -> None:
    layout = row("vpn", "nat")
    near, far = (next(n for n in layout.nodes if n.name == f"vpn.{r}") for r in ("near", "far"))
    assert near.peer == far.interface("up").address
    assert far.peer == near.interface("down").address
    assert near.interface("down").lan == far.interface("up").lan
    assert walk(layout, layout.client, layout.target)[:3] == ["vpn.near", "vpn.far", "nat"]


def test_every_enterprise_graph_lays_out() -> None:
    knowledge = load()
    wanted, _ = resolve(["ids", "nat", "l4-lb", "l7-cache", "ip-firewall"], knowledge)
    for text in stream(GraphCounter(compile_problem(wanted, knowledge))):
        graph = parse(text)
        layout = lay_out(graph, {v: v for v in graph}, DEFINITIONS, {}, 2)
        addresses = [i.address for n in layout.nodes for i in n.interfaces]
        assert len(set(addresses)) == len(addresses)
        node, passed = layout.client, set[str]()
        target = layout.target
        while node.kind != "server":
            passed |= set(walk(layout, node, target))
            node = owner(layout, target)[0]
            target = node.upstreams[0] if node.upstreams else target
        assert {n.name for n in layout.of_kind("routed", "proxy")} <= passed


def test_what_cannot_be_deployed() -> None:
    with pytest.raises(BadInput, match="one way on"):
        graph: Graph = {"nat": None, "router": "nat", "ip-firewall": "nat"}
        lay_out(graph, {v: v for v in graph}, DEFINITIONS, {}, 1)
    with pytest.raises(BadInput, match="parallel neighbours"):
        lay_out({"a|b": None}, {"a|b": "router"}, DEFINITIONS, {}, 1)
    with pytest.raises(BadInput, match=r"vnfs\.vpn\.instances: got 2"):
        row("vpn", instances={"vpn": 2})
    with pytest.raises(BadInput, match=r"vnfs\.nat\.instances: got 2; headrace beside it"):
        row("headrace", "nat", instances={"nat": 2})
    assert row("nat", "headrace", instances={"nat": 2})  # which has an address for each


def appliance(**fields: object) -> VnfDefinition:
    given = {"name": "mine", "title": "", "category": "unclassified", "kind": "routed", **fields}
    return VnfDefinition.model_validate(given)


def test_an_appliances_own_addresses_and_ports() -> None:
    own = appliance(
        addresses={"up": "10.1.2.3", "down": "192.0.2.9"}, ports={"up": "eth0", "down": "lan"}
    )
    definitions = {**DEFINITIONS, "mine": own}
    graph: Graph = {"router": None, "mine": "router"}
    layout = lay_out(graph, {v: v for v in graph}, definitions, {}, 1)
    node = next(n for n in layout.nodes if n.name == "mine")
    assert [(i.address, i.device) for i in node.interfaces] == [
        ("10.1.2.3", "eth0"), ("192.0.2.9", "lan"),
    ]  # fmt: skip
    router = next(n for n in layout.nodes if n.name == "router")
    assert router.interface("down").address.startswith("10.1.2.")
    assert layout.target.startswith("192.0.2.")
    assert walk(layout, layout.client, layout.target) == ["router", "mine", "server1"]
    server = next(n for n in layout.nodes if n.kind == "server")
    assert walk(layout, server, layout.client.interfaces[0].address)[:2] == ["mine", "router"]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({"down": "10.0.0.5"}, {"up": "10.0.1.5"}, "made that network 10.0.0.0/24"),
        ({"down": "10.0.0.5"}, {"up": "10.0.0.5"}, "a has it on the same network"),
        ({"up": "10.0.0.5", "down": "10.0.0.6"}, {}, "another network of 10.0.0.0/24"),
        ({"up": "198.18.0.10"}, {}, "client has it on the same network"),
        ({"down": "198.18.5.5"}, {"down": "198.18.5.6"}, "another network"),
        ({"up": "198.18.2.5"}, {}, "the network 198.18.2.0/24 is behind another VNF"),
    ],
)
def test_address_clashes_are_named(
    first: dict[str, str], second: dict[str, str], words: str
) -> None:
    definitions = {
        "a": appliance(name="a", addresses=first), "b": appliance(name="b", addresses=second)
    }  # fmt: skip
    with pytest.raises(BadInput, match="address clash") as raised:
        lay_out({"a": None, "b": "a"}, {"a": "a", "b": "b"}, definitions, {}, 1)
    assert words in str(raised.value)


def test_the_tester_has_an_end_on_either_side() -> None:
    graph: Graph = {"nat": None, "router": "nat"}
    layout = lay_out(graph, {v: v for v in graph}, DEFINITIONS, {}, 1, tester=True)
    tester = layout.of_kind("tester")[0]
    assert [i.lan for i in tester.interfaces] == [0, 2]
    assert tester not in layout.containers
    assert walk(layout, layout.client, tester.interface("up").address) == [
        "nat",
        "router",
        "tester",
    ]
