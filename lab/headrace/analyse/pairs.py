# SPDX-License-Identifier: Apache-2.0
"""Two studies measured in turn: the ratio of each repetition's results, and how sure it is."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from headrace.analyse.summary import ResultKey, summarise
from headrace.model.paired import over
from headrace.record.bundle import Bundle
from headrace.record.estimates import Paired
from headrace.record.frozen import Record
from headrace.record.rows import Result

SIDES = ("a", "b")  # names of the groups, with which the chains' names begin


class PairedCapacities(Record):
    """What both sides can carry on lcores of their own, per cycle of their cores."""

    a_pps: float  # median, each at its own clock
    b_pps: float
    paired: Paired


class PairedResults(Record):
    """A result of both sides. `paired`: b over a, of rates; None: they cannot be compared, and why.
    `doubted`: pairs in which the audit does not trust a rate, which may be the machine's then.
    `capacity`: the same of capacities; None: fewer than two pairs of repetitions have both."""

    key: ResultKey  # with the chain's name as both have it
    a_pps: float  # median
    b_pps: float
    paired: Paired | None = None
    why: str = ""
    doubted: int = 0
    capacity: PairedCapacities | None = None


class Comparison(Record):
    """What `headrace compare` prints."""

    bundle: str
    a: str
    b: str
    results: tuple[PairedResults, ...]


def compare_sides(bundle: Bundle, a: str, b: str) -> Comparison:
    """`a`, `b`: what the sides are called."""
    left, right = (_by_key(bundle.results(), side) for side in SIDES)
    pairs = tuple(pair_results(key, left[key], right[key]) for key in left if key in right)
    return Comparison(bundle=str(bundle.path), a=a, b=b, results=pairs)


def _by_key(results: Iterable[Result], side: str) -> dict[ResultKey, list[Result]]:
    own = [one for one in results if one.chain.startswith(f"{side}-")]
    return {
        one.key.model_copy(update={"chain": f"point {one.key.chain.removeprefix(f'{side}-')}"}):
        list(one.results)
        for one in summarise(own)
    }  # fmt: skip


def pair_results(key: ResultKey, a: Sequence[Result], b: Sequence[Result]) -> PairedResults:
    """Pairs by repetition what was measured one after the other."""
    ours = {one.repetition: one for one in a}
    pairs = [(ours[one.repetition], one) for one in b if one.repetition in ours]
    results = PairedResults(
        key=key,
        a_pps=statistics.median(one.throughput_pps for one in a),
        b_pps=statistics.median(one.throughput_pps for one in b),
        doubted=sum(not (x.audit.trusted and y.audit.trusted) for x, y in pairs),
        capacity=_capacities(pairs),
    )
    if bound := {one.audit.verdict for pair in pairs for one in pair} & {
        "generator-bound", "invalid"
    }:  # fmt: skip
        return results.model_copy(update={"why": f"a result is {', '.join(sorted(bound))}"})
    both = [(y.throughput_pps, x.throughput_pps) for x, y in pairs]
    if len(both) < 2 or any(x <= 0 or y <= 0 for x, y in both):
        return results.model_copy(
            update={"why": "fewer than two pairs of repetitions with packets"}
        )
    return results.model_copy(update={"paired": over("b", "a", both)})


def _capacities(pairs: Sequence[tuple[Result, Result]]) -> PairedCapacities | None:
    known = [
        (y.capacity, x.capacity)
        for x, y in pairs
        if x.capacity is not None
        and y.capacity is not None
        and x.capacity.at_limit
        and y.capacity.at_limit
    ]
    if len(known) < 2:
        return None
    return PairedCapacities(
        a_pps=statistics.median(a.pps.value for _, a in known),
        b_pps=statistics.median(b.pps.value for b, _ in known),
        paired=over("b", "a", [(b.per_cycle, a.per_cycle) for b, a in known]),
    )
