# SPDX-License-Identifier: Apache-2.0
"""Real clients and servers through `firewall` and `nat`: HTTP and iperf3, nothing changed."""

from __future__ import annotations

import filecmp
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.engine import Engine, memory_engine, nf_imbalance
from support.netns import Lan
from support.plans import port

pytestmark = [pytest.mark.beside, pytest.mark.needs_root]

CLIENT, SERVER, POOL = "10.0.0.1", "198.51.100.2", "198.51.100.1"
CLIENT6, SERVER6 = "2001:db8::1", "2001:db8::2"
SIZE = 12_000_000

needs = {
    tool: pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not installed")
    for tool in ("curl", "iperf3")
}


def plan(cpus: list[int], devices: dict[str, str], *, nat: bool) -> dict[str, Any]:
    """client - firewall (- nat) - server, both ways, in one segment."""
    firewall = {
        "rules": [
            {"action": "permit", "proto": "tcp", "dport": [80, 80]},
            {"action": "permit", "proto": "tcp", "dport": [5201, 5201]},
            {"action": "permit", "proto": "udp", "dport": [5201, 5201]},
        ],
        # What the static mapping lets in.
        "reverse_rules": [
            {"action": "permit", "proto": "tcp", "dst": CLIENT, "dport": [80, 80]},
            {"action": "permit", "proto": "tcp", "dst": CLIENT6, "dport": [80, 80]},
        ],
    }
    nfs: dict[str, Any] = {"firewall": {"type": "firewall", "params": firewall}}
    nodes: dict[str, Any] = {
        "firewall": {"forward": {"pass": "link:server"}, "reverse": {"pass": "link:client"}}
    }
    if nat:
        web = {"protocol": "tcp", "inside": CLIENT, "inside_port": 80, "outside": POOL,
               "outside_port": 8080}  # fmt: skip
        nfs["nat"] = {"type": "nat", "params": {"pool": [POOL], "static": [web]}}
        nodes["firewall"]["forward"]["pass"] = "nat"
        nodes["nat"] = {"forward": {"out": "link:server"}, "reverse": {"out": "firewall"}}
    return {
        "version": 1,
        "engine": memory_engine(),
        "links": {side: port(device) for side, device in devices.items()},
        "nfs": nfs,
        "segments": [
            {
                "name": "chain",
                "cpus": [cpus[-1]],
                "inputs": [
                    {"link": "client", "to": "firewall", "direction": "forward"},
                    {
                        "link": "server",
                        "to": "nat" if nat else "firewall",
                        "direction": "reverse",
                    },
                ],
                "nodes": nodes,
            }
        ],
    }


def taps(names: dict[str, str]) -> dict[str, str]:
    return {"client": "net_tap0,iface=hrtap0", "server": "net_tap1,iface=hrtap1"}


def place_taps(lan: Lan, names: dict[str, str]) -> None:
    for tap, role in (("hrtap0", "client"), ("hrtap1", "server")):
        lan.plain(names["engine"], tap)
        subprocess.run(
            ["ip", "-n", names["engine"], "link", "set", tap, "netns", names[role],
             "name", "eth0", "up"],
            check=True,
        )  # fmt: skip


def veths(lan: Lan, names: dict[str, str]) -> dict[str, str]:
    lan.veth((names["client"], "eth0"), (names["engine"], "to-client"))
    lan.veth((names["engine"], "to-server"), (names["server"], "eth0"))
    return {side: f"net_af_xdp_{side},iface=to-{side}" for side in ("client", "server")}


@contextmanager
def deployed(
    kind: str, lan: Lan, start_engine: Callable[..., Engine], cpus: list[int], *, nat: bool
) -> Iterator[tuple[dict[str, str], Engine]]:
    names = {role: lan.namespace(role) for role in ("client", "engine", "server")}
    devices = taps(names) if kind == "tap" else veths(lan, names)
    with start_engine(plan(cpus, devices, nat=nat), netns=names["engine"]) as engine:
        if kind == "tap":
            place_taps(lan, names)
        configure(lan, names)
        yield names, engine
        reading = engine.read()
        assert set(nf_imbalance(reading).values()) == {0}
        [replica] = reading["segments"]["chain"]
        for name, nf in replica["nfs"].items():
            dropped = {reason for reason, packets in nf["dropped"].items() if packets}
            # Nobody gave a rule for multicast listener reports, which the stacks send unasked.
            assert dropped <= {"denied-by-default"} and not nf["aborted"], f"{name}: {nf}"


