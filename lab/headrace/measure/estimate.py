# SPDX-License-Identifier: Apache-2.0
"""How long a study will take, before it begins: what its parts take, and its search tried on a
chain that is made up."""

from __future__ import annotations

import random
from functools import lru_cache
from statistics import mean

from headrace.ground.contract import Checked, Offer, Point
from headrace.measure.outcome import Limits, Outcome
from headrace.spec.measure import Measure

# What was measured of five studies (docs/measuring.md).
FLOOR_S = 3.0  # an engine again, the tester's maximum and its floor: once per run
TRIAL_S = 0.1  # of a trial, beside sending and draining: counters before and after
# The made-up chain carries this part of what the tester can, give or take so much from trial to
# trial; near its limit it loses a little, as on a machine where other things run.
_TESTER_PPS, _PART, _UNSTEADY = 20e6, 0.4, 0.03
_KNEE, _KNEE_LOSS = 0.9, 1e-4
_SEARCHES = 16


def study_s(checked: Checked) -> float:
    """All of a study; what a ground itself takes to deploy is its to say."""
    times = deployments(checked)
    each = sum(
        times * warmup_s(point, offer) + point.study.repetitions * measuring_s(measure)
        for point in checked.points
        for offer in point.offers
        for measure in [offer.measure or point.study.measure]
    )
    return FLOOR_S + each + times * (checked.seconds or 0.0)


def deployments(checked: Checked) -> int:
    """How often each point is deployed: anew for each repetition, or once for all."""
    return checked.points[0].study.repetitions if checked.interleaved else 1


def warmup_s(point: Point, offer: Offer) -> float:
    seconds = point.study.warmup if offer.warmup_s is None else offer.warmup_s
    return seconds + (TRIAL_S + point.study.measure.drain if seconds else 0.0)


def measuring_s(measure: Measure) -> float:
    """One repetition."""
    fixed = len(measure.loads) + measure.max
    trials, sending = _searched(measure) if measure.search else (0.0, 0.0)
    return sending + fixed * measure.trial + (trials + fixed) * (TRIAL_S + measure.drain)


@lru_cache(maxsize=64)
def _searched(measure: Measure) -> tuple[float, float]:
    """Trials of a search, and seconds of sending in them: the mean of searches for the limit of a
    chain that does not carry quite the same each time."""
    found = [_search(measure, random.Random(seed)) for seed in range(_SEARCHES)]
    return mean(trials for trials, _ in found), mean(seconds for _, seconds in found)


def _search(measure: Measure, draw: random.Random) -> tuple[int, float]:
    from headrace.measure.search import search  # its library takes half a second to load

    most = measure.max_load or _TESTER_PPS
    took: list[float] = []

    def trial(load_pps: float, seconds: float) -> Outcome:
        took.append(seconds)
        carries = most * _PART * (1 + _UNSTEADY * draw.uniform(-1, 1))
        lost = max(0.0, 1 - carries / load_pps)
        if load_pps > _KNEE * carries:
            lost = max(lost, _KNEE_LOSS * (load_pps / carries - _KNEE) / (1 - _KNEE))
        sent = int(load_pps * seconds)
        return Outcome(len(took), sent, sent, int(lost * sent))

    search(measure.search, Limits(min(measure.min_load, most / 2), most, 1e9), trial)
    return len(took), min(sum(took), measure.search_timeout)
