# SPDX-License-Identifier: Apache-2.0
"""Routing daemons in VNFs, forwarding in the engine: real FRR and BIRD, real hosts."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.ground.offload.namespaces import of
from support.netns import netns_refusal, run
from support.routers import Hosts, Pings, Routers, daemons_missing, frr, reaches

pytestmark = [pytest.mark.beside, pytest.mark.needs_root]

SPEC_NAME = "t"


@pytest.fixture
def hosts(engine_binary: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    if refusal := netns_refusal() or daemons_missing():
        pytest.skip(refusal)
    monkeypatch.setenv("HEADRACE_ENGINE", str(engine_binary))
    with Hosts() as own:
        yield own


def two_routers(hosts: Hosts, folder: Path, *, hold: float = 3) -> tuple[Routers, dict[str, str]]:
    """h1 - r1 - r2 - h2, and h3 at r2."""
    spaces, ports = {}, {}
    for i, name in enumerate(("h1", "h2", "h3"), 1):
        spaces[name], ports[name] = hosts.host(name, f"10.0.{i}.2/24", f"10.0.{i}.1")
    spec = {
        "name": f"{SPEC_NAME}{hosts.prefix}",
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
        # The kernel answered h1 as soon as it knew h2's address; the engine hears of it after that.
        routers.wait(lambda: routers.goes("r2", "10.0.2.2") == "forward", "h2's address", 5)
        assert routers.goes("r1", "10.0.1.1") == "punt", "its own address is the VNF's"

        before = routers.counters()["counters"]
        sent, lost = Pings(hosts, spaces["h1"], "10.0.2.2", 100, 0.01).lost()
        after = routers.counters()["counters"]
        assert (sent, lost) == (100, 0)
        # The kernels of the VNFs do not see them: the engine forwards, from one table to the next.
        assert after["forwarded"] - before["forwarded"] >= 200
        assert after["switched"] - before["switched"] >= 200
        assert after["punted"] - before["punted"] < 100

        # The third network is announced, then withdrawn (how soon: test_full_table).
        assert routers.goes("r1", "10.0.3.2") == "no-route"
        change = ("configure terminal", "router bgp 65002", "address-family ipv4 unicast")
        routers.vtysh("r2", *change, "network 10.0.3.0/24")
        routers.wait(lambda: routers.goes("r1", "10.0.3.2") == "vnf", "announced")
        assert reaches(hosts, spaces["h1"], "10.0.3.2")
        routers.vtysh("r2", *change, "no network 10.0.3.0/24")
        routers.wait(lambda: routers.goes("r1", "10.0.3.2") == "no-route", "withdrawn")
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
    """zebra dies: its routes serve for the hold time; the other VNF loses nothing; it comes back
    and the routes with it, resynchronised."""
    routers, spaces = two_routers(hosts, tmp_path, hold=4)
    with routers:
        routers.wait(lambda: reaches(hosts, spaces["h1"], "10.0.2.2"), "h1 reaches h2")
        routers.wait(lambda: reaches(hosts, spaces["h2"], "10.0.3.2"), "h2 reaches h3")
        others = Pings(hosts, spaces["h2"], "10.0.3.2", 400, 0.02)
        sessions = routers.vnf("r1")["sessions"]
        routers.kill("r1", "zebra")
        routers.wait(lambda: routers.vnf("r1")["held"], "held", 3)
        assert routers.goes("r1", "10.0.2.2") == "vnf", "held: still forwarded by"
        routers.wait(lambda: routers.vnf("r1")["sessions"] > sessions, "a new session", 20)
        routers.wait(lambda: not routers.vnf("r1")["held"], "the hold time's end", 20)
        routers.wait(lambda: reaches(hosts, spaces["h1"], "10.0.2.2"), "h1 reaches h2 again", 30)
        assert any("zebra died" in line for line in routers.said)
        sent, lost = others.lost()
        assert (sent, lost) == (400, 0)


def test_dead_vnf_loses_its_routes(hosts: Hosts, tmp_path: Path) -> None:
    routers, spaces = two_routers(hosts, tmp_path, hold=2)
    with routers:
        routers.wait(lambda: reaches(hosts, spaces["h1"], "10.0.2.2"), "h1 reaches h2")
        one = routers.service.daemons["r1"]
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
                "interfaces": {
                    "eth0": {"port": "core", "addresses": ["10.9.0.2/24", "192.0.2.1/32"]}
                }
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


@pytest.mark.slow
def test_full_table(hosts: Hosts, tmp_path: Path, shared_data: Path) -> None:
    """A whole routing table, announced from outside to r1 and by r1 to r2; then one more prefix,
    the last in line: forwarding follows within a second of when BGP has it."""
    with gzip.open(shared_data / "routes" / "tier1_prefixes.txt.gz", "rt") as file:
        prefixes = [line.split()[0] for line in file if "." in line]
    routers, spaces = two_routers(hosts, tmp_path, hold=60)
    speaker = tmp_path / "bird.conf"
    routes = "\n".join(f"route {prefix} via 10.0.1.2;" for prefix in prefixes)
    extra = "protocol static tail { disabled; ipv4; route 203.0.113.0/24 via 10.0.1.2; }"
    speaker.write_text(
        f"""
