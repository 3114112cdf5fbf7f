# SPDX-License-Identifier: Apache-2.0
"""Chains of appliances on several servers, without a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.collect.cores import Spent
from headrace.errors import BadInput
from headrace.ground.appliances.expanded import GraphPoint, expand_study
from headrace.ground.appliances.graph import ChargeReading
from headrace.ground.appliances.graph_apart import together, uplinks_of
from headrace.ground.appliances.part_answers import AskedPart
from headrace.spec import document
from headrace.spec.study import read

CABLES = ({"a": "ens1", "b": "ens2"}, {"b": "ens3", "c": "ens4"})


def spec(chain: str, servers: str = "a, b, c", more: str = "") -> str:
    hosts = ", ".join(f"{name}: {{ssh: {name}}}" for name in servers.split(", "))
    cables = [one for one in CABLES if set(one) <= set(servers.split(", "))]
    hosting = f"{{kind: appliances, cables: {json.dumps(cables)}, servers: 1}}"
    return (
        f"name: apart\nchain: [{chain}]\nservers: {{{hosts}}}\n"
        f"deployment: {{hosting: {hosting}}}\n{more}"
    )


def nodes(*on: str) -> str:
    return ", ".join(f"{{nf: {kind}, server: {server}}}" for kind, server in map(str.split, on))


THREE = nodes("ip-firewall a", "router a", "nat b", "ids b", "l4-lb c")


def points(text: str) -> list[GraphPoint]:
    return list(expand_study(document.parse(text, Path("spec.yaml"))).points)


def test_each_container_is_where_its_vnf_is() -> None:
    """Clients are where the first VNF is, servers where the last one is."""
    [point] = points(spec(THREE))
    assert {node.name: node.server for node in point.layout.nodes} == {
        "client": "a", "ip-firewall": "a", "router": "a", "nat": "b", "ids": "b", "l4-lb": "c",
        "server1": "c",
    }  # fmt: skip


def test_lans_between_servers_go_by_their_cable() -> None:
    """By hand: clients, LAN 0, firewall, LAN 1, router, LAN 2, NAT, LAN 3, balancer, LAN 4."""
    [point] = points(spec(THREE))
    ways = {name: uplinks_of(point.layout, name, CABLES) for name in "abc"}
    assert ways == {"a": {2: "ens1"}, "b": {2: "ens2", 3: "ens3"}, "c": {3: "ens4"}}


def test_what_a_server_is_asked_arrives_whole() -> None:
    [point] = points(spec(THREE))
    asked = AskedPart(
        server="b", layout=point.layout, supplies=point.supplies, uplinks={2: "ens2", 3: "ens3"}
    )
    assert AskedPart.model_validate(asked.model_dump(mode="json")) == asked


def test_instances_are_on_their_vnfs_server() -> None:
    text = spec(
        nodes("ip-firewall a", "router b", "nat c"), more="scale_out: [{vnf: router, instances: 2}]"
    )
    scaled = points(text)[-1].layout
    assert {n.name: n.server for n in scaled.nodes if n.vnf == "router"} == {
        "router.1": "b", "router.2": "b"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (spec(nodes("router a", "nat b")), "servers.c: no VNF is there"),
        (spec(nodes("router a", "nat c", "nat b")), "goes from a to c, which none joins"),
        (spec(nodes("router a", "nat b", "router a"), "a, b"), "without a way back"),
        (spec("router, {nf: nat, server: a}", "a"), "on servers none, a; allowed: a"),
        (spec(nodes("router a", "nat d"), "a, b"), "on servers a, d; allowed: a, b"),
        (spec(nodes("router a", "nat b"), "a, b", "baseline: true"), "baseline: names no servers"),
        (spec(nodes("router a", "nat b", "nat c"), more="workload: {kind: packets}"),
         "whose latency is of one clock"),
    ],
)  # fmt: skip
def test_refused(text: str, problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        read(document.parse(text, Path("spec.yaml")))


def test_a_leaf_is_where_its_feed_is() -> None:
    text = spec(nodes("router a", "ids b", "nat b"), "a, b")
    with pytest.raises(BadInput, match="ids: is on b, and what it is fed on a"):
        points(text)


def reading(inode: int, name: str, stolen: int) -> ChargeReading:
    spent = {inode: Spent(7, 3), inode + 1: Spent(1, 1)}
    return ChargeReading(
        at_s=1e9 * inode, groups={name: 2.0}, busy_s=4.0, stolen_ns={"CPU 0": stolen},
        spent=spent, namespaces={name: inode, "kernel bridge": inode + 1}, processes=(name,),
    )  # fmt: skip


def test_readings_of_two_servers_are_one() -> None:
    """Both have namespaces of the same numbers, a CPU 0 and a bridge; clocks are not compared."""
    both = {"a": reading(40, "client", 5), "b": reading(40, "nat", 6)}
    whole = together(both, 12.5, ["client", "nat"])
    assert whole.at_s == 12.5 and whole.busy_s == 8.0
    assert whole.groups == {"client": 2.0, "nat": 2.0}
    assert whole.stolen_ns == {"a's CPU 0": 5, "b's CPU 0": 6}
    assert whole.processes == ("client", "nat")
    own = {name: whole.spent[inode] for name, inode in whole.namespaces.items()}
    assert own == {
        "client": Spent(7, 3), "nat": Spent(7, 3),
        "kernel bridge of a": Spent(1, 1), "kernel bridge of b": Spent(1, 1),
    }  # fmt: skip
    assert len(whole.spent) == 4
