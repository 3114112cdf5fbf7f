# SPDX-License-Identifier: Apache-2.0
"""A chain as lines of VPP's command line."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.engine.ways import Direction
from headrace.ground.engines.acl_rules import PORTS, AclRule, Network, acl_rules
from headrace.ground.engines.adapter import MACS, Work, macs
from headrace.ground.engines.routes import next_hops, routes
from headrace.ground.engines.translation import backends_of
from headrace.ground.engines.vpp_check import TIMEOUTS
from headrace.spec.chain import Node
from headrace.spec.testbed import WirePort
from headrace.spec.workload import Packets

# Plugins of ports, by their kind, and of functions.
_PORTS = {"memif": "memif_plugin.so", "af_packet": "af_packet_plugin.so"}
_PLUGINS = {
    "acl": "acl_plugin.so", "nat": "nat_plugin.so", "lb": "lb_plugin.so",
}  # fmt: skip
_ANY = {4: "0.0.0.0/0", 6: "::/0"}
_PROTOCOLS_WITH_PORTS = (6, 17)  # those whose ports its acl reads
# Its routers' next hops have addresses of their own, which no packet has: 100.64.0.1 and on.
_HOPS = {4: ipaddress.ip_address("100.64.0.1"), 6: ipaddress.ip_address("2001:db8:ffff::1")}
# RFC 1812 section 5.3.7 and RFC 4291: destinations that l3fwd has no routes to.
_MARTIANS = {4: ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "240.0.0.0/4"), 6: ("::/127",)}
_NEW_FLOWS = 65536  # entries of a VIP's table, a power of two, as many as headrace's about
_BUCKET = 4  # flows of a bucket of its sticky table
_REVERSE_TABLE = 1
_RING_MOST = 14  # log2 of the tester's longest ring
_DST_MAC = "02:00:00:00:02:01"  # that sources' frames have where none is given


@dataclass
class VppLines:
    """`lines` in the order in which they are given. `counted`: its nodes' errors (node, reason)
    that are a function's drops, by what these are called."""

    work: Work
    ports: tuple[tuple[str, WirePort], ...]
    lines: list[str] = field(default_factory=list)
    counted: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.work.experiment.nodes

    def node(self, *kinds: str) -> Node | None:
        return next((one for one in self.nodes if one.nf in kinds), None)

    @property
    def both(self) -> bool:
        return "reverse" in self.work.ports

    @property
    def interfaces(self) -> tuple[str, ...]:
        """Its names of the ports, in their order."""
        return tuple(
            f"memif{i + 1}/0" if port.to.kind == "memif" else f"host-{port.to.name}"
            for i, (_, port) in enumerate(self.ports)
        )

    @property
    def plugins(self) -> tuple[str, ...]:
        known = {one.nf for one in self.nodes}
        ports = dict.fromkeys(_PORTS[port.to.kind] for _, port in self.ports)
        return (*ports, *(plugin for nf, plugin in _PLUGINS.items() if nf in known))

    def say(self, *lines: str) -> None:
        self.lines += lines


def vpp_lines(work: Work, ports: tuple[tuple[str, WirePort], ...]) -> VppLines:
    """All that a chain that was checked (vpp_check.py) takes."""
    into = VppLines(work, ports)
    router = into.node("l3fwd")
    own = MACS["src_mac"] if router is None else next_hops(router.params)[0].src_mac
    asked = () if router is None else asked_for(work)
    for i, (_, port) in enumerate(ports):
        enters = into.both or i == 0
        leaves = into.both or i > 0
        _port(into, i, port, [*([own] if leaves else ()), *(asked if enters else ())] or [own])
    if router is None:
        _switch(into)
    else:
        _router(into, router)
    for node in into.nodes:
        if node.nf in _FUNCTIONS:
            _FUNCTIONS[node.nf](into, node)
    return into


def asked_for(work: Work) -> tuple[str, ...]:
    """Destinations of the workload's frames: a router's port takes only what is addressed to it."""
    workload = work.experiment.workload
    assert isinstance(workload, Packets)
    return tuple(workload.headers.dst_mac) or (_DST_MAC,)


