# SPDX-License-Identifier: Apache-2.0
"""Trials between which, or during which, a hypervisor moved the lcores (model/lines_between.py)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from headrace.analyse.units import plural, significant
from headrace.model.lines_between import WHOLE, commonest, same_state
from headrace.record.rows import Trial


def _by_number(trials: Sequence[Trial]) -> dict[int, Trial]:
    """One of each number, in order: those of a trial's chains and directions have the same."""
    return {one.trial: one for one in sorted(trials, key=lambda one: one.trial)}


def lines_between(trials: Sequence[Trial]) -> float | None:
    """TSC cycles of a line that another lcore wrote, in the state that most trials ran in."""
    numbered = _by_number(trials).values()
    return commonest([[one.line_cycles for one in numbered if one.line_cycles]])


def usual_trials(trials: Sequence[Trial]) -> frozenset[int]:
    """Numbers of those that ran in the state that most of them ran in."""
    usual = lines_between(trials)
    return frozenset(one.trial for one in trials if same_state(one.line_cycles, usual))


def moved(trials: Sequence[Trial]) -> str | None:
    """One sentence for the reader, where not all trials were of one state."""
    known = [one for one in _by_number(trials).values() if one.line_cycles]
    usual = lines_between(trials)
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
    changed = within + sum(
        not same_state(one.line_cycles, after.line_cycles) for one, after in pairwise(known)
    )
    same = sum(same_state(one.line_cycles, usual) for one in known)
    return (
        "The hypervisor moved lcores to other cores meanwhile, and what passes between them cost "
        f"otherwise: a cache line that another lcore wrote took {significant(usual)} TSC cycles in "
        f"{same} of {plural(len(known), 'trial')}{states}; it changed {plural(changed, 'time')} "
        "at least. Capacities are of slices of the commonest state; searches and fixed loads ran "
        "as it came."
    )
