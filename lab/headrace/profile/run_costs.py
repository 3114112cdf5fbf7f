# SPDX-License-Identifier: Apache-2.0
"""What a described server costs, by what the parts of measured runs were busy for.

The model that predicts says what each part of a deployment takes, out of a description's figures.
They are taken here as those with which it says what was counted (run_parts.py), by least squares of
relative errors (model/fitting.py). Each is held, loosely, to what it is in the description that one
starts from: a deployment tells sums, and what no sum tells apart stays in the proportion that it
had there. A part that is far off counts by how far, and not by its square: the host moves virtual
CPUs, and then all that lcores hand to each other costs something else for a while.

Delays tell what the kernel's scheduler takes, as packets are followed (layout/events.py), and what
VNFs in a row on one lcore carry tells how long each keeps it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeVar

from headrace.analyse.units import plural
from headrace.errors import BadInput
from headrace.ground.simulated.ground import SimulatedGround, SimulatedPoint
from headrace.model.fitting import NOISE, STEP, Unknown, fitted
from headrace.model.lines_between import WHOLE, commonest, same_state
from headrace.profile.run_parts import PAUSES, Pair, RunTrial, pauses_of
from headrace.record.again import document_of
from headrace.record.bundle import Bundle
from headrace.spec.base import Spec
from headrace.spec.described import (
    DescribedServer,
    HostedCost,
    MeasuredPauses,
    Source,
    Sourced,
    figures_of,
)
from headrace.spec.group import Machine
from headrace.spec.points import Wanted, points
from headrace.spec.server import Server
from headrace.spec.study import expand

LOOSE = 0.7  # of a figure's logarithm: twice or half of what it was is one deviation
ROBUST = 3 * NOISE  # errors beyond it count by how far they are
HELD_UP = 0.1  # of a trial: somebody else had an lcore for longer
SCHEDULER = tuple(f"hosting.{name}_us" for name in ("slice", "kept", "change", "wake", "rouse"))
_COSTS = ("functions.", "traffic.", "hosting.")
_BUMP = 1.2
_COARSE = 0.05  # packets that are followed say nothing of smaller steps
_FOLLOWED = 8  # processes of an lcore
_GAIN = 1e-3  # of the squares, in a round: less is not worth another one
RUNS, DELAYS, PACE, LINES, SIZES, START = "runs", "delays", "pace", "lines", "sizes", "start"

M = TypeVar("M", bound=Spec)


@dataclass(frozen=True)
class CostsOfRuns:
    """`pairs`: of what the figures were taken from, with them. `left`: trials that were left out,
    and why."""

    server: DescribedServer
    pairs: tuple[Pair, ...]
    trials: int
    left: tuple[str, ...]

    @property
    def told(self) -> list[str]:
        """Lines that say how well the figures say what was counted."""
        sizes = sorted(abs(one.error) for one in self.pairs)
        off = f"median {median(sizes):.1%}, nine of ten {sizes[len(sizes) * 9 // 10]:.1%}"
        lines = [f"{plural(self.trials, 'trial')}, {len(sizes)} parts: off by {off}"]
        return [*lines, *(f"left out: {one}" for one in self.left)]


def costs_of_runs(
    name: str, about: str, here: Server, start: DescribedServer, bundles: Sequence[Bundle]
) -> CostsOfRuns:
    """Takes them from runs on this server. HeadraceError where nothing can be taken from them."""
    every = [one for bundle in bundles for one in trials_of(bundle, start)]
    lines = commonest([[one.line for one in every if one.line]])
    kept, left = [], []
    for one in every:
        why = why_not(one, lines)
        if why is None:
            kept.append(one)
        else:
            left.append(f"{one.name}: {why}")
    if not kept:
        why = left[0] if left else "it has no measured trials of chains"
        raise BadInput(f"{bundles[0].path}: {why}; allowed: bundles of runs on this server")
    begun = _renamed(name, about, _sized(start, here, pauses_of(kept)), kept, lines, bundles)
    server = taken_from(begun, kept)
    pairs = [pair for one in kept for pair in one.busy(server)]
    return CostsOfRuns(_spread(server, pairs), tuple(pairs), len(kept), tuple(left))


def taken_from(server: DescribedServer, trials: Sequence[RunTrial]) -> DescribedServer:
    """The server with what these trials tell of it."""
    server = _taken(server, trials, RunTrial.busy, RUNS)
    return _taken(server, [one for one in trials if _quick(one)], RunTrial.scheduled, DELAYS)


def _quick(one: RunTrial) -> bool:
    """Processes that are few enough to be followed again and again."""
    return one.point.bare is not None and len(one.point.bare.chains) <= _FOLLOWED


def trials_of(bundle: Bundle, start: DescribedServer) -> Iterator[RunTrial]:
    """Each result of a bundle with the same point on the described server."""
    doc = document_of(bundle)
    if doc is None:
        raise BadInput(f"{bundle.path}: has no spec.yaml; allowed: bundles of `headrace run`")
    ground = SimulatedGround(start, start, "events")
    here = Machine(start.cores, 1)
    trials = {one.trial: one for one in bundle.trials()}
    there: dict[tuple[str, str, str], SimulatedPoint] = {}
    for point in points(doc, here, Wanted()):
        for one in expand(point.doc):
            hosted = one.hosting.kind != "inline"
            place = ground.hosted_point if hosted else ground.inline_point
            there[one.chain, one.execution.name, one.workload_name] = place(one, point.doc)
    for result in bundle.results():
        key = (result.chain, result.execution, result.workload)
        if result.ground == "measured" and key in there:
            trial = trials.get(result.trial or 0)
            line = trial.line_cycles if trial else None
            moved = trial is not None and trial.line_share is not None and trial.line_share < WHOLE
            yield RunTrial(f"{result.chain} {result.goal}", there[key], result, line, moved)


def why_not(one: RunTrial, lines: float | None) -> str | None:
    counters = one.result.counters
    if counters is None or not one.result.received:
        return "nothing came through"
    held = max((worker.away for worker in counters.workers), default=0.0)
    if held > HELD_UP:
        return f"other work had an lcore for {held:.0%} of it"
    if one.moved:
        return "the host moved its lcores meanwhile"
    if one.line and not same_state(one.line, lines):
        return f"a line took {one.line:.0f} TSC cycles, {lines:.0f} in most"
    return None


def _taken(
    server: DescribedServer,
    trials: Sequence[RunTrial],
    pairs: Callable[[RunTrial, DescribedServer], list[Pair]],
    source: str,
) -> DescribedServer:
    """The server with the figures that these trials tell."""
    asked = SCHEDULER if source == DELAYS else tuple(_costs(server))

    known: list[dict[tuple[float, ...], list[float]]] = [{} for _ in trials]

    def errors(at: Mapping[str, float]) -> list[float]:
        there = with_figures(server, {p: {"value": v * start[p]} for p, v in at.items()})
        every = list[float]()
        for one, before in zip(trials, known, strict=True):
            key = tuple(value for path, value in at.items() if one.has(path))
            if key not in before:
                before[key] = [robust(pair.error) for pair in pairs(one, there)]
            every += before[key]
        return every

    start = {path: figure.value for path, figure in figures_of(server) if path in asked}
    now = errors(dict.fromkeys(start, 1.0))
    told = [p for p in start if errors(dict.fromkeys(start, 1.0) | {p: _BUMP}) != now]
    if not now or not told:
        return server
    unknowns = [Unknown(path, 1.0, LOOSE) for path in told]
    step = _COARSE if source == DELAYS else STEP
    values = fitted(unknowns, lambda at: errors(_positive(at)), step, _GAIN)
    return with_figures(server, {
        path: {"value": _rounded(start[path] * one), "source": source}
        for path, one in _positive(values).items()
    })  # fmt: skip


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _positive(at: Mapping[str, float]) -> dict[str, float]:
    """An unknown of 1 is the figure that it started from."""
    return {path: math.exp(value - 1) for path, value in at.items()}


def robust(error: float) -> float:
    """Its square is the error's, and beyond ROBUST grows as the error does (Huber 1964, Robust
    Estimation of a Location Parameter)."""
    size = abs(error)
    if size <= ROBUST:
        return error
    return math.copysign(math.sqrt(ROBUST * (2 * size - ROBUST)), error)


def _costs(server: DescribedServer) -> Iterator[str]:
    """Figures in cycles of what is done to packets."""
    for path, figure in figures_of(server):
        told = path.startswith(_COSTS) and not path.endswith(("_us", "accesses", "per_entry"))
        if told and figure.value:
            yield path


def with_figures(
    server: DescribedServer, figures: Mapping[str, Mapping[str, Any]]
) -> DescribedServer:
    """The same with other fields of these figures, by their paths."""
    for path, fields in figures.items():
        server = _with(server, path.split("."), fields)
    return server


def _with(model: M, path: Sequence[str], fields: Mapping[str, Any]) -> M:
    name, *rest = path
    own = getattr(model, name)
    if isinstance(own, dict):
        changed: Any = {**own, rest[0]: _with(own[rest[0]], rest[1:], fields)}
    elif isinstance(own, tuple):
        at = int(rest[0])
        changed = (*own[:at], _with(own[at], rest[1:], fields), *own[at + 1 :])
    elif rest:
        changed = _with(own, rest, fields)
    else:
        changed = own.model_copy(update=dict(fields))
    return model.model_copy(update={name: changed})


def _sized(start: DescribedServer, here: Server, pauses: MeasuredPauses | None) -> DescribedServer:
    """With the caches and cores of this server; else all is as on the one that is started from."""
    every = {path: {"source": START} for path, _ in figures_of(start)}
    start = with_figures(start, every)
    caches, cores = here.data_caches(here.cpus[0]), len(here.cores)
    levels = tuple(
        level.model_copy(
            update={
                "kib": Sourced(value=cache.size_bytes / 1024, source=SIZES),
                "shared_by": max(1, len(cache.cpus) * cores // len(here.cpus)),
            }
        )
        for level, cache in zip(start.levels, caches, strict=False)
    )
    update: dict[str, object] = {
        "levels": (*levels, *start.levels[len(levels) :]),
        "pauses": pauses,
    }
    if start.hosting is not None and start.hosting.kept_us is None:
        update["hosting"] = start.hosting.model_copy(update={"kept_us": _half(start.hosting)})
    return start.model_copy(update=update | {"cores_per_socket": cores // here.sockets})


def _half(hosting: HostedCost) -> Sourced:
    """Where to begin: as long as a slice, at the most, no run would tell that it is shorter."""
    return Sourced(value=hosting.slice_us.value / 2, source=START)


def _renamed(
    name: str, about: str, start: DescribedServer, kept: Sequence[RunTrial],
    lines: float | None, bundles: Sequence[Bundle],
) -> DescribedServer:  # fmt: skip
    """The one that is started from, with the clock and the lines of these trials."""
    day = bundles[0].status.started_at[:10]
    hosted = sum(one.point.bare is not None for one in kept)
    to = f"cycles that each part of {len(kept)} trials was busy for"
    by = f"by least squares, held to `{start.name}`"
    sources = {
        RUNS: Source(kind="fitted", text=f"`headrace run`, {day}: {by}", to=to),
        DELAYS: Source(
            kind="fitted", text=f"`headrace run`, {day}: {by}",
            to=f"medians of delays of {hosted} trials of VNFs in processes",
        ),
        PACE: Source(kind="measured", text="additions of the lcores, in these runs"),
        LINES: Source(kind="measured", text="lines of another lcore, in these runs"),
        PAUSES: Source(kind="measured", text="turns without packets that took long, in these runs"),
        SIZES: Source(kind="data-sheet", text="sizes as the kernel says them"),
        START: Source(kind="assumed", text=f"as on the server `{start.name}`"),
    }  # fmt: skip
    clock = median(one.clock_hz for one in kept) / 1e6
    update = {
        "name": name,
        "about": about,
        "sources": sources,
        "clock_mhz": Sourced(value=round(clock, 1), source=PACE, spread=0.02),
    }
    if lines:
        cycles = lines * median(one.cycles for one in kept)
        update["transfer_cycles"] = Sourced(value=round(cycles, 1), source=LINES, spread=0.1)
    return start.model_copy(update=update)


def _spread(server: DescribedServer, pairs: Sequence[Pair]) -> DescribedServer:
    """Each figure that was taken may be off by what parts are off by in the median.
    Sources that nothing is from any more are gone."""
    typical = round(median(abs(one.error) for one in pairs), 3)
    taken = [path for path, figure in figures_of(server) if figure.source in (RUNS, DELAYS)]
    server = with_figures(server, {path: {"spread": min(0.9, typical)} for path in taken})
    used = {figure.source for _, figure in figures_of(server)}
    sources = {name: one for name, one in server.sources.items() if name in used}
    return server.model_copy(update={"sources": sources})