def _port(into: VppLines, number: int, port: WirePort, macs_: list[str]) -> None:
    """The first of its MAC addresses is what frames leave with."""
    mac, *more = macs_
    name = into.interfaces[number]
    make = _memif if port.to.kind == "memif" else _host
    into.say(*make(number, port, len(into.work.cpus), mac))
    into.say(f"set interface state {name} up", f"set interface promiscuous on {name}")
    into.say(*(f"set interface secondary-mac-address {name} {one} add" for one in more))


def _memif(number: int, port: WirePort, queues: int, mac: str) -> tuple[str, ...]:
    """Packets are copied, as headrace's driver does: without that what reads their headers first
    waits for the lines that the tester's core has."""
    size = 1 << min((port.rx_descriptors - 1).bit_length(), _RING_MOST)
    return (
        f"create memif socket id {number + 1} filename {port.to.name}",
        f"create interface memif id 0 socket-id {number + 1} slave ring-size {size} "
        f"rx-queues {queues} tx-queues {queues} hw-addr {mac} no-zero-copy",
    )


def _host(_: int, port: WirePort, queues: int, mac: str) -> tuple[str, ...]:
    """By default it tells the kernel that an offload header is in front of each frame, and writes
    none where the interface has no offloads: frames left without their first 10 bytes."""
    return (
        f"create host-interface name {port.to.name} num-rx-queues {queues} "
        f"num-tx-queues {queues} hw-addr {mac} cksum-gso-disable",
        f"set interface rx-mode host-{port.to.name} polling",
    )


def _switch(into: VppLines) -> None:
    """Both ends of a wire; an l2fwd rewrites what no entry of an empty table matches."""
    enter, leave = into.interfaces
    into.say(f"set interface l2 xconnect {enter} {leave}",
             f"set interface l2 xconnect {leave} {enter}")  # fmt: skip
    forwarders: dict[Direction, Node] = {
        way: next(one for one in reversed(into.work.met(way)) if one.nf == "l2fwd")
        for way in into.work.ports if into.node("l2fwd") is not None
    }  # fmt: skip
    if forwarders:
        into.say("classify table mask l2 dst buckets 2")
    for i, (way, node) in enumerate(forwarders.items()):
        to = macs(node, way)
        value = (to["dst_mac"] + to["src_mac"]).replace(":", "")
        at = enter if way == "forward" else leave
        into.say(f"l2 rewrite entry mask {'ff' * 12}{'00' * 4} value {value}{'00' * 4}",
                 f"set interface l2 rewrite {at} table 0 miss-index {i}")  # fmt: skip


def _router(into: VppLines, node: Node) -> None:
    """Where packets come from both sides, each side has a table."""
    enter, leave = into.interfaces
    table = routes(node.params, into.work.doc)
    versions = sorted({one.prefix.version for one in table} | {4})
    for name in (enter, leave):
        into.say(*(f"enable ip{version} interface {name}" for version in versions))
    _routes(into, node, leave, 0, versions)
    if not into.both:
        return
    for version in versions:
        kind = "ip" if version == 4 else "ip6"
        into.say(f"{kind} table add {_REVERSE_TABLE}",
                 f"set interface {kind} table {leave} {_REVERSE_TABLE}")  # fmt: skip
    _routes(into, node, enter, _REVERSE_TABLE, versions)


def _hop(version: int, number: int) -> str:
    return str(_HOPS[version] + number)


def _neighbours(into: VppLines, node: Node, by: str, versions: list[int]) -> None:
    for i, one in enumerate(next_hops(node.params)):
        for version in versions:
            into.say(f"set ip neighbor static {by} {_hop(version, i)} {one.dst_mac} no-fib-entry")


def _routes(into: VppLines, node: Node, by: str, table: int, versions: list[int]) -> None:
    _neighbours(into, node, by, versions)
    where = f"table {table} " if table else ""
    for version in versions:
        into.say(*(f"ip route add {one} {where}via drop" for one in _MARTIANS[version]))
    into.say(*(
        f"ip route add {one.prefix} {where}via {_hop(one.prefix.version, one.next_hop)} {by}"
        for one in routes(node.params, into.work.doc)
    ))  # fmt: skip


