# SPDX-License-Identifier: Apache-2.0
"""From a chain graph to LANs, addresses and routes; pure, so it can be checked without a network.

The trunk of the graph is a row of LANs: clients, LAN 0, first VNF, LAN 1, ... servers. Each VNF has
an interface `up` towards the clients and one `down` towards the servers. A VNF that shows its own
address to what is behind it (NAT, proxies) splits the row: nothing behind it has a route to what is
before it. Addresses are of 198.18.0.0/15, the benchmarking range (RFC 2544 appendix C.2.2), but
where an appliance has its own: then the LAN is the /24 around that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from headrace.errors import BadInput, bad_value
from headrace.graph.draw import Place, one_line, tree
from headrace.graph.enumerate import Graph
from headrace.spec.appliance import Side
from headrace.testbed.containers.lans import Lans
from headrace.testbed.vnf import VnfDefinition

_SERVICES = int(IPv4Address("198.19.0.0"))
_CLIENT, _UP, _DOWN, _SERVER = 10, 20, 120, 220
_TESTER_DOWN, _TESTER_UP = 11, 230
TESTER = "tester"
INSTANCES_MAX = 64
PORT = 80


@dataclass(frozen=True)
class Route:
    destination: str  # prefix
    via: tuple[str, ...]  # several: equal shares by flow hash


@dataclass(frozen=True)
class Interface:
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
class Node:
    """One container."""

    name: str
    vnf: str
    place: str  # the graph's vertex; several instances share one
    kind: str  # routed, proxy, leaf, client, server, tester
    interfaces: tuple[Interface, ...] = ()
    service: str | None = None  # address on `lo` that clients or proxies before it ask for
    routes: tuple[Route, ...] = ()
    upstreams: tuple[str, ...] = ()
    mirrors: tuple[tuple[str, str], ...] = ()  # (node, interface) whose traffic a leaf is fed
    mirror: str = ""  # where a leaf is fed
    role: str = ""  # near, far: ends of a pair; else as `kind`
    peer: str = ""  # the other end's address

    def interface(self, name: str) -> Interface:
        return next(i for i in self.interfaces if i.name == name)


@dataclass(frozen=True)
class Layout:
    """All containers of one deployment, clients and servers included."""

    text: str
    lans: int
    nodes: tuple[Node, ...]
    target: str  # the address that clients ask for

    @property
    def containers(self) -> list[Node]:
        """The tester's ends are read by an engine of the lab's own: no container."""
        return [node for node in self.nodes if node.kind != TESTER]

    @property
    def ports(self) -> int:
        """Interfaces in all, mirrors apart."""
        return sum(len(node.interfaces) for node in self.nodes)

    @property
    def first_hops(self) -> tuple[Interface, ...]:
        """What takes the clients' packets first, each instance of it; none without a VNF."""
        routed = [n for n in self.of_kind("routed", "proxy") if n.interface("up").lan == 0]
        return tuple(n.interface("up") for n in routed)

    @property
    def first_hop(self) -> Interface:
        return (self.first_hops or (self.of_kind("server")[0].interface("up"),))[0]

    def neighbours(self, node: Node) -> list[tuple[Interface, Interface]]:
        """(own interface, one that is on the same LAN)."""
        return [
            (own, other)
            for own in node.interfaces
            for one in self.nodes
            for other in one.interfaces
            if one is not node and other.lan == own.lan
        ]

    def of_kind(self, *kinds: str) -> list[Node]:
        return [node for node in self.nodes if node.kind in kinds]

    @property
    def client(self) -> Node:
        return self.of_kind("client")[0]


@dataclass
class _Stage:
    """One place of the trunk."""

    place: str
    definition: VnfDefinition
    instances: int
    number: int  # from 1
    lans: Lans
    role: str = ""  # near, far
    leaves: list[str] = field(default_factory=list)

    @property
    def service(self) -> str | None:
        proxy = self.definition.kind == "proxy"
        return str(IPv4Address(_SERVICES + 256 * self.number + 1)) if proxy else None

    def __post_init__(self) -> None:
        sides: dict[Side, int] = {"up": self.number - 1, "down": self.number}
        for port, lan in sides.items():
            if address := self.definition.addresses.get(port):
                where = f"appliances.{self.definition.name}.addresses.{port}"
                if self.instances > 1:
                    problem = f"address clash: {self.instances} instances would have it"
                    raise bad_value(where, address, problem=problem, allowed="one instance")
                self.lans.fix(lan, address, where)

    def ups(self) -> tuple[str, ...]:
        return self._addresses("up", self.number - 1, _UP)

    def downs(self) -> tuple[str, ...]:
        return self._addresses("down", self.number, _DOWN)

    def _addresses(self, port: Side, lan: int, first: int) -> tuple[str, ...]:
        if own := self.definition.addresses.get(port):
            return (own,)
        return tuple(self.lans.host(lan, first + i) for i in range(self.instances))

    @property
    def peer(self) -> str:
        """The other end of a pair is on the LAN between."""
        if not self.role:
            return ""
        if self.role == "near":
            return self.lans.host(self.number, _UP)
        return self.lans.host(self.number - 1, _DOWN)

    def names(self) -> list[str]:
        if self.role:
            return [f"{self.place}.{self.role}"]
        if self.instances == 1:
            return [self.place]
        return [f"{self.place}.{i + 1}" for i in range(self.instances)]


