# SPDX-License-Identifier: Apache-2.0
"""What VPP's functions do to packets that headrace's do otherwise, by their nature."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Sequence

from headrace.engine.ways import Direction
from headrace.ground.engines.acl_rules import acl_rules
from headrace.ground.engines.adapter import Declared, Work
from headrace.ground.engines.frames import ETHERNET
from headrace.ground.engines.translation import backends_of
from headrace.spec.chain import Node

_IPV4, _IPV6 = b"\x08\0", b"\x86\xdd"
_ICMP, _TCP, _UDP, _SCTP = 1, 6, 17, 132
_SYN, _ACK = 0x02, 0x10
# Sources that l3fwd takes no packets from (RFC 1812 section 5.3.7, RFC 4291).
_STRANGE4 = tuple(map(ipaddress.IPv4Network, (
    "0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")))  # fmt: skip
_STRANGE6 = tuple(map(ipaddress.IPv6Network, ("::/127", "fe80::/10", "ff00::/8")))


def differences(work: Work) -> tuple[Declared, ...]:
    return tuple(_differences(work))


def _differences(work: Work) -> Iterator[Declared]:
    for node in work.experiment.nodes:
        if node.nf == "l3fwd":
            yield from _ROUTED
        elif node.nf == "acl" and any(one.names_ports for one in acl_rules(node.params, work.doc)):
            yield _PORTS
        elif node.nf == "nat":
            yield from _translated(node)
        elif node.nf == "lb":
            yield from _balanced(node)


def _proto(frame: bytes) -> int | None:
    """IP's protocol; None of other frames."""
    if frame[12:14] == _IPV4 and len(frame) >= ETHERNET + 20:
        return frame[23]
    return frame[20] if frame[12:14] == _IPV6 and len(frame) >= ETHERNET + 40 else None


def _l4(frame: bytes) -> int:
    """Where IPv4's payload begins."""
    return ETHERNET + (frame[ETHERNET] & 15) * 4


def _fragment(frame: bytes) -> bool:
    return frame[12:14] == _IPV4 and bool(int.from_bytes(frame[20:22]) & 0x3FFF)


def _within(address: bytes, nets: Sequence[ipaddress.IPv4Network]) -> bool:
    host = ipaddress.IPv4Address(address)
    return any(host in net for net in nets)


def _from_hosts(frame: bytes) -> bytes | None:
    if frame[12:14] == _IPV4 and len(frame) >= ETHERNET + 20:
        return None if _within(frame[26:30], _STRANGE4) else frame
    if frame[12:14] == _IPV6 and len(frame) >= ETHERNET + 40:
        host = ipaddress.IPv6Address(frame[22:38])
        return None if any(host in net for net in _STRANGE6) else frame
    return frame


_ROUTED = (
    Declared(
        "Packets from addresses that no host has (RFC 1812 section 5.3.7): l3fwd drops them, VPP "
        "looks at destinations only.",
        _from_hosts,
    ),
    Declared(
        "frames to MAC addresses of groups, which l3fwd drops and VPP routes",
        given=lambda _, frame: not frame[0] & 1,
    ),
)
_PORTS = Declared(
    "fragments and SCTP through an acl with ports: VPP sees those of a first fragment, and none of "
    "SCTP",
    given=lambda _, frame: not _fragment(frame) and _proto(frame) != _SCTP,
)


def _translated(node: Node) -> Iterator[Declared]:
    inside = [ipaddress.IPv4Network(str(one), strict=False)
              for one in node.params.get("inside", ())]  # fmt: skip

    def own(_: Direction, frame: bytes) -> bool:
        if frame[12:14] != _IPV4:
            return True
        return not inside or (_within(frame[26:30], inside) and not _within(frame[30:34], inside))

    yield Declared(
        "IPv4 that a nat passes unchanged, as it is not from `inside`, or turns back, as it goes "
        "there, too: VPP translates all that comes in by its port",
        given=own,
    )
    yield Declared(
        "TCP that begins no session (no SYN, or an ACK with it), for which VPP makes none; "
        "protocols but TCP, UDP and ICMP, whose addresses it translates and nat drops",
        given=_begins,
    )


def _begins(_: Direction, frame: bytes) -> bool:
    if frame[12:14] != _IPV4:
        return True
    if _proto(frame) == _TCP:
        at = _l4(frame) + 13
        return len(frame) > at and frame[at] & (_SYN | _ACK) == _SYN
    return _proto(frame) in (_ICMP, _UDP)


def _balanced(node: Node) -> Iterator[Declared]:
    vips = {ipaddress.IPv4Address(str(vip["address"]).partition("/")[0]).packed: vip["port"]
            for vip in node.params["vips"]}  # fmt: skip
    backends = {ipaddress.IPv4Address(address).packed
                for vip in node.params["vips"] for address, _ in backends_of(vip)}  # fmt: skip

    def for_port(_: Direction, frame: bytes) -> bool:
        if frame[12:14] != _IPV4 or frame[30:34] not in vips:
            return True
        at = _l4(frame) + 2
        port = int.from_bytes(frame[at : at + 2])
        return _proto(frame) == _UDP and not _fragment(frame) and port == vips[frame[30:34]]

    yield Declared(
        "packets to a VIP's address that are for no port of it, which an lb passes and VPP drops; "
        "fragments to it",
        given=for_port,
    )
    yield Declared(
        "UDP's checksum of what backends get and say: VPP changes it by the address alone, and "
        "makes one of none.",
        _without_sum(backends | set(vips)),
    )


def _without_sum(addresses: set[bytes]) -> Callable[[bytes], bytes | None]:
    def without(frame: bytes) -> bytes:
        if _proto(frame) != _UDP or frame[12:14] != _IPV4:
            return frame
        if not {frame[26:30], frame[30:34]} & addresses:
            return frame
        at = _l4(frame) + 6
        return frame[:at] + b"\0\0" + frame[at + 2 :]

    return without
