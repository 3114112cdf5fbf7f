# SPDX-License-Identifier: Apache-2.0
"""A chain of third-party VNFs that runs, wherever: what loads, verification and the records of a
trial ask of it."""

from __future__ import annotations

import re
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from headrace.collect.collector import Targets
from headrace.collect.cores import Spent
from headrace.collect.elsewhere import Elsewhere
from headrace.collect.hardware import frequencies
from headrace.errors import HeadraceError
from headrace.ground.appliances.addressing import PORT, ContainerLayout, ContainerNode
from headrace.ground.catalogue import VnfDefinition
from headrace.host.plumbing import InterfaceCount
from headrace.host.state import RunState
from headrace.host.stopwatch import Stopwatch
from headrace.host.tool import last_words
from headrace.spec.appliance import Allocation

_COUNTER = re.compile(  # awk writes large numbers with an exponent
    r"([\w.:-]{1,64}) (-?[0-9]{1,18})((?:\.[0-9]{1,18})?(?:e\+?[0-9]{1,2})?)", re.ASCII
)
_COUNTERS_MOST = 1000
_VALUE_MOST = 1 << 63


@dataclass(frozen=True)
class Supply:
    """What a VNF is deployed from."""

    definition: VnfDefinition
    image: str
    allocation: Allocation
    opaque: bool = False  # the user's own image: nothing of ours is inside
    health: tuple[str, ...] | None = None  # an opaque one's check; None: that it runs
    given: Mapping[str, str] = field(default_factory=dict)  # an opaque one's environment
    command: tuple[str, ...] = ()

    @property
    def capabilities(self) -> tuple[str, ...]:
        return self.definition.granted(self.allocation.parameters)

    def environment(self, place: str) -> dict[str, str]:
        own = self.definition.environment(self.allocation.parameters, place)
        return {**own, **self.given}


@dataclass(frozen=True)
class ChargeReading:
    """CPU time, as counters said at one moment."""

    at_s: float
    groups: dict[str, float]  # container, or process of the switch: seconds of CPU
    busy_s: float  # of all processes there
    stolen_ns: dict[str, int]  # CPU, by its name: what the hypervisor took
    forwarded: dict[str, float] = field(default_factory=dict)  # container: its forwarding threads
    # By network namespace, where the kernel tells; then each container's, and who forwards for it.
    spent: dict[int, Spent] = field(default_factory=dict)
    namespaces: dict[str, int] = field(default_factory=dict)
    processes: tuple[str, ...] = ()  # those of `namespaces` that have processes


class ApplianceGraph(ABC):
    """Used as a context: leaving it removes all that was made."""

    watch: Stopwatch
    layout: ContainerLayout
    supplies: Mapping[str, Supply]
    state: RunState
    cpus: int  # of all machines that it runs on

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self._undo()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with self.watch.phase("removing"):
            self._undo()

    @abstractmethod
    def _make(self) -> None: ...

    @abstractmethod
    def _undo(self) -> None: ...

    @abstractmethod
    def inside(
        self, node: ContainerNode, *command: str, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """A command in a container, with the container's rights and environment."""

    @abstractmethod
    def give(self, file: Path, target: str) -> None:
        """A file of the lab's, to the clients."""

    @abstractmethod
    def interface_counts(self) -> dict[str, dict[str, InterfaceCount]]:
        """Counts by container and device."""

    @abstractmethod
    def charge(self) -> ChargeReading: ...

    @abstractmethod
    def targets(self) -> Targets:
        """What collectors watch of this deployment."""

    def hz(self) -> list[float]:
        """Frequencies of the CPUs that it runs on, as far as they can be told."""
        return [reading.value * 1e6 for reading in frequencies()]

    def elsewhere(self) -> Elsewhere | None:
        """What reads its layers, where that is not this machine."""
        return None

    def read_counters(self, node: ContainerNode) -> dict[str, int]:
        """The appliance's own counters; of an opaque one nothing is known."""
        if self.supplies[node.vnf].opaque:
            return {}
        done = self.inside(node, "/headrace/counters")
        if done.returncode:
            raise HeadraceError(
                f"VNF {node.name}: its counters cannot be read: {last_words(done.stderr)}"
            )
        return counters_in(done.stdout)

    def all_counters(self) -> dict[str, dict[str, int]]:
        """Counters of every container but the clients, at nearly the same time."""
        nodes = [node for node in self.layout.containers if node.kind != "client"]
        with ThreadPoolExecutor(len(nodes)) as pool:
            return dict(
                zip((n.name for n in nodes), pool.map(self.read_counters, nodes), strict=True)
            )

    def ask(self, *command: str) -> str:
        """A short command at the clients, which is no load; its output."""
        return self._said(command[0], self.inside(self.layout.client, *command))

    def client(self, *command: str, timeout_s: float = 120) -> str:
        """A command at the clients; its output."""
        done = self.inside(self.layout.client, *command, timeout_s=timeout_s)
        return self._said(command[0], done)

    @staticmethod
    def _said(program: str, done: subprocess.CompletedProcess[str]) -> str:
        if done.returncode:
            words = last_words(done.stderr or done.stdout)
            raise HeadraceError(f"client: {program}: {words}")
        return done.stdout


def counters_in(text: str) -> dict[str, int]:
    """Lines `NAME VALUE`, of values that fit into 64 bits; a container may write anything else."""
    lines = (_COUNTER.fullmatch(line) for line in text.splitlines()[:_COUNTERS_MOST])
    values = {one[1]: int(float(one[2] + one[3]) if one[3] else one[2]) for one in lines if one}
    return {name: value for name, value in values.items() if abs(value) < _VALUE_MOST}


def environment(node: ContainerNode, layout: ContainerLayout, supply: Supply) -> dict[str, str]:
    """What an entry point learns of its place (docs/vnfs.md), and its own parameters."""
    values = {"HR_PORT": str(PORT), "HR_ROLE": node.role or node.kind, "HR_NAME": node.name}
    for interface in node.interfaces:
        values[f"HR_{interface.name.upper()}"] = interface.device
        values[f"HR_{interface.name.upper()}_ADDR"] = interface.address
    if node.kind == "leaf":
        values["HR_MIRROR"] = node.mirror
    if node.service:
        values["HR_ADDR"] = node.service
        values["HR_UPSTREAMS"] = " ".join(node.upstreams)
    values["HR_NEIGHBOURS"] = " ".join(
        f"{own.device}={other.address}={other.mac}" for own, other in layout.neighbours(node)
    )
    values["HR_ROUTES"] = " ".join(f"{r.destination}={r.via[0]}" for r in node.routes)
    if node.peer:
        values["HR_PEER"] = node.peer
    if node.kind == "client":
        values["HR_TARGET"] = layout.target
    return values | supply.environment(f"vnfs.{node.vnf}.parameters")
