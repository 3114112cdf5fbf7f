# SPDX-License-Identifier: Apache-2.0
"""Whose a tail is, and what is told of rows that are not explained."""

from __future__ import annotations

import pytest

from headrace.analyse.notes import doubt, tails_of_pauses
from headrace.analyse.summary import Summary, summarise
from headrace.analyse.units import ns
from headrace.record.bundle import Bundle
from headrace.record.rows import Result
from headrace.record.testdata import make_bundle
from headrace.record.verdict import Audit, Finding


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    path = make_bundle(tmp_path_factory.mktemp("notes") / "b", repetitions=1)
    return Bundle(path).results()[0]


def paused(result: Result, share: float) -> Summary:
    counters = result.counters
    assert counters is not None
    first, *others = counters.workers
    update = {"pauses_cycles": int(share * first.ref_cycles)}
    workers = (first.model_copy(update=update), *others)
    one = result.model_copy(update={"counters": counters.model_copy(update={"workers": workers})})
    [summary] = summarise([one])
    return summary


def test_a_p99_is_the_machines_where_an_lcore_was_away_for_longer(result: Result) -> None:
    assert result.latency_ns is not None and result.counters is not None
    late, told = paused(result, 0.046), tails_of_pauses([paused(result, 0.046)])
    cpu, p99 = result.counters.workers[0].cpu, ns(late.latency_ns["p99"].median)
    assert told is not None
    assert told.endswith(f"rtc, ndr ({p99}; lcore {cpu} away for 4.6\u202f% of the time).")
    assert tails_of_pauses([paused(result, 0.009)]) is None
    blind = result.model_copy(update={"latency_ns": None})
    assert tails_of_pauses([paused(blind, 0.046)]) is None
    doubted = result.model_copy(update={"audit": Audit(verdict="suspect")})
    assert tails_of_pauses([paused(doubted, 0.046)]) is None
    many = tails_of_pauses([late] * 5)
    assert many is not None and many.count("away for") == 3 and many.endswith("; and 2 more.")


def test_findings_are_told_in_short(result: Result) -> None:
    findings = tuple(Finding(check=c, ok=c == "d", text=f"{c.upper()}.") for c in "abcd")
    audit = Audit(verdict="suspect", findings=findings)
    several = [result.model_copy(update={"audit": audit, "repetition": n}) for n in (1, 2)]
    [summary] = summarise(several)
    assert doubt(summary) == f"rtc, {summary.key.goal_text}: suspect: A. B. (and 1 more)"
