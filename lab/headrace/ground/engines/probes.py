# SPDX-License-Identifier: Apache-2.0
"""Frames at the edges of what a chain's rules and routes tell apart, and random ones."""

from __future__ import annotations

import ipaddress
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from headrace.ground.engines.acl_rules import AclRule, Network, acl_rules
from headrace.ground.engines.frames import ETHERNET, checksum, framed, ipv4, ipv6
from headrace.ground.engines.routes import PrefixRoute, routes
from headrace.ground.engines.translation import backends_of, with_choice
from headrace.spec.chain import Node
from headrace.spec.document import Document
from headrace.spec.study import Experiment

T = TypeVar("T")
MOST = 300
NOT_COMPARED = (
    "frames with 802.1Q tags",
    "malformed IP headers, IPv4 options and IPv6 extension headers",
    "TCP, UDP and SCTP headers that are cut: headrace sees no ports there, others do",
)
HELD_FRAGMENTS = "fragments, which headrace's nat holds until it knows their ports"
FRAGMENTS = "fragments, which packet sockets put together (PACKET_FANOUT_FLAG_DEFRAG)"
_RULES, _ROUTES = 40, 30  # that have frames of their own, spread evenly over all there are
_TTLS = (0, 1, 2, 64, 255)
_PROTOCOLS = (1, 6, 17, 47, 50, 132)
_MORE_FRAGMENTS, _LATER_FRAGMENT = 0x2000, 0x0005
_SPECIAL4 = ("0.1.2.3", "10.0.0.1", "127.0.0.1", "169.254.7.7", "192.0.2.1", "224.0.0.5",
             "240.0.0.1", "255.255.255.255")  # fmt: skip
_MACS = (bytes.fromhex("ffffffffffff"), bytes.fromhex("01005e000005"))


@dataclass(frozen=True)
class Tuple:
    """What a header says that rules look at."""

    src: str
    dst: str
    proto: int
    sport: int
    dport: int


