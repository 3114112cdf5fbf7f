# SPDX-License-Identifier: Apache-2.0
"""A chain as nft's rules: an ingress chain for each direction, and one for each `acl` in it."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.engine.ways import Direction
from headrace.ground.engines.acl_rules import PORTS, AclRule, acl_rules
from headrace.ground.engines.adapter import Work, macs
from headrace.spec.chain import Node

TABLE = "headrace"
_IP = {4: "ip", 6: "ip6"}
_MAC_FIELDS = {"dst_mac": "daddr", "src_mac": "saddr"}
_WITH_PORTS = "{ tcp, udp, sctp }"
# At the ingress hook not every kernel finds IPv6's transport header: it is taken from where it is
# without extension headers.
_PROTOCOL = {4: "meta l4proto", 6: "ip6 nexthdr"}
_SPORT, _DPORT = {4: "th sport", 6: "@nh,320,16"}, {4: "th dport", 6: "@nh,336,16"}
_FRAGMENT = {4: "ip frag-off & 0x3fff != 0", 6: "ip6 nexthdr 44"}
_WHOLE = "ip frag-off & 0x3fff == 0"
# RFC 1812 section 5.3.7, as l3fwd has it.
_BAD_SOURCES = "{ 0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3 }"
_BAD_DESTINATIONS = "{ 0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 240.0.0.0/4 }"


class Ruleset:
    """`text` is what `nft -f` reads. Counters are called DIRECTION/FUNCTION/REASON."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._counters: dict[str, None] = {}
        chains = [text for direction in work.ports for text in self._direction(direction)]
        declared = [f"counter {name} {{\n}}" for name in self._counters]
        lines = "\n".join((*declared, *chains))
        self.text = (
            f"table netdev {TABLE} {{\n{lines}\n}}\n"
            f"table inet {TABLE} {{\n"
            "chain own {\ntype filter hook output priority 0; policy drop;\n}\n}\n"
        )

    def _counted(self, name: str) -> str:
        self._counters[name] = None
        return f'counter name "{name}"'

    def _drop(self, direction: Direction, node: Node, reason: str) -> str:
        return f"{self._counted(f'{direction}/{node.name}/{reason}')} drop"

    def _direction(self, direction: Direction) -> Iterator[str]:
        enter, leave = self._work.ports[direction]
        lines = [self._counted(f"{direction}/in")]
        ending = [f'fwd to "{leave.name}"']
        for node in self._work.met(direction):
            if node.nf == "acl":
                yield self._acl(node, direction)
                lines.append(f"jump {node.name}-{direction}")
            elif node.nf == "l2fwd":
                ending = [*_set(node, direction), *ending]
            elif node.nf == "l3fwd":
                ending = list(self._l3fwd(node, direction, leave.name))
        rules = "\n".join((*lines, *ending))
        yield (
            f"chain {direction} {{\n"
            f'type filter hook ingress device "{enter.name}" priority 0; policy accept;\n'
            f"{rules}\n}}"
        )

    def _acl(self, node: Node, direction: Direction) -> str:
        """`return` goes on behind it."""
        params = node.params
        self._work.check_given(node, "match_flags", False, "filters are 5-tuples")
        way = params.get("reverse", "match") if direction == "reverse" else "match"
        rules = [] if way == "permit" else acl_rules(params, self._work.doc)
        verdicts = {"permit": "return"}
        lines = []
        if way != "permit":
            verdicts["deny"] = self._drop(direction, node, "denied-non-ip")
            non_ip = verdicts[params.get("non_ip", "permit")]
            lines.append(f"meta protocol != {{ ip, ip6 }} {non_ip}")
            if params.get("fragments", "match") == "deny":
                deny = self._drop(direction, node, "denied-fragment")
                lines += [f"meta protocol {_IP[v]} {_FRAGMENT[v]} {deny}" for v in (4, 6)]
            verdicts["deny"] = self._drop(direction, node, "denied")
            for rule in rules:
                for match in matches(rule, swapped=way == "swap"):
                    lines.append(f"{match} {verdicts[rule.action]}")
            verdicts["deny"] = self._drop(direction, node, "denied-by-default")
            lines.append(verdicts[params.get("default", "deny")])
        return "\n".join((f"chain {node.name}-{direction} {{", *lines, "}"))

    def _l3fwd(self, node: Node, direction: Direction, leave: str) -> Iterator[str]:
        """Header checks and the TTL are the kernel's; it takes what is addressed to it only."""

        def drop(reason: str) -> str:
            return self._drop(direction, node, reason)

        yield f"meta pkttype {{ broadcast, multicast }} {drop('link-multicast')}"
        yield f"meta protocol ip6 {drop('no-route')}"
        passed = f'fwd to "{leave}"' if node.params.get("not_ip") == "pass" else drop("not-ip")
        yield f"meta protocol != ip {passed}"
        yield f"ip daddr 224.0.0.0/4 {drop('multicast')}"
        yield f"ip saddr {_BAD_SOURCES} {drop('martian')}"
        yield f"ip daddr {_BAD_DESTINATIONS} {drop('martian')}"
        yield "meta pkttype set host accept"


def _set(node: Node, direction: Direction) -> Iterator[str]:
    for key, mac in macs(node, direction).items():
        yield f"ether {_MAC_FIELDS[key]} set {mac}"


def matches(rule: AclRule, swapped: bool) -> Iterator[str]:
    """One for each version of IP that the rule can match. Packets without visible ports, which
    fragments are, match only rules that name none."""
    src, dst, sport, dport = rule.src, rule.dst, rule.sport, rule.dport
    if swapped:
        src, dst, sport, dport = dst, src, dport, sport
    for version in rule.versions:
        family = _IP[version]
        parts = [f"meta protocol {family}"]
        parts += [f"{family} {field} {one}" for field, one in (("saddr", src), ("daddr", dst))
                  if one is not None and one.prefixlen]  # fmt: skip
        if rule.proto is not None:
            parts.append(f"{_PROTOCOL[version]} {rule.proto}")
        if rule.names_ports:
            parts += [] if rule.proto is not None else [f"{_PROTOCOL[version]} {_WITH_PORTS}"]
            parts += [_WHOLE] if version == 4 else []
            parts += [f"{field[version]} {low}-{high}" if low < high else f"{field[version]} {low}"
                      for field, (low, high) in ((_SPORT, sport), (_DPORT, dport))
                      if (low, high) != PORTS]  # fmt: skip
        yield " ".join(parts)
