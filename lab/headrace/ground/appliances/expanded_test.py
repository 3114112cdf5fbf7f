# SPDX-License-Identifier: Apache-2.0
"""Specs with `hosting: appliances`: what they expand to, and bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import BadInput
from headrace.graph.knowledge import load
from headrace.ground.appliances.expanded import Expanded, expand_study
from headrace.ground.appliances.ground import AppliancesGround
from headrace.ground.catalogue import catalogue, catalogue_folder
from headrace.spec import document
from headrace.spec.appliance import Base
from headrace.spec.forms import hosting_kind
from headrace.spec.workload import Packets, Pcap


def expand(text: str, hosting: str = "") -> Expanded:
    head = f"name: x\ndeployment: {{hosting: {{kind: appliances{hosting and ', '}{hosting}}}}}\n"
    return expand_study(document.parse(head + text, Path("spec.yaml")))


def test_the_enterprise_study() -> None:
    file = catalogue_folder().parent / "studies" / "nfvinsight" / "enterprise.yaml"
    if not file.exists():
        pytest.skip(f"{file} is not in this checkout")
    doc = document.load(file)
    assert hosting_kind(doc.data) == "appliances"
    roles: dict[str, int] = {}
    for point in expand_study(doc).points:
        roles[point.role] = roles.get(point.role, 0) + 1
    assert roles == {"baseline": 2, "alone": 10, "chain": 16, "scale-out": 8}


def test_sweeps_multiply() -> None:
    text = (
        "chain: [nat]\nsweep:\n  deployment.hosting.vnfs.nat.cpus: [0.5, 1]\n"
        "  deployment.hosting.network: [bridge, ovs]\n"
    )
    points = expand(text).points
    assert [(p.network, p.supplies["nat"].allocation.cpus) for p in points] == [
        ("bridge", 0.5), ("ovs", 0.5), ("bridge", 1.0), ("ovs", 1.0),
    ]  # fmt: skip


def test_a_graph_is_named_by_its_way_on() -> None:
    points = expand("graphs: {vnfs: [nat, l7-cache, ids]}\n").points
    assert {point.name for point in points} == {"nat (ids) → l7-cache", "nat → l7-cache (ids)"}


def test_graphs_by_headraces_own_knowledge() -> None:
    points = expand("graphs: {vnfs: [nat, router, l7-cache, ids], base: headrace}\n").points
    assert {point.name for point in points} == {
        "nat (ids) → router → l7-cache", "nat → router (ids) → l7-cache",
        "router (ids) → nat → l7-cache", "router → nat (ids) → l7-cache",
    }  # fmt: skip


def test_the_catalogues_categories_are_the_knowledge_bases() -> None:
    known = load(base=Base.HEADRACE).vnfs
    for name, entry in catalogue().items():
        if entry.definition.kind != "traffic":
            assert entry.definition.category is known[name].category, name


def test_an_opaque_appliance() -> None:
    images = "images: {mine: {kind: routed, image: example/mine:1}}"
    supply = expand("chain: [nat, mine]\n", images).points[0].supplies["mine"]
    assert (supply.image, supply.opaque) == ("example/mine:1", True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("chain: [natt]", "chain[0]: got 'natt'; no such VNF"),
        ("chain: [nat] | vnfs: {nat: {parameters: {port: 1}}}", "nat.parameters.port: unknown"),
        ("chain: [nat] | vnfs: {nat: {parameters: {ports: x}}}", "allowed: text matching"),
        ("chain: [nat] | vnfs: {nat: {cpus: 0}}", "vnfs.nat.cpus"),
        ("chain: [nat]\nworkload: {kind: htp}", "workload"),
        ("chain: [nat]\nworkload: {kind: http, colour: 1}", "unknown key"),
        ("chain: [nat]\nscale_out: [{vnf: dns, instances: [1]}]", "no chain"),
        ("chain: [vpn]\nscale_out: [{vnf: vpn, instances: 2}]", "scale_out[0].vnf: got 'vpn'"),
        (
            "chain: [nat]\nsweep: {deployment.hosting.vnfs.natt.cpus: [1]}",
            "sweep.deployment.hosting.vnfs.natt.cpus: no such VNF",
        ),
        (
            "chain: [nat, l4-lb]\nworkload: [{kind: http}, {kind: udp}]",
            "workload[1].kind: got 'udp'; no chain of this study can take it: a proxy",
        ),
        ("chain: [nat]\nworkload: {kind: dns}", "workload.kind: got 'dns'"),
        ("", "give `chain`"),
        ("graphs: {vnfs: [nat, zzzz]}", "no such VNF"),
        ("graphs: {vnfs: [nat:3, router:3, switch], base: headrace}", "no such VNF"),
        ("graphs: {vnfs: [nat, router]}", "the knowledge base nfvinsight has no such VNF"),
        ("graphs: {vnfs: [nat], base: s4}", "graphs.base"),
        ("graphs: {vnfs: [nat, router], parallel: 2}", "graphs: parallel: nothing on the kernel's"),
        (
            "chain: [nat] | images: {a: {kind: routed, image: x, capabilities: [FLY]}}",
            "NET_ADMIN",
        ),
        (
            "chain: [a] | images: {a: {kind: routed, image: x, addresses: {up: 1.2.3}}}",
            "images.a.addresses.up",
        ),
        ("chain: [a] | images: {a: {kind: routed, image: x, ports: {left: eth0}}}", "left"),
        (
            "chain: [a] | images: {a: {kind: routed, image: x, addresses: {up: 198.18.0.10}}}",
            "address clash: client has it",
        ),
        ("chain: [nat]\nworkload: {kind: pcap, file: none.pcap}", "no such file"),
        ("chain: [nat]\nworkload: {kind: rr, transport: udp, connect: true}", "no connections"),
        ("chain: [nat]\nworkload: {kind: packets, frame: 63}", "frame"),
        ("chain: [nat]\nworkload: {kind: packets, frame: 9000}", "workload.frame: 9000 B; allowed"),
        ("chain: [nat]\nworkload: {flows: 60001}", "workload.flows: 60001; allowed"),
        ("chain: [nat]\nmeasure: {loads: [1k]}", "measure.loads: no workload of this study takes"),
        (
            "chain: [nat]\nmeasure: {search: [ndr]}",
            "measure.search: no workload of this",
        ),
        ("chain: [{nat: {ports: 1}}]", "chain[0]: a VNF is a name here"),
    ],
)
def test_bad_specs(text: str, expected: str) -> None:
    with pytest.raises(BadInput) as raised:
        expand(*text.split(" | "))
    assert expected in str(raised.value).replace("'", "'")
    assert "\n" not in str(raised.value)


def test_the_catalogue_is_whole() -> None:
    entries = catalogue()
    assert {"nat", "ip-firewall", "l4-lb", "l7-cache", "ids", "traffic"} <= set(entries)
    for entry in entries.values():
        assert entry.definition.environment({}, "t") is not None
        for script in ("start", "health", "counters"):
            file = entry.folder / script
            assert file.stat().st_mode & 0o111, f"{file} is not executable"
            assert "SPDX-License-Identifier" in file.read_text()[:80]


def test_each_frame_is_a_load_and_a_capture_lies_beside_its_spec(tmp_path: Path) -> None:
    (tmp_path / "c.pcap").write_bytes(b"")
    text = (
        "name: x\ndeployment: {hosting: {kind: appliances}}\nchain: [nat]\n"
        "workload: [{kind: packets, frame: [128, 512]}, {kind: pcap, file: c.pcap}]\n"
        "measure: {loads: [1k]}\n"
    )
    [point] = AppliancesGround().check(document.parse(text, tmp_path / "spec.yaml")).points
    small, large, capture = (offer.spec for offer in point.offers)
    assert point.offers[2].workload == "pcap c.pcap"
    assert isinstance(small, Packets) and isinstance(large, Packets) and isinstance(capture, Pcap)
    assert [small.frame[0].sizes, large.frame[0].sizes] == [(128,), (512,)]
    assert capture.file == tmp_path / "c.pcap"
