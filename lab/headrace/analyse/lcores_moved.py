# SPDX-License-Identifier: Apache-2.0
"""Trials between which, or during which, a hypervisor moved the lcores (model/lines_between.py)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from headrace.analyse.units import plural, significant
from headrace.model.lines_between import WHOLE, commonest, compared_state, same_state
from headrace.record.rows import Trial

Cpus = frozenset[int]  # all that a trial's engine had: of others the ways between them differ


def _by_lcores(trials: Sequence[Trial]) -> dict[Cpus, list[Trial]]:
    """Trials in order, one of each number: those of its chains and directions have the same lines.
    First those of the lcores that had most."""
    numbered = {one.trial: one for one in sorted(trials, key=lambda one: one.trial)}
    groups: dict[Cpus, list[Trial]] = {}
    for one in numbered.values():
        groups.setdefault(_cpus(one), []).append(one)
    return dict(sorted(groups.items(), key=lambda group: -len(group[1])))


def _cpus(one: Trial) -> Cpus:
    return frozenset(cpu for segment in one.segments for cpu in segment.cpus)


def _usual(trials: Sequence[Trial]) -> float | None:
    """The comparison's, where there was one: capacities are of the state of these."""
    in_turn = [
        (f"{one.chain} {one.execution} {one.workload}", one.line_cycles)
        for one in trials
        if one.phase == "capacity"
    ]
    if in_turn:
        return compared_state(in_turn)
    return commonest([[one.line_cycles for one in trials if one.line_cycles]])


def lines_between(trials: Sequence[Trial]) -> float | None:
    """TSC cycles of a line that another lcore wrote, in the state that capacities are of, between
    the lcores that most trials had."""
    known = (_usual(group) for group in _by_lcores(trials).values())
    return next((line for line in known if line is not None), None)


def usual_trials(trials: Sequence[Trial]) -> frozenset[int]:
    """Numbers of those that ran in the state that capacities on the same lcores are of: that of
    most trials, or of most starts of the comparison."""
    usual = {cpus: _usual(group) for cpus, group in _by_lcores(trials).items()}
    return frozenset(
        one.trial for one in trials if same_state(one.line_cycles, usual.get(_cpus(one)))
    )


def moved(trials: Sequence[Trial]) -> str | None:
    """One sentence for the reader, where not all trials on the same lcores were of one state."""
    told = (_moved(group) for group in _by_lcores(trials).values())
    return next((text for text in told if text is not None), None)


def _moved(trials: Sequence[Trial]) -> str | None:
    known = [one for one in trials if one.line_cycles]
    usual = _usual(known)
    others: list[list[float]] = []
    for line in sorted(one.line_cycles or 0.0 for one in known):
        if same_state(line, usual):
            continue
        if not others or not same_state(others[-1][0], line):
            others.append([])
        others[-1].append(line)
    within = sum(one.line_share is not None and one.line_share < WHOLE for one in known)
    if usual is None or not (others or within):
        return None
    states = "".join(
        f", {significant(median(one))} in {plural(len(one), 'trial')}" for one in others
    )
    between = sum(
        not same_state(one.line_cycles, after.line_cycles) for one, after in pairwise(known)
    )
    changed = max(within, between)  # what changed in a trial may be why the next one differs
    same = sum(same_state(one.line_cycles, usual) for one in known)
    return (
        "The hypervisor moved lcores to other cores meanwhile, and what passes between them cost "
        f"otherwise: a cache line that another lcore wrote took {significant(usual)} TSC cycles in "
        f"{same} of {plural(len(known), 'trial')}{states}; it changed {plural(changed, 'time')} "
        "at least. Capacities are of slices of the state that is named first; trials that ran "
        "mostly in another were made again, a few times at most."
    )
