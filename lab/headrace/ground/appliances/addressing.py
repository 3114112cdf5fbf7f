# SPDX-License-Identifier: Apache-2.0
"""From a chain graph to LANs, addresses and routes; pure, so it can be checked without a network.

The trunk of the graph is a row of LANs: clients, LAN 0, first VNF, LAN 1, ... servers. Each VNF has
an interface `up` towards the clients and one `down` towards the servers. A VNF that shows its own
address to what is behind it (NAT, proxies) splits the row: nothing behind it has a route to what is
before it. Addresses are of 198.18.0.0/15, the benchmarking range (RFC 2544 appendix C.2.2), but
where an appliance has its own: then the LAN is the /24 around that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address

from headrace.errors import BadInput
from headrace.graph.draw import one_line
from headrace.graph.enumerate import Graph
from headrace.ground.appliances.lans import Lans
from headrace.ground.appliances.stages import ApplianceStage, no_lone_way, trunk
from headrace.ground.catalogue import VnfDefinition

_CLIENT, _SERVER = 10, 220
_TESTER_DOWN, _TESTER_UP = 11, 230
TESTER = "tester"
PORT = 80


@dataclass(frozen=True)
class Route:
    destination: str  # prefix
    via: tuple[str, ...]  # several: equal shares by flow hash


@dataclass(frozen=True)
class NodeInterface:
    name: str  # up, down
    lan: int
    address: str  # without prefix length; LANs are /24
    device: str  # as the container calls it

    @property
    def mac(self) -> str:
        """Locally administered and a function of the address: no ARP surprises, readable dumps."""
        octets = IPv4Address(self.address).packed
        return "02:48:" + ":".join(f"{o:02x}" for o in octets)


@dataclass(frozen=True)
class ContainerNode:
    """One container."""

    name: str
    vnf: str
    place: str  # the graph's vertex; several instances share one
    kind: str  # routed, proxy, leaf, client, server, tester
    interfaces: tuple[NodeInterface, ...] = ()
    service: str | None = None  # address on `lo` that clients or proxies before it ask for
    routes: tuple[Route, ...] = ()
    upstreams: tuple[str, ...] = ()
    mirrors: tuple[tuple[str, str], ...] = ()  # (node, interface) whose traffic a leaf is fed
    mirror: str = ""  # where a leaf is fed
    role: str = ""  # near, far: ends of a pair; else as `kind`
    peer: str = ""  # the other end's address
    server: str = ""  # of the study's, which has it; none: this machine

    def interface(self, name: str) -> NodeInterface:
        return next(i for i in self.interfaces if i.name == name)


@dataclass(frozen=True)
class ContainerLayout:
    """All containers of one deployment, clients and servers included."""

    text: str
    lans: int
    nodes: tuple[ContainerNode, ...]
    target: str  # the address that clients ask for

    @property
    def containers(self) -> list[ContainerNode]:
        """The tester's ends are read by an engine of the lab's own: no container."""
        return [node for node in self.nodes if node.kind != TESTER]

    @property
    def ports(self) -> int:
        """Interfaces in all, mirrors apart."""
        return sum(len(node.interfaces) for node in self.nodes)

    @property
    def first_hops(self) -> tuple[NodeInterface, ...]:
        """What takes the clients' packets first, each instance of it; none without a VNF."""
        routed = [n for n in self.of_kind("routed", "proxy") if n.interface("up").lan == 0]
        return tuple(n.interface("up") for n in routed)

    @property
    def first_hop(self) -> NodeInterface:
        return (self.first_hops or (self.of_kind("server")[0].interface("up"),))[0]

    def neighbours(self, node: ContainerNode) -> list[tuple[NodeInterface, NodeInterface]]:
        """(own interface, one that is on the same LAN)."""
        return [
            (own, other)
            for own in node.interfaces
            for one in self.nodes
            for other in one.interfaces
            if one is not node and other.lan == own.lan
        ]

    def owner(self, interface: NodeInterface) -> ContainerNode:
        return next(node for node in self.nodes if interface in node.interfaces)

    def of_kind(self, *kinds: str) -> list[ContainerNode]:
        return [node for node in self.nodes if node.kind in kinds]

    @property
    def client(self) -> ContainerNode:
        return self.of_kind("client")[0]


