# SPDX-License-Identifier: Apache-2.0
"""A box between two interfaces, and what comes out of it for each frame that goes in.

The box is either the engine or a router made of a network namespace with nftables; both are given
the same frames. A frame that is not let through must not be waited for: after each one a marker is
sent, which every box lets through, and what comes out before the marker is the answer.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import time
from collections.abc import Iterable
from typing import Any, Literal

from pyroute2 import netns
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from scapy.utils import checksum

from support.engine import memory_engine
from support.netns import Lan
from support.plans import port

Side = Literal["inside", "outside"]

MAC: dict[Side, str] = {"inside": "02:00:00:00:0c:01", "outside": "02:00:00:00:05:01"}
# The router's own ends; frames for the engine, which takes any, bear them as well.
ROUTER_MAC = {"inside": "02:00:00:00:0c:fe", "outside": "02:00:00:00:05:fe"}
PORTS: dict[Side, str] = {"inside": "to-inside", "outside": "to-outside"}

# RFC 3692 sets protocol 253 aside for experiments: no rule of a test is about it.
MARKER_PROTOCOL = 253
MARKER = {"inside": ("10.99.0.1", "203.0.113.253"), "outside": ("203.0.113.253", "10.99.0.1")}
_MARKER_WAIT_S = 20.0
_FRAME_WAIT_S = 0.2
_OUTGOING = 4  # PACKET_OUTGOING, packet(7)


class End:
    """The interface at one end, without a stack of its own: frames only."""

    def __init__(self, namespace: str, side: Side) -> None:
        self.side = side
        netns.pushns(namespace)
        try:
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        finally:
            netns.popns()
        self._socket.bind(("eth0", 0))

    def send(self, packet: Packet | bytes) -> None:
        kind = 0x86DD if bytes(packet)[0] >> 4 == 6 else 0x0800
        header = Ether(src=MAC[self.side], dst=ROUTER_MAC[self.side], type=kind)
        self._socket.send(bytes(header) + bytes(packet))

    def receive(self, block: bool = True) -> bytes | None:
        """The next IP packet, b"" for a frame that is none of ours; None when there is nothing."""
        # A timeout's wait comes before the system call: MSG_DONTWAIT would not spare it.
        self._socket.settimeout(_FRAME_WAIT_S if block else 0)
        try:
            frame, address = self._socket.recvfrom(65536)
        except (TimeoutError, BlockingIOError):
            return None
        return b"" if address[2] == _OUTGOING else _ip_packet(frame)

    def waiting(self) -> list[bytes]:
        """What is there already."""
        came = []
        while (packet := self.receive(block=False)) is not None:
            if packet:
                came.append(packet)
        return came

    def close(self) -> None:
        self._socket.close()


def _ip_packet(frame: bytes) -> bytes:
    """Without padding; empty for what stacks say to each other unasked."""
    kind, packet = frame[12:14], frame[14:]
    if kind == b"\x08\x00" and len(packet) >= 20:
        return packet[: int.from_bytes(packet[2:4], "big")]
    if kind == b"\x86\xdd" and len(packet) >= 40:
        from_nobody = packet[8:10] == b"\xfe\x80" or not any(packet[8:24])
        return b"" if from_nobody else packet[: 40 + int.from_bytes(packet[4:6], "big")]
    return b""


class Box:
    """The two ends of a box in the middle."""

    def __init__(self, inside: str, outside: str) -> None:
        self.ends: dict[Side, End] = {
            "inside": End(inside, "inside"),
            "outside": End(outside, "outside"),
        }
        self._serial = 0
        self._waited_for: list[int] = []

    def give(self, side: Side, packets: Iterable[bytes]) -> None:
        """Packets that come in on this side, each with its marker; `take` has what they became."""
        source, destination = MARKER[side]
        head = IP(src=source, dst=destination, proto=MARKER_PROTOCOL, ttl=64)
        self._waited_for = []
        for packet in packets:
            self._serial += 1
            self._waited_for.append(self._serial)
            self.ends[side].send(packet)
            self.ends[side].send(bytes(head / Raw(struct.pack("!Q", self._serial))))

    def take(self, side: Side) -> list[list[bytes]]:
        """For each packet that was given on this side: what came out on the other."""
        far = self.ends[other(side)]
        deadline = time.monotonic() + _MARKER_WAIT_S
        answers: list[list[bytes]] = []
        came: list[bytes] = []
        while len(answers) < len(self._waited_for):
            packet = far.receive()
            if packet and (serial := _marker(packet)) is None:
                came.append(packet)
            elif packet and serial == self._waited_for[len(answers)]:
                answers.append(came)
                came = []
            elif time.monotonic() > deadline:
                raise TimeoutError(f"no marker on the {far.side} after {_MARKER_WAIT_S} s")
        back = self.ends[side].waiting()
        assert not back, f"sent back to the {side}: {[p.hex() for p in back]}"
        return answers

    def assert_quiet(self) -> None:
        """After the last packet: nothing comes late on either side."""
        for side, end in self.ends.items():
            late = end.receive()
            assert not late, f"late on the {side}: {late.hex()}"

    def close(self) -> None:
        for end in self.ends.values():
            end.close()


def other(side: Side) -> Side:
    return "outside" if side == "inside" else "inside"


def _marker(packet: bytes) -> int | None:
    if packet[0] >> 4 != 4 or packet[9] != MARKER_PROTOCOL:
        return None
    return int(struct.unpack("!Q", packet[20:28])[0])


def wire_up(lan: Lan, name: str) -> dict[str, str]:
    """inside -- veth -- middle -- veth -- outside; the names of the three namespaces."""
    names = {role: lan.namespace(f"{name}-{role}") for role in ("inside", "middle", "outside")}
    for side in ("inside", "outside"):
        lan.veth((names[side], "eth0"), (names["middle"], PORTS[side]))
        _mac(names[side], "eth0", MAC[side])
        _mac(names["middle"], PORTS[side], ROUTER_MAC[side])
    return names


def _mac(namespace: str, interface: str, mac: str) -> None:
    subprocess.run(["ip", "-n", namespace, "link", "set", interface, "address", mac], check=True)


INSIDE4, INSIDE6 = "10.0.0.0/24", "2001:db8:a::/64"
ROUTER4 = "198.51.100.1"


def box_plan(cpu: int, nf: str, params: dict[str, Any]) -> dict[str, Any]:
    """One function between the two ports: forward is from inside to outside."""
    edge = "pass" if nf == "firewall" else "out"
    return {
        "version": 1,
        "engine": memory_engine(),
        "links": {side: port(f"net_af_packet_{side},iface={PORTS[side]}") for side in PORTS},
        "nfs": {nf: {"type": nf, "params": params}},
        "segments": [
            {
                "name": "chain",
                "cpus": [cpu],
                "inputs": [
                    {"link": "inside", "to": nf, "direction": "forward"},
                    {"link": "outside", "to": nf, "direction": "reverse"},
                ],
                "nodes": {
                    nf: {"forward": {edge: "link:outside"}, "reverse": {edge: "link:inside"}}
                },
            }
        ],
    }


def make_router(lan: Lan, middle: str, ruleset: str, **sysctls: str) -> None:
    """A kernel router between inside and everything else, its neighbours given."""
    for key, value in {
        "net.ipv4.ip_forward": "1",
        "net.ipv6.conf.all.disable_ipv6": "0",
        "net.ipv6.conf.default.disable_ipv6": "0",
        "net.ipv6.conf.all.forwarding": "1",
        "net.ipv4.conf.all.rp_filter": "0",
        "net.ipv4.conf.default.rp_filter": "0",
        **{f"net.ipv4.conf.{device}.rp_filter": "0" for device in PORTS.values()},
        **{f"net.ipv6.conf.{device}.disable_ipv6": "0" for device in PORTS.values()},
    }.items():
        lan.sysctl(middle, key, value)

    def ip(*arguments: str) -> None:
        lan.inside(middle, "ip", *arguments)

    for side, own4, hop4, prefixes in (
        ("inside", "10.255.1.1", "10.255.1.2", (INSIDE4, "10.99.0.0/24", INSIDE6)),
        ("outside", ROUTER4, "198.51.100.254", ("0.0.0.0/0", "::/0")),
    ):
        device, number = PORTS[side], own4.split(".")[1]
        own6, hop6 = f"2001:db8:{number}::1", f"2001:db8:{number}::2"
        ip("addr", "add", f"{own4}/24", "dev", device)
        ip("addr", "add", f"{own6}/64", "dev", device, "nodad")
        for hop in (hop4, hop6):
            ip("neigh", "replace", hop, "lladdr", MAC[side], "nud", "permanent", "dev", device)
        for prefix in prefixes:
            ip("route", "replace", prefix, "via", hop6 if ":" in prefix else hop4, "dev", device)
    load_ruleset(middle, ruleset)
    # Connection tracking has its sysctls once a rule has asked for it.
    for key, value in sysctls.items():
        lan.sysctl(middle, f"net.netfilter.{key}", value)


def load_ruleset(namespace: str, ruleset: str) -> None:
    done = subprocess.run(
        ["ip", "netns", "exec", namespace, "nft", "-f", "-"],
        input=ruleset, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"nft: {done.stderr}\n{ruleset}"


def wrong_checksum(packet: bytes) -> str | None:
    """The header whose checksum does not fit the packet; None when all do."""
    v6 = packet[0] >> 4 == 6
    start = 40 if v6 else (packet[0] & 15) * 4
    protocol = packet[6] if v6 else packet[9]
    if not v6 and checksum(packet[:start]):
        return "IPv4"
    if not v6 and packet[6] & 0x3F | packet[7]:
        return None  # a fragment: its last header's checksum is the whole datagram's
    addresses = packet[8:40] if v6 else packet[12:20]
    rest = packet[start:]
    pseudo = addresses + struct.pack("!II", len(rest), protocol)
    if protocol == socket.IPPROTO_ICMP:
        return "ICMP" if checksum(rest) else None
    # RFC 768: a UDP checksum of 0 says that there is none.
    if protocol == socket.IPPROTO_UDP and rest[6:8] == b"\0\0" and not v6:
        return None
    names = {
        socket.IPPROTO_TCP: "TCP",
        socket.IPPROTO_UDP: "UDP",
        socket.IPPROTO_ICMPV6: "ICMPv6",
    }
    return names[protocol] if protocol in names and checksum(pseudo + rest) else None


def parse(packet: bytes) -> Packet:
    return IPv6(packet) if packet[0] >> 4 == 6 else IP(packet)


def without_hop(packet: bytes) -> bytes:
    """As it was before a router, or after: time to live and the header's checksum set to 0."""
    data = bytearray(packet)
    if data[0] >> 4 == 6:
        data[7] = 0
    else:
        data[8] = 0
        data[10:12] = b"\0\0"
    return bytes(data)
