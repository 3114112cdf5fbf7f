# SPDX-License-Identifier: Apache-2.0
"""Chains of headrace's own functions, inline or hosted: all that can be checked before the first
packet, as a long run must not fail on a typo at its end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from headrace.engine.describe import Description, check_file, describe
from headrace.engine.place import usable_cpus
from headrace.engine.plan_compiler import check_nodes
from headrace.errors import BadInput
from headrace.ground.contract import Checked
from headrace.ground.dry import DryRuns
from headrace.ground.engine_check import (
    Accepted,
    PlanCheck,
    input_files,
    output_files,
    with_captures,
)
from headrace.ground.floor import Floors
from headrace.ground.hosted.ground import hosted_point
from headrace.ground.inline import EnginePoint, inline_point
from headrace.ground.shared_engine import EngineShared
from headrace.ground.shared_points import with_shared
from headrace.ground.wired.ground import memory_of, wired_point
from headrace.ground.wired.there import KnownServers
from headrace.host.tool import printable
from headrace.spec.deployment import HEADRACE, Deployment
from headrace.spec.document import Document
from headrace.spec.study import Experiment, expand

_BOOT_S = 0.4  # that an engine takes until its path is verified


class Chains:
    """Inline and hosted points may be in one study: its sweep says which. Points that are checked
    by the same object share what the engine was asked."""

    def __init__(self, description: Description) -> None:
        self._description = description
        self._dry = DryRuns()
        self._accepted: Accepted = set()
        self._servers = KnownServers()

    def check(self, doc: Document) -> Checked:
        experiments = list(expand(doc))
        points = points_of(experiments, doc, self._description, None, self._accepted, self._servers)
        ready = self._remarked(points)
        files: dict[str, Path] = {}
        writes: dict[str, Path] = {}
        for one in ready:
            files |= input_files([one.experiment], doc, one.description)
            writes |= output_files([one.experiment], doc, one.description)
        boots = any(one.study.deployment.hosting.kind == "vm" for one in ready)
        here = [memory_asked(one) for one in ready if not one.study.servers]
        together = list(with_shared(ready, EngineShared.of))
        return Checked(
            together, files, None if boots else _BOOT_S * len(ready),
            memory=max(
                here, key=lambda one: (one.hugepages is False, one.memory_mb), default=None
            ),
            hosted_mb=max((one.hosted_mb for one in ready), default=0),
            writes=writes, close=self._servers.close,
        )  # fmt: skip

    def _remarked(self, points: Sequence[EnginePoint]) -> list[EnginePoint]:
        """With what becomes of their first packets, where that is not what one would expect."""
        return [
            replace(one, remarks=self._dry.notes(one.experiment, one.doc, one.description))
            for one in points
        ]


def memory_asked(one: EnginePoint) -> Deployment:
    """What a point asks of this machine: with the memory of both ends, and of a switch."""
    deployment = memory_of(one.study)
    return deployment.model_copy(update={"memory_mb": deployment.memory_mb + one.switch_mb})


def points_of(
    experiments: Sequence[Experiment],
    doc: Document,
    description: Description,
    floors: Floors | None = None,
    accepted: Accepted | None = None,
    servers: KnownServers | None = None,
) -> list[EnginePoint]:
    """`floors`: what is known of the tester, shared by all of them. Without `servers` a study may
    not have any."""
    available, floors = usable_cpus(), floors or Floors()
    accepted = set() if accepted is None else accepted
    ready: list[EnginePoint] = []
    checks: dict[tuple[Path | None, tuple[Path, ...]], PlanCheck] = {}
    for one in with_captures(experiments, doc, description):
        engine, functions = one.study.deployment.build, one.study.deployment.functions
        if (engine, functions) not in checks:
            described = description if engine is None else _other(one, engine, doc)
            if functions:
                described = _with(functions, described, one, doc)
            checks[engine, functions] = PlanCheck(doc, described, accepted)
        check = checks[engine, functions]
        check_nodes(one, doc, check.description)
        own = floors if engine is None else Floors()
        if one.study.servers:
            if servers is None:
                raise doc.error(("servers",), "this command measures here; allowed: `headrace run`")
            there = servers.of(one.study.servers, check.description, doc)
            ready.append(wired_point(one, check, available, own, there))
        else:
            ready.append(_maker(one)(one, check, available, own))
    return ready


Maker = Callable[[Experiment, PlanCheck, list[int], Floors], EnginePoint]


def _maker(experiment: Experiment) -> Maker:
    if experiment.engine != HEADRACE:
        from headrace.ground.engines.engine_point import foreign_point  # few studies have one

        return foreign_point
    if experiment.study.testbed is not None:
        return wired_point
    return inline_point if experiment.hosting.kind == "inline" else hosted_point


def _other(experiment: Experiment, engine: Path, doc: Document) -> Description:
    """The build that the spec names; its tester's floor is its own."""
    at = ("deployment", "engine")
    if experiment.hosting.kind not in ("inline", "process"):
        kind = experiment.hosting.kind
        raise doc.error(at, f"hosting is {kind}; allowed: with hosting inline or process")
    file = doc.program(at, engine)
    if not os.access(file, os.X_OK) or file.is_dir():
        raise doc.error(at, "is no program; allowed: a built headrace-engine", value=str(engine))
    _announce(file)
    return describe(file)


def _with(
    functions: tuple[Path, ...], description: Description, experiment: Experiment, doc: Document
) -> Description:
    """Describes it with those of the spec's shared objects, which the engine tries to load here."""
    at = ("deployment", "functions")
    if (kind := experiment.hosting.kind) != "inline":
        raise doc.error(at, f"hosting is {kind}; allowed: with hosting inline")
    files = tuple(doc.program((*at, i), file) for i, file in enumerate(functions))
    for i, file in enumerate(files):
        check_file(file, doc, (*at, i), functions[i])
        _announce(file)
    try:
        return describe(description.engine, files)
    except BadInput as why:
        raise doc.error(at, str(why)) from None


@cache
def _announce(program: Path) -> None:
    """Says so before it is asked for the first time what it can do."""
    print(f"headrace: the spec has {printable(str(program))} run", file=sys.stderr, flush=True)
