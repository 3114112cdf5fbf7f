# SPDX-License-Identifier: Apache-2.0
"""What an engine that is not headrace's is told, and what it cannot be told."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.engine.ways import Direction
from headrace.errors import BadInput, HeadraceError
from headrace.ground.contract import Site
from headrace.ground.wired.external import Commands
from headrace.host.ledger import Ledger
from headrace.spec.chain import Node
from headrace.spec.document import Document, PathKey
from headrace.spec.study import Experiment
from headrace.spec.testbed import Device

# Those that l2fwd and l3fwd's next hops have where none are given.
MACS = {"dst_mac": "02:00:00:00:00:02", "src_mac": "02:00:00:00:00:01"}


@dataclass(frozen=True)
class Declared:
    """Something in which outputs may differ: a frame without it is what is compared. None: the
    frame as a whole is not. `given`: which frames both engines get, of each direction; the text is
    of those that neither does, then."""

    text: str
    without: Callable[[bytes], bytes | None] = lambda frame: frame
    given: Callable[[Direction, bytes], bool] | None = None


@dataclass(frozen=True)
class Work:
    """A chain to be translated, and where its packets come and go."""

    experiment: Experiment
    doc: Document
    ports: Mapping[Direction, tuple[Device, Device]]  # where a direction enters, and leaves
    cpus: tuple[int, ...]  # its lcores
    tester: tuple[int, ...] = ()  # the tester's

    @property
    def engine(self) -> str:
        return self.experiment.engine

    def met(self, direction: Direction) -> tuple[Node, ...]:
        """The functions in the order that a direction's packets meet them."""
        nodes = self.experiment.nodes
        return nodes if direction == "forward" else nodes[::-1]

    def at(self, node: Node) -> tuple[PathKey, ...]:
        return self.experiment.node_paths[self.experiment.nodes.index(node)]

    def refused(self, node: Node, key: str, why: str, **value: Any) -> BadInput:
        """Names function and parameter; a key of "" is of the function itself."""
        at = self.at(node)
        return self.doc.error((*at, key) if key else at, f"{self.engine}: {why}", **value)

    def check_given(self, node: Node, key: str, expressible: Any, why: str) -> None:
        """A parameter of which the engine can only do one thing."""
        given = node.params.get(key, expressible)
        if given != expressible:
            raise self.refused(node, key, f"{why}; allowed: {expressible}", value=given)

    def check_ports(self, kinds: tuple[str, ...], why: str) -> None:
        for to in {to for pair in self.ports.values() for to in pair}:
            if to.kind not in kinds:
                raise self.doc.error(
                    ("deployment", "engine"),
                    f"{self.engine} {why}, and a port of the chain is {to.kind}; "
                    f"allowed: {', '.join(kinds)}",
                )

    def check_no_mtu(self, engine: str) -> None:
        """BadInput where a port of the chain is given one, which this engine does not set."""
        bed = self.experiment.study.testbed
        assert bed is not None
        for name in bed.chain:
            if bed.ports[name].mtu is not None:
                at = ("testbed", "ports", name, "mtu")
                problem = f"{engine}: ports have their own MTU; allowed: none given"
                raise self.doc.error(at, problem)

    def check_functions(self, known: tuple[str, ...]) -> None:
        for node in self.experiment.nodes:
            if node.nf not in known:
                allowed = ", ".join(known)
                raise self.refused(node, "", f"cannot express {node.nf}; allowed: {allowed}")
            if node.to:
                raise self.refused(node, "", "cannot express branches (`to`); allowed: a line")
            if node.nf == "null":
                self.check_given(node, "action", "pass", "has no sink")


def macs(node: Node, direction: Direction) -> dict[str, str]:
    """What an l2fwd sets, by its parameters' names."""
    given = {key: node.params.get(key, default) for key, default in MACS.items()}
    if direction == "reverse":
        given = {key: node.params.get(f"reverse_{key}", mac) for key, mac in given.items()}
    return given


def check_vips(work: Work, node: Node) -> None:
    """BadInput for what a load balancer that only rewrites IPv4 destinations has no words for."""
    for vip in node.params["vips"]:
        if ":" in str(vip["address"]):
            raise work.refused(node, "vips", f"{vip['address']}; allowed: IPv4 addresses")
        if any("mac" in one for one in vip.get("backends", ())):
            raise work.refused(node, "vips", "sets no MAC addresses; allowed: backends without mac")


def check_sessions(work: Work, node: Node, *, timeouts: str, fragments: str) -> None:
    """BadInput for what a nat of sessions between two endpoints cannot be told: what it has for
    `timeouts`, and does with `fragments`. Defaults are those of engine/nf/nat's parameter table."""
    for key in ("mapping", "filtering"):
        work.check_given(node, key, "endpoint-dependent", "sessions are known by both endpoints")
    for key in node.params:
        if key.endswith("_timeout_s"):
            raise work.refused(node, key, f"{timeouts}; allowed: none given")
        if key in ("datagrams", "held_fragments"):
            raise work.refused(node, key, f"{fragments}; allowed: none given")


def program(name: str, package: str) -> str:
    """Its path."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if path is None:
        raise HeadraceError(f"{name}: not found; install it (`apt-get install {package}`)")
    return path


class Adapter(Protocol):
    """One chain as one engine has it."""

    @property
    def beside(self) -> tuple[str, ...]:
        """What it does more or less than headrace's chain, for readers of its figures."""

    @property
    def declared(self) -> tuple[Declared, ...]: ...

    @property
    def programs(self) -> tuple[str, ...]:
        """That are run for it."""

    def commands(self, site: Site, ledger: Ledger) -> Commands:
        """What starts it and asks it in one deployment; the ledger notes what it makes before."""