def lay_out(
    graph: Graph,
    kinds: dict[str, str],
    definitions: dict[str, VnfDefinition],
    instances: dict[str, int],
    servers: int,
    tester: bool = False,
) -> Layout:
    """`kinds`: vertex -> VNF; `instances`: VNF -> how many share the load; {} is no VNF.

    `tester`: also a place with an interface at either end, for a source and a sink of our own.
    """
    lans = Lans()
    root = next((kinds[name] for name, parent in graph.items() if parent is None), None)
    alone = root is not None and definitions[root].kind == "leaf"
    stages = _trunk(graph, kinds, definitions, instances, lans) if graph and not alone else []
    last = len(stages)
    lans.no_overlap(last + 1)
    server_addresses = tuple(lans.host(last, _SERVER + i) for i in range(servers))
    targets = [stage for stage in stages if stage.service]
    target = str(targets[0].service) if targets else server_addresses[0]
    client = Node(
        "client", "traffic", "client", "client",
        (Interface("down", 0, lans.host(0, _CLIENT), "down"),),
        routes=_downstream(stages, 0, lans),
    )  # fmt: skip
    nodes = [client]
    for stage in stages:
        nodes += _instances(stage, stages, server_addresses)
    for i, address in enumerate(server_addresses):
        nodes.append(
            Node(
                f"server{i + 1}",
                "traffic",
                "server",
                "server",
                (Interface("up", last, address, "up"),),
                routes=_upstream(stages, last + 1, lans),
            )
        )
    if tester:
        down = Interface("down", 0, lans.host(0, _TESTER_DOWN), "down")
        up = Interface("up", last, lans.host(last, _TESTER_UP), "up")
        nodes.append(Node(TESTER, "traffic", TESTER, TESTER, (down, up)))
    for stage in stages:
        nodes += _leaves(stage, kinds, definitions)
    if alone:  # nothing but leaves: they watch the clients
        feed = (("client", "down"),)
        nodes += [_leaf(leaf, kinds, definitions, feed) for leaf in graph]
    _no_clash(nodes)
    text = one_line(graph) if graph else "(no VNF)"
    return Layout(text, last + 1, tuple(nodes), target)


def _trunk(
    graph: Graph,
    kinds: dict[str, str],
    definitions: dict[str, VnfDefinition],
    instances: dict[str, int],
    lans: Lans,
) -> list[_Stage]:
    stages: list[_Stage] = []
    at: Place | None = tree(graph)
    while at is not None:
        if len(at.names) > 1:
            raise BadInput(
                f"chain {one_line(graph)!r}: {at.label}: parallel neighbours cannot be deployed in "
                "containers; allowed: chain graphs made without `parallel`"
            )
        for role in ("near", "far") if definitions[kinds[at.label]].pair else ("",):
            stage = _stage(at.label, kinds, definitions, instances, len(stages) + 1, role, lans)
            stages.append(stage)
        onwards = []
        for child in at.below:
            if definitions[kinds[child.label]].kind == "leaf":
                stage.leaves.append(child.label)
            else:
                onwards.append(child)
        if len(onwards) > 1:
            names = " and ".join(child.label for child in onwards)
            raise BadInput(
                f"chain {one_line(graph)!r}: {names} both follow {at.label}; allowed: one way on "
                "for traffic, and leaf VNFs beside it"
            )
        at = onwards[0] if onwards else None
    return stages


def _stage(
    place: str,
    kinds: dict[str, str],
    definitions: dict[str, VnfDefinition],
    instances: dict[str, int],
    number: int,
    role: str,
    lans: Lans,
) -> _Stage:
    definition = definitions[kinds[place]]
    count = instances.get(kinds[place], 1)
    if count > 1 and not definition.scale_out:
        raise BadInput(
            f"vnfs.{kinds[place]}.instances: got {count}; allowed: 1, as its instances would see "
            "only one direction of a connection"
        )
    return _Stage(place, definition, count, number, lans, role)


def _instances(stage: _Stage, stages: Sequence[_Stage], servers: tuple[str, ...]) -> list[Node]:
    routes = _upstream(stages, stage.number, stage.lans)
    routes += _downstream(stages, stage.number, stage.lans)
    ports = stage.definition.ports
    return [
        Node(
            name,
            stage.definition.name,
            stage.place,
            stage.definition.kind,
            (
                Interface("up", stage.number - 1, up, ports.get("up", "up")),
                Interface("down", stage.number, down, ports.get("down", "down")),
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
    stage: _Stage, stages: Sequence[_Stage], servers: tuple[str, ...]
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
    stage: _Stage, kinds: dict[str, str], definitions: dict[str, VnfDefinition]
) -> list[Node]:
    feeds = tuple((name, "down") for name in stage.names())
    return [_leaf(leaf, kinds, definitions, feeds) for leaf in stage.leaves]


def _leaf(
    leaf: str,
    kinds: dict[str, str],
    definitions: dict[str, VnfDefinition],
    feeds: tuple[tuple[str, str], ...],
) -> Node:
    device = definitions[kinds[leaf]].ports.get("mirror", "mirror")
    return Node(leaf, kinds[leaf], leaf, "leaf", mirrors=feeds, mirror=device)


def _no_clash(nodes: Sequence[Node]) -> None:
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


def _downstream(stages: Sequence[_Stage], at: int, lans: Lans) -> tuple[Route, ...]:
    """Routes towards the servers, from the place `at` (0: the clients)."""
    if at >= len(stages):
        return ()
    via = stages[at].ups()
    further = [lans.prefix(lan) for lan in range(at + 1, len(stages) + 1)]
    services = [f"{stage.service}/32" for stage in stages[at:] if stage.service]
    return tuple(Route(destination, via) for destination in further + services)


def _upstream(stages: Sequence[_Stage], at: int, lans: Lans) -> tuple[Route, ...]:
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
