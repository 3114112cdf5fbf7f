# SPDX-License-Identifier: Apache-2.0
"""The service: namespaces, engine, daemons; what happens to them is said, and undone at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from headrace.engine.engine import Engine
from headrace.engine.place import usable_cpus
from headrace.engine.plan_document import Plan, PlanEngine
from headrace.engine.running import RunningEngine
from headrace.ground.contract import Site
from headrace.ground.offload import namespaces
from headrace.ground.offload.daemons import Daemons
from headrace.ground.offload.needs import checked
from headrace.ground.offload.router_plan import ROUTER, compile_plan
from headrace.host.ledger import Ledger
from headrace.host.programs import find_engine
from headrace.host.reservation import provide
from headrace.host.state import RunState, dpdk_prefix
from headrace.record.offload_report import OffloadReport
from headrace.spec.deployment import Deployment
from headrace.spec.document import Document
from headrace.spec.offload import OffloadService

Say = Callable[[str], None]
_MBUFS = 16384


class Service:
    """Runs while its context is open."""

    def __init__(
        self,
        spec: OffloadService,
        doc: Document,
        say: Say,
        adapt: Callable[[Plan], Plan] | None = None,
        site: Site | None = None,
    ) -> None:
        """`adapt` may change the engine's plan; `site`: of a session, which undoes the rest."""
        self.spec, self._say, self._adapt = spec, say, adapt
        self._configs = checked(spec, doc)
        self.cpu = _cpu(spec, doc)
        self._site = site
        self._state = RunState() if site is None else site.state
        self._state.path.chmod(0o711)  # FRR's own user has its folders below
        self._state.path.parent.chmod(0o711)
        self._ledger = Ledger(self._state.path)
        self.daemons: dict[str, Daemons] = {}
        self.engine: Engine | None = None

    def __enter__(self) -> Service:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def _start(self) -> None:
        files = namespaces.make(self.spec, self._ledger)
        memory = self._memory() if self._site is None else self._site.engine
        engine = memory.having(memory_mb=self.spec.memory_mb, mbufs=_MBUFS)
        plan = compile_plan(self.spec, self.cpu, engine, files)
        if self._adapt is not None:
            plan = self._adapt(plan)
        self.engine = Engine(find_engine(), plan, self._state)
        namespaces.configure(self.spec)
        for name, vnf in self.spec.vnfs.items():
            one = Daemons(
                name,
                vnf,
                namespaces.of(self.spec, name),
                self._configs.get(name),
                self._state.path / f"vnf-{name}",
                self._ledger,
            )
            self.daemons[name] = one
            one.start()
        self._say(f"forwarding for {len(self.spec.vnfs)} VNFs on lcore {self.cpu}")

    def _memory(self) -> PlanEngine:
        asked = {"hugepages": self.spec.hugepages, "memory_mb": self.spec.memory_mb}
        memory = provide(Deployment.model_validate(asked), self._state)
        return PlanEngine(hugepages=memory.hugepages, file_prefix=dpdk_prefix(self._state.path))

    @property
    def folder(self) -> Path:
        return self._state.path

    @property
    def prefix(self) -> str:
        """The prefix of DPDK's files."""
        return dpdk_prefix(self._state.path)

    def update(self, **operation: Any) -> dict[str, Any]:
        assert self.engine is not None
        reply: dict[str, Any] = self.engine.request("update", nf=ROUTER, op=operation)["reply"]
        return reply

    def show(self) -> OffloadReport:
        assert self.engine is not None
        return shown(self.engine)

    def watch(self) -> None:
        """Once: what has died is held by the engine, and what is back is read anew. FPM tells by
        itself; a daemon that sets the kernel's routes leaves them there when it dies."""
        assert self.engine is not None
        for name, daemons in self.daemons.items():
            died, back = daemons.watch()
            for daemon in died:
                self._say(f"{name}: {daemon} died: {daemons.last_words(daemon)}")
            for daemon in back:
                self._say(f"{name}: {daemon} started again")
            if daemons.vnf.routing.daemon == "frr":
                continue
            for operation, changed in (("down", died), ("up", back)):
                if changed:
                    self.engine.request("update", nf=ROUTER, op={"op": operation, "vnf": name})

    def run(self, seconds: float | None, interval: float, report: Callable[[], None]) -> None:
        end = None if seconds is None else time.monotonic() + seconds
        following = time.monotonic() + interval
        while end is None or time.monotonic() < end:
            self.watch()
            if time.monotonic() >= following:
                following += interval
                report()
            time.sleep(0.1)

    def close(self) -> None:
        for daemons in self.daemons.values():
            daemons.stop()
        if self.engine is not None:
            self.engine.close()
            self.engine = None
        self._ledger.undo()
        if self._site is None:
            self._state.remove()

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()


def shown(engine: RunningEngine) -> OffloadReport:
    """What the router knows."""
    reply = engine.request("update", nf=ROUTER, op={"op": "show"})["reply"]
    return OffloadReport.model_validate(reply)


def _cpu(spec: OffloadService, doc: Document) -> int:
    there = usable_cpus()
    if spec.lcore is None:
        return there[-1]
    if spec.lcore not in there:
        allowed = ", ".join(map(str, there))
        raise doc.error(("lcore",), f"is not a CPU of this process; allowed: {allowed}")
    return spec.lcore
