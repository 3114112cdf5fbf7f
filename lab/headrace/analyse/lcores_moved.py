# SPDX-License-Identifier: Apache-2.0
"""Starts between which, or during which, a hypervisor moved the lcores (model/lines_between.py)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from statistics import median

from headrace.analyse.units import plural, significant
from headrace.model.lines_between import same_state, steady
from headrace.record.rows import Trial


def _starts(trials: Sequence[Trial]) -> list[tuple[float | None, list[int]]]:
    """What a line between lcores cost before each start, and the numbers of its trials. Each start
    has measured it anew, so that no two in a row have the same figure."""
    ordered = sorted(trials, key=lambda one: one.trial)
    grouped = groupby(ordered, key=lambda one: (one.line_cycles, one.chain, one.execution))
    return [(key[0], [one.trial for one in group]) for key, group in grouped]


def usual_trials(trials: Sequence[Trial]) -> frozenset[int]:
    """Numbers of those that ran in the state that most starts ran in."""
    starts = _starts(trials)
    whole = steady([lines for lines, _ in starts])
    return frozenset(
        number
        for (_, numbers), counts in zip(starts, whole, strict=True)
        if counts
        for number in numbers
    )


def lines_between(trials: Sequence[Trial]) -> float | None:
    """TSC cycles of a line that another lcore wrote, in the state that most starts ran in."""
    usual = usual_trials(trials)
    known = [t.line_cycles for t in trials if t.trial in usual and t.line_cycles is not None]
    return median(known) if known else None


def moved(trials: Sequence[Trial]) -> str | None:
    """One sentence for the reader, where not all starts were of one state."""
    starts = _starts(trials)
    lines = [line for line, _ in starts]
    whole = steady(lines)
    if all(whole):
        return None
    usual = next(
        line for line, counts in zip(lines, whole, strict=True) if counts and line is not None
    )
    others: list[list[float]] = []
    for line in sorted(one for one in lines if one is not None and not same_state(one, usual)):
        if not others or not same_state(others[-1][0], line):
            others.append([])
        others[-1].append(line)
    states = [
        f"{significant(median(one))} cycles before {plural(len(one), 'start')}" for one in others
    ]
    near = median(one for one in lines if one is not None and same_state(one, usual))
    changed = sum(not same_state(one, after) for one, after in pairwise(lines))
    return (
        "The hypervisor moved lcores to other cores between starts, and what passes between them "
        f"cost otherwise: a cache line that another lcore wrote took {significant(near)} TSC "
        f"cycles before most, {', '.join(states)}; it changed {plural(changed, 'time')}. "
        f"Capacities are those of {sum(whole)} starts of {len(whole)}, in the commonest state; "
        "searches and fixed loads ran as it came."
    )
