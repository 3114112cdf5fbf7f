# SPDX-License-Identifier: Apache-2.0
"""The kernel's own stack on both sides of a headrace segment: ping, TCP, and nothing corrupted."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.engine import Engine, memory_engine
from support.netns import Lan
from support.plans import port

pytestmark = [pytest.mark.beside, pytest.mark.needs_root]

CLIENT, SERVER = "10.9.0.1", "10.9.0.2"

RECEIVE = """
import hashlib, socket, sys
listener = socket.create_server((sys.argv[1], 5001))
print("listening", flush=True)
connection, _ = listener.accept()
digest, total = hashlib.sha256(), 0
while data := connection.recv(1 << 16):
    digest.update(data)
    total += len(data)
print(total, digest.hexdigest(), flush=True)
"""

SEND = """
import random, socket, sys
data = random.Random(1).randbytes(int(sys.argv[2]))
with socket.create_connection((sys.argv[1], 5001), timeout=20) as connection:
    connection.sendall(data)
"""


def bridge_plan(cpus: list[int], client: str, server: str, **engine: Any) -> dict[str, Any]:
    """Two ports and a `null` function both ways: a wire that counts."""
    return {
        "version": 1,
        "engine": memory_engine(**engine),
        "links": {"client": port(client), "server": port(server)},
        "nfs": {"wire": {"type": "null", "params": {}}},
        "segments": [
            {
                "name": "chain",
                "cpus": [cpus[-1]],
                "inputs": [
                    {"link": "client", "to": "wire", "direction": "forward"},
                    {"link": "server", "to": "wire", "direction": "reverse"},
                ],
                "nodes": {
                    "wire": {"forward": {"out": "link:server"}, "reverse": {"out": "link:client"}}
                },
            }
        ],
    }


def af_packet(lan: Lan) -> tuple[str, str, str, dict[str, str]]:
    """client -- veth -- [engine] -- veth -- server; the engine has both veths' other ends."""
    names = {role: lan.namespace(role) for role in ("client", "engine", "server")}
    lan.veth((names["client"], "eth0"), (names["engine"], "to-client"))
    lan.veth((names["engine"], "to-server"), (names["server"], "eth0"))
    return (
        "net_af_packet_client,iface=to-client",
        "net_af_packet_server,iface=to-server",
        names["engine"],
        names,
    )


def configure(lan: Lan, names: dict[str, str]) -> None:
    lan.address(names["client"], "eth0", f"{CLIENT}/24")
    lan.address(names["server"], "eth0", f"{SERVER}/24")


def tcp_transfer(lan: Lan, names: dict[str, str], size: int) -> tuple[int, str]:
    receiver = lan.start(names["server"], sys.executable, "-c", RECEIVE, SERVER)
    try:
        assert receiver.stdout is not None
        assert receiver.stdout.readline().strip() == "listening"
        lan.inside(names["client"], sys.executable, "-c", SEND, SERVER, str(size))
        total, digest = receiver.stdout.readline().split()
        return int(total), digest
    finally:
        receiver.kill()
        receiver.wait()


def expected_digest(size: int) -> str:
    return hashlib.sha256(random.Random(1).randbytes(size)).hexdigest()


def check_ping_and_tcp(lan: Lan, names: dict[str, str], engine: Engine) -> None:
    # A TAP's queue is short: where the engine's CPU is away for 100 ms some echoes are lost, once.
    for _ in range(3):
        replies = lan.inside(names["client"], "ping", "-c", "20", "-i", "0.02", "-W", "2", SERVER)
        if " 0% packet loss" in replies:
            break
    assert " 0% packet loss" in replies

    size = 20_000_000
    assert tcp_transfer(lan, names, size) == (size, expected_digest(size))

    [replica] = engine.read()["segments"]["chain"]
    wire = replica["nfs"]["wire"]
    assert wire["in"] > size / 1500
    assert sum(wire["out"].values()) == wire["in"], "a wire passes everything on"


def test_af_packet(lan: Lan, start_engine: Callable[..., Engine], cpus: list[int]) -> None:
    client, server, where, names = af_packet(lan)
    configure(lan, names)
    with start_engine(bridge_plan(cpus, client, server), netns=where) as engine:
        check_ping_and_tcp(lan, names, engine)


def test_tap(lan: Lan, start_engine: Callable[..., Engine], cpus: list[int]) -> None:
    """The engine makes the two TAPs; each is then moved to where its end of the wire lives."""
    names = {role: lan.namespace(role) for role in ("client", "engine", "server")}
    plan = bridge_plan(cpus, "net_tap0,iface=hrtap0", "net_tap1,iface=hrtap1")
    with start_engine(plan, netns=names["engine"]) as engine:
        for tap, role in (("hrtap0", "client"), ("hrtap1", "server")):
            lan.plain(names["engine"], tap)
            subprocess.run(
                ["ip", "-n", names["engine"], "link", "set", tap, "netns", names[role],
                 "name", "eth0", "up"],
                check=True,
            )  # fmt: skip
        configure(lan, names)
        check_ping_and_tcp(lan, names, engine)


def test_af_xdp(lan: Lan, start_engine: Callable[..., Engine], cpus: list[int]) -> None:
    _, _, where, names = af_packet(lan)
    configure(lan, names)
    plan = bridge_plan(
        cpus, "net_af_xdp_client,iface=to-client", "net_af_xdp_server,iface=to-server"
    )
    with start_engine(plan, netns=where) as engine:
        check_ping_and_tcp(lan, names, engine)


def test_second_engine_on_the_same_device(
    lan: Lan, start_engine: Callable[..., Engine], cpus: list[int]
) -> None:
    """A TAP belongs to one engine; the second is refused and says which device."""
    where = lan.namespace("engine")
    plan = bridge_plan(cpus, "net_tap0,iface=hrtap0", "net_tap1,iface=hrtap1")
    with start_engine(plan, netns=where) as engine:
        other = f"{engine.socket_path}.second"
        second = subprocess.run(
            [*engine.command[:-1], other], capture_output=True, text=True, timeout=30
        )
        assert second.returncode == 2, second.stderr
        assert "links.client" in second.stderr
        assert len(second.stderr.strip().splitlines()) == 1
        assert not Path(other).exists()
        assert engine.read()["ok"], "the first one goes on"
