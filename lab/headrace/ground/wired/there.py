# SPDX-License-Identifier: Apache-2.0
"""Other servers that have ends of the wires: each one's agent (agent.py), asked over SSH.

Lcores of the servers have numbers of their own: those of the second server begin at 1000, of the
third at 2000, so that an lcore's number says whose it is wherever it is shown.
"""

from __future__ import annotations

import base64
import contextlib
import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import headrace
from headrace.collect.elsewhere import ask_as
from headrace.engine.control import Answer, Control, ControlError, ControlLost
from headrace.engine.counts import EngineCounts, ReplicaCounts
from headrace.engine.describe import Description, files_in, with_files
from headrace.engine.engine import EngineRefused
from headrace.engine.place import Topology
from headrace.engine.plan_document import Plan, PlanSegment
from headrace.engine.running import RunningEngine
from headrace.errors import HeadraceError
from headrace.ground.wired.answers import (
    About,
    Begun,
    Done,
    DutCounters,
    Hello,
    Interfaces,
    Ports,
    Provided,
    Shielded,
    Stored,
    Threads,
)
from headrace.ground.wired.devices import Answers
from headrace.ground.wired.external import Commands
from headrace.host.plumbing import KernelInterface
from headrace.host.scheduling import Snapshot, Thread
from headrace.record.environment import Environment
from headrace.spec.deployment import Deployment
from headrace.spec.document import Document
from headrace.spec.testbed import Device, ExternalDut, SshServer, device_of

LCORES = 1000  # of a server; more than any has
_AGENT = "agent"
_WAIT_S = 3600.0  # for lcores that another run holds


class Unreachable(HeadraceError):
    """`server` cannot be reached; why."""

    def __init__(self, server: str, why: str) -> None:
        super().__init__(f"servers.{server}: {why}")
        self.server, self.why = server, why


