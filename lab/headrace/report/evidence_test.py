# SPDX-License-Identifier: Apache-2.0
"""The evidence's sums are of trials, each once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.analyse.report import report
from headrace.record.bundle import Bundle, BundleWriter
from headrace.record.rows import Result
from headrace.record.verdict import Audit
from headrace.report.document_model import FactList, Folded
from headrace.report.evidence import section


def packets(folder: Path, *results: dict[str, Any]) -> dict[str, str]:
    with BundleWriter(folder) as writer:
        writer.spec("name: x\n", {})
        for fields in results:
            writer.result(Result(
                chain="edge", direction="forward", execution="rtc", workload="64B", load_pps=1e6,
                throughput_pps=1e6, throughput_gbps_l1=1, throughput_gbps_l2=1, offered_pps=1e6,
                sent_pps=1e6, received_pps=1e6, loss_ratio=0, sent=1000, intended=1001,
                audit=Audit(verdict="ok", unsent=1), **fields,
            ))  # fmt: skip
    blocks = section(report(Bundle(folder))).blocks
    [folded] = [b for b in blocks if isinstance(b, Folded) and b.title == "Packets"]
    [facts] = folded.blocks
    assert isinstance(facts, FactList)
    return dict(facts.rows)


def test_a_trial_that_answers_two_goals_has_its_packets_once(tmp_path: Path) -> None:
    each = [
        {"goal": goal, "trial": trial, "repetition": 1, "received": 990, "lost": 10}
        for goal, trial in (("ndr", 7), ("pdr", 7), ("csit-pdr", 9))
    ]
    shown = packets(tmp_path / "b", *each)
    assert (shown["intended"], shown["sent"], shown["received"]) == ("2 002", "2 000", "1 980")
    assert shown["lost"] == "20" and shown["unsent (the generator's)"] == "2"


def test_what_was_dropped_on_purpose_stands_beside_what_was_lost(tmp_path: Path) -> None:
    fields = {"goal": "max", "trial": 1, "repetition": 1, "received": 700, "lost": 10}
    shown = packets(tmp_path / "b", {**fields, "policy_dropped": 290})
    sums = [int(shown[name]) for name in ("received", "lost", "dropped by policy")]
    assert sum(sums) == 1000 and shown["sent"] == "1 000"
