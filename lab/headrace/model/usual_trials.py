# SPDX-License-Identifier: Apache-2.0
"""Which trials ran in the state of the machine that capacities are of (lines_between.py)."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.model.lines_between import commonest, compared_state, same_state
from headrace.record.rows import Trial

Cpus = frozenset[int]  # all that a trial's engine had: of others the ways between them differ


def by_lcores(trials: Sequence[Trial]) -> dict[Cpus, list[Trial]]:
    """Trials in order, one of each number: those of its chains and directions have the same lines.
    First those of the lcores that had most."""
    numbered = {one.trial: one for one in sorted(trials, key=lambda one: one.trial)}
    groups: dict[Cpus, list[Trial]] = {}
    for one in numbered.values():
        groups.setdefault(cpus_of(one), []).append(one)
    return dict(sorted(groups.items(), key=lambda group: -len(group[1])))


def cpus_of(one: Trial) -> Cpus:
    return frozenset(cpu for segment in one.segments for cpu in segment.cpus)


def usual_line(trials: Sequence[Trial]) -> float | None:
    """The comparison's, where there was one: capacities are of the state of these."""
    in_turn = [one for one in trials if one.phase == "capacity"]
    if in_turn:
        told = [one for one in in_turn if one.capacity is not None] or in_turn
        names = (f"{one.chain} {one.execution} {one.workload}" for one in told)
        return compared_state(list(zip(names, (one.line_cycles for one in told), strict=True)))
    return commonest([[one.line_cycles for one in trials if one.line_cycles]])


def lines_between(trials: Sequence[Trial]) -> float | None:
    """TSC cycles of a line that another lcore wrote, in the state that capacities are of, between
    the lcores that most trials had."""
    known = (usual_line(group) for group in by_lcores(trials).values())
    return next((line for line in known if line is not None), None)


def usual_trials(trials: Sequence[Trial]) -> frozenset[int]:
    """Numbers of those that ran in the state that capacities on the same lcores are of: that of
    most trials, or of most starts of the comparison."""
    usual = {cpus: usual_line(group) for cpus, group in by_lcores(trials).items()}
    return frozenset(
        one.trial for one in trials if same_state(one.line_cycles, usual.get(cpus_of(one)))
    )
