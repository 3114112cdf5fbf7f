# SPDX-License-Identifier: Apache-2.0
"""Conversations, packet by packet, that a stateful firewall must judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6Unknown, IPv6
from scapy.packet import Packet, Raw

from support.middlebox import Side, other

_INTERNET = b"abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Family:
    """IPv4 or IPv6: addresses, and how the two say the same."""

    version: int
    client: str
    server: str
    forbidden: str
    stranger: str
    router: str

    def ip(self, source: str, destination: str) -> Packet:
        if self.version == 6:
            return IPv6(src=source, dst=destination, hlim=64)
        return IP(src=source, dst=destination, ttl=64, id=1)

    def echo(self, identifier: int, answer: bool = False) -> Packet:
        if self.version == 6:
            kind = ICMPv6EchoReply if answer else ICMPv6EchoRequest
            return kind(id=identifier, seq=1, data=_INTERNET)
        return ICMP(type=0 if answer else 8, id=identifier, seq=1) / Raw(_INTERNET)

    def error(self, what: str, about: bytes, source: str, destination: str) -> Packet:
        """An ICMP error with the head of the packet that it is about."""
        kind, code = _ERRORS[what][0 if self.version == 4 else 1]
        head = self.ip(source, destination)
        if self.version == 6:
            return head / ICMPv6Unknown(type=kind, code=code) / Raw(b"\0" * 4 + about[:1000])
        return head / ICMP(type=kind, code=code) / Raw(about[:520])


_ERRORS = {
    "port-unreachable": ((3, 3), (1, 4)),
    "host-unreachable": ((3, 1), (1, 3)),
    "packet-too-big": ((3, 4), (2, 0)),
    "time-exceeded": ((11, 0), (3, 0)),
    "parameter-problem": ((12, 0), (4, 0)),
}

v4 = Family(4, "10.0.0.5", "203.0.113.80", "203.0.113.66", "203.0.113.99", "192.0.2.7")
v6 = Family(
    6, "2001:db8:a::5", "2001:db8:b::80", "2001:db8:b::66", "2001:db8:b::99", "2001:db8:c::7"
)


@dataclass(frozen=True)
class Step:
    """A packet that comes in on a side; is it let through? By nftables, where that differs?"""

    name: str
    side: Side
    packet: Packet
    passes: bool = True
    nftables: bool | None = None

    @property
    def verdicts(self) -> tuple[bool, bool]:
        """headrace's and nftables'."""
        return self.passes, self.passes if self.nftables is None else self.nftables

    def __str__(self) -> str:
        return f"{self.name} (from {self.side})"


@dataclass(frozen=True)
class Scenario:
    name: str
    steps: Callable[[Family], Iterable[Step]]


SCENARIOS: list[Scenario] = []


def scenario(
    *versions: int,
) -> Callable[[Callable[[Family], Iterator[Step]]], Callable[[Family], Iterator[Step]]]:
    """Registers a conversation, for these versions of IP."""

    def register(steps: Callable[[Family], Iterator[Step]]) -> Callable[[Family], Iterator[Step]]:
        def of(family: Family) -> Iterable[Step]:
            return steps(family) if not versions or family.version in versions else ()

        SCENARIOS.append(Scenario(steps.__name__.replace("_", " "), of))
        return steps

    return register


@dataclass
class Tcp:
    """Both ends of a connection, as far as sequence numbers go. `opener` sends the first SYN."""

    family: Family
    sport: int
    dport: int = 80
    opener: Side = "inside"
    window: int = 30000
    next: dict[Side, int] = field(default_factory=lambda: {"inside": 1000, "outside": 5000})

    def packet(self, side: Side, flags: str, data: bytes = b"", ahead: int = 0) -> Packet:
        """The next segment from this side; `ahead` leaves a gap that the side never sends."""
        ends = {"inside": self.family.client, "outside": self.family.server}
        own, their = self.sport, self.dport
        if side != self.opener:
            own, their = their, own
        far = other(side)
        segment = TCP(
            sport=own, dport=their, flags=flags, window=self.window,
            seq=self.next[side] + ahead, ack=self.next[far] if "A" in flags else 0,
        )  # fmt: skip
        self.next[side] += 0 if ahead else len(data) + ("S" in flags) + ("F" in flags)
        return self.family.ip(ends[side], ends[far]) / segment / Raw(data)

    def step(self, side: Side, flags: str, data: bytes = b"", **more: object) -> Step:
        passes, nftables = bool(more.get("passes", True)), more.get("nftables")
        ahead = more.get("ahead", 0)
        assert isinstance(ahead, int)
        name = str(more.get("name", flags))
        return Step(
            name, side, self.packet(side, flags, data, ahead), passes,
            None if nftables is None else bool(nftables),
        )  # fmt: skip

    def opened(self) -> Iterator[Step]:
        yield self.step(self.opener, "S")
        yield self.step(other(self.opener), "SA")
        yield self.step(self.opener, "A")


def udp(family: Family, side: Side, sport: int, dport: int, **at: str) -> Packet:
    ends = {"inside": family.client, "outside": family.server} | at
    return family.ip(ends[side], ends[other(side)]) / UDP(sport=sport, dport=dport) / Raw(_INTERNET)


def rounds(scenarios: Iterable[Scenario], family: Family) -> Iterator[list[tuple[str, Step]]]:
    """The conversations side by side: the next step of each, those of one side together.

    They have different ports, so that they do not meddle with each other, and a box that has many
    packets to see at once is done the sooner.
    """
    running = [(one.name, iter(one.steps(family))) for one in scenarios]
    while running:
        now: dict[Side, list[tuple[str, Step]]] = {"inside": [], "outside": []}
        for name, steps in list(running):
            if (step := next(steps, None)) is None:
                running.remove((name, steps))
            else:
                now[step.side].append((name, step))
        yield from (steps for steps in now.values() if steps)