def probes(
    experiment: Experiment,
    doc: Document,
    own: Sequence[bytes],
    seed: int,
    fragments: bool,
    direction: str,
) -> list[bytes]:
    """Makes at most MOST frames. `own`: frames of the workload, whose addresses are taken, too."""
    chance = random.Random(seed)
    rules = [one for node in experiment.nodes if node.nf == "acl"
             for one in acl_rules(node.params, doc)]  # fmt: skip
    table = [one for node in experiment.nodes if node.nf == "l3fwd"
             for one in routes(node.params, doc)]  # fmt: skip
    addresses = _addresses(own, rules, table)
    flows = [flow for rule in _spread(rules, _RULES) for flow in _of_rule(rule, addresses, chance)]
    flows += [flow for one in _spread(table, _ROUTES)
              for flow in _to(_corners(one.prefix), addresses, chance)]  # fmt: skip
    for node in with_choice(experiment):
        ends = _translated if node.nf == "nat" else _balanced
        flows += ends(node, direction, addresses, chance)
    flows += _to(list(_SPECIAL4), addresses, chance)
    flows += [_reversed(flow) for flow in _to(list(_SPECIAL4), addresses, chance)]
    macs = (own[0][:6], own[0][6:12]) if own else (b"\x02\0\0\0\0\3", b"\x02\0\0\0\0\4")
    frames = [_frame(flow, macs, chance) for flow in flows]
    some = flows[:: max(1, len(flows) // 12)]
    frames += [frame for flow in some for frame in _odd(flow, macs, fragments)]
    while len(frames) < MOST:
        frames.append(_random(addresses, macs, chance))
    chance.shuffle(frames)
    return frames[:MOST]


def _spread(these: Sequence[T], most: int) -> Sequence[T]:
    return these[:: -(-len(these) // most)] if these else these


def _addresses(
    own: Sequence[bytes], rules: Sequence[AclRule], table: Sequence[PrefixRoute]
) -> dict[int, list[str]]:
    """Addresses by version of IP; some of each are always there."""
    pools: dict[int, list[str]] = {4: list(_SPECIAL4[1:2]), 6: ["2001:db8::1"]}
    for frame in own[:40]:
        if frame[12:14] == b"\x08\0":
            pools[4] += [str(ipaddress.IPv4Address(frame[i : i + 4])) for i in (26, 30)]
        elif frame[12:14] == b"\x86\xdd":
            pools[6] += [str(ipaddress.IPv6Address(frame[i : i + 16])) for i in (22, 38)]
    for rule in rules[:100]:
        for one in (rule.src, rule.dst):
            if one is not None:
                pools[one.version] += _corners(one)
    for route in table[:100]:
        pools[route.prefix.version] += _corners(route.prefix)
    return pools


def _corners(prefix: Network) -> list[str]:
    """First and last address, and those beside them."""
    first, last = int(prefix.network_address), int(prefix.broadcast_address)
    most = (1 << prefix.max_prefixlen) - 1
    kind = ipaddress.IPv4Address if prefix.version == 4 else ipaddress.IPv6Address
    return [str(kind(one)) for one in (first, last, first - 1, last + 1) if 0 <= one <= most]


def _of_rule(rule: AclRule, addresses: dict[int, list[str]], chance: random.Random) -> list[Tuple]:
    """Inside at both ends of its ranges, and just outside."""
    flows = []
    for version in rule.versions:
        any_address = addresses[version]
        srcs = _corners(rule.src) if rule.src is not None else any_address
        dsts = _corners(rule.dst) if rule.dst is not None else any_address
        proto = rule.proto if rule.proto is not None else chance.choice((6, 17))
        inside = [Tuple(srcs[i % 2 % len(srcs)], dsts[i % 2 % len(dsts)], proto,
                       rule.sport[i], rule.dport[i]) for i in (0, 1)]  # fmt: skip
        beside = Tuple(chance.choice(srcs), chance.choice(dsts), proto,
                      (rule.sport[1] + 1) % 65536, max(0, rule.dport[0] - 1))  # fmt: skip
        flows += [*inside, beside]
    return flows


def _to(
    targets: Sequence[str], addresses: dict[int, list[str]], chance: random.Random
) -> list[Tuple]:
    return [
        Tuple(
            chance.choice(addresses[ipaddress.ip_address(dst).version]), dst,
            chance.choice((6, 17)), chance.randrange(65536), chance.randrange(65536),
        )
        for dst in targets
    ]  # fmt: skip


def _translated(
    node: Node, direction: str, addresses: dict[int, list[str]], chance: random.Random
) -> list[Tuple]:
    """Frames from inside; to the pool, where nobody asked for it, and to static mappings, and
    beside."""
    flows = []
    for one in node.params.get("static", ()):
        proto, remote = (6 if one["protocol"] == "tcp" else 17), chance.choice(addresses[4])
        for more in (0, 1):
            inside = Tuple(
                str(one["inside"]), remote, proto, (one["inside_port"] + more) % 65536, 4000
            )
            outside = Tuple(
                remote, str(one["outside"]), proto, 4001, (one["outside_port"] + more) % 65536
            )
            flows.append(inside if direction == "forward" else outside)
    if direction == "reverse":
        return flows + _to([str(one) for one in node.params["pool"]] * 3, addresses, chance)
    for prefix in node.params.get("inside", ()):
        corners = _corners(ipaddress.ip_network(str(prefix), strict=False))
        flows += [_reversed(flow) for flow in _to(corners, addresses, chance)]
    return flows


def _balanced(
    node: Node, direction: str, addresses: dict[int, list[str]], chance: random.Random
) -> list[Tuple]:
    """Frames to each VIP and beside its port, and from its backends."""
    flows = []
    for vip in node.params["vips"]:
        port, own = vip.get("port", 0) or 4000, str(vip["address"]).partition("/")[0]
        ends = [(own, port), (own, (port + 1) % 65536)] * 4
        if direction == "reverse":
            ends = [(to, there or port) for to, there in list(backends_of(vip))[:8]]
        flows += [Tuple(to.src, address, to.proto, to.sport, there)
                  for to, (address, there) in zip(_to([own] * 8, addresses, chance), ends,
                                                  strict=False)]  # fmt: skip
    return flows if direction == "forward" else [_reversed(flow) for flow in flows]


def _reversed(flow: Tuple) -> Tuple:
    return Tuple(flow.dst, flow.src, flow.proto, flow.dport, flow.sport)


def _payload(flow: Tuple, size: int = 26) -> bytes:
    """It has ports where the protocol has them; TCP's flags say ACK, its checksum is right of every
    other port, ICMP asks for an echo."""
    data = bytes(i % 256 for i in range(size))
    if flow.proto == 6:
        head = struct.pack(">HHIIBBHHH", flow.sport, flow.dport, 1, 1, 0x50, 0x10, 9, 0, 0)
        addresses = (ipaddress.ip_address(one).packed for one in (flow.src, flow.dst))
        pseudo = b"".join(addresses) + struct.pack(">II", flow.proto, len(head + data))
        total = 0 if flow.dport % 2 else checksum(pseudo + head + data)
        return head[:16] + total.to_bytes(2) + head[18:] + data
    if flow.proto == 17:
        return struct.pack(">HHHH", flow.sport, flow.dport, 8 + size, 0) + data
    if flow.proto == 132:
        return struct.pack(">HHII", flow.sport, flow.dport, 1, 0) + data
    if flow.proto in (1, 58):
        kind = 8 if flow.proto == 1 else 128
        body = struct.pack(">HH", flow.sport, flow.dport) + data
        return struct.pack(">BBH", kind, 0, checksum(bytes((kind, 0, 0, 0)) + body)) + body
    return data


def _packet(flow: Tuple, payload: bytes, ttl: int, fragment: int = 0x4000) -> bytes:
    if ":" in flow.src:
        return ipv6(flow.src, flow.dst, flow.proto, payload, ttl)
    return ipv4(flow.src, flow.dst, flow.proto, payload, ttl, fragment)


def _frame(flow: Tuple, macs: tuple[bytes, bytes], chance: random.Random) -> bytes:
    return framed(_packet(flow, _payload(flow, chance.choice((26, 27, 200))), 64), *macs)


def _odd(flow: Tuple, macs: tuple[bytes, bytes], fragments: bool) -> list[bytes]:
    """The same flow with each TTL, as fragments, with padding, a wrong checksum, to
    everybody, and as another protocol."""
    payload = _payload(flow)
    whole = _packet(flow, payload, 64)
    frames = [framed(_packet(flow, payload, ttl), *macs) for ttl in _TTLS]
    frames += [framed(whole, mac, macs[1]) for mac in _MACS]
    frames += [framed(whole, *macs, ethertype) for ethertype in (0x88B5, 0x0806)]
    frames.append(framed(whole + b"\xa5" * 9, *macs))
    if ":" not in flow.src:
        if fragments:
            frames += [framed(_packet(flow, payload, 64, part), *macs)
                   for part in (_MORE_FRAGMENTS, _LATER_FRAGMENT)]  # fmt: skip
        wrong = bytearray(framed(whole, *macs))
        wrong[ETHERNET + 10] ^= 0x55
        frames.append(bytes(wrong))
    return frames


def _random(
    addresses: dict[int, list[str]], macs: tuple[bytes, bytes], chance: random.Random
) -> bytes:
    some = addresses[chance.choice((4, 4, 4, 6))]
    flow = Tuple(
        chance.choice(some), chance.choice(some), chance.choice(_PROTOCOLS),
        chance.choice((53, 80, 1024, chance.randrange(65536))),
        chance.choice((53, 80, 443, chance.randrange(65536))),
    )  # fmt: skip
    payload = _payload(flow, chance.randrange(26, 1400))
    return framed(_packet(flow, payload, chance.choice(_TTLS[2:])), *macs)
