# SPDX-License-Identifier: Apache-2.0
"""What translators (NAPT, RFC 3022) and load balancers may do differently: which outside endpoint a
session has, which backend."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.engine.plan_document import Plan
from headrace.ground.engines.frames import ETHERNET, checksum, framed, ipv4
from headrace.spec.chain import Node
from headrace.spec.study import Experiment

SEED = 24  # of the choice of ports, where none is given: each start has the same then
CHOSEN = (
    "The address and the port (ICMP: the identifier) of the pool that a session gets; answers to "
    "them are given to each engine as its own, and are compared with nothing left out."
)
_ICMP, _TCP, _UDP = 1, 6, 17
BALANCED = (
    "The backend of a VIP that a flow gets; what backends answer is given to each engine from its "
    "own, and is compared with nothing left out."
)
_CHECKSUM_AT = {_ICMP: 2, _TCP: 16, _UDP: 6}
_ECHO, _ECHO_REPLY, _ACK = 8, 0, 0x10
_ANSWERS = 150  # at most


Endpoint = tuple[bytes, bytes]  # address and port, as in headers


@dataclass(frozen=True)
class ChosenEnds:
    """`pool`: addresses as they are in headers. `fixed`: outside endpoints of static mappings.
    `backends`: the VIP's endpoint, by a backend's; ports of b"" are kept."""

    pool: frozenset[bytes] = frozenset()
    fixed: frozenset[tuple[int, bytes, int]] = frozenset()
    backends: Mapping[Endpoint, Endpoint] = field(default_factory=dict)

    def without(self, frame: bytes) -> bytes:
        """The frame with the least address of the pool and port 0 where both were chosen, and as it
        was sent to the VIP. Of checksums remains by how much they are wrong, which who rewrites a
        packet does not change (RFC 1624)."""
        at = _l4(frame)
        if at is None:
            return frame
        parts: dict[int, bytes] = {}
        place = at + 4 if frame[23] == _ICMP else at
        end = (frame[23], frame[26:30], int.from_bytes(frame[place : place + 2]))
        if frame[26:30] in self.pool and end not in self.fixed:
            parts |= {26: min(self.pool), place: b"\0\0"}
        if (vip := self._vip(frame, at)) is not None:
            parts |= {30: vip[0], at + 2: vip[1]}
        return _without_sums(frame, at, parts) if parts else frame

    def _vip(self, frame: bytes, at: int) -> Endpoint | None:
        """Behind whose backend its destination is; None: behind nobody's."""
        if frame[23] == _ICMP:
            return None
        address, port = frame[30:34], frame[at + 2 : at + 4]
        exact = self.backends.get((address, port))
        if exact is not None:
            return exact
        any_port = self.backends.get((address, b""))
        return None if any_port is None else (any_port[0], port)

    def answers(self, frames: Iterable[bytes], macs: bytes) -> list[bytes]:
        """What remote hosts and backends say to frames that were let out; `macs`: a header's first
        12 bytes. None to the same endpoint twice."""
        answers: dict[bytes, None] = {}
        for frame in frames:
            at = _l4(frame)
            if at is None or len(answers) == _ANSWERS:
                continue
            if frame[26:30] in self.pool or self._vip(frame, at) is not None:
                answer = _answer(frame, at)
                answers |= {} if answer is None else {answer: None}
        return [framed(packet, macs[:6], macs[6:12]) for packet in answers]


def _l4(frame: bytes) -> int | None:
    """Where the transport header begins that a translator rewrites; None where there is none."""
    if frame[12:14] != b"\x08\0" or len(frame) < ETHERNET + 20:
        return None
    at = ETHERNET + (frame[14] & 15) * 4
    fragment = int.from_bytes(frame[20:22]) & 0x3FFF
    whole = len(frame) >= at + {_ICMP: 8, _TCP: 20, _UDP: 8}.get(frame[23], 1 << 16)
    return at if whole and not fragment else None


