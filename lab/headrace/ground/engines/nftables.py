# SPDX-License-Identifier: Apache-2.0
"""A chain as the kernel's own: nftables where packets come in, the routing table behind it, in a
network namespace that has the chain's interfaces and nothing else."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass

from headrace.engine.ways import Direction
from headrace.ground.contract import Site
from headrace.ground.engines.adapter import Declared, Work, program
from headrace.ground.engines.frames import without_padding
from headrace.ground.engines.nft_text import Ruleset
from headrace.ground.engines.routes import next_hops, routes
from headrace.ground.engines.steering import steer
from headrace.ground.wired.external import Commands
from headrace.host.ledger import Ledger
from headrace.host.moved import move
from headrace.host.plumbing import make_namespace
from headrace.spec.chain import Node
from headrace.spec.testbed import ExternalDut

_FUNCTIONS = ("acl", "l2fwd", "l3fwd", "null")
_KINDS = ("af_xdp", "af_packet")
_REVERSE_TABLE = 101
_NEIGHBOURS = "169.254.{}.{}"  # addresses of next hops, which nobody sees (RFC 3927)
_PADDING = Declared("Bytes behind the IP packet: the kernel cuts them off.", without_padding)
_BESIDE = (
    "The kernel takes and gives packets by its own drivers: no port of DPDK's is on its way.",
    "Rules are tried one after the other; headrace has a classifier and a cache of flows.",
)
_ROUTED = (
    "The kernel looks up its local table, too, and would send ICMP errors, which are dropped here: "
    "headrace sends none."
)


@dataclass(frozen=True)
class Nftables:
    """Translated: `rules` for nft, `steps` for ip."""

    work: Work
    rules: str
    steps: tuple[str, ...]
    routed: bool

    @property
    def beside(self) -> tuple[str, ...]:
        lcores = ", ".join(map(str, self.work.cpus))
        where = f"Its work is done on lcore {lcores} (receive packet steering), in softirqs."
        return (*_BESIDE, where, *((_ROUTED,) if self.routed else ()))

    @property
    def declared(self) -> tuple[Declared, ...]:
        return (_PADDING,) if self.routed else ()

    @property
    def programs(self) -> tuple[str, ...]:
        return (program("nft", "nftables"), program("ip", "iproute2"))

    def commands(self, site: Site, ledger: Ledger) -> Commands:
        nft, ip = self.programs
        namespace = f"hr{secrets.token_hex(2)}-nftables"
        make_namespace(namespace, ledger)
        inside = ("nsenter", f"--net=/run/netns/{namespace}")
        interfaces = {to.name for pair in self.work.ports.values() for to in pair}
        for name in interfaces:
            steer(name, self.work.cpus, ledger)
            move(name, namespace, ledger)
        rules, steps = site.state.path / "rules.nft", site.state.path / "ip.batch"
        rules.write_text(self.rules)
        steps.write_text("\n".join(self.steps) + "\n")
        return Commands(
            ExternalDut(
                configure=(
                    (ip, "-n", namespace, "-batch", str(steps)),
                    (*inside, nft, "-f", str(rules)),
                ),
                read=(*inside, nft, "-j", "list", "counters"),
            ),
            place="deployment.engine: nftables",
            parse=counters,
        )


def counters(text: str) -> dict[str, int]:
    """Packets of the named counters in what `nft -j list counters` prints."""
    told = [one["counter"] for one in json.loads(text)["nftables"] if "counter" in one]
    return {one["name"]: one["packets"] for one in told}


def nftables(work: Work) -> Nftables:
    """BadInput where a function or parameter cannot be expressed."""
    work.check_functions(_FUNCTIONS)
    work.check_ports(_KINDS, "has interfaces of the kernel's")
    ends = [node for node in work.experiment.nodes if node.nf in ("l2fwd", "l3fwd")]
    if len(ends) > 1:
        raise work.refused(ends[1], "", "a second forwarder; allowed: one l2fwd or l3fwd")
    steps: list[str] = []
    if ends and ends[0].nf == "l3fwd":
        _check_l3fwd(work, ends[0])
    for direction, (enter, leave) in work.ports.items():
        if ends and ends[0].nf == "l3fwd":
            steps += _routing(work, ends[0], direction, enter.name, leave.name)
    interfaces = {to.name for pair in work.ports.values() for to in pair}
    routed = any(node.nf == "l3fwd" for node in ends)
    up = [f"link set {name} up" for name in sorted(interfaces)]
    return Nftables(work, Ruleset(work).text, (*up, *steps), routed)


def _check_l3fwd(work: Work, node: Node) -> None:
    work.check_given(node, "verify_checksum", True, "the kernel always verifies checksums")
    work.check_given(node, "martians", "drop", "the kernel forwards no martians")
    if node.params.get("ranges"):
        raise work.refused(node, "ranges", "would be a route each; allowed: routes, routes_file")
    hops = next_hops(node.params)
    if len({one.src_mac for one in hops}) > 1:
        raise work.refused(
            node, "next_hops", "an interface has one MAC address; allowed: one src_mac for all"
        )
    if any(one.edge for one in hops):
        raise work.refused(node, "next_hops", "all leave by one port; allowed: edge 0")
    if any(one.prefix.version == 6 for one in routes(node.params, work.doc)):
        key = "routes" if "routes" in node.params else "routes_file"
        raise work.refused(node, key, "has no IPv6 routes yet; allowed: IPv4 routes")


def _routing(work: Work, node: Node, direction: Direction, enter: str, leave: str) -> list[str]:
    """For `ip -batch`: neighbours known beforehand, and the routes that lead to them. The way back
    has the same prefixes, and leads elsewhere: a table of its own."""
    hops = next_hops(node.params)
    table = "" if direction == "forward" else f" table {_REVERSE_TABLE}"
    steps = [f"link set {leave} address {hops[0].src_mac}"]
    if table:
        steps.append(f"rule add iif {enter} lookup {_REVERSE_TABLE} pref 100")
    addresses = [_NEIGHBOURS.format(1 + i // 250, 1 + i % 250) for i in range(len(hops))]
    steps += [
        f"neigh add {address} lladdr {hop.dst_mac} dev {leave} nud permanent"
        for address, hop in zip(addresses, hops, strict=True)
    ]
    steps += [
        f"route add {one.prefix} via {addresses[one.next_hop]} dev {leave} onlink{table}"
        for one in routes(node.params, work.doc)
    ]
    return steps