class There:
    """A server. Whatever is asked of it comes from one thread at a time."""

    def __init__(self, name: str, spec: SshServer, number: int) -> None:
        self.name, self.first = name, number * LCORES
        self._nfs: dict[str, dict[str, Any]] = {}
        self._links: dict[str, dict[str, Any]] = {}
        self.turn = threading.RLock()
        from headrace.host.ssh import SshProgram  # now, as SSH's library takes long to load

        try:
            self._program = SshProgram(spec.ssh, (*spec.headrace, _AGENT))
        except HeadraceError as why:
            raise Unreachable(name, str(why)) from None
        self.control = Control(self._program.socket)
        self.hugepages, self.memory = False, ""
        self._held: frozenset[int] | None = None
        self._files: dict[str, str] = {}  # here: there
        try:
            facts = self.ask(Hello, "hello")
            if (version := facts.version) != headrace.__version__:
                raise HeadraceError(
                    f"servers.{name}: headrace is {version} there; allowed: "
                    f"{headrace.__version__}, as here"
                )
        except BaseException:
            self.close()
            raise
        known = {*facts.threads} & {*facts.nodes} & {*range(LCORES)}
        self.cpus = [self.first + cpu for cpu in facts.cpus if cpu in known]
        self.topology = Topology(
            lambda cpu: [self.first + one for one in facts.threads[cpu - self.first]],
            lambda cpu: facts.nodes[cpu - self.first],
        )

    def ask(self, kind: type[Answer], cmd: str, **arguments: Any) -> Answer:
        return ask_as(self, cmd, kind, **arguments)

    def send(self, cmd: str, **arguments: object) -> None:
        try:
            self.control.send(cmd, **arguments)
        except ControlLost:
            raise self.lost() from None

    def receive_as(self, cmd: str, kind: type[Answer]) -> Answer:
        try:
            return self.control.receive_as(cmd, kind)
        except ControlLost:
            raise self.lost() from None
        except ControlError as error:
            raise HeadraceError(f"servers.{self.name}: {error.msg}") from None
        except HeadraceError as error:  # its form
            raise HeadraceError(f"servers.{self.name}: {error}") from None

    def check_there(self) -> None:
        """Without asking it anything."""
        if self._program.over:
            raise self.lost()

    def lost(self) -> HeadraceError:
        words = self._program.last_words or "it closed the connection"
        return HeadraceError(f"servers.{self.name}: connection lost: {words}")

    def devices(self, ports: Mapping[str, Device]) -> Answers:
        answer = self.ask(Ports, "ports", devices={name: to.text for name, to in ports.items()})
        return {
            name: answer.unfit.get(name) or _device(answer.devices.get(name, "")) for name in ports
        }

    @property
    def used(self) -> bool:
        """Whether it has lcores of the study's."""
        return self._held is not None

    def provide(self, cpus: frozenset[int], deployment: Deployment) -> None:
        """Its lcores and memory for as long as the connection is there; asked for once."""
        if self._held is not None:
            return
        own = sorted(cpu - self.first for cpu in cpus)
        self.ask(Done, "hold", cpus=own, wait_s=_WAIT_S)
        self._held = cpus
        asked = {"hugepages": deployment.hugepages, "memory_mb": deployment.memory_mb}
        got = self.ask(Provided, "provide", deployment=asked)
        self.hugepages, self.memory = got.hugepages, got.note

    def ready(self, devices: Mapping[str, Device], listening: Collection[str]) -> None:
        own = {name: to.text for name, to in devices.items()}
        self.ask(Done, "ready", devices=own, listening=[*listening])

    def start(self, plan: Plan, folder: str) -> ThereEngine:
        return ThereEngine(self, plan, folder or "engine")

    def knows(self, description: Description) -> None:
        """What engines that are started here take, which says what of it is a file."""
        self._nfs |= description.nfs
        self._links |= description.links

    def with_files(self, plan: Plan) -> Plan:
        """Files that functions and sources read, and functions of one's own, are taken there, each
        once."""
        nfs = {
            name: one.model_copy(update={"params": self._there(self._nfs[one.type], one.params)})
            for name, one in plan.nfs.items()
        }
        links = {
            name: one.model_copy(update={"params": self._there(self._links[one.type], one.params)})
            for name, one in plan.links.items()
        }
        functions = tuple(map(self._taken, plan.functions or ())) or None
        return plan.having(nfs=nfs, links=links, functions=functions)

    def _there(self, kind: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        for name in files_in(kind["params"], params):
            self._taken(name)
        there: dict[str, Any] = with_files(kind["params"], params, "file", self._files.__getitem__)
        return there

    def _taken(self, name: str) -> str:
        """Where a file of this machine's is there."""
        if name not in self._files:
            data = base64.b64encode(Path(name).read_bytes()).decode()
            self._files[name] = self.ask(Stored, "file", name=name, data=data).path
        return self._files[name]

    def external(self, commands: Commands) -> ThereDevice:
        return ThereDevice(self, commands.spec)

    def interfaces(self) -> Mapping[str, KernelInterface]:
        return self.ask(Interfaces, "interfaces").interfaces

    def environment(self, engine: str) -> Environment:
        return self.ask(About, "about", name=engine).environment

    def undo(self) -> None:
        with contextlib.suppress(HeadraceError):  # with the connection all is undone there
            self.ask(Done, "undo")

    def close(self) -> None:
        self._program.close()


def _device(text: str) -> Device | str:
    try:
        return device_of(text)
    except ValueError as why:
        return f"the server answers {text!r}, which is no device; {why}"


class Servers:
    """Those of a study, connected when it is checked, and until its session ends."""

    def __init__(self, specs: Mapping[str, SshServer]) -> None:
        self._deployment: Deployment | None = None
        self._wanted: dict[str, frozenset[int]] = {}
        self.there: dict[str, There] = {}
        try:
            for number, (name, spec) in enumerate(specs.items()):
                self.there[name] = There(name, spec, number)
        except BaseException:
            self.close()
            raise

    def want(self, cpus: Collection[int], deployment: Deployment) -> None:
        """What a point of the study asks of them; all of it is taken at once, for all points, lest
        two runs hold what the other waits for."""
        for name, one in self.there.items():
            own = {cpu for cpu in cpus if one.first <= cpu < one.first + LCORES}
            self._wanted[name] = self._wanted.get(name, frozenset()) | own
        most = self._deployment
        if most is None or deployment.memory_mb > most.memory_mb:
            self._deployment = deployment

    def provide(self) -> None:
        for name, one in self.there.items():
            assert self._deployment is not None
            if self._wanted[name]:  # none where only commands of an external device are run
                one.provide(self._wanted[name], self._deployment)

    def close(self) -> None:
        for one in self.there.values():
            one.close()


class KnownServers:
    """Connected once for all points that have the same ones."""

    def __init__(self) -> None:
        self._known: dict[str, Servers] = {}

    def of(
        self, specs: Mapping[str, SshServer], description: Description | None, doc: Document
    ) -> Servers:
        """`description`: of the engine, where there is to be one."""
        for name, one in specs.items():
            doc.check_trusted(("servers", name, "ssh"), one.ssh)
        key = repr(specs)
        if key not in self._known:
            try:
                self._known[key] = Servers(specs)
            except Unreachable as why:
                at = ("servers", why.server, "ssh")
                raise doc.error(at, f"{why.why}; allowed: a host that ssh reaches") from None
        known = self._known[key]
        if description is not None:
            for there in known.there.values():
                there.knows(description)
        return known

    def close(self) -> None:
        while self._known:
            self._known.popitem()[1].close()


class ThereEngine(RunningEngine):
    """An engine of another server. Its lcores have the server's numbers."""

    def __init__(self, server: There, plan: Plan, name: str) -> None:
        super().__init__()
        self._server, self.name = server, name
        self.turn, self.control, self.address = server.turn, server.control, {"engine": name}
        own = server.with_files(moved(plan, -server.first))
        refused = server.ask(Begun, "begin", name=name, plan=own.as_json()).refused
        if refused is not None:
            raise EngineRefused(*refused)

    @property
    def server(self) -> str:
        return self._server.name

    @property
    def pid(self) -> int | None:
        return None

    def read(self) -> EngineCounts:
        return renumbered(super().read(), self._server.first)

    def request(self, cmd: str, **arguments: Any) -> dict[str, Any]:
        reply = super().request(cmd, **arguments)
        if cmd == "slices":
            for one in (one for replicas in reply["segments"].values() for one in replicas):
                one["cpu"] += self._server.first
        return reply

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        self.shielded = self._server.ask(Shielded, "shield", name=self.name, on=True).shielded
        try:
            yield
        finally:
            self._server.ask(Shielded, "shield", name=self.name, on=False)

    def scheduled(self) -> Snapshot:
        seen, first = self._server.ask(Threads, "threads", name=self.name), self._server.first
        return Snapshot(
            {tid: Thread(one.cpu + first, one.ran_ns, one.waited_ns)
             for tid, one in seen.threads.items()},
            {cpu + first: ns for cpu, ns in seen.stolen_ns.items()},
        )  # fmt: skip

    def scheduled_beside(self) -> Snapshot | None:
        return None

    def lost(self, why: ControlLost) -> HeadraceError:
        return self._server.lost()

    def environment(self) -> Environment:
        return self._server.environment(self.name)

    def close(self) -> None:
        with contextlib.suppress(HeadraceError):  # as above
            self._server.ask(Done, "end", name=self.name)


class ThereDevice:
    """An external device whose commands a server's agent runs."""

    pid = None

    def __init__(self, server: There, spec: ExternalDut) -> None:
        self._server = server
        server.ask(Done, "device", spec=spec.model_dump(mode="json"))

    def configure(self) -> None:
        self._server.ask(Done, "configure")

    def check_alive(self) -> None:
        self._server.ask(Done, "alive")

    def counters(self) -> dict[str, int]:
        return self._server.ask(DutCounters, "counters").counters

    def close(self) -> None:
        with contextlib.suppress(HeadraceError):  # with the connection it has ended, too
            self._server.ask(Done, "leave")


def at_home(plan: Plan) -> Plan:
    """The same with the numbers that its lcores have on their server."""
    first = min(cpu for segment in plan.segments for cpu in segment.cpus)
    return moved(plan, -(first // LCORES) * LCORES)


def moved(plan: Plan, by: int) -> Plan:
    """The same with its segments on CPUs whose numbers are so much higher."""

    def segment(one: PlanSegment) -> PlanSegment:
        beside = one.parallel
        if beside is not None:
            beside = beside.model_copy(update={"cpus": tuple(cpu + by for cpu in beside.cpus)})
        cpus = tuple(cpu + by for cpu in one.cpus)
        return one.model_copy(update={"cpus": cpus, "parallel": beside})

    return plan.having(segments=tuple(map(segment, plan.segments)))


def renumbered(read: EngineCounts, by: int) -> EngineCounts:
    def replica(one: ReplicaCounts) -> ReplicaCounts:
        beside = one.parallel
        if beside is not None:
            sides = {
                name: side.model_copy(update={"cpu": side.cpu + by})
                for name, side in beside.sides.items()
            }
            beside = beside.model_copy(update={"sides": sides})
        return one.model_copy(update={"cpu": one.cpu + by, "parallel": beside})

    workers = {cpu + by: one for cpu, one in read.workers.items()}
    segments = {name: tuple(map(replica, several)) for name, several in read.segments.items()}
    return read.model_copy(update={"workers": workers, "segments": segments})
