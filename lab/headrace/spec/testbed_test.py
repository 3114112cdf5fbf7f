# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from headrace.errors import BadInput
from headrace.spec import document
from headrace.spec.study import read
from headrace.spec.testbed import Device, Testbed, WirePort, device_of

PORTS = {name: {"device": f"af_xdp:{name}"} for name in ("left", "right", "in", "out")}
WHOLE: dict[str, Any] = {"ports": PORTS, "tester": ["left", "right"], "chain": ["in", "out"]}


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("0000:81:00.0", "pci", "0000:81:00.0"),
        ("ens1f0", "interface", "ens1f0"),
        ("af_xdp:ens1f0", "af_xdp", "ens1f0"),
        ("memif:/run/m.sock", "memif", "/run/m.sock"),
        ("vhost:/run/v.sock", "vhost", "/run/v.sock"),
        ("tap:tap0", "tap", "tap0"),
    ],
)
def test_devices(text: str, kind: str, name: str) -> None:
    assert (device_of(text).kind, device_of(text).name) == (kind, name)


@pytest.mark.parametrize(
    "text",
    [
        "81:00.0", "0000:81:00.8", "af_xdp:", "memif:run", "vhost:/a,client=1", "tap:a b",
        "dpdk:net_null0", "memif:/" + 107 * "x", "name-of-sixteen-",
    ],
)  # fmt: skip
def test_what_is_no_device(text: str) -> None:
    with pytest.raises(ValidationError, match="allowed"):
        WirePort(device=text)


def test_sockets_and_interfaces_are_told() -> None:
    assert Device("memif", "/m").socket == "/m"
    assert Device("af_packet", "eth1").interface == "eth1"
    assert (Device("pci", "0000:81:00.0").interface, Device("tap", "t").socket) == (None, None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tester": ["left", "middle"]}, "there is no port middle"),
        ({"tester": ["left", "in"]}, "port in is the tester's and the chain's"),
        ({"tester": ["left"], "chain": ["in"]}, "port right is nobody's"),
        (
            {"chain": ["in"], "ports": {k: PORTS[k] for k in ("left", "right", "in")}},
            "1 ports, the tester has 2",
        ),
        ({"dut": "external"}, "with `dut: external` no port is headrace's"),
        ({"dut": "vpp"}, "allowed: headrace, external"),
        ({"ports": {**PORTS, "out": {"device": "af_xdp:in"}}}, "device af_xdp:in is there twice"),
    ],
)
def test_who_has_which_port(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Testbed.model_validate(WHOLE | change)


def test_the_two_ends_of_a_socket_have_one_name() -> None:
    one, other = {"device": "memif:/run/one"}, {"device": "memif:/run/other"}
    ends = {"left": one, "in": one, "right": other, "out": other}
    bed = Testbed.model_validate(WHOLE | {"ports": ends})
    assert bed.ports["left"].to == bed.ports["in"].to


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("chain: [acl]\ntestbed: {ports: {a: {device: 'tap:a'}}, tester: a, dut: external}",
         "the chain is not headrace's"),
        ("chain: []\nworkload: {direction: both}\n"
         "testbed: {ports: {a: {device: 'tap:a'}}, tester: a, dut: external}",
         "testbed.tester: one port, and traffic goes both ways"),
        ("chain: [acl]\ndeployment: {hosting: process}\n"
         "testbed: {ports: {a: {device: 'tap:a'}}, tester: a, dut: external}",
         "belongs to hosting inline"),
        ("chain: [acl]\ndeployment: {hugepages: true}\ntestbed: {ports: {a: {device: 'vhost:/a'}, "
         "b: {device: 'virtio_user:/a'}}, tester: a, chain: b}",
         "hugepages: true; a virtio_user port shares memory"),
        ("chain: []\ntestbed: {ports: {a: {device: 'tap:a', rss: {key: '6d5a'}}}, tester: a}",
         "40 to 52 bytes"),
    ],
)  # fmt: skip
def test_what_does_not_go_together(text: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        read(document.parse(f"name: x\n{text}\n", Path("x.yaml")))


SERVERS: dict[str, Any] = {"gen": {"ssh": "a"}, "dut": {"ssh": "root@b"}}
AT = {"left": "gen", "right": "gen", "in": "dut", "out": "dut"}


def served(
    at: Mapping[str, str | None] = AT, servers: Any = SERVERS, **more: Any
) -> dict[str, Any]:
    ports = {name: {**PORTS[name], "server": server} for name, server in {**AT, **at}.items()}
    return {
        "name": "x", "chain": [], "servers": servers, "testbed": WHOLE | {"ports": ports}
    } | more  # fmt: skip


def commanded(**dut: Any) -> dict[str, Any]:
    """A tester on gen, and a device with commands."""
    ports = {name: {**PORTS[name], "server": "gen"} for name in ("left", "right")}
    bed = {"ports": ports, "tester": ["left", "right"], "dut": dut}
    return {"name": "x", "chain": [], "servers": SERVERS, "testbed": bed}


def test_a_devices_server_needs_no_port() -> None:
    given = commanded(start=["x"], server="dut")
    bed = read(document.parse(json.dumps(given), Path("x.yaml"))).testbed
    assert bed is not None and bed.external is not None and bed.external.server == "dut"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (served({"right": "dut"}), "tester: its ports are on servers dut, gen; allowed: one"),
        (served({"in": "gen"}), "chain: its ports are on servers dut, gen; allowed: one server"),
        (served({"in": "x", "out": "x"}), r"ports\.in\.server: got x; allowed: gen, dut"),
        (served({"in": None, "out": None}), r"ports\.in\.server: got none; allowed: gen, dut"),
        (served(servers={}), r"ports\.left\.server: got gen; allowed: none, as there are no"),
        (served(servers={**SERVERS, "x": {"ssh": "c"}}), r"servers\.x: no port is there"),
        (served(deployment={"engine": "nftables"}), "deployment.engine: is for this machine"),
        (commanded(start=["x"]), r"testbed\.dut\.server: got none; allowed: gen, dut"),
        (commanded(start=["x"], server="y"), r"testbed\.dut\.server: got y; allowed: gen, dut"),
        (commanded(server="dut"), r"server: dut, and no command to run there"),
        (commanded(start=["x"], server="gen"), r"servers\.dut: no port is there; .* or its `dut`"),
        (served(servers={**SERVERS, "gen": {"ssh": "-oProxyCommand=x"}}), "servers.gen.ssh"),
    ],
)
def test_ports_of_servers(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        read(document.parse(json.dumps(spec), Path("x.yaml")))


def test_a_socket_does_not_lead_to_another_server() -> None:
    ports = {**PORTS, "left": {"device": "memif:/m"}, "in": {"device": "memif:/m"}}
    there = {name: {**ports[name], "server": server} for name, server in AT.items()}
    with pytest.raises(ValidationError, match="memif:/m joins programs of one server"):
        Testbed.model_validate(WHOLE | {"ports": there})
