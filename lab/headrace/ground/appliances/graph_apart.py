# SPDX-License-Identifier: Apache-2.0
"""A chain of appliances on several servers: the agent of each deploys its own part
(served_part.py), and cables join the LANs that have VNFs on two of them."""

from __future__ import annotations

import base64
import contextlib
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from headrace.collect.collector import Targets
from headrace.collect.elsewhere import AgentsThere, Elsewhere
from headrace.errors import HeadraceError
from headrace.ground.appliances.addressing import ContainerLayout, ContainerNode
from headrace.ground.appliances.graph import ApplianceGraph, ChargeReading, Supply
from headrace.ground.appliances.part_answers import (
    AskedPart,
    CommandBegun,
    CommandEnded,
    PartCharged,
    PartUp,
    PortsCounted,
)
from headrace.ground.wired.answers import Done
from headrace.ground.wired.there import There
from headrace.host.plumbing import InterfaceCount
from headrace.host.state import RunState
from headrace.host.stopwatch import Stopwatch
from headrace.spec.appliance import Cable

_LOOK_S = 0.05
_APART = 48  # bits: more than a namespace's inode has


class GraphApart(ApplianceGraph):
    """Its parts are on servers; what is asked of it is asked of the server that has it."""

    def __init__(
        self,
        layout: ContainerLayout,
        supplies: Mapping[str, Supply],
        cables: Sequence[Cable],
        servers: Mapping[str, There],
        state: RunState,
        watch: Stopwatch,
        say: Callable[[str], None],
    ) -> None:
        self.layout, self.supplies, self.state = layout, supplies, state
        self.watch, self.say, self.cpus = watch, say, 0
        names = dict.fromkeys(node.server for node in layout.nodes)
        self._servers = {name: servers[name] for name in names}
        self._parts = {
            name: AskedPart(
                server=name, layout=layout, supplies=dict(supplies),
                uplinks=uplinks_of(layout, name, cables),
            )
            for name in names
        }  # fmt: skip

    def _make(self) -> None:
        with self.watch.phase("starting containers"), ThreadPoolExecutor() as pool:
            ups = list(pool.map(self._deploy, self._servers))
        for name, up in zip(self._servers, ups, strict=True):
            self.cpus += up.cpus
            for note in up.notes:
                self.say(f"{name}: {note}")

    def _deploy(self, name: str) -> PartUp:
        part = self._parts[name].model_dump(mode="json")
        return self._servers[name].ask(PartUp, "graph", do="deploy", asked=part)

    def _undo(self) -> None:
        for one in self._servers.values():
            with contextlib.suppress(HeadraceError):  # with the connection all is undone there
                one.ask(Done, "graph", do="remove")

    def inside(
        self, node: ContainerNode, *command: str, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        there = self._servers[node.server]
        begun = there.ask(
            CommandBegun, "graph", do="inside", node=node.name, command=command, timeout_s=timeout_s
        )
        while not (end := there.ask(CommandEnded, "graph", do="ended", number=begun.number)).over:
            for one in self._servers.values():  # what a load is to go through may be gone
                one.check_there()
            time.sleep(_LOOK_S)
        return subprocess.CompletedProcess(command, end.status, end.output, end.errors)

    def give(self, file: Path, target: str) -> None:
        there = self._servers[self.layout.client.server]
        data = base64.b64encode(file.read_bytes()).decode()
        there.ask(Done, "graph", do="give", data=data, target=target)

    def interface_counts(self) -> dict[str, dict[str, InterfaceCount]]:
        counts: dict[str, dict[str, InterfaceCount]] = {}
        for one in self._servers.values():
            counts |= one.ask(PortsCounted, "graph", do="counts").interfaces
        return counts

    def charge(self) -> ChargeReading:
        """By this machine's clock, as each server has another one."""
        asked = {
            name: one.ask(PartCharged, "graph", do="charge").reading
            for name, one in self._servers.items()
        }
        return together(asked, time.monotonic(), [node.name for node in self.layout.nodes])

    def targets(self) -> Targets:
        return Targets()

    def hz(self) -> list[float]:
        """No CPU that is here has any part of it."""
        return []

    def elsewhere(self) -> Elsewhere:
        return AgentsThere(self._servers, [node.name for node in self.layout.containers])


def uplinks_of(layout: ContainerLayout, server: str, cables: Sequence[Cable]) -> dict[int, str]:
    """The interfaces by which a server's LANs go on to another one's."""
    on: dict[int, set[str]] = {}
    for node in layout.nodes:
        for interface in node.interfaces:
            on.setdefault(interface.lan, set()).add(node.server)
    return {
        lan: cable[server]
        for lan, servers in on.items()
        for cable in cables
        if server in servers and set(cable) == servers
    }


def together(asked: Mapping[str, ChargeReading], at_s: float, own: Sequence[str]) -> ChargeReading:
    """Readings of several servers as one. `own`: containers; all else has its server's name."""

    def told(name: str, server: str) -> str:
        return name if name in own else f"{name} of {server}"

    whole = ChargeReading(at_s, {}, sum(one.busy_s for one in asked.values()), {})
    processes: list[str] = []
    for number, (server, one) in enumerate(asked.items()):
        first = number << _APART
        whole.groups.update({told(name, server): s for name, s in one.groups.items()})
        whole.stolen_ns.update({f"{server}'s {cpu}": ns for cpu, ns in one.stolen_ns.items()})
        whole.forwarded.update(one.forwarded)
        whole.spent.update({first + inode: spent for inode, spent in one.spent.items()})
        whole.namespaces.update(
            {told(name, server): first + inode for name, inode in one.namespaces.items()}
        )
        processes += (told(name, server) for name in one.processes)
    if not all(one.spent for one in asked.values()):  # what one does not tell is none's
        whole.spent.clear()
        whole.namespaces.clear()
    return replace(whole, processes=tuple(processes))