def mac(namespace: str) -> str:
    shown = subprocess.run(
        ["ip", "-n", namespace, "-j", "link", "show", "eth0"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return str(json.loads(shown)[0]["address"])


def configure(lan: Lan, names: dict[str, str]) -> None:
    """Addresses on both sides. IPv4 has two networks with a translator between them that does not
    route, so the neighbours are given; IPv6 is one network and its neighbours find each other."""
    client, server = names["client"], names["server"]
    for namespace, v4, v6 in ((client, CLIENT, CLIENT6), (server, SERVER, SERVER6)):
        lan.sysctl(namespace, "net.ipv6.conf.eth0.disable_ipv6", "0")
        lan.address(namespace, "eth0", f"{v4}/24")
        lan.inside(namespace, "ip", "addr", "add", f"{v6}/64", "dev", "eth0", "nodad")
    lan.inside(client, "ip", "route", "add", "198.51.100.0/24", "dev", "eth0")
    lan.inside(server, "ip", "route", "add", "10.0.0.0/24", "dev", "eth0")
    for namespace, neighbour, address in (
        (client, SERVER, mac(server)),
        (server, POOL, mac(client)),
        (server, CLIENT, mac(client)),
    ):
        lan.inside(
            namespace, "ip", "neigh", "replace", neighbour, "lladdr", address, "nud", "permanent",
            "dev", "eth0",
        )  # fmt: skip


@contextmanager
def http_server(lan: Lan, namespace: str, address: str, folder: Path) -> Iterator[None]:
    server = lan.start(
        namespace, sys.executable, "-u", "-m", "http.server", "80", "--bind", address,
        "--directory", str(folder),
    )  # fmt: skip
    try:
        assert server.stdout is not None
        assert "Serving HTTP" in server.stdout.readline()
        yield
    finally:
        server.kill()
        server.wait()


def download(lan: Lan, namespace: str, url: str, tmp_path: Path) -> None:
    """curl gets the very file that the server has."""
    original, copy = tmp_path / "served" / "file", tmp_path / "copy"
    lan.inside(namespace, "curl", "-sS", "--fail", "-o", str(copy), url, timeout=120)
    assert filecmp.cmp(original, copy, shallow=False), f"{url}: not what the server has"
    copy.unlink()


@pytest.fixture
def served(tmp_path: Path) -> Path:
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "file").write_bytes(random.Random(4).randbytes(SIZE))
    return folder


def iperf3(lan: Lan, names: dict[str, str], to: str, *options: str) -> dict[str, Any]:
    server = lan.start(
        names["server"], "iperf3", "--server", "--one-off", "--forceflush", "--bind", to
    )
    try:
        assert server.stdout is not None
        while "listening" not in (line := server.stdout.readline()):
            assert line, "iperf3 --server does not start"
        shown = lan.inside(
            names["client"], "iperf3", "--client", to, "--json", *options, timeout=120
        )
        end: dict[str, Any] = json.loads(shown)["end"]
        return end
    finally:
        server.kill()
        server.wait()


def check_iperf3(lan: Lan, names: dict[str, str], to: str) -> None:
    for direction in ((), ("--reverse",)):
        end = iperf3(lan, names, to, "--bytes", str(SIZE), *direction)
        assert end["sum_sent"]["bytes"] >= SIZE, end
        # iperf3 stops counting when the sender says that it is done, whatever is on its way.
        assert end["sum_received"]["bytes"] >= SIZE / 2, end
    end = iperf3(lan, names, to, "--udp", "--bytes", "1M", "--bitrate", "20M", "--length", "1200")
    assert end["sum"]["packets"] >= 1_000_000 // 1200
    assert end["sum"]["lost_percent"] < 5, end


KINDS = pytest.mark.parametrize("kind", ["tap", "af_xdp"])


@KINDS
@needs["curl"]
@needs["iperf3"]
def test_nat_and_firewall(
    kind: str,
    lan: Lan,
    start_engine: Callable[..., Engine],
    cpus: list[int],
    tmp_path: Path,
    served: Path,
) -> None:
    with deployed(kind, lan, start_engine, cpus, nat=True) as (names, engine):
        with http_server(lan, names["server"], SERVER, served):
            download(lan, names["client"], f"http://{SERVER}/file", tmp_path)
        with http_server(lan, names["client"], CLIENT, served):
            download(lan, names["server"], f"http://{POOL}:8080/file", tmp_path)
        check_iperf3(lan, names, SERVER)
        [replica] = engine.read()["segments"]["chain"]
        # Each iperf3 test has a connection for its control and one for its data.
        assert replica["nfs"]["nat"]["counters"]["new-sessions"] >= 2 + 3 * 2


@KINDS
@needs["curl"]
@needs["iperf3"]
def test_firewall_ipv6(
    kind: str,
    lan: Lan,
    start_engine: Callable[..., Engine],
    cpus: list[int],
    tmp_path: Path,
    served: Path,
) -> None:
    with deployed(kind, lan, start_engine, cpus, nat=False) as (names, _):
        with http_server(lan, names["server"], SERVER6, served):
            download(lan, names["client"], f"http://[{SERVER6}]/file", tmp_path)
        check_iperf3(lan, names, SERVER6)
