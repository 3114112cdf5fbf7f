# SPDX-License-Identifier: Apache-2.0
"""Calibration of a server: headrace-calibrate run, read, and its curves explained."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

import headrace
from headrace.errors import BadInput, HeadraceError
from headrace.host.exclusive import WAIT_S, HeldLcores
from headrace.host.programs import find_tool, run_tool
from headrace.host.server import detect
from headrace.measure.progress import waiting_for
from headrace.model.levels import levels
from headrace.model.locate import classify
from headrace.record.bundle import now
from headrace.spec.calibration import Calibration, Measured, Placed, RingCost
from headrace.spec.server import Server

PROGRAM = "headrace-calibrate"
# What it measures, in turn. Places a second time, apart from the first, to try the limits on.
PARTS = (
    ("clock", "clocks"),
    ("chase", "loads that wait for each other"),
    ("gather", "loads at once"),
    ("transfer", "lines of another core"),
    ("ring", "rings between cores"),
    ("share", "two pollers on one core"),
    ("placed", "lines of a known place"),
    ("placed", "the same again, to try the limits on"),
)


def find_program() -> Path:
    return find_tool(PROGRAM, "calibrate")


def calibrate(
    rounds: int,
    cpus: Sequence[int] | None = None,
    say: Callable[[str], None] = lambda text: None,
    wait_s: float = WAIT_S,
) -> Calibration:
    """Measure this server, on `cpus` (all that are usable by default), once no run holds one of
    them, at most `wait_s` from now. `say`: told of each part when it is done, and how long it
    took."""
    server = detect()
    used = tuple(cpus) if cpus is not None else server.usable_cpus
    for cpu in used:
        if cpu not in server.usable_cpus:
            raise BadInput(f"--cpus: got {cpu}; allowed: {', '.join(map(str, server.usable_cpus))}")
    arguments = _arguments(server, used, rounds)
    answers = []
    with HeldLcores(used, lambda cpu: say(waiting_for(cpu, wait_s)), wait_s):
        load = os.getloadavg()[0]
        for number, (part, what) in enumerate(PARTS, 1):
            began = time.monotonic()
            answers.append(_json(_run([*arguments, "--only", part])))
            say(f"{number}/{len(PARTS)} {what}: {time.monotonic() - began:.0f} s")
    tested = TypeAdapter(tuple[Placed, ...]).validate_python(answers.pop()["placed"])
    costs = {name: value for answer in answers for name, value in answer.items()}
    measured = _measured(json.dumps(costs))
    return Calibration(
        created_at=now(),
        headrace=headrace.__version__,
        server=server,
        measured=measured,
        levels=levels(measured.chase[0], _sizes(server, used[0]), measured.gather[0]),
        locate=classify(measured.placed, tested),
        load_average=round(load, 2),
    )


def ring(cpus: Sequence[int], rounds: int) -> tuple[RingCost, ...]:
    """The ring hand-over between two CPUs again, as it is now."""
    used = ",".join(map(str, cpus))
    costs = _json(_run(["--cpus", used, "--rounds", str(rounds), "--only", "ring"]))
    return TypeAdapter(tuple[RingCost, ...]).validate_python(costs["ring"])


def _sizes(server: Server, cpu: int) -> list[tuple[str, int]]:
    return [(f"L{cache.level}", cache.size_bytes) for cache in server.data_caches(cpu)]


def _arguments(server: Server, cpus: Sequence[int], rounds: int) -> list[str]:
    arguments = ["--cpus", ",".join(map(str, cpus)), "--rounds", str(rounds)]
    sizes = _sizes(server, cpus[0])
    for (_, size), option in zip(sizes, ("--l1", "--l2", "--llc"), strict=False):
        arguments += [option, str(size)]
    home = server.node_of(cpus[0])
    others = [n.node for n in server.nodes if n.memory_bytes and n.node != home]
    if home is not None and others:
        arguments += ["--nodes", ",".join(map(str, (home, *others)))]
    return arguments


def _run(arguments: Sequence[str]) -> str:
    return run_tool(find_program(), arguments, PROGRAM)


def _json(text: str) -> dict[str, object]:
    return TypeAdapter(dict[str, object]).validate_json(text)


def _measured(text: str) -> Measured:
    try:
        return Measured.model_validate_json(text)
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise HeadraceError(f"{PROGRAM}: its answer is not understood: {where}") from None
