# SPDX-License-Identifier: Apache-2.0
"""What is left of a translated frame when the choice of its port is taken out of it."""

from __future__ import annotations

from ipaddress import IPv4Address

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw, raw

from headrace.ground.engines.translation import ChosenEnds

POOL = ("203.0.113.1", "203.0.113.2")
CHOSEN = ChosenEnds(
    frozenset(IPv4Address(one).packed for one in POOL),
    frozenset([(17, IPv4Address(POOL[0]).packed, 53)]),
)


def frame(layer: Packet, source: str = POOL[0], text: bytes = b"abc") -> bytes:
    head = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    return bytes(head / IP(src=source, dst="192.0.2.9") / layer / Raw(text))


def test_endpoints_of_the_pool_are_alike() -> None:
    for one, other in (
        (UDP(sport=1024, dport=7), UDP(sport=60000, dport=7)),
        (TCP(sport=1024, dport=7), TCP(sport=60000, dport=7)),
        (ICMP(id=1), ICMP(id=60000)),
    ):
        first = CHOSEN.without(frame(one))
        assert first == CHOSEN.without(frame(other, POOL[1]))


def test_all_else_is_not() -> None:
    given = frame(UDP(sport=1024, dport=7))
    plain = CHOSEN.without(given)
    wrong = bytearray(given)
    wrong[40] ^= 1  # of UDP's checksum
    others = [
        bytes(wrong), frame(UDP(sport=1024, dport=8)), frame(UDP(sport=1024, dport=7), text=b"axc"),
        frame(UDP(sport=1024, dport=7), "203.0.113.3"), frame(UDP(sport=1024, dport=7, chksum=0)),
        frame(UDP(sport=53, dport=7)),  # a static mapping's port is not chosen
    ]  # fmt: skip
    assert plain not in [CHOSEN.without(one) for one in others]
    assert CHOSEN.without(frame(UDP(sport=53))) == frame(UDP(sport=53))


def test_a_wrong_checksum_is_as_wrong_behind_a_translator() -> None:
    """RFC 1624: the translator adds what it changes."""
    before, after = frame(UDP(sport=1024, dport=7)), frame(UDP(sport=1025, dport=7))
    wrong = []
    for one in (before, after):
        total = (int.from_bytes(one[40:42]) - 77) % 0xFFFF
        wrong.append(CHOSEN.without(one[:40] + total.to_bytes(2) + one[42:]))
    assert wrong[0] == wrong[1] != CHOSEN.without(before)


def test_answers_are_addressed_to_what_came_out() -> None:
    out = [frame(UDP(sport=1024, dport=7)), frame(TCP(sport=9, dport=8)), frame(ICMP(id=5))]
    macs = bytes(range(12))
    udp, tcp, icmp = map(Ether, CHOSEN.answers([*out, *out], macs))
    assert (udp[IP].src, udp[IP].dst, udp[UDP].sport, udp[UDP].dport) == (
        "192.0.2.9", POOL[0], 7, 1024,
    )  # fmt: skip
    assert (tcp[TCP].sport, tcp[TCP].dport) == (8, 9)
    assert (icmp[ICMP].type, icmp[ICMP].id) == (0, 5)
    assert CHOSEN.answers([frame(UDP(), "192.0.2.1")], macs) == []


def test_backends_are_alike() -> None:
    vip = (IPv4Address("198.51.100.1").packed, (80).to_bytes(2))
    own = [(IPv4Address(f"10.0.0.{i}").packed, (8080).to_bytes(2)) for i in (1, 2)]
    balanced = ChosenEnds(backends=dict.fromkeys(own, vip))

    def to(address: str, port: int, text: bytes = b"abc") -> bytes:
        head = Ether(dst="02:00:00:00:00:02") / IP(src="192.0.2.9", dst=address)
        return balanced.without(raw(head / TCP(sport=5, dport=port) / Raw(text)))

    assert to("10.0.0.1", 8080) == to("10.0.0.2", 8080) != to("10.0.0.2", 8080, b"axc")
    assert len({to("10.0.0.1", 8080), to("10.0.0.3", 8080), to("10.0.0.1", 8081)}) == 3
    answer = Ether(
        balanced.answers(
            [
                raw(
                    Ether()
                    / IP(src="192.0.2.9", dst="10.0.0.1")
                    / UDP(sport=5, dport=8080)
                    / Raw(b"x")
                )
            ],
            bytes(12),
        )[0]
    )
    assert (answer[IP].src, answer[IP].dst, answer[UDP].dport) == ("10.0.0.1", "192.0.2.9", 5)
