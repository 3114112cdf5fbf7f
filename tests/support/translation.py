# SPDX-License-Identifier: Apache-2.0
"""A translator seen from both sides: conversations are told in inside addresses, and what the
outside sends is addressed to where the translator says the inside is."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from scapy.utils import checksum

from support.middlebox import ROUTER4, Box, Side, wrong_checksum

POOL = IPv4Address(ROUTER4).packed
UNMAPPED_PORT = 9  # discard: below every port that a translator of the tests gives out
_TCP, _UDP, _ICMP = socket.IPPROTO_TCP, socket.IPPROTO_UDP, socket.IPPROTO_ICMP
_CHECKSUM_AT = {_TCP: 16, _UDP: 6, _ICMP: 2}
_ICMP_ERRORS = (3, 4, 5, 11, 12)

Key = tuple[int, bytes, int, bytes, int]  # protocol, inside and its port, remote and its port


@dataclass
class Ip:
    """An IPv4 packet whose parts may be written; also one that an ICMP error carries."""

    data: bytearray

    @property
    def start(self) -> int:
        return (self.data[0] & 15) * 4

    @property
    def protocol(self) -> int:
        return self.data[9]

    @property
    def src(self) -> bytes:
        return bytes(self.data[12:16])

    @property
    def dst(self) -> bytes:
        return bytes(self.data[16:20])

    @property
    def whole(self) -> bool:
        return len(self.data) >= 20 and len(self.data) == int.from_bytes(self.data[2:4], "big")

    @property
    def is_error(self) -> bool:
        rest = self.data[self.start :]
        return self.protocol == _ICMP and len(rest) >= 8 and rest[0] in _ICMP_ERRORS

    @property
    def carried(self) -> Ip | None:
        """The packet that an ICMP error is about, as far as it is there."""
        inner = self.data[self.start + 8 :]
        return Ip(bytearray(inner)) if self.is_error and len(inner) >= 20 else None

    def port_at(self, source: bool) -> int | None:
        """Where the port is; ICMP queries have an identifier for both."""
        offset = self.start + (4 if self.protocol == _ICMP else 0 if source else 2)
        known = self.protocol in (_TCP, _UDP) or (self.protocol == _ICMP and not self.is_error)
        return offset if known and len(self.data) >= offset + 2 else None

    def port(self, source: bool) -> int:
        at = self.port_at(source)
        return int.from_bytes(self.data[at : at + 2], "big") if at is not None else 0

    def set(self, source: bool, address: bytes, port: int) -> None:
        at = self.port_at(source)
        self.data[slice(12, 16) if source else slice(16, 20)] = address
        if at is not None:
            self.data[at : at + 2] = port.to_bytes(2, "big")

    def key(self, outward: bool) -> Key:
        """The key of the flow, whichever way this packet goes in it."""
        inside, remote = (self.src, self.dst) if outward else (self.dst, self.src)
        mine, theirs = self.port(outward), self.port(not outward)
        return self.protocol, inside, mine, remote, 0 if self.protocol == _ICMP else theirs

    def fix_checksums(self) -> None:
        """Recomputed where the packet is all there; a UDP checksum of 0 (none) stays so."""
        self.data[10:12] = b"\0\0"
        self.data[10:12] = checksum(bytes(self.data[: self.start])).to_bytes(2, "big")
        at = self.start + _CHECKSUM_AT.get(self.protocol, 0)
        if at == self.start or not self.whole or len(self.data) < at + 2:
            return
        if self.protocol == _UDP and self.data[at : at + 2] == b"\0\0":
            return
        self.data[at : at + 2] = b"\0\0"
        rest = bytes(self.data[self.start :])
        pseudo = self.src + self.dst + bytes((0, self.protocol)) + len(rest).to_bytes(2, "big")
        value = checksum(rest if self.protocol == _ICMP else pseudo + rest)
        self.data[at : at + 2] = (value or 0xFFFF).to_bytes(2, "big")


def canonical(packet: bytes) -> bytes:
    """Without what two translators may do differently: hop counts, port choice, checksums.

    The checksums are checked first (`wrong_checksum`); so they are known to fit.
    """
    ip = Ip(bytearray(packet))
    inner = ip.carried
    if inner is not None:
        if inner.dst == POOL:
            inner.set(False, POOL, 0)
        _blank(inner)
        ip.data[ip.start + 8 :] = inner.data
    if ip.src == POOL:
        ip.set(True, POOL, 0)
    ip.data[8] = 0
    _blank(ip)
    return bytes(ip.data)


def _blank(ip: Ip) -> None:
    ip.data[10:12] = b"\0\0"
    at = ip.start + _CHECKSUM_AT.get(ip.protocol, 0)
    if at > ip.start and len(ip.data) >= at + 2:
        there = ip.data[at : at + 2] != b"\0\0"
        ip.data[at : at + 2] = b"\xff\xff" if there else b"\0\0"


@dataclass(frozen=True)
class Translated:
    """What a packet became: made comparable; what is wrong in itself; the pool's ports in it."""

    packets: list[bytes]
    wrong: list[str] = field(compare=False)
    ports: list[int] = field(compare=False)

    def __str__(self) -> str:
        return ", ".join(packet.hex() for packet in self.packets) or "nothing"


