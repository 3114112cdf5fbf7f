# SPDX-License-Identifier: Apache-2.0
"""Drops on purpose are said beside throughput; replicas of a hosted chain are one chain."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.record.estimates import Predicted, Span
from headrace.record.rows import Result
from headrace.record.segments import Segment
from headrace.record.verdict import Audit
from headrace.report.shown_testdata import on_terminal, render, reported


def test_policy_drops_stand_beside_the_load(tmp_path: Path, measured: Result) -> None:
    policed = {
        "load_pps": 10_000.0, "sent_pps": 10_000.0, "offered_pps": 10_000.0,
        "throughput_pps": 334.0, "sent": 20_000, "policy_dropped": 19_332, "loss_ratio": 0.0,
        "duration_s": 2.0, "audit": Audit(verdict="generator-bound"),
    }  # fmt: skip
    shown = reported(tmp_path / "p", measured, **policed)
    dropped = "19\u202f332 of 20\u202f000 packets sent (96.7\u202f%) were dropped by policy"
    text, page = on_terminal(shown), render(shown)
    assert dropped in text and dropped in page
    row = next(one for one in text.splitlines() if one.startswith("ndr ") and "rtc" in one)
    assert "≥ 10.0\u202fkpps" in row and "334" in row and "≥ 334" not in row
    assert "offered" in text and "<th>offered</th>" in page
    assert "≥ 10.0\u202fkpps</td>" in page and not re.search(r"≥ 334", page)


def test_without_policy_drops_nothing_is_said_of_them(tmp_path: Path, measured: Result) -> None:
    shown = reported(tmp_path / "n", measured, audit=Audit(verdict="generator-bound"))
    text, page = on_terminal(shown), render(shown)
    assert "by policy" not in text and "offered" not in text and "<th>offered</th>" not in page
    assert re.search(r"rtc +≥ ", text)


def test_a_load_that_was_given_is_no_bound(tmp_path: Path, measured: Result) -> None:
    short = {"goal": "fixed", "loss_ratio": 0.0, "audit": Audit(verdict="generator-bound")}
    shown = reported(tmp_path / "f", measured, **short)
    for text in (on_terminal(shown), render(shown)):
        assert "generator-bound" in text and "≥" not in text and "lower bounds" not in text
        assert "did not make these loads as asked: " in text


def test_a_load_that_was_chosen_has_no_predicted_range(tmp_path: Path, measured: Result) -> None:
    """The range is of what a chain carries at most; beside 10 kpps it was of 25 to 30 Mpps."""
    some = Predicted(server="a", carried_pps=Span(low=9e6, high=11e6))
    told = {"ground": "predicted", "predicted": some}
    assert ">predicted range</th>" in render(reported(tmp_path / "s", measured, **told))
    chosen = render(reported(tmp_path / "f", measured, goal="fixed", **told))
    assert ">predicted range</th>" not in chosen


def test_replicas_of_a_hosted_chain_are_one_chain(tmp_path: Path, measured: Result) -> None:
    nfs = ("l2fwd", "acl", "monitor")
    vnfs = [
        Segment(name=f"vnf{chain}.{step}", cpus=(1,), nfs=(nf,), hosting="process")
        for chain in (1, 2)
        for step, nf in enumerate(nfs, 1)
    ]
    segments = (Segment(name="nic", cpus=(0,), nfs=("nic",)), *vnfs)
    shown = reported(tmp_path / "h", measured, segments=segments, counters=None)
    assert shown.groups[0].nfs == ("nic", *nfs) and shown.groups[0].copies == 2
    assert "nic → l2fwd → acl → monitor x 2:" in on_terminal(shown)
    assert re.search(r"monitor\s* x 2</h2>", render(shown))
    one = reported(tmp_path / "1", measured, segments=segments[:4], counters=None)
    assert one.groups[0].copies == 1 and "x 2" not in on_terminal(one)
