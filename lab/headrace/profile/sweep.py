# SPDX-License-Identifier: Apache-2.0
"""A profile: one dimension after the other is varied, the others stay as they were."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import yaml

import headrace
from headrace.collect import pmu
from headrace.collect.perf import PerfRefused
from headrace.engine.describe import Description
from headrace.engine.place import usable_cpus
from headrace.errors import BadInput
from headrace.ground.contract import Offer
from headrace.ground.engine_check import input_files
from headrace.ground.floor import Floors
from headrace.ground.own_chains import points_of
from headrace.model.amat import CacheLevel, caches, fit
from headrace.profile import acl_tables, chain_costs, pmu_events, rounds
from headrace.profile import point as points
from headrace.profile.calibrate import find_program
from headrace.profile.point import Bench, Json, Placement, PointSample
from headrace.profile.recipes import depends_on, recipe
from headrace.profile.rounds import Case
from headrace.record.bundle import now
from headrace.spec.base import MedianRange
from headrace.spec.calibration import Calibration
from headrace.spec.profile import (
    CoRun,
    Places,
    Profile,
    ProfilePoint,
    ReplicaCost,
    Settings,
    Speed,
    Sweep,
)
from headrace.spec.server import Server

STATES = (100, 316, 1_000, 3_160, 10_000, 31_600, 100_000, 316_000, 1_000_000)
RULES = (10, 100, 1_000, 10_000)
FRAMES = (64, 128, 256, 512, 1024, 1518)
BURSTS = (1, 4, 8, 16, 32, 64)
SKEWS = (0.0, 0.8, 1.0, 1.2)
CORUN_STATES = (1_000, 10_000, 31_600, 100_000, 316_000, 1_000_000)
BASE = Settings(state=1_000, rules=100, frame_bytes=64, burst=32, skew=0.0)
_ROUNDS = 3
SWEEPS: tuple[Sweep, ...] = ("state", "rules", "frame", "burst", "skew")


@dataclass(frozen=True)
class WantedProfile:
    nf: str
    params: Json
    workload: Json
    sweeps: tuple[Sweep, ...]
    states: tuple[int, ...] = STATES
    base: Settings = BASE
    corun: bool = True
    tables: bool = False  # the ACL's, beyond the caches


def profile(
    bench: Bench,
    wanted: WantedProfile,
    server: Server,
    calibration: Calibration | None,
    say: Callable[[str], None],
) -> Profile:
    if wanted.nf not in bench.description.nfs:
        known = ", ".join(sorted(bench.description.nfs))
        raise BadInput(f"profile: there is no function {wanted.nf!r}; allowed: {known}")
    with bench.session.state.folder("profile") as folder:
        _note_spec(bench, wanted, folder)
        levels = caches_of(server, bench.lcores[1], calibration)
        with _counting(bench.lcores[1]) as count:
            taken, speed = _points(bench, wanted, folder, count, say)
            grown = None
            if wanted.tables:
                grown = acl_tables.measured(bench, folder, levels, count, say)
        say("beside source and sink: on the same lcore, on another, on both")
        places = _places(bench, wanted, folder)
        replicas = list(_replicas(bench, wanted, folder, say))
        corun = list(_coruns(bench, wanted, folder, server, say)) if wanted.corun else []
        counted, absent = _pmu(bench, wanted, folder)
    states = [(p.settings.state, p.cost.nf.median) for p in taken if p.sweep == "state"]
    return Profile(
        nf=wanted.nf,
        params=wanted.params,
        created_at=now(),
        headrace=headrace.__version__,
        host=server.hostname,
        cpu=server.cpu,
        tsc_hz=bench.tsc_hz,
        hugepages=bench.session.memory.hugepages,
        repetitions=bench.repetitions,
        speed=speed,
        points=tuple(taken),
        fit=fit(states, levels),
        places=places,
        replicas=tuple(replicas),
        corun=tuple(corun),
        pmu=counted,
        pmu_absent=absent,
        tables=grown,
    )


def _note_spec(bench: Bench, wanted: WantedProfile, folder: Path) -> None:
    """What the sweeps start from, for the bundle."""
    data = study(wanted, wanted.base, folder)
    doc, experiment = points.experiment_of(data, Path(f"profile of {wanted.nf}"))
    files = input_files([experiment], doc, bench.description)
    bench.session.inputs(yaml.safe_dump(data, sort_keys=False), files)


def caches_of(server: Server, cpu: int, calibration: Calibration | None) -> tuple[CacheLevel, ...]:
    """Sizes as the kernel says them; of the last level, which others share, what a calibration
    found of it; and what a miss costs by the calibration. Empty without one of this server."""
    sizes = [(f"L{c.level}", c.size_bytes) for c in server.data_caches(cpu)]
    if calibration is None or calibration.server.hostname != server.hostname or not sizes:
        return ()
    reached = {level.name: level.reaches_bytes for level in calibration.levels}
    *own, (last, size) = sizes
    # Never less than the level before: what a busy machine's walk finds is no cache's size.
    least = own[-1][1] if own else 1
    return caches([*own, (last, max(least, reached.get(last) or size))], calibration.levels)


def settings_of(wanted: WantedProfile) -> Iterator[tuple[Sweep, Settings]]:
    base, depends = wanted.base, depends_on(wanted.nf)
    values: dict[Sweep, Sequence[Any]] = {
        "state": wanted.states if "state" in depends else (),
        "rules": RULES if "rules" in depends else (),
        "frame": FRAMES,
        "burst": BURSTS,
        "skew": SKEWS if "state" in depends else (),
    }
    keys = {"state": "state", "rules": "rules", "frame": "frame_bytes", "burst": "burst"}
    for sweep in wanted.sweeps:
        for value in values[sweep]:
            change = {keys.get(sweep, "skew"): value}
            if sweep == "skew":
                # Skew matters where the flows do not fit into the nearest caches.
                change["state"] = max(100_000, base.state)
            yield sweep, base.model_copy(update=change)


def _points(
    bench: Bench,
    wanted: WantedProfile,
    folder: Path,
    count: pmu_events.Count | None,
    say: Callable[[str], None],
) -> tuple[list[ProfilePoint], Speed]:
    """Every point in every round: a machine that slows down meanwhile does so for all of them,
    and what is left is the curve. `count`: the PMU's of the function's lcore."""
    several = list(settings_of(wanted))
    each_taken: list[list[PointSample]] = [[] for _ in several]
    parts = rounds.shares(bench.repetitions, _ROUNDS)
    for turn, trials in enumerate(parts):
        for i, (sweep, settings) in rounds.alternating(list(enumerate(several)), turn):
            each_taken[i] += run(bench, wanted, settings, folder, "apart", trials)
            cycles = median(sum(s.nfs.values()) for s in each_taken[i])
            say(f"round {turn + 1}, {sweep} {_value(sweep, settings):g}: {cycles:.1f} cycles")
    taken = [
        ProfilePoint(
            sweep=sweep,
            settings=settings,
            cost=points.cost(samples),
            pmu=_per_packet(bench, wanted, settings, folder, count) if sweep == "state" else None,
        )
        for (sweep, settings), samples in zip(several, each_taken, strict=True)
    ]
    return taken, points.speed([s for samples in each_taken for s in samples], bench.tsc_hz)


def _value(sweep: Sweep, settings: Settings) -> float:
    return float(getattr(settings, "frame_bytes" if sweep == "frame" else sweep))


def _places(bench: Bench, wanted: WantedProfile, folder: Path) -> Places:
    data = study(wanted, wanted.base, folder)
    doc, experiment = points.experiment_of(data, Path(f"profile of {wanted.nf}"))
    return chain_costs.places(bench, doc, experiment, wanted.base, bench.lcores)


def _replicas(
    bench: Bench, wanted: WantedProfile, folder: Path, say: Callable[[str], None]
) -> Iterator[ReplicaCost]:
    """Two replicas at once, from states that fit into a core's caches to such as do not."""
    states = [s for s in CORUN_STATES if s <= max(wanted.states)]
    if "state" not in depends_on(wanted.nf):
        return
    several = []
    for state in states:
        settings = wanted.base.model_copy(update={"state": state})
        data = study(wanted, settings, folder)
        doc, experiment = points.experiment_of(data, Path(f"profile of {wanted.nf}"))
        one = chain_costs.as_replicas(bench, doc, experiment)
        several.append((settings, Case(one, less=())))
    rounds.measure(bench, [case for _, case in several], _ROUNDS)
    for settings, case in several:
        sums = points.spread([sum(s.nfs.values()) for s in case.samples])
        say(f"state {settings.state}, two replicas at once: {sums.median:.1f} each")
        yield ReplicaCost(settings=settings, nf=sums)


