# SPDX-License-Identifier: Apache-2.0
"""Points of the comparison of offloaded forwarding: each mode as the ground of chains has it, with
the routes that it gets meanwhile."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.engine.engine import SHARE_MEASURING, set_share
from headrace.engine.plan_document import Plan
from headrace.engine.reading import Reading
from headrace.engine.running import RunningEngine
from headrace.errors import HeadraceError
from headrace.ground.contract import Offer, Site, resolved_of
from headrace.ground.engines.engine_point import ForeignPoint
from headrace.ground.hosted.ground import DeployedHosted, HostedPoint
from headrace.ground.inline import DeployedEngine, EnginePoint
from headrace.ground.offload.fpm import write_addresses
from headrace.ground.offload.modes import (
    FPM_PORT,
    GATEWAYS,
    LEARNING,
    UPDATED,
    Many,
    addresses_in,
    own_routes,
)
from headrace.ground.offload.service import shown
from headrace.ground.wired.ground import DeployedWired
from headrace.record.facts import Observation
from headrace.record.resolved import ResolvedMode
from headrace.record.verdict import Finding

_READY_S = 60.0
_FOLLOWED = 0.9  # of the route changes that were asked for


@dataclass(frozen=True, kw_only=True)
class ForwardingPoint(EnginePoint):
    """One engine forwards for all VNFs: by one table, or by each VNF's own, as it is told them."""

    many: Many
    to: Path  # as the plan names the file of the packets' addresses

    def resolved(self) -> ResolvedMode:
        return _mode(self)

    @contextlib.contextmanager
    def deploy(self, site: Site) -> Iterator[DeployedEngine]:
        placed = replace(
            self,
            plan=_with_addresses(self.plan, self.to, self.many, site),
            direct=_with_addresses(self.direct, self.to, self.many, site),
        )
        with super(ForwardingPoint, placed).deploy(site) as up:
            if self.execution not in LEARNING:
                yield up
                return
            asked = self.many.updates if self.execution == UPDATED else 0.0
            with _fed(self.many, asked, up.engine):
                yield Learning(up, asked)


@dataclass(frozen=True, kw_only=True)
class ConventionalPoint(HostedPoint):
    """Each VNF forwards its own packets."""

    many: Many
    to: Path

    def resolved(self) -> ResolvedMode:
        return _mode(self)

    @contextlib.contextmanager
    def deploy(self, site: Site) -> Iterator[DeployedHosted]:
        vnfs = [
            replace(vnf, plan=own_routes(vnf.plan, self.many, number))
            for number, vnf in enumerate(self.hosted.vnfs)
            if vnf.plan is not None
        ]
        placed = replace(
            self,
            plan=_with_addresses(self.plan, self.to, self.many, site),
            direct=_with_addresses(self.direct, self.to, self.many, site),
            hosted=replace(self.hosted, vnfs=tuple(vnfs)),
        )
        with super(ConventionalPoint, placed).deploy(site) as up:
            yield up


@dataclass(frozen=True, kw_only=True)
class FlowsPoint(ForeignPoint):
    """Open vSwitch forwards for all VNFs, by a flow for each of their routes."""

    many: Many
    laid_in: Callable[[Path], EnginePoint]  # the same with its sockets in a folder, which exists

    @property
    def notes(self) -> tuple[str, ...]:
        """Without whom it trusts: both ends of its sockets are the run's."""
        return (*self.placement.notes, *self.remarks)

    def resolved(self) -> ResolvedMode:
        return _mode(self)

    @contextlib.contextmanager
    def deploy(self, site: Site) -> Iterator[DeployedWired]:
        """The sockets are the run's."""
        _write_addresses(self.many, site)
        point = self.laid_in(site.state.path)
        assert isinstance(point, ForeignPoint)
        placed = replace(point, verdicts=self.verdicts)
        with placed.deploy(site) as up:
            assert isinstance(up, DeployedWired)
            yield up


def _mode(point: EnginePoint) -> ResolvedMode:
    own = resolved_of(point, point.study).model_dump()
    return ResolvedMode(**own, notes=point.placement.notes, mode=point.execution)


def _with_addresses(plan: Plan, at: Path, many: Many, site: Site) -> Plan:
    """The file is the run's, and goes with it."""
    return plan.placed(str(at), str(_write_addresses(many, site)))


def _write_addresses(many: Many, site: Site) -> Path:
    file = addresses_in(site.state.path)
    if not file.exists():
        write_addresses(file, many.addresses())
    return file


class Learning(DeployedEngine):
    """The engine learns routes over FPM, and says how many changes it took in."""

    def __init__(self, up: DeployedEngine, asked_per_s: float) -> None:
        super().__init__(up.point, up.site, up.engine, up.plan, up.floor)
        self._asked_per_s = asked_per_s
        self._before = self._after = (0, 0.0)

    def start(self, offer: Offer, load_pps: float, seconds: float) -> None:
        self._before = _updates(self.engine), time.monotonic()
        super().start(offer, load_pps, seconds)

    def wait(self) -> None:
        super().wait()
        self._after = _updates(self.engine), time.monotonic()

    def seen(self, observation: Observation, reading: Reading) -> Observation:
        (first, began), (last, ended) = self._before, self._after
        per_s, asked = (last - first) / (ended - began), self._asked_per_s
        least = _FOLLOWED * asked
        text = f"{per_s:.0f} route changes a second came; {asked:.0f} were asked for."
        finding = Finding(check="updates", ok=per_s >= least, value=per_s, limit=least, text=text)
        facts = observation.facts
        return replace(observation, facts=replace(facts, more=(*facts.more, finding)))


@contextlib.contextmanager
def _fed(many: Many, updates: float, engine: RunningEngine) -> Iterator[None]:
    """Runs with the routes of the VNFs come over FPM, and changing at this rate."""
    ports = ",".join(str(FPM_PORT + i) for i in range(many.vnfs))
    command = [sys.executable, "-m", "headrace.ground.offload.fpm", "--ports", ports]
    command += ["--routes", str(many.routes), "--rate", str(updates), "--seconds", "86400"]
    command += ["--gateways", ",".join(GATEWAYS)]
    feed = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, errors="replace", start_new_session=True
    )
    try:
        _await_routes(many, engine, feed)
        # Pollers would leave it a hundredth of a CPU, too little for the rate.
        set_share(feed.pid, SHARE_MEASURING)
        yield
    finally:
        feed.kill()
        feed.wait()


def _await_routes(many: Many, engine: RunningEngine, feed: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + _READY_S
    while any(vnf.ipv4_routes < many.routes for vnf in shown(engine).vnfs):
        if time.monotonic() > deadline or feed.poll() is not None:
            raise HeadraceError("offload: the routes did not arrive over FPM")
        time.sleep(0.1)


def _updates(engine: RunningEngine) -> int:
    """Route changes taken in, since the engine began."""
    return sum(vnf.updates for vnf in shown(engine).vnfs)
