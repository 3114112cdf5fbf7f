# SPDX-License-Identifier: Apache-2.0
"""The LANs that join a deployment's containers: in a namespace of their own, forwarding, copying,
counted, and gone with the ledger. Namespaces stand for the containers."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.collect.collector import Targets
from headrace.collect.virtual_switch import VirtualSwitch
from headrace.ground.appliances.addressing import ContainerNode, NodeInterface, Route
from headrace.ground.appliances.deploy import configure
from headrace.ground.appliances.fabric import Bridge, Macvlan, bridges_of
from headrace.host.ledger import Ledger
from headrace.host.plumbing import counts, make_namespace, set_up
from support.netns import devices_and_rules

pytestmark = [pytest.mark.beside, pytest.mark.needs_root]
PINGS = 20
ENDS = {
    "left": NodeInterface("down", 0, "198.18.0.10", "down"),
    "right": NodeInterface("up", 0, "198.18.0.20", "up"),
}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    own = Ledger(tmp_path)
    yield own
    own.undo()


def ping(namespace: str, address: str) -> None:
    command = ["ip", "netns", "exec", namespace, "ping", "-qnA", "-c", str(PINGS), address]
    subprocess.run(command, check=True, capture_output=True, timeout=30)


def joined(tag: str, fabric: Bridge | Macvlan, ledger: Ledger) -> list[object]:
    fabric.add_lan(0)
    ports: list[object] = []
    for name, interface in ENDS.items():
        node = ContainerNode(name, name, name, "client", (interface,), routes=tuple[Route, ...]())
        make_namespace(f"{tag}-{name}", ledger)
        ports.append(fabric.attach(f"{tag}-{name}", interface))
        configure(f"{tag}-{name}", node)
    return ports


def test_a_bridge_is_apart_and_its_counters_are_read(ledger: Ledger) -> None:
    tag, before = f"hr{secrets.token_hex(2)}", devices_and_rules()
    fabric = Bridge(tag, ledger)
    left, _ = joined(tag, fabric, ledger)
    make_namespace(f"{tag}-leaf", ledger)
    fabric.mirror([left], f"{tag}-leaf", "mirror")  # type: ignore[list-item]
    set_up(f"{tag}-leaf", "mirror")
    assert devices_and_rules() == before
    watched = VirtualSwitch(
        Targets(bridges=(f"{tag}b0",), labels={f"{tag}b0": "LAN 0"}, bridges_in=bridges_of(tag))
    )
    try:
        assert watched.refusal() is None
        assert watched.absent() == {}
        ping(f"{tag}-left", "198.18.0.20")
        read = {(r.metric, r.place): r.value for r in watched.read()}
        seen = counts(f"{tag}-left")["down"]  # the other end of the same wire
    finally:
        watched.close()
    assert seen.tx_packets >= PINGS
    assert read["rx_packets", f"LAN 0/{tag}p1"] == seen.tx_packets
    assert read["tx_packets", f"LAN 0/{tag}p1"] == seen.rx_packets
    assert read["bridge_fdb_entries", "LAN 0"] >= 2
    netfilter = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    if netfilter.exists():  # as the machine has it, and not as a new namespace would
        assert read["bridge_netfilter", "LAN 0"] == float(netfilter.read_text())
    assert counts(f"{tag}-leaf")["mirror"].rx_packets >= 2 * PINGS  # both directions
    ledger.undo()
    assert devices_and_rules() == before
    assert not list(Path("/run/netns").glob(f"{tag}-*"))


def test_macvlans_parent_is_apart(ledger: Ledger) -> None:
    tag, before = f"hr{secrets.token_hex(2)}", devices_and_rules()
    joined(tag, Macvlan(tag, ledger), ledger)
    assert devices_and_rules() == before
    ping(f"{tag}-left", "198.18.0.20")
    assert counts(f"{tag}-right")["up"].rx_packets >= PINGS
    ledger.undo()
    assert not list(Path("/run/netns").glob(f"{tag}-*"))
