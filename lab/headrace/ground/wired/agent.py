# SPDX-License-Identifier: Apache-2.0
"""headrace on a server that another one's lab measures with (`headrace agent`): does what it is
asked over its standard input, one JSON object per line, and says on its standard output what came
of it (docs/design/contracts.md).

When its input ends, or nothing has come for `SILENT_S`, it undoes what it did, and ends. A process
beside it (`guarded`) undoes the same if it is killed.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import importlib
import json
import os
import queue
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import headrace
from headrace.collect.collector import Targets, WatchedProcess
from headrace.collect.served import ServedLayers
from headrace.engine.engine import SHARE_IDLE, SHARE_MEASURING, Engine, EngineRefused, set_share
from headrace.engine.place import HERE, usable_cpus
from headrace.engine.plan_document import Plan
from headrace.errors import HeadraceError
from headrace.ground.wired.devices import answers
from headrace.ground.wired.external import Commands, ExternalDevice
from headrace.ground.wired.here import Here
from headrace.host import interrupts
from headrace.host.beat import SILENT_S
from headrace.host.exclusive import HeldLcores
from headrace.host.programs import find_engine
from headrace.host.reservation import Memory, provide
from headrace.host.state import RunState, clean, dpdk_prefix, run_state, telemetry_sockets
from headrace.spec.deployment import Deployment
from headrace.spec.testbed import ExternalDut, device_of

if TYPE_CHECKING:
    from headrace.ground.appliances.served_part import ServedGraph

_PR_SET_PDEATHSIG = 1  # prctl(2)
_LINE_MOST = 64 << 20  # bytes; a plan, or a file of a function
_SAY = {"ok": True}

Answer = dict[str, Any] | bytes
About = Callable[[Engine, str], dict[str, Any]]  # the machine, and the engine on it


def guarded(work: Callable[[], None]) -> NoReturn:
    """Does it in a process of its own. Whichever of the two is killed, the other one undoes what
    was done; who kills both at once leaves it to the next run, or `headrace clean`."""
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)
        work()
        sys.exit(0)
    interrupts.ignore()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(HeadraceError):
        clean()
    os._exit(0 if status == 0 else 1)


def serve(about: About) -> None:
    """Serves until the input ends. `about`: what the environment says of this machine."""
    importlib.import_module("pyroute2")  # now: beside an engine that polls there is little time
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    over = threading.Event()
    try:
        with run_state() as state, contextlib.closing(Agent(state, about)) as agent:
            threading.Thread(target=_listen, args=(lines, over), daemon=True).start()
            while True:
                _say(agent.answered(lines.get()))
    except KeyboardInterrupt:
        if not over.is_set():
            raise


def _say(answer: Answer) -> None:
    text = answer if isinstance(answer, bytes) else json.dumps(answer).encode() + b"\n"
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


def _listen(lines: queue.SimpleQueue[bytes], over: threading.Event) -> None:
    """Passes requests on. When no more can come, what is being done is broken off and undone."""
    for line in _lines():
        if line.strip():
            lines.put(line)
    over.set()
    os.kill(os.getpid(), signal.SIGTERM)


def _lines() -> Iterator[bytes]:
    pending = bytearray()
    while select.select([0], [], [], SILENT_S)[0]:
        more = os.read(0, 1 << 18)
        if not more or len(pending) > _LINE_MOST:
            return
        pending += more
        *whole, rest = pending.split(b"\n")
        pending = bytearray(rest)
        yield from map(bytes, whole)


class Agent:
    def __init__(self, state: RunState, about: About) -> None:
        self._state, self._about = state, about
        self._here = Here(find_engine(), state)
        self._engines: dict[str, Engine] = {}
        self._device: ExternalDevice | None = None
        self._lcores: HeldLcores | None = None
        self._memory: Memory | None = None
        self._layers = ServedLayers()
        self._graph: ServedGraph | None = None
        self._calls: Mapping[str, Callable[..., Answer]] = {
            "hello": self.hello, "ports": self.ports, "hold": self.hold, "provide": self.provide,
            "file": self.file, "ready": self.ready, "begin": self.begin, "end": self.end,
            "device": self.device, "configure": self.configure, "alive": self.alive,
            "counters": self.counters, "leave": self.leave, "shield": self.shield,
            "threads": self.threads, "interfaces": self.interfaces,
            "undo": self.undo, "about": self.about, "watch": self.watch, "graph": self.graph,
            "sample": self._layers.sample, "trace": self._layers.trace,
            "traced": self._layers.traced,
        }  # fmt: skip

    def answered(self, line: bytes) -> Answer:
        """A request that names an engine is that engine's to answer."""
        try:
            asked = json.loads(line)
            cmd, to = asked.pop("cmd"), asked.pop("engine", None)
            if to is not None:
                return self._engines[to].relayed(cmd, **asked)
            answer = self._calls[cmd](**asked)
            return answer if isinstance(answer, bytes) else _SAY | answer
        except HeadraceError as error:
            return _refused(str(error))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return _refused(f"no such request: {type(error).__name__}: {error}")

    def hello(self) -> Answer:
        cpus = usable_cpus()
        return _SAY | {
            "version": headrace.__version__,
            "cpus": cpus,
            "threads": {cpu: list(HERE.threads(cpu)) for cpu in cpus},
            "nodes": {cpu: HERE.node(cpu) for cpu in cpus},
        }

    def ports(self, devices: dict[str, str]) -> Answer:
        """Each one's device as it is here, or why there is none."""
        answered = answers({name: device_of(text) for name, text in devices.items()})
        unfit = {name: one for name, one in answered.items() if isinstance(one, str)}
        fit = {name: one.text for name, one in answered.items() if not isinstance(one, str)}
        return _SAY | {"devices": fit, "unfit": unfit}

    def hold(self, cpus: list[int], wait_s: float) -> Answer:
        self._lcores = HeldLcores(cpus, lambda cpu: None, wait_s)
        return _SAY

    def provide(self, deployment: dict[str, Any]) -> Answer:
        self._memory = provide(Deployment.model_validate(deployment), self._state)
        return _SAY | {"hugepages": self._memory.hugepages, "note": self._memory.note}

    def file(self, name: str, data: str) -> Answer:
        """One that a function or a source reads."""
        folder = self._state.path / "files"
        folder.mkdir(exist_ok=True)
        path = folder / f"{len(list(folder.iterdir()))}-{Path(name).name}"
        path.write_bytes(base64.b64decode(data))
        return _SAY | {"path": str(path)}

    def ready(self, devices: dict[str, str], listening: list[str]) -> Answer:
        self._here.ready({name: device_of(text) for name, text in devices.items()}, listening)
        return _SAY

    def begin(self, name: str, plan: dict[str, Any]) -> Answer:
        """An engine of this name; `refused`, if the plan is wrong."""
        whole, prefix = Plan.model_validate(plan), f"{dpdk_prefix(self._state.path)}-{name}"
        pages = self._memory is not None and self._memory.hugepages
        engine = whole.engine.having(hugepages=pages, file_prefix=prefix)
        try:
            self._engines[name] = self._here.start(whole.having(engine=engine), name)
        except EngineRefused as why:
            return _SAY | {"refused": [why.place, why.problem]}
        return _SAY

    def end(self, name: str) -> Answer:
        self._engines.pop(name).close()
        return _SAY

    def device(self, spec: dict[str, Any]) -> Answer:
        """An external device under test, whose commands are run here."""
        self._device = self._here.external(Commands(ExternalDut.model_validate(spec)))
        return _SAY

    def _external(self) -> ExternalDevice:
        if self._device is None:
            raise HeadraceError("no device's commands are run here")
        return self._device

    def configure(self) -> Answer:
        self._external().configure()
        return _SAY

    def alive(self) -> Answer:
        self._external().check_alive()
        return _SAY

    def counters(self) -> Answer:
        return _SAY | {"counters": self._external().counters()}

    def leave(self) -> Answer:
        self._external().close()
        self._device = None
        return _SAY

    def shield(self, name: str, on: bool) -> Answer:
        """Its engine has its CPUs before all other work, for a trial."""
        engine = self._engines[name]
        raised = set_share(engine.pid, SHARE_MEASURING if on else SHARE_IDLE)
        engine.shielded = raised and on
        return _SAY | {"shielded": raised}

    def threads(self, name: str) -> Answer:
        """What the kernel says of an engine's pollers."""
        seen = self._engines[name].scheduled()
        threads = {tid: asdict(one) for tid, one in seen.threads.items()}
        return _SAY | {"threads": threads, "stolen_ns": seen.stolen_ns}

    def interfaces(self) -> Answer:
        counts = {name: asdict(one) for name, one in self._here.interfaces().items()}
        return _SAY | {"interfaces": counts}

    def undo(self) -> Answer:
        self._here.undo()
        return _SAY

    def about(self, name: str) -> Answer:
        note = "none" if self._memory is None else self._memory.note
        return _SAY | {"environment": self._about(self._engines[name], note)}

    def graph(self, do: str, **arguments: Any) -> Answer:
        """A part of a chain of appliances, which is all that such a study asks for."""
        from headrace.ground.appliances.served_part import ServedGraph  # now: few studies have one

        self._graph = self._graph or ServedGraph(self._state)
        return _SAY | self._graph.answered(do, **arguments)

    def watch(
        self,
        layers: list[str],
        containers: dict[str, str] | None = None,
        bridges: str | None = None,
    ) -> Answer:
        """The engines are watched, under their names, and what else it is told of."""
        engines = {name: one.pid for name, one in self._engines.items()}
        started = Targets(
            processes=tuple(WatchedProcess(name=n, pid=pid) for n, pid in engines.items()),
            telemetry=telemetry_sockets(self._state.path, engines),
        )
        if self._graph is not None:
            started = self._graph.targets()
        return self._layers.watch(layers, containers or {}, bridges, started)

    def close(self) -> None:
        self._layers.close()
        if self._graph is not None:
            self._graph.close()
        for one in self._engines.values():
            one.close()
        if self._device is not None:
            self._device.close()
        self._here.undo()
        if self._lcores is not None:
            self._lcores.release()


def _refused(text: str) -> dict[str, Any]:
    return {"ok": False, "error": {"path": "", "msg": text}}
