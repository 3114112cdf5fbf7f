# SPDX-License-Identifier: Apache-2.0
"""Which of several layouts is fastest, by as few starts as tell.

A race as of Maron and Moore, "Hoeffding Races: Accelerating Model Selection Search for
Classification and Function Approximation" (1994), in rounds: each layout that may still be the
fastest is started once, what is clearly slower than the leader is left out, and its starts go to
those that lie close. Rates are compared round by round (blocks, as of Birattari and others, "A
Racing Algorithm for Configuring Metaheuristics", 2002), as a machine that slows down does so for
all; and it ends where the leader is within a zone of indifference of all that is left (Kim and
Nelson, "A Fully Sequential Procedure for Indifference-Zone Selection in Simulation", 2001), or with
its starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from headrace.profile.rounds import alternating

K = TypeVar("K", bound=Hashable)
Rounds = Mapping[int, float]  # what one of them carried, by round; without those of another state
# Runs one of them in a round, and tells what it carried; None: with lcores elsewhere than when
# costs were taken.
Start = Callable[[K, int], float | None]
Logs = npt.NDArray[np.float64]

# Starts of one layout in one state of a machine scatter by so much (135 trials of a chain; pages
# and rings lie elsewhere each time). So many deviations of this size are taken as known beside what
# the rounds at hand show: two or three of them alone would now and then look far too alike.
_SCATTER, _KNOWN = 0.035, 6
_SURE = 1.645  # standard errors: 19 of 20 lie on this side of them
ROUNDS = 2  # at least: one start may be one that something disturbed
# A choice is as good as another where it is no more than this behind. Half of what a choice may be
# off (spec/plan.py), as what is not told apart may be off by the rest.
CLOSE = 0.015


@dataclass(frozen=True)
class Lead:
    """One's rate over another's: of the rounds, and between what it lies nine times in ten."""

    over: float
    least: float
    most: float


def lead(of: K, over: K, rates: Mapping[K, Rounds]) -> Lead | None:
    """By the rounds in which both ran; None: there are none. None scatters over itself."""
    if of == over and rates[of]:
        return Lead(1.0, 1.0, 1.0)
    several = _differences(rates[of], rates[over])
    if not several.size:
        return None
    middle = _centre(several)
    off = _SURE * _scatter(rates, over) / math.sqrt(several.size)
    return Lead(math.exp(middle), math.exp(middle - off), math.exp(middle + off))


def fastest(several: Sequence[K], rates: Mapping[K, Rounds]) -> K:
    """The first leads until a round tells that another is faster."""
    leader, *others = several
    for one in others:
        ahead = lead(one, leader, rates)
        if ahead is not None and ahead.over > 1:
            leader = one
    return leader


def undecided(one: K, others: Sequence[K], rates: Mapping[K, Rounds], within: float) -> list[K]:
    """Lists the others of which the rounds do not tell whether `one` is as fast, but for this
    share, or is not."""
    bound = 1 / (1 - within)
    leads = {other: lead(other, one, rates) for other in others if other != one}
    return [
        other
        for other, ahead in leads.items()
        if ahead is None or ahead.least <= bound < ahead.most
    ]


@dataclass(frozen=True)
class Race(Generic[K]):
    """Its entrants, the likeliest first, and what they carried in each round."""

    rates: dict[K, dict[int, float]]

    def run(self, start: Start[K], starts: int, ended: Callable[[], bool]) -> K:
        """The fastest. No round beyond ROUNDS is begun that would take more than so many starts, or
        once it has `ended`."""
        left = list(self.rates)
        for turn in count():
            if turn >= ROUNDS and (len(left) > starts or ended()):
                break
            starts -= len(left)
            for one in alternating(left, turn):
                rate = start(one, turn)
                if rate is not None:
                    self.rates[one][turn] = rate
            if turn + 1 >= ROUNDS:
                left = self._left(left)
            if len(left) < 2:
                break
        return fastest(left, self.rates)

    def _left(self, several: Sequence[K]) -> list[K]:
        """Those that may be faster than the leader; the leader alone where none can be so by more
        than matters."""
        leader = fastest(several, self.rates)
        others = {one: lead(one, leader, self.rates) for one in several if one != leader}
        if all(ahead and ahead.most <= 1 / (1 - CLOSE) for ahead in others.values()):
            return [leader]
        slower = {one for one, ahead in others.items() if ahead and ahead.most <= 1}
        return [one for one in several if one not in slower]


def _differences(one: Rounds, other: Rounds) -> Logs:
    both = sorted(one.keys() & other.keys())
    ratios: Logs = np.log(np.array([one[turn] / other[turn] for turn in both]))
    return ratios


def _centre(several: Logs) -> float:
    """The median of the means of all pairs (Hodges and Lehmann, 1963): as sharp as the mean where
    scatter is even, and not moved by one start of several that something disturbed."""
    first, second = np.triu_indices(several.size)
    return float(np.median((several[first] + several[second]) / 2))


def _scatter(rates: Mapping[K, Rounds], base: K) -> float:
    """The standard deviation of a round's difference: of all of them from each one's own mean, and
    as known before."""
    several = [_differences(one, rates[base]) for key, one in rates.items() if key != base]
    squares = sum(float(((one - one.mean()) ** 2).sum()) for one in several if one.size)
    known = 2 * _KNOWN * _SCATTER**2
    return math.sqrt((known + squares) / (_KNOWN + sum(max(0, one.size - 1) for one in several)))
