# SPDX-License-Identifier: Apache-2.0
"""Functions that choose endpoints, in OpenFlow's tables: `nat` by the switch's connection tracker,
`lb` by select groups."""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from headrace.engine.ways import Direction
from headrace.ground.engines.adapter import Work
from headrace.ground.engines.openflow import FlowTables
from headrace.ground.engines.translation import backends_of
from headrace.spec.chain import Node

PORT_MIN, PORT_MAX = 1024, 65535  # of the ports that it may choose, where it does
_TRANSLATED = ("tcp", "udp", "icmp")
_FIXED, _FRAGMENT, _TAKEN, _SESSION, _OTHER, _REST = 400, 300, 250, 200, 100, 1


def nat(work: Work, node: Node, direction: Direction, tables: FlowTables) -> None:
    """Two tables: who is to be tracked, then what the tracker says. The switch draws addresses and
    ports of ranges anew in each start; here a host's address is by its own one's last bits, and
    its port is kept where it is free."""
    tables.zones.setdefault(_zone(node), node.params.get("sessions", 131072))
    give = _outward if direction == "forward" else _inward
    give(node, f"{direction}/{node.name}", tables)


def _outward(node: Node, name: str, tables: FlowTables) -> None:
    past, then = f"goto_table:{tables.table + 2}", tables.table + 1
    for match, sets in _fixed(node.params, outward=True):
        tables.flow(_FIXED, match, f"{sets},{past}")
    for end, turn in _hosts(node.params):
        tables.flow(_FRAGMENT, f"ip,nw_frag=yes,{end}", tables.drop(f"{name}/fragment"))
        for match, source in _sources(node.params, turn):
            priority = _TAKEN if "=" in match else _SESSION
            track = f"ct(commit,zone={_zone(node)},nat(src={source}),table={then})"
            tables.flow(priority, f"{match},{end}", track)
        tables.flow(_OTHER, f"ip,{end}", tables.drop(f"{name}/unsupported"))
    tables.flow(_REST, "", past)
    tables.table += 1
    tables.flow(_SESSION, "ct_state=+inv,ip", tables.drop(f"{name}/invalid"))
    tables.flow(_REST, "", tables.onward())


def _inward(node: Node, name: str, tables: FlowTables) -> None:
    """Sessions are before static mappings, which are for what begins outside."""
    past, then = f"goto_table:{tables.table + 2}", tables.table + 1
    ends = {*node.params["pool"], *(one["outside"] for one in node.params.get("static", ()))}
    for end in (f"nw_dst={one}" for one in sorted(map(str, ends))):
        tables.flow(_FRAGMENT, f"ip,nw_frag=yes,{end}", tables.drop(f"{name}/fragment"))
        for proto in _TRANSLATED:
            track = f"ct(nat,zone={_zone(node)},table={then})"
            tables.flow(_SESSION, f"{proto},{end}", track)
        tables.flow(_OTHER, f"ip,{end}", tables.drop(f"{name}/unsupported"))
    tables.flow(_REST, "", past)
    tables.table += 1
    for state in ("ct_state=+est-inv,ip", "ct_state=+rel-inv,ip"):
        tables.flow(_FIXED + 1, state, tables.onward())
    for match, sets in _fixed(node.params, outward=False):
        tables.flow(_FIXED, match, tables.onward(sets))
    tables.flow(_REST, "", tables.drop(f"{name}/no-mapping"))


def _zone(node: Node) -> int:
    """The tracker tells sessions of several functions apart by its zone."""
    return 1 + zlib.crc32(node.name.encode()) % 65000