def pool_port(packet: bytes) -> int:
    """The outside port that a packet to the outside tells of, or that an error carries."""
    ip = Ip(bytearray(packet))
    inner = ip.carried
    return inner.port(source=False) if inner else ip.port(source=True)


@dataclass
class Translator:
    """A box that translates, and what it gave to whom."""

    box: Box
    static: tuple[int, ...] = ()
    given: dict[Key, int] = field(default_factory=dict)
    _packets: list[bytes] = field(default_factory=list)

    def give(self, side: Side, packets: Iterable[bytes]) -> None:
        self._packets = [self.addressed(p) if side == "outside" else p for p in packets]
        self.box.give(side, self._packets)

    def take(self, side: Side) -> list[Translated]:
        taken = []
        for packet, came in zip(self._packets, self.box.take(side), strict=True):
            wrong = []
            if side == "inside":
                self._learn(packet, came)
            for out in came:
                if bad := wrong_checksum(out):
                    wrong.append(f"{bad} checksum wrong in {out.hex()}")
                wrong += self._carried_wrong(out)
            ports = [pool_port(out) for out in came] if side == "inside" else []
            taken.append(Translated([canonical(out) for out in came], wrong, ports))
        return taken

    def _learn(self, packet: bytes, came: Iterable[bytes]) -> None:
        ip = Ip(bytearray(packet))
        for out in came:
            if not ip.is_error and Ip(bytearray(out)).src == POOL:
                self.given[ip.key(outward=True)] = Ip(bytearray(out)).port(source=True)

    def _carried_wrong(self, out: bytes) -> list[str]:
        """RFC 5508 REQ-4, 5: what an error carries is as it was where its receiver sent it, or
        got it from."""
        inner = Ip(bytearray(out)).carried
        if inner is None:
            return []
        wrong = []
        if checksum(bytes(inner.data[: inner.start])):
            wrong.append(f"checksum of the carried header wrong in {out.hex()}")
        if inner.whole and inner.protocol == _UDP and wrong_checksum(bytes(inner.data)):
            wrong.append(f"checksum of the carried datagram wrong in {out.hex()}")
        given = {*self.given.values(), *self.static}
        if inner.dst == POOL and inner.port(source=False) not in given:
            wrong.append(f"port of the carried packet was never given: {out.hex()}")
        return wrong

    def addressed(self, packet: bytes) -> bytes:
        """As the outside sends it: to the pool, which is all that it knows of the inside."""
        ip = Ip(bytearray(packet))
        if ip.dst == POOL:
            return packet
        inner = ip.carried
        if inner is not None:
            port = self._given_to(inner.key(outward=True))
            inner.set(True, POOL, port)
            inner.fix_checksums()
            ip.data[ip.start + 8 :] = inner.data
        ip.set(False, POOL, self._given_to(ip.key(outward=False)))
        ip.fix_checksums()
        return bytes(ip.data)

    def _given_to(self, key: Key) -> int:
        """The flow's own outside port; for a stranger, the one that somebody else was shown."""
        if key in self.given:
            return self.given[key]
        shown = (port for other, port in self.given.items() if other[:3] == key[:3])
        return next(shown, UNMAPPED_PORT)
