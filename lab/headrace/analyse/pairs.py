# SPDX-License-Identifier: Apache-2.0
"""Two studies measured in turn: the ratio of each repetition's results, and how sure it is."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from headrace.analyse.summary import ResultKey, summarise
from headrace.record.bundle import Bundle
from headrace.record.estimates import Interval, Paired
from headrace.record.frozen import Record
from headrace.record.rows import Result

SIDES = ("a", "b")  # names of the groups, with which the chains' names begin

# Student's t, two-sided 95 %, by degrees of freedom; beyond 30 that of 30, which is wider.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


class PairedResults(Record):
    """A result of both sides. `paired`: b over a; None: they cannot be compared, and why."""

    key: ResultKey  # with the chain's name as both have it
    a_pps: float  # median
    b_pps: float
    paired: Paired | None = None
    why: str = ""


class Comparison(Record):
    """headrace compare"""

    bundle: str
    a: str
    b: str
    results: tuple[PairedResults, ...]


def compare_sides(bundle: Bundle, a: str, b: str) -> Comparison:
    """`a`, `b`: what the sides are called."""
    left, right = (_by_key(bundle.results(), side) for side in SIDES)
    pairs = tuple(_pair(key, left[key], right[key]) for key in left if key in right)
    return Comparison(bundle=str(bundle.path), a=a, b=b, results=pairs)


def _by_key(results: Iterable[Result], side: str) -> dict[ResultKey, list[Result]]:
    own = [one for one in results if one.chain.startswith(f"{side}-")]
    return {
        one.key.model_copy(update={"chain": f"point {one.key.chain.removeprefix(f'{side}-')}"}):
        list(one.results)
        for one in summarise(own)
    }  # fmt: skip


def _pair(key: ResultKey, a: Sequence[Result], b: Sequence[Result]) -> PairedResults:
    """By repetition: what was measured one after the other."""
    ours = {one.repetition: one for one in a}
    pairs = [(ours[one.repetition], one) for one in b if one.repetition in ours]
    results = PairedResults(
        key=key,
        a_pps=statistics.median(one.throughput_pps for one in a),
        b_pps=statistics.median(one.throughput_pps for one in b),
    )
    if bound := {one.audit.verdict for pair in pairs for one in pair} & {
        "generator-bound", "invalid"
    }:  # fmt: skip
        return results.model_copy(update={"why": f"a result is {', '.join(sorted(bound))}"})
    both = [(x.throughput_pps, y.throughput_pps) for x, y in pairs]
    if len(both) < 2 or any(x <= 0 or y <= 0 for x, y in both):
        return results.model_copy(
            update={"why": "fewer than two pairs of repetitions with packets"}
        )
    return results.model_copy(update={"paired": paired(*SIDES, both)})


def paired(base: str, name: str, pairs: Sequence[tuple[float, float]]) -> Paired:
    """Geometric mean of the pairs' ratios, with Student's interval of their logarithms: a machine
    that is slower for both of a pair changes neither."""
    logs = [math.log(y / x) for x, y in pairs]
    mean = statistics.fmean(logs)
    t = _T[min(len(logs) - 1, len(_T)) - 1]
    half = t * statistics.stdev(logs) / math.sqrt(len(logs))
    ratio = Interval(value=math.exp(mean), low=math.exp(mean - half), high=math.exp(mean + half))
    verdict = "faster" if ratio.low > 1 else "slower" if ratio.high < 1 else "tie"
    return Paired(name=name, base=base, ratio=ratio, pairs=len(pairs), verdict=verdict)