def lay_out(
    graph: Graph,
    kinds: dict[str, str],
    definitions: dict[str, VnfDefinition],
    instances: dict[str, int],
    servers: int,
    tester: bool = False,
    on: Mapping[str, str] | None = None,
) -> ContainerLayout:
    """`kinds`: vertex -> VNF; `instances`: VNF -> how many share the load; {} is no VNF.

    `tester`: also a place with an interface at either end, for a source and a sink of our own.
    `on`: vertex -> its server; clients are on the first one's, servers on the last one's.
    """
    lans = Lans()
    root = next((kinds[name] for name, parent in graph.items() if parent is None), None)
    alone = root is not None and definitions[root].kind == "leaf"
    stages = trunk(graph, kinds, definitions, instances, lans) if graph and not alone else []
    at = _servers_of(graph, stages, on or {})
    no_lone_way(stages)
    last = len(stages)
    lans.no_overlap(last + 1)
    server_addresses = tuple(lans.host(last, _SERVER + i) for i in range(servers))
    targets = [stage for stage in stages if stage.service]
    target = str(targets[0].service) if targets else server_addresses[0]
    client = ContainerNode(
        "client", "traffic", "client", "client",
        (NodeInterface("down", 0, lans.host(0, _CLIENT), "down"),),
        routes=_downstream(stages, 0, lans),
    )  # fmt: skip
    nodes = [client]
    for stage in stages:
        nodes += _instances(stage, stages, server_addresses)
    for i, address in enumerate(server_addresses):
        nodes.append(
            ContainerNode(
                f"server{i + 1}",
                "traffic",
                "server",
                "server",
                (NodeInterface("up", last, address, "up"),),
                routes=_upstream(stages, last + 1, lans),
            )
        )
    if tester:
        down = NodeInterface("down", 0, lans.host(0, _TESTER_DOWN), "down")
        up = NodeInterface("up", last, lans.host(last, _TESTER_UP), "up")
        nodes.append(ContainerNode(TESTER, "traffic", TESTER, TESTER, (down, up)))
    for stage in stages:
        nodes += _leaves(stage, kinds, definitions)
    if alone:  # nothing but leaves: they watch the clients
        feed = (("client", "down"),)
        nodes += [_leaf(leaf, kinds, definitions, feed) for leaf in graph]
    _no_clash(nodes)
    nodes = [replace(node, server=at.get(node.place, "")) for node in nodes]
    leaves = {name for name in graph if definitions[kinds[name]].kind == "leaf"}
    text = one_line(graph, leaves) if graph else "(no VNF)"
    return ContainerLayout(text, last + 1, tuple(nodes), target)


def _servers_of(
    graph: Graph, stages: Sequence[ApplianceStage], on: Mapping[str, str]
) -> dict[str, str]:
    """Gives each place its server, the ends of the row among them."""
    for stage in stages:
        for leaf in stage.leaves:
            if on.get(leaf) != on.get(stage.place):
                raise BadInput(
                    f"{leaf}: is on {on.get(leaf)}, and what it is fed on {on.get(stage.place)}; "
                    "allowed: one server"
                )
    trunk_on = [on[name] for name in (stage.place for stage in stages) if name in on]
    trunk_on = trunk_on or [on[name] for name in graph if name in on]  # nothing but leaves
    ends = {"client": trunk_on[0], "server": trunk_on[-1]} if trunk_on else {}
    return {**on, **ends}


def _instances(
    stage: ApplianceStage, stages: Sequence[ApplianceStage], servers: tuple[str, ...]
) -> list[ContainerNode]:
    routes = _upstream(stages, stage.number, stage.lans)
    routes += _downstream(stages, stage.number, stage.lans)
    ports = stage.definition.ports
    return [
        ContainerNode(
            name,
            stage.definition.name,
            stage.place,
            stage.definition.kind,
            (
                NodeInterface("up", stage.number - 1, up, ports.get("up", "up")),
                NodeInterface("down", stage.number, down, ports.get("down", "down")),
            ),
            stage.service,
            routes,
            _next_targets(stage, stages, servers),
            role=stage.role,
            peer=stage.peer,
        )
        for name, up, down in zip(stage.names(), stage.ups(), stage.downs(), strict=True)
    ]


def _next_targets(
    stage: ApplianceStage, stages: Sequence[ApplianceStage], servers: tuple[str, ...]
) -> tuple[str, ...]:
    """What a proxy asks: the service of the next proxy, each instance of it, or the servers.

    Instances all have the service's address; behind a proxy they are told apart by their own,
    which each serves too: a balancer then spreads over them itself.
    """
    for later in stages[stage.number :]:
        if later.service:
            return later.ups() if later.instances > 1 else (later.service,)
    return servers


def _leaves(
    stage: ApplianceStage, kinds: dict[str, str], definitions: dict[str, VnfDefinition]
) -> list[ContainerNode]:
    feeds = tuple((name, "down") for name in stage.names())
    return [_leaf(leaf, kinds, definitions, feeds) for leaf in stage.leaves]


def _leaf(
    leaf: str,
    kinds: dict[str, str],
    definitions: dict[str, VnfDefinition],
    feeds: tuple[tuple[str, str], ...],
) -> ContainerNode:
    device = definitions[kinds[leaf]].ports.get("mirror", "mirror")
    return ContainerNode(leaf, kinds[leaf], leaf, "leaf", mirrors=feeds, mirror=device)


def _no_clash(nodes: Sequence[ContainerNode]) -> None:
    """An appliance's own address may be one that somebody else has."""
    owners: dict[str, str] = {}
    for node in nodes:
        for interface in node.interfaces:
            other = owners.setdefault(interface.address, node.name)
            if other != node.name:
                raise BadInput(
                    f"{node.name}: got {interface.address}; address clash: {other} has it on the "
                    "same network; allowed: an address that nobody else has"
                )


def _downstream(stages: Sequence[ApplianceStage], at: int, lans: Lans) -> tuple[Route, ...]:
    """Routes towards the servers, from the place `at` (0: the clients)."""
    if at >= len(stages):
        return ()
    via = stages[at].ups()
    further = [lans.prefix(lan) for lan in range(at + 1, len(stages) + 1)]
    services = [f"{stage.service}/32" for stage in stages[at:] if stage.service]
    return tuple(Route(destination, via) for destination in further + services)


def _upstream(stages: Sequence[ApplianceStage], at: int, lans: Lans) -> tuple[Route, ...]:
    """Routes towards the clients, as far as addresses are known."""
    if at < 2:
        return ()
    via = stages[at - 2].downs()
    routes = []
    for number in range(at - 1, 0, -1):  # the stage that is crossed next
        if stages[number - 1].definition.splits:
            break
        routes.append(Route(lans.prefix(number - 1), via))
    return tuple(routes)
