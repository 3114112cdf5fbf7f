# SPDX-License-Identifier: Apache-2.0
"""The trunk of a chain graph as a row of places, and what can stand beside what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from itertools import pairwise

from headrace.errors import BadInput, bad_value
from headrace.graph.draw import Place, one_line, tree
from headrace.graph.enumerate import Graph
from headrace.ground.appliances.lans import Lans
from headrace.ground.catalogue import VnfDefinition
from headrace.spec.appliance import Side

_SERVICES = int(IPv4Address("198.19.0.0"))
_UP, _DOWN = 20, 120


@dataclass
class ApplianceStage:
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


def trunk(
    graph: Graph,
    kinds: dict[str, str],
    definitions: dict[str, VnfDefinition],
    instances: dict[str, int],
    lans: Lans,
) -> list[ApplianceStage]:
    stages: list[ApplianceStage] = []
    at: Place | None = tree(graph)
    while at is not None:
        if len(at.names) > 1:
            raise BadInput(
                f"chain {one_line(graph)!r}: {at.label}: parallel neighbours need a join, "
                "which the kernel's path has not; allowed: chain graphs made without `parallel`"
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
) -> ApplianceStage:
    definition = definitions[kinds[place]]
    count = instances.get(kinds[place], 1)
    if count > 1 and not definition.scale_out:
        raise BadInput(
            f"vnfs.{kinds[place]}.instances: got {count}; allowed: 1, as instances of it cannot "
            "share a load"
        )
    return ApplianceStage(place, definition, count, number, lans, role)


def no_lone_way(stages: Sequence[ApplianceStage]) -> None:
    """A VNF that forwards by itself knows one next hop for each route, and shares nothing out."""
    for near, far in pairwise(stages):
        shared = [(near, far)] if near.definition.splits else [(near, far), (far, near)]
        for own, other in shared:
            if own.definition.forwards == "itself" and other.instances > 1:
                raise BadInput(
                    f"vnfs.{other.definition.name}.instances: got {other.instances}; {own.place} "
                    "beside it sends all to one of them; allowed: 1, or a VNF between the two that "
                    "leaves forwarding to the kernel"
                )
