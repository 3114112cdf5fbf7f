# SPDX-License-Identifier: Apache-2.0
"""How long a study will take, before it begins: what its parts take, and its search tried on a
chain that is made up."""

from __future__ import annotations

import math
import random
from functools import lru_cache
from statistics import mean

from headrace.engine.plan_compiler import isolated_cpus
from headrace.ground.contract import Checked, Offer, Point
from headrace.measure.outcome import Limits, Outcome
from headrace.measure.series import RETRIES, SATURATED_S
from headrace.measure.turns import compared
from headrace.spec.measure import Measure

# As five studies took (docs/measuring.md).
COMMAND_S = 2.0  # to load, and to write the report
FLOOR_S = 2.4  # the tester's maximum and floor, once per workload
PREDICTED_S = 1.3  # a point of a described server, whatever its trials say that they take
MODEL_S = 4.0  # what lcores would do that come and go (ground/elastic_engine.py)
TRIAL_S = 0.15  # of a trial, beside sending and draining: counters before and after
# The made-up chain carries this part of what the tester can, give or take so much each time.
_TESTER_PPS, _PART, _UNSTEADY = 20e6, 0.4, 0.01
# Where the kernel takes lcores away for milliseconds, packets are lost far below that: so much at
# this part of the limit, growing by this power, from trial to trial by a factor of so many e's.
_PAUSED_LOSS, _PAUSED_AT, _PAUSED_POWER, _PAUSED_SPREAD = 1e-5, 0.05, 1.5, 1.2
_SEARCHES = 6  # they differ by up to 40 %; each takes a command 12 ms


def study_s(checked: Checked) -> float:
    """All of a study; what a ground itself takes to deploy is its to say."""
    computed = set(map(id, checked.computed))
    run = [point for point in checked.points if id(point) not in computed]
    each = sum(
        _times(checked, point) * warmup_s(point)
        + point.study.repetitions
        * (
            measuring_s(offer.measure or point.study.measure, point.cpus <= isolated_cpus())
            + _operated_s(point.study.measure, offer)
        )
        for point in run
        for offer in point.offers
    )
    each += PREDICTED_S * sum(point.study.repetitions for point in checked.computed)
    workloads = {offer.workload for point in run for offer in point.offers}
    deploying = deployments(checked) / len(checked.points) * (checked.seconds or 0.0)
    return COMMAND_S + FLOOR_S * len(workloads) + each + deploying + _comparing_s(checked)


def _comparing_s(checked: Checked) -> float:
    """Executions in turn, before anything else."""
    each = (checked.seconds or 0.0) / len(checked.points)
    return sum(
        point.study.measure.pairs
        * (each + warmup_s(point) + SATURATED_S + TRIAL_S + point.study.measure.drain)
        for point in compared(checked)
    )


def deployments(checked: Checked) -> int:
    """How often all points are deployed: anew for each repetition, or once for all; and for loads
    that follow from searches once more."""
    return sum(_times(checked, point) for point in checked.points)


def _times(checked: Checked, point: Point) -> int:
    times = point.study.repetitions if checked.interleaved else 1
    return times * len(phases(checked))


def phases(checked: Checked) -> tuple[bool, ...]:
    """Whether these are the trials after the searches of all points: a load that is a part of what
    one of them found is offered to all, one after the other."""
    shares = any(point.study.measure.shares for point in checked.points)
    return (False, True) if shares else (False,)


def warmup_s(point: Point) -> float:
    seconds = point.study.warmup
    return seconds + (TRIAL_S + point.study.measure.drain if seconds else 0.0)


def measuring_s(measure: Measure, isolated: bool = False) -> float:
    """One repetition. `isolated`: nothing else is scheduled on the lcores."""
    if measure.chaos is not None:
        return measure.chaos.duration + TRIAL_S + measure.drain
    fixed = len(measure.loads) + measure.max
    trials, sending = _searched(measure, isolated) if measure.search else (0.0, 0.0)
    return sending + fixed * measure.trial + (trials + fixed) * (TRIAL_S + measure.drain)


def _operated_s(measure: Measure, offer: Offer) -> float:
    """The load once for each policy, and what the chain is measured for before."""
    if measure.operate is None or offer.lasts_s is None:
        return 0.0
    return MODEL_S + offer.lasts_s * len(measure.operate.policy)


@lru_cache(maxsize=64)
def _searched(measure: Measure, isolated: bool) -> tuple[float, float]:
    """Trials of a search, and seconds of sending in them: the mean of several searches."""
    searches = [_search(measure, random.Random(seed), isolated) for seed in range(_SEARCHES)]
    return mean(trials for trials, _ in searches), mean(seconds for _, seconds in searches)


def _search(measure: Measure, draw: random.Random, isolated: bool) -> tuple[int, float]:
    from headrace.measure.search import search  # its library takes half a second to load

    most = measure.max_load or _TESTER_PPS
    took: list[float] = []
    retries = 0 if isolated else RETRIES

    def trial(load_pps: float, seconds: float) -> Outcome:
        nonlocal retries
        while True:
            took.append(seconds)
            sent = int(load_pps * seconds)
            lost = int(sent * _loss(load_pps / (most * _PART), draw, isolated))
            # What is far too much for the chain is not tried again.
            if not lost or not retries or load_pps > most * _PART * 1.1:
                return Outcome(len(took), sent, sent, lost)
            retries -= 1

    search(measure.search, Limits(min(measure.min_load, most / 2), most, 1e9), trial)
    return len(took), min(sum(took), measure.search_timeout)


def _loss(load: float, draw: random.Random, isolated: bool) -> float:
    """`load`: a part of what the chain carries."""
    if isolated:
        return max(0.0, 1 - (1 + _UNSTEADY * draw.uniform(-1, 1)) / load)
    paused: float = _PAUSED_LOSS * (load / _PAUSED_AT) ** _PAUSED_POWER
    return max(0.0, 1 - 1 / load, paused * math.exp(draw.gauss(0, _PAUSED_SPREAD)))