def _hosts(params: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Hosts inside by the last bits of their address, and whose turn of the pool that is."""
    inside = [ipaddress.IPv4Network(str(one), strict=False) for one in params.get("inside", ())]
    bits = (len(params["pool"]) - 1).bit_length()
    last = (1 << bits) - 1
    for prefix in inside or [ipaddress.IPv4Network("0.0.0.0/0")]:
        net, mask = int(prefix.network_address), int(prefix.netmask)
        for turn in range(1 << bits):
            if not (net ^ turn) & mask & last:
                match = ipaddress.IPv4Address(net | turn), ipaddress.IPv4Address(mask | last)
                yield f"nw_src={match[0]}/{match[1]}", turn


def _sources(params: Mapping[str, Any], turn: int) -> Iterator[tuple[str, str]]:
    """What sessions get, by protocol. A port that a static mapping has there is had at the pool's
    next address; without another one the switch draws a port."""
    pool = [str(one) for one in params["pool"]]
    own, other = pool[turn % len(pool)], pool[(turn + 1) % len(pool)]
    fixed = {(one["protocol"], str(one["outside"]), one["outside_port"])
             for one in params.get("static", ())}  # fmt: skip
    for proto, address, port in sorted(fixed):
        if address == own:
            free = other != own and (proto, other, port) not in fixed
            source = other if free else f"{own}:{PORT_MIN}-{PORT_MAX}"
            yield f"{proto},{proto}_src={port}", source
    for proto in _TRANSLATED:
        yield proto, own


def _fixed(params: Mapping[str, Any], outward: bool) -> Iterator[tuple[str, str]]:
    for one in params.get("static", ()):
        proto = one["protocol"]
        inside, outside = (one["inside"], one["inside_port"]), (one["outside"], one["outside_port"])
        (address, port), to = (inside, outside) if outward else (outside, inside)
        end = "src" if outward else "dst"
        match = f"{proto},nw_frag=no,nw_{end}={address},{proto}_{end}={port}"
        yield match, _set(end, to[0], proto, to[1])


def _set(end: str, address: str, proto: str, port: int) -> str:
    """A packet's source or destination; port 0: kept."""
    sets = f"mod_nw_{end}:{str(address).partition('/')[0]}"
    return f"{sets},set_field:{port}->{proto}_{end}" if port else sets


def lb(work: Work, node: Node, direction: Direction, tables: FlowTables) -> None:
    """An exact port is looked up before all ports of an address."""
    name = f"{direction}/{node.name}"
    for vip in node.params["vips"]:
        asked = vip.get("protocol", "any")
        for proto in ("tcp", "udp") if asked == "any" else (asked,):
            give = _to_backends if direction == "forward" else _to_vip
            give(node, vip, proto, name, tables)
    drops = direction == "forward" and node.params.get("other", "pass") == "drop"
    tables.flow(_REST, "", tables.drop(f"{name}/not-for-vip") if drops else tables.onward())


def _end(end: str, address: str, proto: str, port: int) -> tuple[int, str]:
    """Priority and match."""
    match = f"{proto},nw_frag=no,nw_{end}={address}"
    return (_FIXED, f"{match},{proto}_{end}={port}") if port else (_SESSION, match)


def _to_backends(
    node: Node, vip: Mapping[str, Any], proto: str, name: str, tables: FlowTables
) -> None:
    address = str(vip["address"]).partition("/")[0]
    tables.flow(_FRAGMENT, f"ip,nw_frag=yes,nw_dst={address}", tables.drop(f"{name}/fragment"))
    buckets = []
    weights = [one.get("weight", 1) for one in vip.get("backends", ())
               for _ in range(one.get("count", 1))]  # fmt: skip
    for (to, port), weight in zip(backends_of(vip), weights, strict=True):
        if weight:
            sets = _set("dst", to, proto, port)
            more = f"resubmit(,{tables.table + 1})"
            buckets.append(f"bucket=weight:{weight},actions={sets},{more}")
    number = len(tables.groups) + 1
    priority, match = _end("dst", address, proto, vip.get("port", 0))
    if not buckets:
        tables.flow(priority, match, tables.drop(f"{name}/no-backend"))
        return
    tables.groups.append(f"group_id={number},type=select,{','.join(buckets)}")
    tables.flow(priority, match, f"group:{number}")


def _to_vip(node: Node, vip: Mapping[str, Any], proto: str, name: str, tables: FlowTables) -> None:
    own, port = str(vip["address"]).partition("/")[0], vip.get("port", 0)
    for address, there in backends_of(vip):
        priority, match = _end("src", address, proto, there or port)
        back = _set("src", own, proto, port if there else 0)
        tables.flow(priority, match, tables.onward(back))
