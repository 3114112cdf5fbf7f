# SPDX-License-Identifier: Apache-2.0
"""What FRR's zebra tells an engine's router over FPM: netlink messages in frames."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable

NEWROUTE, DELROUTE, NEWNEXTHOP = 24, 25, 104  # linux/rtnetlink.h
_DST, _OIF, _GATEWAY, _NH_ID = 1, 4, 5, 30
_NHA_ID, _NHA_GROUP, _NHA_OIF, _NHA_GATEWAY = 1, 2, 5, 6
_UNICAST, _MAIN, _INET = 1, 254, 2
_FRAME_MAX = 60_000


def _attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def _message(kind: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


def _address(text: str) -> bytes:
    return ipaddress.ip_address(text).packed


def route(prefix: str, gateway: str = "", interface: int = 1, object_: int = 0) -> bytes:
    """By a gateway, or by a next-hop object."""
    net = ipaddress.ip_network(prefix)
    body = struct.pack("=BBBBBBBBI", _INET, net.prefixlen, 0, 0, _MAIN, 0, 0, _UNICAST, 0)
    body += _attribute(_DST, net.network_address.packed)
    if object_:
        return _message(NEWROUTE, body + _attribute(_NH_ID, struct.pack("=I", object_)))
    body += _attribute(_GATEWAY, _address(gateway))
    return _message(NEWROUTE, body + _attribute(_OIF, struct.pack("=I", interface)))


def no_route(prefix: str) -> bytes:
    net = ipaddress.ip_network(prefix)
    body = struct.pack("=BBBBBBBBI", _INET, net.prefixlen, 0, 0, _MAIN, 0, 0, _UNICAST, 0)
    return _message(DELROUTE, body + _attribute(_DST, net.network_address.packed))


def next_hop(number: int, gateway: str, interface: int = 1) -> bytes:
    body = struct.pack("=BBBBI", _INET, 0, 0, 0, 0) + _attribute(_NHA_ID, struct.pack("=I", number))
    body += _attribute(_NHA_GATEWAY, _address(gateway))
    return _message(NEWNEXTHOP, body + _attribute(_NHA_OIF, struct.pack("=I", interface)))


def group(number: int, members: Iterable[int]) -> bytes:
    body = struct.pack("=BBBBI", 0, 0, 0, 0, 0) + _attribute(_NHA_ID, struct.pack("=I", number))
    packed = b"".join(struct.pack("=IBBH", member, 0, 0, 0) for member in members)
    return _message(NEWNEXTHOP, body + _attribute(_NHA_GROUP, packed))


def frames(messages: Iterable[bytes]) -> bytes:
    """As many messages to a frame as it has room for."""
    done, now = bytearray(), bytearray()
    for one in messages:
        if len(now) + len(one) > _FRAME_MAX:
            done += struct.pack(">BBH", 1, 1, 4 + len(now)) + now
            now = bytearray()
        now += one
    return bytes(done + struct.pack(">BBH", 1, 1, 4 + len(now)) + now)
