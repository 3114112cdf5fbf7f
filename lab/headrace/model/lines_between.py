# SPDX-License-Identifier: Apache-2.0
"""In which state of the machine a slice or a trial ran, by what a line of another lcore cost in it.

A hypervisor puts virtual CPUs on hyperthreads of one core, on cores of one last-level cache or of
two, and moves them, on a busy host every few seconds: a line that the other lcore had just written
took 21, 78 or 344 TSC cycles on one machine (Zheng et al. 2019, figure 2, has what a pipeline pays
for it). What lies between two lcores does not drift: it is one thing or another, and figures of two
such states are not of one machine. The engine reads one such line in each slice
(engine/core/loop/slices.c).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from headrace.record.slices import ReplicaSlices

Column = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

# Apart by more than both of these is another state. Figures of one lay within 15 % of each other;
# cores of one cache and of two are four times apart, of one socket and of two once and a half.
APART = 1.35
STEP = 30.0  # TSC cycles: some processors' clock moves in steps of 26
WHOLE = 0.9  # of a trial's slices: it ran in one state
WINDOW = 5  # slices
ENOUGH = 3  # starts in one state of each thing that is compared
OFTEN = 0.25  # of all starts: a state that is worth waiting for
Start = tuple[str, float | None]  # what was started, and the cycles of a line meanwhile


def same_state(one: float | None, other: float | None) -> bool:
    """They are the same also where one of them is not known: nothing says that they differ."""
    if not one or not other:
        return True
    less, more = sorted((one, other))
    return more <= max(less * APART, less + STEP)


def smoothed(line: Column) -> Column:
    """The second least of each reading and the four around it, of those that are known (0 is not);
    nan where none is. A line that the other lcore is writing at that moment takes up to ten times
    as long, and one of some was brought by a prefetcher before it was asked for."""
    known = np.where(line > 0, line, np.nan)
    if not known.size:
        return known
    padded = np.pad(known, WINDOW // 2, constant_values=np.nan)
    around = np.sort(np.lib.stride_tricks.sliding_window_view(padded, WINDOW), axis=1)
    return np.where(np.isnan(around[:, 1]), around[:, 0], around[:, 1])


def commonest(lines: Iterable[Column | Sequence[float]]) -> float | None:
    """Cycles of a line in the state that most of these figures are of: their median. Of states as
    common as each other that with the cheaper lines. None: no figure is known (nan is none)."""
    several = [np.asarray(one, dtype=np.float64) for one in lines]
    figures = np.concatenate(several) if several else np.empty(0)
    figures = np.sort(figures[~np.isnan(figures)])
    if not figures.size:
        return None
    ends = np.searchsorted(figures, _most(figures), side="right")
    first = int(np.argmax(ends - np.arange(figures.size)))
    return float(np.median(figures[first : ends[first]]))


def states(lines: Iterable[float]) -> list[float]:
    """Cycles of a line in each state that these figures are of, the commonest first."""
    figures = np.asarray(list(lines), dtype=np.float64)
    left, commonest_first = figures[~np.isnan(figures)], list[float]()
    while left.size:
        usual = commonest([left])
        assert usual is not None
        commonest_first.append(usual)
        left = left[~in_state(left, usual)]
    return commonest_first


def in_state(line: Column, usual: float | None) -> Mask:
    """Which of these smoothed figures are of that state; where nobody knows, all are."""
    if usual is None:
        return np.ones(line.size, dtype=bool)
    return np.isnan(line) | ((line <= max(usual * APART, usual + STEP)) & (_most(line) >= usual))


def compared_state(starts: Sequence[Start]) -> float | None:
    """Cycles of a line in the state that a comparison goes by: the one with the cheapest lines of
    those in which each thing was started often enough. Which state is the commonest changes from
    run to run of a minute, and figures with it; this is found again, as the highest clock is.
    Otherwise that of most starts. None: nothing says what lines cost."""
    names = {name for name, _ in starts}
    for usual in sorted(states(line for _, line in starts if line)):
        counts = Counter(name for name, line in starts if line and same_state(line, usual))
        if all(counts[name] >= ENOUGH for name in names):
            return usual
    return commonest([[line for _, line in starts if line]])


def wanted_state(starts: Sequence[Start]) -> float | None:
    """The one to start things in while a comparison goes on: with the cheapest lines of those that
    come often."""
    lines = [line for _, line in starts if line]
    often = [
        usual
        for usual in states(lines)
        if sum(same_state(line, usual) for line in lines) >= OFTEN * len(lines)
    ]
    return min(often, default=commonest([lines]))


def _most(line: Column) -> Column:
    """What a line may cost in the state in which this is the least."""
    return np.maximum(line * APART, line + STEP)


def of_pair(replicas: Sequence[ReplicaSlices]) -> tuple[ReplicaSlices, ...]:
    """Between two lcores there is one way, and it costs the same there and back. Where their
    readings differ by a state, those of the one that reads cheaper stand for both: a line that the
    other lcore writes again every few cycles, as a source does that waits for room, takes up to ten
    times what lies between them, in all slices alike."""
    each = {one.cpu: one for one in replicas if one["line"].size}
    if len(each) != 2 or len({one.cpu for one in replicas}) != 2:
        return tuple(replicas)
    usual = {cpu: commonest([smoothed(one["line"])]) for cpu, one in each.items()}
    known = {cpu: line for cpu, line in usual.items() if line is not None}
    if len(known) != 2 or same_state(*known.values()):
        return tuple(replicas)
    cheaper = each[min(known, key=lambda cpu: known[cpu])]
    return tuple(
        one
        if one.cpu == cheaper.cpu
        else replace(one, columns={**one.columns, "line": _nearest(cheaper, one["end"])})
        for one in replicas
    )


def _nearest(one: ReplicaSlices, ends: Column) -> Column:
    """Its readings at these times."""
    middles = (one["end"][1:] + one["end"][:-1]) / 2
    return np.asarray(one["line"][np.searchsorted(middles, ends)])