def _acl(into: VppLines, node: Node) -> None:
    """At the port that is on its side of what routes and translates: packets that come in there
    meet it at once, those that leave there at last."""
    others = [one.nf in ("l3fwd", "nat", "lb") for one in into.nodes]
    first = not any(others[: into.nodes.index(node)])
    for number, way in enumerate(into.work.ports):
        how = node.params.get("reverse", "match") if way == "reverse" else "match"
        if how == "permit":
            continue
        into.say("set acl-plugin acl " + ", ".join(_rules(into, node, swapped=how == "swap")))
        end = "input" if first == (way == "forward") else "output"
        at = into.interfaces[0 if first else -1]
        into.say(f"set acl-plugin interface {at} {end} acl {number}")
        for family in ("ip4", "ip6"):
            for layer in ("fa", "l2"):
                counted = f"acl-plugin-{end.removesuffix('put')}-{family}-{layer}"
                into.counted[counted, "ACL deny packets"] = f"{way}/{node.name}/denied"


def _rules(into: VppLines, node: Node, swapped: bool) -> Iterator[str]:
    permit = "permit+reflect" if into.work.experiment.study.deployment.vpp.reflect else "permit"
    actions = {"permit": permit, "deny": "deny"}
    for rule in acl_rules(node.params, into.work.doc):
        for words in _matches(rule, swapped):
            yield f"{actions[rule.action]} {words}"
    for every in _ANY.values():
        yield f"{actions[node.params.get('default', 'deny')]} src {every} dst {every}"


def _matches(rule: AclRule, swapped: bool) -> Iterator[str]:
    """One for each version of IP that it can match; ports need a protocol."""
    src, dst, sport, dport = rule.src, rule.dst, rule.sport, rule.dport
    if swapped:
        src, dst, sport, dport = dst, src, dport, sport
    for version in rule.versions:
        ends = f"src {_end(src, version)} dst {_end(dst, version)}"
        if not rule.names_ports:
            yield ends if rule.proto is None else f"{ends} proto {rule.proto}"
            continue
        for proto in _PROTOCOLS_WITH_PORTS:
            if rule.proto in (None, proto):
                words = (f"{name} {low}-{high}" for name, (low, high) in
                         (("sport", sport), ("dport", dport)) if (low, high) != PORTS)  # fmt: skip
                yield f"{ends} proto {proto} {' '.join(words)}"


def _end(net: Network | None, version: int) -> str:
    return _ANY[version] if net is None else str(net)


def _nat(into: VppLines, node: Node) -> None:
    enter, leave = into.interfaces
    params = node.params
    into.say(f"nat44 plugin enable sessions {params.get('sessions', 131072)}")
    seconds = [f"{word} {int(params[key])}" for key, word in TIMEOUTS.items() if key in params]
    if seconds:
        into.say(f"set nat timeout {' '.join(seconds)}")
    fixed = params.get("static", ())
    into.say(*(f"nat44 add address {one}" for one in params["pool"]))
    into.say(*(
        f"nat44 add static mapping {one['protocol']} local {one['inside']} {one['inside_port']} "
        f"external {one['outside']} {one['outside_port']}" for one in fixed
    ))  # fmt: skip
    into.say(f"set interface nat44 in {enter} out {leave}")


def _lb(into: VppLines, node: Node) -> None:
    params = node.params
    flows = params.get("flows", 262144)
    buckets = 1 << max(0, -(-flows // _BUCKET) - 1).bit_length()
    timeout = int(params.get("idle_timeout_s", 300))
    into.say(f"lb conf buckets {buckets} timeout {timeout}")
    for vip in params["vips"]:
        name = f"{str(vip['address']).partition('/')[0]}/32 protocol udp port {vip['port']}"
        ends = list(backends_of(vip))
        target = next((port for _, port in ends if port), vip["port"])
        into.say(f"lb vip {name} encap nat4 type clusterip target_port {target} "
                 f"new_len {_NEW_FLOWS}")  # fmt: skip
        weights = [one.get("weight", 1) for one in vip.get("backends", ())
                   for _ in range(one.get("count", 1))]  # fmt: skip
        for weight in dict.fromkeys(weights):
            alike = [address for (address, _), its in zip(ends, weights, strict=True)
                     if its == weight]  # fmt: skip
            words = f" weight {weight}" if len(set(weights)) > 1 else ""
            into.say(f"lb as {name} {' '.join(alike)}{words}")


_FUNCTIONS = {"acl": _acl, "nat": _nat, "lb": _lb}
