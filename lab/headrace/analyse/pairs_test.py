# SPDX-License-Identifier: Apache-2.0
"""Paired ratios against values worked out by hand."""

from __future__ import annotations

import math

import pytest

from headrace.analyse.pairs import pair_results
from headrace.analyse.summary import ResultKey
from headrace.model.paired import over
from headrace.record.rows import Result
from headrace.record.verdict import Audit, Verdict


def test_the_ratio_and_its_interval() -> None:
    """Logarithms -0.1, 0.0 and 0.1 around 2: s = 0.1, t(2) = 4.303, half = 4.303 * 0.1 / sqrt 3."""
    ratio = over("b", "a", [(2 * math.exp(x), 1.0) for x in (-0.1, 0.0, 0.1)])
    half = 4.303 * 0.1 / math.sqrt(3)
    assert ratio.ratio.value == pytest.approx(2)
    assert ratio.ratio.low == pytest.approx(2 * math.exp(-half))
    assert ratio.ratio.high == pytest.approx(2 * math.exp(half))
    assert (ratio.verdict, ratio.pairs, ratio.base, ratio.name) == ("faster", 3, "a", "b")


def test_a_machine_that_slows_down_for_both_makes_no_difference() -> None:
    pairs = [(9.0, 10.0), (4.5, 5.0), (0.9, 1.0)]
    ratio = over("b", "a", pairs)
    assert ratio.ratio.value == pytest.approx(0.9)
    assert ratio.ratio.low == pytest.approx(ratio.ratio.high)
    assert ratio.verdict == "slower"


def test_an_interval_that_holds_one_is_a_tie_only_where_it_is_narrow() -> None:
    assert over("b", "a", [(1.002, 1.0), (0.999, 1.0)]).verdict == "tie"
    assert over("b", "a", [(1.1, 1.0), (0.95, 1.0)]).verdict == "unknown"


def result(repetition: int, pps: float, verdict: Verdict) -> Result:
    return Result(
        chain="c", direction="forward", repetition=repetition, execution="rtc", workload="64B",
        goal="max", load_pps=pps, throughput_pps=pps, throughput_gbps_l1=1, throughput_gbps_l2=1,
        offered_pps=pps, sent_pps=pps, received_pps=pps, loss_ratio=0,
        audit=Audit(verdict=verdict),
    )  # fmt: skip


def test_pairs_that_the_audit_doubts_are_counted_by_the_worse_of_the_two() -> None:
    key = ResultKey(chain="c", workload="64B", direction="forward", execution="rtc", goal="max")
    verdicts: tuple[tuple[Verdict, Verdict], ...] = (
        ("ok", "ok"), ("suspect", "ok"), ("ok", "suspect"), ("suspect", "suspect"),
    )  # fmt: skip
    ours = [result(n, 2e6, a) for n, (a, _) in enumerate(verdicts, 1)]
    theirs = [result(n, 1e6, b) for n, (_, b) in enumerate(verdicts, 1)]
    pair = pair_results(key, ours, theirs)
    assert pair.doubted == 3
    assert pair.paired is not None and pair.paired.pairs == 4
    assert pair.paired.ratio.value == pytest.approx(0.5)
    assert pair_results(key, ours[:1], theirs[:1]).why.startswith("fewer than two pairs")
