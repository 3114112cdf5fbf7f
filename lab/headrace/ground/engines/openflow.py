# SPDX-License-Identifier: Apache-2.0
"""A chain as OpenFlow's tables: those of a function behind those of the one before, each direction
by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.engine.ways import Direction
from headrace.ground.engines.acl_rules import PORTS, AclRule, acl_rules
from headrace.ground.engines.adapter import Work, macs
from headrace.ground.engines.routes import NextHop, next_hops, routes
from headrace.spec.chain import Node
from headrace.spec.testbed import Device

WITH_PORTS = {6: "tcp", 17: "udp", 132: "sctp"}
COUNTED = 0x6872 << 16  # cookies from here on are of flows whose packets are counted
COUNTED_MASK = 0xFFFF << 16
_DROPS = 250  # the table where dropped packets end
_IP = {4: "ip", 6: "ipv6"}
_SRC, _DST = {4: "nw_src", 6: "ipv6_src"}, {4: "nw_dst", 6: "ipv6_dst"}
# Priorities: what a function looks at first, its rules in their order, what is left.
_CHECKS, FIRST_RULE, _ROUTE, _REST = 65000, 60000, 1000, 1
RULES_MOST = FIRST_RULE - _ROUTE
# RFC 1812 section 5.3.7, RFC 4291, as l3fwd has them.
_MARTIANS = (
    *(f"ip,nw_src={one}" for one in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")),
    *(f"ip,nw_dst={one}" for one in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "240.0.0.0/4")),
    *(f"ipv6,ipv6_src={one}" for one in ("::/127", "fe80::/10", "ff00::/8")),
    *(f"ipv6,ipv6_dst={one}" for one in ("::/127", "fe80::/10")),
)


class FlowTables:
    """`flows` and `groups` are what ovs-ofctl reads; `counted` has the names of packets' counters,
    by cookie, called DIRECTION/FUNCTION/REASON; `zones` the most sessions of each zone."""

    def __init__(self) -> None:
        self.flows: list[str] = []
        self.groups: list[str] = []
        self.counted: dict[int, str] = {}
        self.zones: dict[int, int] = {}
        self.table = 0
        self._drops: dict[str, int] = {}

    def enter(self, direction: Direction, port: int) -> None:
        """The tables of a direction begin here."""
        self.table += 1
        actions = f"goto_table:{self.table}"
        self._add(0, _REST, f"in_port={port}", actions, self._cookie(f"{direction}/in"))

    def flow(self, priority: int, match: str, actions: str) -> None:
        self._add(self.table, priority, match, actions)

    def onward(self, *actions: str) -> str:
        """These, and to the table behind this one."""
        return ",".join((*actions, f"goto_table:{self.table + 1}"))

    def drop(self, name: str) -> str:
        """Actions that drop a packet and count it by this name."""
        if name not in self._drops:
            number = self._drops[name] = len(self._drops) + 1
            self._add(_DROPS, _REST, f"reg0={number}", "drop", self._cookie(name))
        return f"set_field:{self._drops[name]}->reg0,goto_table:{_DROPS}"

    def _cookie(self, name: str) -> int:
        cookie = COUNTED + len(self.counted)
        self.counted[cookie] = name
        return cookie

    def _add(self, table: int, priority: int, match: str, actions: str, cookie: int = 0) -> None:
        head = f"cookie={cookie:#x},table={table},priority={priority}"
        self.flows.append(f"{head},{match},actions={actions}".replace(",,", ","))


def leave(tables: FlowTables, enter: Device, to: Device, number: int) -> None:
    """What is done behind the last function; a switch sends nothing back where it came from unless
    told so."""
    out = "in_port" if enter == to else f"output:{number}"
    tables.flow(_REST, "", out)


def acl(work: Work, node: Node, direction: Direction, tables: FlowTables) -> None:
    params, name = node.params, f"{direction}/{node.name}"
    way = params.get("reverse", "match") if direction == "reverse" else "match"
    if way == "permit":
        tables.flow(_REST, "", tables.onward())
        return

    def verdict(action: str, reason: str) -> str:
        return tables.onward() if action == "permit" else tables.drop(f"{name}/{reason}")

    if params.get("fragments", "match") == "deny":
        for family in _IP.values():
            deny = verdict("deny", "denied-fragment")
            tables.flow(_CHECKS, f"{family},nw_frag=yes", deny)
    for i, rule in enumerate(acl_rules(params, work.doc)):
        for match in matches(rule, swapped=way == "swap"):
            tables.flow(FIRST_RULE - i, match, verdict(rule.action, "denied"))
    for family in _IP.values():
        rest = verdict(params.get("default", "deny"), "denied-by-default")
        tables.flow(_REST + 1, family, rest)
    tables.flow(_REST, "", verdict(params.get("non_ip", "permit"), "denied-non-ip"))


def matches(rule: AclRule, swapped: bool) -> Iterator[str]:
    """One for each version of IP that the rule can match, and each protocol and piece of its port
    ranges. Packets without visible ports, which fragments are, match only rules that name none."""
    src, dst, sport, dport = rule.src, rule.dst, rule.sport, rule.dport
    if swapped:
        src, dst, sport, dport = dst, src, dport, sport
    for version in rule.versions:
        ends = [f"{field[version]}={one}" for field, one in ((_SRC, src), (_DST, dst))
                if one is not None and one.prefixlen]  # fmt: skip
        if not rule.names_ports:
            proto = [] if rule.proto is None else [f"nw_proto={rule.proto}"]
            yield ",".join((_IP[version], *proto, *ends))
            continue
        for number, name in WITH_PORTS.items():
            if rule.proto not in (None, number):
                continue
            head = (name if version == 4 else f"{name}6", "nw_frag=no", *ends)
            for one in _port_matches(f"{name}_src", sport):
                for other in _port_matches(f"{name}_dst", dport):
                    yield ",".join((*head, *one, *other))


def _port_matches(field: str, ports: tuple[int, int]) -> Iterator[tuple[str, ...]]:
    if ports == PORTS:
        yield ()
        return
    for value, mask in pieces(*ports):
        yield (f"{field}={value:#x}/{mask:#x}",)


def pieces(low: int, high: int) -> Iterator[tuple[int, int]]:
    """A range of ports as values under masks, the fewest there are."""
    while low <= high:
        size = low & -low or 1 << 16
        while low + size - 1 > high:
            size >>= 1
        yield low, 0xFFFF & ~(size - 1)
        low += size


def l2fwd(work: Work, node: Node, direction: Direction, tables: FlowTables) -> None:
    to = macs(node, direction)
    tables.flow(_REST, "", tables.onward(*_macs(to["dst_mac"], to["src_mac"])))


def _macs(dst: str, src: str) -> Iterable[str]:
    return f"mod_dl_dst:{dst}", f"mod_dl_src:{src}"


def l3fwd(work: Work, node: Node, direction: Direction, tables: FlowTables) -> None:
    """A prefix's length is its priority."""
    params, name = node.params, f"{direction}/{node.name}"
    multicast = "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00"
    tables.flow(_CHECKS, multicast, tables.drop(f"{name}/link-multicast"))
    for family in _IP.values():
        for ttl in (0, 1):
            expired = tables.drop(f"{name}/ttl-expired")
            tables.flow(_CHECKS - 1, f"{family},nw_ttl={ttl}", expired)
    for match in ("ip,nw_dst=224.0.0.0/4", "ipv6,ipv6_dst=ff00::/8"):
        tables.flow(_CHECKS - 2, match, tables.drop(f"{name}/multicast"))
    for match in _MARTIANS if params.get("martians", "drop") == "drop" else ():
        tables.flow(_CHECKS - 3, match, tables.drop(f"{name}/martian"))
    hops = next_hops(params)
    for one in routes(params, work.doc):
        version, to = one.prefix.version, hops[one.next_hop]
        end = f",{_DST[version]}={one.prefix}" if one.prefix.prefixlen else ""
        actions = tables.onward("dec_ttl", *_to(to))
        tables.flow(_ROUTE + one.prefix.prefixlen, f"{_IP[version]}{end}", actions)
    for family in _IP.values():
        tables.flow(_REST + 1, family, tables.drop(f"{name}/no-route"))
    passes = params.get("not_ip") == "pass"
    tables.flow(_REST, "", tables.onward() if passes else tables.drop(f"{name}/not-ip"))


def _to(hop: NextHop) -> Iterable[str]:
    return _macs(hop.dst_mac, hop.src_mac)