def study(wanted: WantedProfile, settings: Settings, folder: Path) -> Json:
    needs = recipe(wanted.nf, settings, folder)
    node = {"name": "nf", "nf": wanted.nf, "params": {**needs.params, **wanted.params}}
    return points.study([node], settings, {**needs.workload, **wanted.workload}, "profile")


def check(wanted: WantedProfile, description: Description, folder: Path) -> None:
    """Has the engine read the function's parameters, and the files that they name."""
    data = study(wanted, wanted.base, folder)
    doc, experiment = points.experiment_of(data, Path(f"profile of {wanted.nf}"))
    points_of([experiment], doc, description, Floors(wanted=False))


def run(
    bench: Bench,
    wanted: WantedProfile,
    settings: Settings,
    folder: Path,
    placement: Placement,
    trials: int,
) -> list[PointSample]:
    data = study(wanted, settings, folder)
    one = points.prepare_at(bench, data, placement, f"profile of {wanted.nf}")
    with points.running(bench, one, placement, wait=False, beside=_beside(settings)) as up:
        points.warm_up(up)
        return rounds.full_load(up, trials)


def _beside(settings: Settings) -> str:
    """What a workload's name does not have."""
    skew = f" skew={settings.skew:g}" if settings.skew else ""
    return f"rules={settings.rules} burst={settings.burst}{skew}"


