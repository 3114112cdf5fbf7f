# SPDX-License-Identifier: Apache-2.0
"""Conditions of a pipeline: kept, broken, or not to be told; and JUnit's XML of them."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from headrace.analyse.diff import ComparedResults, Diff, MetricChange, Significance
from headrace.analyse.gate import Condition, judge_diff, judge_pairs, junit
from headrace.analyse.pairs import PairedCapacities, PairedResults
from headrace.analyse.summary import ResultKey
from headrace.errors import BadInput
from headrace.record.estimates import Interval, Paired

KEY = ResultKey(chain="c", workload="64B", direction="forward", execution="rtc", goal="ndr")


def change(
    ratio: float, significance: Significance, metric: str = "throughput", higher: bool = True
) -> MetricChange:
    differ = significance == "different"
    return MetricChange(
        metric=metric, unit="pps", a=100.0, b=100.0 * (1 + ratio), ratio=ratio,
        significance=significance, higher_is_better=higher,
        better=(ratio > 0) == higher if differ else None,
    )  # fmt: skip


def diff_of(*changes: MetricChange, lost: bool = False) -> Diff:
    row = ComparedResults(
        key=KEY, verdict_a="ok", verdict_b="ok", repetitions_a=5, repetitions_b=5, changes=changes
    )
    only = (KEY,) if lost else ()
    return Diff(a="a", b="b", compared=(row,), only_a=only, only_b=(), differences=())


@pytest.mark.parametrize(
    ("text", "changes", "states"),
    [
        ("worse: 3%", [change(-0.05, "different")], ["broken"]),
        ("worse: 3%", [change(-0.02, "different")], ["kept"]),
        ("worse: 3%", [change(0.50, "different")], ["kept"]),
        ("worse: 3%", [change(-0.05, "within-spread")], ["unknown"]),
        ("worse: 3%", [change(-0.02, "within-spread")], ["kept"]),
        ("worse: 3%", [change(0.0, "unknown")], ["unknown"]),
        ("worse: 3%", [change(0.0, "not-trusted")], ["unknown"]),
        ("worse: 3%", [change(0.05, "different", "latency p99", higher=False)], ["broken"]),
        ("worse: 3%", [change(-0.05, "different", "latency p99", higher=False)], ["kept"]),
        ("throughput worse: 3%",
         [change(0.0, "different"), change(0.9, "different", "latency p99", False)], ["kept"]),
        ("cycles worse: 10%", [change(0.2, "different", "cycles acl", False)], ["broken"]),
        ("cycles lb worse: 10%", [change(0.2, "different", "cycles acl", False)], ["unknown"]),
    ],
)  # fmt: skip
def test_of_two_bundles(text: str, changes: list[MetricChange], states: list[str]) -> None:
    judged = judge_diff(diff_of(*changes), [Condition.of(text)])
    assert [one.state for one in judged] == states


def test_a_result_that_is_gone_is_no_success() -> None:
    judged = judge_diff(diff_of(change(0, "different"), lost=True), [Condition.of("worse: 3%")])
    assert [one.state for one in judged] == ["kept", "unknown"]


@pytest.mark.parametrize(
    ("low", "high", "state"),
    [(0.98, 1.02, "kept"), (0.90, 0.96, "broken"), (0.96, 0.98, "unknown")],
)
def test_of_pairs(low: float, high: float, state: str) -> None:
    ratio = Interval(value=(low + high) / 2, low=low, high=high)
    one = Paired(name="b", base="a", ratio=ratio, pairs=5, verdict="tie")
    pair = PairedResults(key=KEY, a_pps=1.0, b_pps=1.0, paired=one)
    [judged] = judge_pairs([pair], [Condition.of("worse: 3%")])
    assert judged.state == state


@pytest.mark.parametrize(
    "text", ["", "worse", "worse: 3", "worse: -3%", "worse: 100%", "speed worse: 3%", "worse: .%"]
)
def test_conditions_that_are_none(text: str) -> None:
    with pytest.raises(BadInput, match="--fail-if"):
        Condition.of(text)


def test_junit() -> None:
    compared = diff_of(
        change(-0.05, "different"),
        change(0.0, "unknown", "loss"),
        change(0, "different", "PDV p99"),
    )
    root = ElementTree.fromstring(junit("suite", judge_diff(compared, [Condition.of("worse: 3%")])))
    [suite] = root
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    tags = [[inner.tag for inner in case] for case in suite]
    assert tags == [["failure"], ["error"], ["system-out"]]


def test_pairs_are_judged_by_rate_and_capacity() -> None:
    """Rates are not to be told apart, capacities are; a condition on what is not paired is told."""
    wide = Paired(name="b", base="a", ratio=Interval(value=0.95, low=0.8, high=1.1), pairs=5,
                  verdict="tie")  # fmt: skip
    narrow = Paired(name="b", base="a", ratio=Interval(value=0.9, low=0.89, high=0.91), pairs=5,
                    verdict="slower")  # fmt: skip
    capacity = PairedCapacities(a_pps=1.0, b_pps=0.9, paired=narrow)
    pair = PairedResults(key=KEY, a_pps=1.0, b_pps=1.0, paired=wide, capacity=capacity)

    def states(text: str) -> list[tuple[str, str]]:
        return [(j.metric, j.state) for j in judge_pairs([pair], [Condition.of(text)])]

    assert states("worse: 3%") == [("throughput", "unknown"), ("capacity", "broken")]
    assert states("capacity worse: 15%") == [("capacity", "kept")]
    assert states("latency p99 worse: 3%") == [("latency p99", "unknown")]
