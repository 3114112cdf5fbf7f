# SPDX-License-Identifier: Apache-2.0
"""A chain's costs out of the profiles that were stored: nothing is measured now.

A profile has the function's cost in three neighbourhoods at one setting, and how its own cycles
change with state, rules and frame size, one at a time. What differs from that setting is added;
outside of what was measured nothing is predicted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import median

import numpy as np

from headrace.errors import BadInput, HeadraceError
from headrace.host import store
from headrace.layout.layout import Hop, NfCost, Problem
from headrace.model.lines_between import same_state
from headrace.profile import point as points
from headrace.profile import sweep as swept
from headrace.profile.chain_costs import kept_of, near_and_far, nf_cost, traffic_of
from headrace.profile.point import Bench
from headrace.profile.recipes import depends_on
from headrace.profile.verified import ReferenceRun
from headrace.spec.chain import Node
from headrace.spec.document import Document
from headrace.spec.lines import entries_in
from headrace.spec.profile import Places, Profile, ProfilePoint, Settings, Sweep
from headrace.spec.study import Experiment

Say = Callable[[str], None]
_SLACK = 1.25  # a little further out is no other cache level


def check_stored(experiments: Sequence[Experiment]) -> None:
    """Each function has a profile; one message names all that are missing."""
    wanted = dict.fromkeys(node.nf for one in experiments for node in one.nodes)
    missing = [nf for nf in wanted if not _file(nf).exists()]
    if missing:
        raise BadInput(
            f"--costs profiles: {', '.join(str(_file(nf)) for nf in missing)}: no such file; "
            f"allowed: what {' and '.join(f'`headrace profile {nf}`' for nf in missing)} writes, "
            "or --costs measured"
        )
    for nf in wanted:
        _profile(nf)


def _file(nf: str) -> Path:
    return store.profiles_folder() / f"{nf}.json"


def problem(
    doc: Document,
    experiment: Experiment,
    lcores: Sequence[int],
    say: Say,
    resteers: Collection[str] = (),
) -> Problem:
    """`resteers`: as of pricing's."""
    nfs, places = [], []
    hz = []
    for node in experiment.nodes:
        profile = _profile(node.nf)
        there = profile.places
        assert there is not None
        wanted = _settings(doc, node, experiment, there.settings)
        nfs.append(cost(node.name, profile, there, wanted))
        places.append((there.near, there.far, there.spread))
        hz.append(profile.tsc_hz)
        say(
            f"{node.name}: {nfs[-1].work.same:.1f} cycles by its profile of "
            f"{profile.created_at[:16].replace('T', ' ')}, {wanted.state} entries"
            + (f", {wanted.rules} rules" if "rules" in depends_on(node.nf) else "")
        )
    traffic, kept = traffic_of(places, lcores), kept_of(places)
    costs = tuple(replace(nf, resteers=nf.name in resteers) for nf in nfs)
    return Problem(costs, traffic, tuple(lcores), max(hz), kept=kept)


def line_cycles(experiment: Experiment) -> tuple[float | None, bool]:
    """TSC cycles of a line between the lcores where its functions' profiles were measured; and
    whether a hypervisor had the lcores elsewhere for one of them than for another."""
    places = (_profile(node.nf).places for node in experiment.nodes)
    lines = [one.line_cycles for one in places if one is not None and one.line_cycles]
    mixed = any(not same_state(one, other) for one, other in combinations(lines, 2))
    return (None if mixed or not lines else median(lines)), mixed


def reference(
    bench: Bench, experiment: Experiment, lcores: Sequence[int], folder: Path
) -> ReferenceRun | None:
    """The costliest function as its profile's places had it; None: an older profile does not say
    how fast that was. `folder`: for the files that it needs."""
    profiles = [_profile(node.nf) for node in experiment.nodes]
    costliest = max(profiles, key=lambda p: p.places.far.nf if p.places else 0.0)
    places = costliest.places
    if places is None or not places.far.throughput_pps:
        return None
    wanted = swept.WantedProfile(costliest.nf, costliest.params, {}, ())
    data = swept.study(wanted, places.settings, folder)
    doc, alone = points.experiment_of(data, Path(f"profile of {costliest.nf}"))
    _, far = near_and_far(bench, doc, alone, lcores)
    return ReferenceRun(
        f"{costliest.nf} alone as in its profile, on lcore {lcores[-1]}",
        far,
        places.far.throughput_pps,
        costliest.speed,
    )


