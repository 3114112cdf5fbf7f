# SPDX-License-Identifier: Apache-2.0
"""Trials between which, or during which, a hypervisor moved the lcores (model/lines_between.py)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from headrace.analyse.units import plural, significant
from headrace.model.lines_between import WHOLE, same_state
from headrace.model.usual_trials import by_lcores, usual_line
from headrace.record.rows import Trial


def moved(trials: Sequence[Trial]) -> str | None:
    """One sentence for the reader, where not all trials on the same lcores were of one state."""
    told = (_moved(group) for group in by_lcores(trials).values())
    return next((text for text in told if text is not None), None)


def _moved(trials: Sequence[Trial]) -> str | None:
    known = [one for one in trials if one.line_cycles]
    usual = usual_line(known)
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
