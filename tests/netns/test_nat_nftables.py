# SPDX-License-Identifier: Apache-2.0
"""`nat` beside nftables' masquerade and dnat: the same packets one after the other through both.

The same flows must pass, translated to the same addresses, with right checksums, and the ways back
must lead to the same hosts; only the outside ports may differ. docs/nftables.md lists where the two
differ on purpose; that is checked as well.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.packet import Packet, Raw

from support.conversation import Step, rounds, v4
from support.engine import Engine
from support.judgements import SCENARIOS
from support.middlebox import (
    INSIDE4,
    MARKER_PROTOCOL,
    PORTS,
    ROUTER4,
    Box,
    Side,
    box_plan,
    make_router,
    wire_up,
)  # fmt: skip
from support.netns import Lan
from support.translation import Translated, Translator

pytestmark = [
    pytest.mark.beside,
    pytest.mark.needs_root,
    pytest.mark.skipif(shutil.which("nft") is None, reason="nftables is not installed"),
]

WEB, NAMES = "10.0.0.9", "10.0.0.10"  # servers inside that the outside may reach

STATIC_PORTS = (8080, 5353)

RULESET = f"""
table ip nat {{
  chain prerouting {{
    type nat hook prerouting priority dstnat; policy accept;
    iifname "{PORTS["outside"]}" ip daddr {ROUTER4} tcp dport 8080 dnat to {WEB}:80
    iifname "{PORTS["outside"]}" ip daddr {ROUTER4} udp dport 5353 dnat to {NAMES}:53
  }}
  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    oifname "{PORTS["outside"]}" ip saddr {INSIDE4} masquerade random
  }}
}}
table ip filter {{
  chain raw {{
    type filter hook prerouting priority raw; policy accept;
    meta l4proto {MARKER_PROTOCOL} notrack
  }}
  chain input {{
    type filter hook input priority filter; policy drop;
  }}
  chain forward {{
    type filter hook forward priority filter; policy accept;
    ct state invalid drop
  }}
}}
"""

NAT = {
    "pool": [ROUTER4],
    "inside": [INSIDE4],
    "static": [
        {"protocol": "tcp", "inside": WEB, "inside_port": 80, "outside": ROUTER4,
         "outside_port": 8080},
        {"protocol": "udp", "inside": NAMES, "inside_port": 53, "outside": ROUTER4,
         "outside_port": 5353},
    ],
}  # fmt: skip


@contextmanager
def both(
    lan: Lan, start_engine: Callable[..., Engine], cpus: list[int]
) -> Iterator[tuple[Translator, Translator]]:
    kernel, ours = wire_up(lan, "k"), wire_up(lan, "h")
    make_router(lan, kernel["middle"], RULESET)
    boxes = [Box(names["inside"], names["outside"]) for names in (ours, kernel)]
    try:
        with start_engine(box_plan(cpus[-1], "nat", NAT), netns=ours["middle"]):
            yield Translator(boxes[0], STATIC_PORTS), Translator(boxes[1], STATIC_PORTS)
            for box in boxes:
                box.assert_quiet()
    finally:
        for box in boxes:
            box.close()


# Connection tracking calls these invalid, and the rule set above drops what is invalid. headrace's
# `nat` is no firewall: it translates them, whereas nftables without that rule would let them out
# with their inside addresses. A step, or None for all of a scenario's.
TRANSLATED_ANYWAY = {
    ("tcp flags that nobody sends", None),
    ("tcp in the middle", None),
    ("tcp outside its window", None),
    ("tcp from outside to an open port", None),  # begins with an answer, for want of a mapping
    ("echo", "reply to nothing"),
    ("checksums that are wrong", None),  # updated as RFC 1624 has it, they stay wrong
}
# Only TCP, UDP and ICMP are translated.
NOT_TRANSLATED = {("another protocol", None)}


def among(known: set[tuple[str, str | None]], name: str, step: Step) -> bool:
    return not known.isdisjoint({(name, None), (name, step.name)})


def compare(pair: tuple[Translator, Translator], steps: list[tuple[str, Step]]) -> list[str]:
    """What is wrong with what came out of ours, or different from what came out of the kernel's,
    of one round of steps, all from one side."""
    ours, theirs = exchange(pair, steps[0][1].side, [bytes(step.packet) for _, step in steps])
    problems = []
    for (name, step), one, other in zip(steps, ours, theirs, strict=True):
        if among(TRANSLATED_ANYWAY, name, step) and not other.packets:
            continue
        if among(NOT_TRANSLATED, name, step) and not one.packets:
            continue
        problems += [f"{name}, {step}: {problem}" for problem in one.wrong + other.wrong]
        if one.packets != other.packets:
            problems.append(f"{name}, {step}: headrace {one}, nftables {other}")
    return problems


def exchange(
    pair: tuple[Translator, Translator], side: Side, packets: list[bytes]
) -> tuple[list[Translated], list[Translated]]:
    """The same packets to both on this side, and what each made of them."""
    for translator in pair:
        translator.give(side, packets)
    ours, theirs = (translator.take(side) for translator in pair)
    return ours, theirs


def test_conversations(lan: Lan, start_engine: Callable[..., Engine], cpus: list[int]) -> None:
    with both(lan, start_engine, cpus) as pair:
        wrong = [line for steps in rounds(SCENARIOS, v4) for line in compare(pair, steps)]
    assert not wrong, "\n" + "\n".join(wrong)


def test_hosts_of_the_same_port(
    lan: Lan, start_engine: Callable[..., Engine], cpus: list[int]
) -> None:
    """Forty hosts use one port towards one server: each gets its own outside port and answer."""
    hosts = [f"10.0.0.{i}" for i in range(20, 60)]
    with both(lan, start_engine, cpus) as pair:
        for out, back in (
            (UDP(sport=5000, dport=53), UDP(sport=53, dport=5000)),
            (ICMP(type=8, id=77), ICMP(type=0, id=77)),
        ):
            for translator in pair:
                translator.given.clear()
            asked = [bytes(IP(src=h, dst=v4.server, id=1) / out / Raw(b"who?")) for h in hosts]
            answers = exchange(pair, "inside", asked)
            for translator, came in zip(pair, answers, strict=True):
                assert not [problem for one in came for problem in one.wrong]
                assert len(set(translator.given.values())) == len(hosts)
            assert answers[0] == answers[1]
            replies = [bytes(IP(src=v4.server, dst=h, id=1) / back / Raw(b"you")) for h in hosts]
            ours, theirs = exchange(pair, "outside", replies)
            assert ours == theirs
            assert [IP(one.packets[0]).dst for one in ours] == hosts


def test_static_mapping(lan: Lan, start_engine: Callable[..., Engine], cpus: list[int]) -> None:
    """Destination NAT: in to the server, out from the port that others see, errors as well."""
    tcp, udp = TCP(sport=40000, dport=8080, flags="S"), UDP(sport=40000, dport=5353)
    elsewhere = TCP(sport=40000, dport=8081, flags="S"), UDP(sport=40000, dport=5354)
    with both(lan, start_engine, cpus) as pair:
        asked = [
            bytes(IP(src=v4.server, dst=ROUTER4, id=1) / layer / Raw(b"in"))
            for layer in (tcp, udp, *elsewhere)
        ]
        ours, theirs = exchange(pair, "outside", asked)
        assert ours == theirs
        assert [len(one.packets) for one in ours] == [1, 1, 0, 0]
        inside = [IP(one.packets[0]) for one in ours[:2]]
        assert [(p.dst, p.dport) for p in inside] == [(WEB, 80), (NAMES, 53)]

        answered = [
            IP(src=WEB, dst=v4.server, id=1) / TCP(sport=80, dport=40000, flags="SA", ack=1),
            IP(src=NAMES, dst=v4.server, id=1) / UDP(sport=53, dport=40000) / Raw(b"out"),
            unreachable(NAMES, IP(src=v4.server, dst=NAMES, id=1) / UDP(sport=40000, dport=53)),
        ]
        ours, theirs = exchange(pair, "inside", [bytes(packet) for packet in answered])
        assert ours == theirs
        assert not [problem for one in ours for problem in one.wrong]
        assert [one.ports for one in ours] == [[8080], [5353], [5353]]


def unreachable(host: str, about: Packet) -> Packet:
    """RFC 792: nobody listens at the port that this packet went to."""
    return IP(src=host, dst=v4.server, id=1) / ICMP(type=3, code=3) / Raw(bytes(about))