def cost(name: str, profile: Profile, places: Places, wanted: Settings) -> NfCost:
    at_base = nf_cost(name, places.near, places.far, places.spread)
    further = _further(profile, places.settings, wanted)
    spread = _spread_further(profile, places.settings, wanted)
    work, replicated = at_base.work, at_base.replicated
    replicas = None
    if work.replicas is not None:
        near, far = work.replicas
        replicas = (max(0.0, near + spread), max(0.0, far + spread))
    return NfCost(
        name=name,
        rx=at_base.rx,
        work=Hop(
            max(0.0, work.same + further),
            max(0.0, work.apart + further),
            replicas,
        ),
        tx=at_base.tx,
        loop=at_base.loop,
        replicated=None if replicated is None else max(0.0, replicated + spread),
        poll=at_base.poll,
    )


def _spread_further(profile: Profile, base: Settings, wanted: Settings) -> float:
    """What replicas cost further: by two of them at once, as far as state goes."""
    known = sorted((float(r.settings.state), r.nf.median) for r in profile.replicas)
    if not known:
        # Each of two replicas has half of the entries; what they share nobody knows.
        halved, based = (
            one.model_copy(update={"state": max(1, one.state // 2)}) for one in (wanted, base)
        )
        return _further(profile, based, halved)
    others = _further(profile, base, wanted.model_copy(update={"state": base.state}))
    if wanted.state > known[-1][0] * _SLACK:
        raise HeadraceError(
            f"plan: cannot predict: the profile of {profile.nf} has replicas up to "
            f"{known[-1][0]:.0f} entries, asked for {wanted.state}"
        )
    return others + _along(known, wanted.state) - _along(known, base.state)


def _along(known: Sequence[tuple[float, float]], value: float) -> float:
    """Interpolates between two points along the logarithm, as cache levels are."""
    xs, ys = [math.log(x) for x, _ in known], [y for _, y in known]
    return float(np.interp(math.log(max(1.0, value)), xs, ys))


def _profile(nf: str) -> Profile:
    file = _file(nf)
    stored = store.load(file, Profile)
    if stored.places is None:
        raise BadInput(
            f"{file}: places: not there, as an older headrace made it; allowed: what "
            f"`headrace profile {nf}` writes now"
        )
    return stored


def _settings(doc: Document, node: Node, experiment: Experiment, base: Settings) -> Settings:
    entries = _lines(doc, node, "routes_file") if node.nf == "l3fwd" else None
    rules = _lines(doc, node, "rules_file")
    if rules is None and isinstance(node.params.get("rules"), list | tuple):
        rules = len(node.params["rules"])
    sizes = experiment.frame.sizes
    return Settings(
        state=entries or experiment.flows,
        rules=rules or base.rules,
        frame_bytes=round(sum(sizes) / len(sizes)),
        burst=experiment.study.deployment.burst,
        skew=base.skew,
    )


def _lines(doc: Document, node: Node, key: str) -> int | None:
    given = node.params.get(key)
    if not isinstance(given, str):
        return None
    try:
        return entries_in(doc.resolve(given))
    except OSError:
        return None  # the engine says what is wrong with it


def _further(profile: Profile, base: Settings, wanted: Settings) -> float:
    """Cycles that the settings add to those of the profile's base."""
    total = 0.0
    keys: dict[Sweep, str] = {"state": "state", "rules": "rules", "frame": "frame_bytes"}
    for sweep, key in keys.items():
        if sweep != "frame" and sweep not in depends_on(profile.nf):
            continue
        at, to = getattr(base, key), getattr(wanted, key)
        if at != to:
            points = [p for p in profile.points if p.sweep == sweep]
            total += _at(profile.nf, sweep, key, points, to) - _at(
                profile.nf, sweep, key, points, at, lenient=True
            )
    return total


def _at(
    nf: str,
    sweep: Sweep,
    key: str,
    points: Sequence[ProfilePoint],
    value: float,
    lenient: bool = False,
) -> float:
    known = sorted((float(getattr(p.settings, key)), p.cost.nf.median) for p in points)
    if not known:
        raise HeadraceError(
            f"plan: cannot predict: the profile of {nf} has no points over {sweep}; "
            f"`headrace profile {nf} --only {sweep}` would make them"
        )
    if value > known[-1][0] * _SLACK and not lenient:
        raise HeadraceError(
            f"plan: cannot predict: the profile of {nf} goes up to {known[-1][0]:g} over {sweep}, "
            f"asked for {value:g}"
        )
    return _along(known, value)