def _coruns(
    bench: Bench, wanted: WantedProfile, folder: Path, server: Server, say: Callable[[str], None]
) -> Iterator[CoRun]:
    cpus = usable_cpus()
    llc = max((c.size_bytes for c in server.data_caches(bench.lcores[1])), default=0)
    if len(cpus) < 2 or not llc:
        return
    neighbour = next(cpu for cpu in cpus if cpu != bench.lcores[1])
    states = [s for s in CORUN_STATES if s <= max(wanted.states)]
    for state in states if "state" in depends_on(wanted.nf) else states[:1]:
        settings = wanted.base.model_copy(update={"state": state})
        alone, beside = _corun(bench, wanted, settings, folder, neighbour, 2 * llc)
        say(f"state {state}, beside a neighbour: {beside.median:.1f} against {alone.median:.1f}")
        yield CoRun(settings=settings, alone=alone, beside=beside, thrash_bytes=2 * llc)


def _corun(
    bench: Bench,
    wanted: WantedProfile,
    settings: Settings,
    folder: Path,
    cpu: int,
    thrash_bytes: int,
) -> tuple[MedianRange, MedianRange]:
    """Takes them in turn, so that a machine that slows down does so for both."""
    placement: Placement = "one-segment"
    data = study(wanted, settings, folder)
    one = points.prepare_at(bench, data, placement, f"profile of {wanted.nf}")
    alone, beside = [], []
    with points.running(bench, one, placement, wait=False, beside="in one segment") as up:
        points.warm_up(up)
        with_neighbour = replace(up, offer=replace(up.offer, workload=_neighboured(up.offer)))
        for _ in range(bench.repetitions):
            alone.append(points.sample(up, bench.seconds))
            with thrashing(cpu, thrash_bytes):
                beside.append(points.sample(with_neighbour, bench.seconds))
    return tuple(  # type: ignore[return-value]
        points.spread([sum(s.nfs.values()) for s in samples]) for samples in (alone, beside)
    )


def _neighboured(offer: Offer) -> str:
    return f"{offer.workload} beside a neighbour"


@contextmanager
def thrashing(cpu: int, size: int) -> Iterator[None]:
    command = [str(find_program()), "--cpus", str(cpu), "--thrash", str(size)]
    neighbour = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        neighbour.kill()
        neighbour.wait()


@contextmanager
def _counting(cpu: int) -> Iterator[pmu_events.Count | None]:
    """None without a PMU; `_pmu` says why."""
    with ExitStack() as stack:
        try:
            count = stack.enter_context(pmu.counting(cpu))
        except PerfRefused:
            count = None
        yield count


def _per_packet(
    bench: Bench,
    wanted: WantedProfile,
    settings: Settings,
    folder: Path,
    count: pmu_events.Count | None,
) -> dict[str, float] | None:
    if count is None:
        return None
    data = study(wanted, settings, folder)
    one = points.prepare_at(bench, data, "apart", f"profile of {wanted.nf}")
    with points.running(bench, one, "apart", wait=False, beside=_beside(settings)) as up:
        points.warm_up(up)
        return pmu_events.per_packet(up, count)


def _pmu(
    bench: Bench, wanted: WantedProfile, folder: Path
) -> tuple[dict[str, float] | None, str | None]:
    try:
        with pmu.counting(bench.lcores[1]) as count:
            return _per_packet(bench, wanted, wanted.base, folder, count), None
    except PerfRefused as why:
        return None, str(why)