def _without_sums(frame: bytes, at: int, parts: Mapping[int, bytes]) -> bytes:
    """The frame with these parts instead, and what checksums were wrong by in their place."""
    plain, l4 = bytearray(frame), _l4_residual(frame, at)
    for place, part in parts.items():
        plain[place : place + len(part)] = part
    plain[24:26] = residual(frame[ETHERNET:at]).to_bytes(2)
    if l4 is not None:
        place = at + _CHECKSUM_AT[frame[23]]
        plain[place : place + 2] = l4.to_bytes(2)
    return bytes(plain)


def residual(data: bytes) -> int:
    """0xffff of data with a right checksum in it (RFC 1071)."""
    return ~checksum(data) & 0xFFFF


def _l4_residual(frame: bytes, at: int) -> int | None:
    """None: UDP without a checksum."""
    proto, end = frame[23], ETHERNET + int.from_bytes(frame[16:18])
    if proto == _UDP and frame[at + 6 : at + 8] == b"\0\0":
        return None
    pseudo = b"" if proto == _ICMP else frame[26:34] + struct.pack(">HH", proto, end - at)
    return residual(pseudo + frame[at:end])


def _answer(frame: bytes, at: int) -> bytes | None:
    src, dst = (str(ipaddress.IPv4Address(frame[i : i + 4])) for i in (30, 26))
    own, other, proto = frame[at : at + 2], frame[at + 2 : at + 4], frame[23]
    data = b"an answer from outside"
    if proto == _UDP:
        payload = other + own + struct.pack(">HH", 8 + len(data), 0) + data
    elif proto == _TCP:
        payload = other + own + struct.pack(">IIBBHHH", 1, 1, 0x50, _ACK, 9, 0, 0) + data
    elif frame[at] == _ECHO:
        body = frame[at + 4 : at + 8] + data
        total = checksum(bytes((_ECHO_REPLY, 0, 0, 0)) + body)
        payload = struct.pack(">BBH", _ECHO_REPLY, 0, total) + body
    else:
        return None
    return ipv4(src, dst, proto, payload)


def with_choice(experiment: Experiment) -> list[Node]:
    """The functions of a chain that choose endpoints."""
    return [node for node in experiment.nodes if node.nf in ("nat", "lb")]


def chosen(nodes: Sequence[Node]) -> ChosenEnds:
    """What all of them may choose."""
    given = [one for node in nodes for one in node.params.get("static", ())]
    fixed = [(_TCP if one["protocol"] == "tcp" else _UDP, _bytes(one["outside"]),
              int(one["outside_port"])) for one in given]  # fmt: skip
    pool = [_bytes(one) for node in nodes for one in node.params.get("pool", ())]
    vips = [one for node in nodes for one in node.params.get("vips", ())]
    backends = {}
    for vip in vips:
        for address, port in backends_of(vip):
            own, kept = _port(port or vip.get("port", 0)), _port(vip.get("port", 0))
            backends[_bytes(address), own] = (_bytes(vip["address"]), kept)
    addresses = [*pool, *(address for _, address, _ in fixed)]
    return ChosenEnds(frozenset(addresses), frozenset(fixed), backends)


def backends_of(vip: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Addresses and ports (0: the VIP's own), each of `count` by itself."""
    for one in vip.get("backends", ()):
        first = ipaddress.ip_address(str(one["address"]).partition("/")[0])
        for i in range(one.get("count", 1)):
            yield str(first + i), one.get("port", 0)


def _port(number: int) -> bytes:
    return number.to_bytes(2) if number else b""


def _bytes(address: str) -> bytes:
    return ipaddress.IPv4Address(address.partition("/")[0]).packed


def seeded(plan: Plan) -> Plan:
    """The choice of ports is the same in each start."""
    nfs = dict(plan.nfs)
    for name, function in nfs.items():
        if function.type == "nat":
            params = {**function.params, "seed": function.params.get("seed") or SEED}
            nfs[name] = function.model_copy(update={"params": params})
    return plan.having(nfs=nfs)