router id 10.0.1.2;
protocol device {{}}
protocol static full {{ ipv4; {routes} }}
{extra}
protocol bgp r1 {{
  local 10.0.1.2 as 65100; neighbor 10.0.1.1 as 65001; connect retry time 1; hold time 90;
  ipv4 {{ import none; export all; }};
}}
"""
    )
    # Daemons that are busy with a million routes on a busy machine must not lose their sessions.
    calm = "timers bgp 30 90"
    r1 = frr("r1", 65001, {"10.9.0.2": 65002, "10.0.1.2": 65100}, ("10.0.1.0/24",))
    (tmp_path / "r1.conf").write_text(r1.replace("timers bgp 1 3", calm))
    r2 = (tmp_path / "r2.conf").read_text()
    (tmp_path / "r2.conf").write_text(r2.replace("timers bgp 1 3", calm))
    socket = tmp_path / "bird.ctl"
    with routers:
        routers.wait(lambda: reaches(hosts, spaces["h1"], "10.0.2.2"), "h1 reaches h2")
        began = time.monotonic()
        bird = hosts.start(spaces["h1"], "bird", "-f", "-c", str(speaker), "-s", str(socket))
        try:
            for name in ("r1", "r2"):
                routers.wait(
                    lambda name=name: (
                        bird.poll() is None
                        and routers.vnf(name)["ipv4_routes"] >= len(set(prefixes))
                    ),
                    f"the table in {name}", 420,
                )  # fmt: skip
                print(f"{name}: {len(set(prefixes))} routes in {time.monotonic() - began:.1f} s")
            for prefix in prefixes[:: len(prefixes) // 200]:
                address = prefix.split("/")[0]
                assert routers.goes("r2", address) in ("vnf", "forward"), prefix
            assert routers.goes("r2", "203.0.113.1") == "no-route"
            run("birdc", "-s", str(socket), "enable", "tail")
            routers.wait(lambda: "203.0.113.0/24" in kernel_routes(routers), "the update", 60)
            took = routers.wait(lambda: routers.goes("r2", "203.0.113.1") == "vnf", "followed", 5)
            print(f"forwarding {took * 1e3:.0f} ms behind r2's kernel")
            assert took < 1
            assert reaches(hosts, spaces["h2"], "10.0.3.2")
        finally:
            bird.kill()
            bird.wait()


def kernel_routes(routers: Routers) -> str:
    """The route in r2, where zebra installs it when BGP has chosen it."""
    return run("ip", "-n", of(routers.spec, "r2"), "route", "show", "203.0.113.0/24")


def test_a_neighbour_that_is_set_for_good_stays_so(hosts: Hosts, tmp_path: Path) -> None:
    """The engine asks the kernel for next hops that it does not know, when a route comes: just
    then their addresses are set by hand here."""
    service = {
        "name": f"{SPEC_NAME}{hosts.prefix}",
        "ports": {"core": {}},
        "vnfs": {"r": {"interfaces": {"core": {"port": "core", "addresses": ["10.9.0.1/24"]}}}},
    }
    numbers = range(2, 202)
    lines = (
        f"route add 10.8.{n}.0/24 via 10.9.0.{n}\n"
        f"neigh replace 10.9.0.{n} lladdr 02:00:00:00:05:{n:02x} dev core nud permanent\n"
        for n in numbers
    )
    (tmp_path / "batch").write_text("".join(lines))
    with Routers(tmp_path, service, {}) as routers:
        space = of(routers.spec, "r")
        routers.wait(lambda: routers.vnf("r")["ipv4_routes"] == 1, "the link's network")
        run("ip", "-n", space, "-batch", str(tmp_path / "batch"))
        routers.wait(lambda: routers.vnf("r")["ipv4_routes"] == 1 + len(numbers), "all routes")
        time.sleep(0.2)
        there = run("ip", "-n", space, "neigh", "show", "nud", "permanent").splitlines()
        assert len(there) == len(numbers)
        assert {routers.goes("r", f"10.8.{n}.1") for n in numbers} == {"forward"}
