# SPDX-License-Identifier: Apache-2.0
"""The ground of offloaded forwarding: VNFs that are alike, measured in each mode, with their
routing daemons killed, or with all of their routes changing."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from pathlib import Path
from typing import Any

from headrace.engine.describe import Description
from headrace.engine.place import usable_cpus
from headrace.errors import HeadraceError
from headrace.ground.contract import Checked
from headrace.ground.engine_check import Accepted, PlanCheck
from headrace.ground.engines.engine_point import ForeignPoint, foreign_point
from headrace.ground.floor import Floors
from headrace.ground.hosted.ground import HostedPoint, hosted_point
from headrace.ground.inline import EnginePoint, inline_point
from headrace.ground.offload.asked import HOSTING
from headrace.ground.offload.convergence import SpeakerPoint, networks_of
from headrace.ground.offload.fpm import write_addresses
from headrace.ground.offload.killed import Routers, RoutersPoint
from headrace.ground.offload.mode_points import ConventionalPoint, FlowsPoint, ForwardingPoint
from headrace.ground.offload.modes import (
    BY_SWITCH,
    FLOWS,
    Many,
    addresses_in,
    conventional,
    on_port,
    study_of,
)
from headrace.host.openvswitch import dpdk_lacking
from headrace.host.state import short_run
from headrace.spec.document import Document
from headrace.spec.offload import Mode, Offload
from headrace.spec.study import Study, expand, read
from headrace.spec.workload import Packets

_BOOT_S = 3.0  # that a mode takes to deploy: its routes come first
_KILLED_MAX = 64


class OffloadGround:
    def __init__(self, description: Description) -> None:
        self._description = description
        self._accepted: Accepted = set()

    def check(self, doc: Document) -> Checked:
        study = read(doc)
        hosting = study.deployment.hosting
        if not isinstance(hosting, Offload):
            raise doc.error(HOSTING, f"got {hosting.kind}; allowed: offload")
        if isinstance(hosting.vnfs, dict):
            raise doc.error(
                (*HOSTING, "vnfs"), "VNFs by name are a service, which `headrace offload` runs; "
                "allowed: how many there are",
            )  # fmt: skip
        if study.measure.convergence is not None:
            return _converging(doc, study, hosting)
        if study.measure.chaos is not None:
            return _killed(doc, study, hosting, hosting.vnfs)
        return self._compared(doc, study, hosting, hosting.vnfs)

    def _compared(self, doc: Document, study: Study, hosting: Offload, vnfs: int) -> Checked:
        packets = _packets(doc, study, vnfs)
        many = Many(
            vnfs, hosting.routes, hosting.updates, hosting.wire, packets.flows.count,
            packets.frame[0].sizes[0],
        )  # fmt: skip
        modes, lacking = _possible(hosting.modes)
        floors = Floors()
        points = [self._point(doc, study, mode, many, floors) for mode in modes]
        own = study.deployment.memory_mb
        # A switch that forwards has as much as the tester.
        beside = max([own if FLOWS in modes else 0, *(point.switch_mb for point in points)])
        most = study.deployment.model_copy(update={"memory_mb": own + beside})
        return Checked(
            points, {}, _BOOT_S * len(points), memory=most,
            notes=[f"{one}: skipped: {lacking}" for one in hosting.modes if one not in modes],
        )  # fmt: skip

    def _point(
        self, doc: Document, study: Study, mode: Mode, many: Many, floors: Floors
    ) -> EnginePoint:
        """The mode is a study of its own, of the chains' ground. Its functions are ours and not the
        user's: only the engine checks them, as 64,512 routes take seconds against a schema."""

        def laid_in(folder: Path) -> EnginePoint:
            return self._laid_in(folder, doc, study, mode, many, floors)

        with short_run() as state:
            addresses = addresses_in(state.path)
            write_addresses(addresses, many.addresses())
            point = laid_in(state.path)
        fields: dict[str, Any] = {f.name: getattr(point, f.name) for f in dataclasses.fields(point)}
        fields["remarks"] = ()  # VNFs have their routes when they are deployed
        if isinstance(point, ForeignPoint):
            return FlowsPoint(**fields, many=many, laid_in=laid_in)
        kind = ConventionalPoint if isinstance(point, HostedPoint) else ForwardingPoint
        return kind(**fields, many=many, to=addresses)

    def _laid_in(
        self, folder: Path, doc: Document, study: Study, mode: Mode, many: Many, floors: Floors
    ) -> EnginePoint:
        """The mode with its files and sockets in this folder, where the packets' addresses are."""
        hosting = study.deployment.hosting
        assert isinstance(hosting, Offload)
        lcores = forwarding_cpus(hosting.forwarders, doc)
        asked_of = study_of(study.name, mode, many, lcores, folder)
        inner = Document(doc.file, asked_of, None)  # nobody wrote it: it has no lines
        [experiment] = expand(inner)
        asked: dict[str, Any] = {
            key: getattr(study, key) for key in ("measure", "repetitions", "warmup", "collect")
        }
        memory = {key: getattr(study.deployment, key) for key in ("memory_mb", "hugepages")}
        asked["deployment"] = experiment.study.deployment.model_copy(update=memory)
        one = experiment.study.model_copy(update=asked)
        named = experiment.execution.model_copy(update={"name": mode})
        experiment = dataclasses.replace(experiment, study=one, execution=named)
        addresses = addresses_in(folder)
        content = hashlib.sha256(addresses.read_bytes()).hexdigest()
        check = PlanCheck(
            inner, self._description, self._accepted,
            lambda text: text.replace(str(addresses), content).replace(str(folder), ""),
        )  # fmt: skip
        cpus = usable_cpus()
        if mode == FLOWS:
            return foreign_point(experiment, check, cpus, floors)
        if conventional(mode):
            return hosted_point(experiment, check, cpus, floors)
        return inline_point(experiment, check, cpus, floors, on_port)


