# SPDX-License-Identifier: Apache-2.0
"""Routing daemons in VNFs, forwarding in the engine: real FRR and BIRD, real hosts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.netns import netns_refusal
from support.routers import Hosts, Pings, Routers, daemons_missing, frr, reaches

pytestmark = pytest.mark.needs_root

SPEC_NAME = "t"


@pytest.fixture
def hosts(engine_binary: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    if refusal := netns_refusal() or daemons_missing():
        pytest.skip(refusal)
    monkeypatch.setenv("HEADRACE_ENGINE", str(engine_binary))
    with Hosts() as made:
        yield made


def two_routers(hosts: Hosts, folder: Path, *, hold: float = 3) -> tuple[Routers, dict[str, str]]:
    """h1 - r1 - r2 - h2, and h3 at r2."""
    spaces, ports = {}, {}
    for i, name in enumerate(("h1", "h2", "h3"), 1):
        spaces[name], ports[name] = hosts.host(name, f"10.0.{i}.2/24", f"10.0.{i}.1")
    spec = {
        "name": f"{SPEC_NAME}{hosts.prefix}",
        "hugepages": False,
        "memory_mb": 256,
        "ports": {**{name: {"device": device} for name, device in ports.items()}, "core": {}},
        "vnfs": {
            "r1": {
                "hold": hold,
                "routing": {"daemon": "frr", "config": "r1.conf"},
                "interfaces": {
                    "eth0": {"port": "h1", "addresses": ["10.0.1.1/24"]},
                    "core": {"port": "core", "addresses": ["10.9.0.1/24"]},
                },
            },
            "r2": {
                "hold": hold,
                "routing": {"daemon": "frr", "config": "r2.conf"},
                "interfaces": {
                    "eth0": {"port": "h2", "addresses": ["10.0.2.1/24"]},
                    "eth1": {"port": "h3", "addresses": ["10.0.3.1/24"]},
                    "core": {"port": "core", "addresses": ["10.9.0.2/24"]},
                },
            },
        },
    }
    files = {
        "r1.conf": frr("r1", 65001, {"10.9.0.2": 65002}, ("10.0.1.0/24",)),
        "r2.conf": frr("r2", 65002, {"10.9.0.1": 65001}, ("10.0.2.0/24",)),
    }
    return Routers(folder, spec, files), spaces


def test_bgp_forwarding_and_withdrawal(hosts: Hosts, tmp_path: Path) -> None:
    routers, spaces = two_routers(hosts, tmp_path)
    with routers:
        routers.wait(lambda: reaches(hosts, spaces["h1"], "10.0.2.2"), "h1 reaches h2")
        assert routers.goes("r1", "10.0.2.2") == "vnf"
        assert routers.goes("r2", "10.0.2.2") == "forward"
        assert routers.goes("r1", "10.0.1.1") == "punt", "its own address is the VNF's"

        before = routers.counters()["counters"]
        sent, lost = Pings(hosts, spaces["h1"], "10.0.2.2", 100, 0.01).lost()
        after = routers.counters()["counters"]
        assert (sent, lost) == (100, 0)
        # The kernels of the VNFs do not see them: the engine forwards, from one table to the next.
        assert after["forwarded"] - before["forwarded"] >= 200
        assert after["switched"] - before["switched"] >= 200
        assert after["punted"] - before["punted"] < 100

        # The third network is announced, then withdrawn; forwarding follows within a second.
        assert routers.goes("r1", "10.0.3.2") == "no-route"
        change = ("configure terminal", "router bgp 65002", "address-family ipv4 unicast")
        routers.vtysh("r2", *change, "network 10.0.3.0/24")
        took = routers.wait(lambda: routers.goes("r1", "10.0.3.2") == "vnf", "announced")
        assert took < 1 + 2, "BGP's own second, and ours"
        assert reaches(hosts, spaces["h1"], "10.0.3.2")
        routers.vtysh("r2", *change, "no network 10.0.3.0/24")
        routers.wait(lambda: routers.goes("r1", "10.0.3.2") == "no-route", "withdrawn", 5)
        assert not reaches(hosts, spaces["h1"], "10.0.3.2")


def test_expired_ttl_is_answered_by_the_vnf(hosts: Hosts, tmp_path: Path) -> None:
    routers, spaces = two_routers(hosts, tmp_path)
    with routers:
        routers.wait(lambda: reaches(hosts, spaces["h1"], "10.0.2.2"), "h1 reaches h2")
        for ttl, where in ((1, "10.0.1.1"), (2, "10.9.0.2")):
            out = hosts.inside(
                spaces["h1"], "sh", "-c", f"ping -c 1 -W 2 -t {ttl} 10.0.2.2 || true"
            )
            assert f"From {where}" in out and "Time to live exceeded" in out, out


def test_death_and_return(hosts: Hosts, tmp_path: Path) -> None:
    """zebra dies: its routes serve for the hold time; the other VNF loses nothing; it comes back and
    the routes with it, resynchronised."""
    routers, spaces = two_routers(hosts, tmp_path, hold=4)
    with routers:
        routers.wait(lambda: reaches(hosts, spaces["h1"], "10.0.2.2"), "h1 reaches h2")
        routers.wait(lambda: reaches(hosts, spaces["h2"], "10.0.3.2"), "h2 reaches h3")
        others = Pings(hosts, spaces["h2"], "10.0.3.2", 600, 0.02)
        sessions = routers.vnf("r1")["sessions"]
        routers.kill("r1", "zebra")
        routers.wait(lambda: routers.vnf("r1")["held"], "held", 3)
        assert routers.goes("r1", "10.0.2.2") == "vnf", "held: still forwarded by"
        routers.wait(lambda: routers.vnf("r1")["sessions"] > sessions, "a new session", 20)
        routers.wait(lambda: not routers.vnf("r1")["held"], "the hold time's end", 20)
        routers.wait(lambda: reaches(hosts, spaces["h1"], "10.0.2.2"), "h1 reaches h2 again", 30)
        assert any("zebra died" in line for line in routers.said)
        sent, lost = others.lost()
        assert (sent, lost) == (600, 0)


def test_dead_vnf_loses_its_routes(hosts: Hosts, tmp_path: Path) -> None:
    routers, spaces = two_routers(hosts, tmp_path, hold=2)
    with routers:
        routers.wait(lambda: reaches(hosts, spaces["h1"], "10.0.2.2"), "h1 reaches h2")
        one = routers.service._daemons["r1"]
        one.stop()
        routers.wait(lambda: routers.vnf("r1")["held"], "held", 3)
        began = time.monotonic()
        routers.wait(lambda: not routers.vnf("r1")["held"], "swept", 10)
        assert time.monotonic() - began > 1
        assert routers.vnf("r1")["ipv4_routes"] == 0
        assert routers.goes("r1", "10.0.2.2") == "no-route"
        assert routers.vnf("r2")["up"]


def test_bird_by_rtnetlink(hosts: Hosts, tmp_path: Path) -> None:
    space, device = hosts.host("h1", "10.0.1.2/24", "10.0.1.1")
    spec = {
        "name": f"{SPEC_NAME}{hosts.prefix}",
        "hugepages": False,
        "memory_mb": 256,
        "ports": {"h1": {"device": device}, "core": {}},
        "vnfs": {
            "b": {
                "hold": 2,
                "routing": {"daemon": "bird", "config": "bird.conf", "restart": False},
                "interfaces": {
                    "eth0": {"port": "h1", "addresses": ["10.0.1.1/24"]},
                    "core": {"port": "core", "addresses": ["10.9.0.1/24"]},
                },
            },
            "n": {
                "interfaces": {"eth0": {"port": "core", "addresses": ["10.9.0.2/24", "192.0.2.1/32"]}}
            },
        },
    }
    bird = """
router id 10.9.0.1;
protocol device {}
protocol kernel { ipv4 { export all; import none; }; }
protocol static { ipv4; route 192.0.2.0/24 via 10.9.0.2; route 198.51.100.0/24 unreachable; }
"""
    with Routers(tmp_path, spec, {"bird.conf": bird}) as routers:
        routers.wait(lambda: routers.goes("b", "192.0.2.1") == "vnf", "learnt, and resolved")
        assert routers.goes("b", "198.51.100.1") == "blackhole"
        assert routers.goes("b", "10.0.1.2") in ("forward", "punt")
        routers.kill("b", "bird")
        routers.wait(lambda: routers.vnf("b")["held"], "held", 5)
        routers.wait(lambda: routers.goes("b", "192.0.2.1") == "no-route", "swept", 10)
        assert routers.goes("b", "10.0.1.1") == "punt", "the interface is still there"
        assert reaches(hosts, space, "10.0.1.1")