def _killed(doc: Document, study: Study, hosting: Offload, vnfs: int) -> Checked:
    if not 2 <= vnfs <= _KILLED_MAX:
        raise doc.error(
            (*HOSTING, "vnfs"), "one is killed and the others go on; allowed with chaos: 2 to "
            f"{_KILLED_MAX}", value=vnfs,
        )  # fmt: skip
    frame = _packets(doc, study, vnfs).frame[0].sizes[0]
    points = [
        RoutersPoint(doc, study, Routers(vnfs, daemon, hosting.routes, frame), traffic_cpus())
        for daemon in hosting.daemon
    ]
    return Checked(points, {}, None, memory=study.deployment, lacking=_lacking())


def _converging(doc: Document, study: Study, hosting: Offload) -> Checked:
    asked = study.measure.convergence
    assert asked is not None
    networks, cpu = networks_of(asked, doc), usable_cpus()[-1]
    points = [SpeakerPoint(doc, study, daemon, asked, cpu, networks) for daemon in hosting.daemon]
    inputs = {} if asked.prefixes is None else {asked.prefixes: doc.resolve(asked.prefixes)}
    return Checked(points, inputs, None, memory=study.deployment, lacking=_lacking())


def _packets(doc: Document, study: Study, vnfs: int) -> Packets:
    """One size, and a flow for each VNF."""
    [packets, *more] = study.workload
    assert isinstance(packets, Packets)
    if more or len(packets.frame) > 1 or len(packets.frame[0].sizes) > 1:
        raise doc.error(("workload",), "allowed with hosting offload: packets of one size")
    if packets.flows.count < vnfs:
        raise doc.error(
            ("workload", "flows"),
            f"{packets.flows.count} flows; allowed: at least one per VNF, {vnfs}",
        )
    return packets


def _possible(modes: tuple[Mode, ...]) -> tuple[list[Mode], str | None]:
    """Modes that this machine can have, and why it has not those with Open vSwitch."""
    switched = [mode for mode in modes if mode in BY_SWITCH]
    if not switched:
        return list(modes), None
    why = dpdk_lacking() or ("needs root" if os.geteuid() != 0 else None)
    if why is None:
        return list(modes), None
    left = [mode for mode in modes if mode not in switched]
    if not left:
        raise HeadraceError(f"{switched[0]}: {why}")
    return left, why


def _lacking() -> str | None:
    if os.geteuid() == 0:
        return None
    return "offload: needs root, to make network namespaces and TAPs"


def forwarding_cpus(forwarders: int, doc: Document) -> list[int]:
    """That of generator and sink, and so many that forward, the last ones."""
    traffic, others = traffic_cpus()[0], usable_cpus()[1:]
    if forwarders > len(others):
        raise doc.error(
            (*HOSTING, "forwarders"),
            f"{forwarders} lcores, beside that of generator and sink; allowed here: at most "
            f"{len(others)}",
        )
    return [traffic, *others[-forwarders:]]


def traffic_cpus() -> tuple[int, int]:
    """Generator and sink on the first, the router on the last."""
    there = usable_cpus()
    if len(there) < 2:
        raise HeadraceError("hosting offload needs two CPUs, one for traffic")
    return there[0], there[-1]
