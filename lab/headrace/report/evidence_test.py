# SPDX-License-Identifier: Apache-2.0
"""The evidence's sums are of trials, each once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.analyse.bundle_report import report
from headrace.record.bundle import Bundle, BundleWriter
from headrace.record.figures import LatencyFloor
from headrace.record.rows import Result
from headrace.record.verdict import Audit
from headrace.report.document_model import FactList, Folded
from headrace.report.evidence import section


def facts_of(folder: Path, title: str, *results: dict[str, Any]) -> dict[str, str]:
    with BundleWriter(folder) as writer:
        writer.spec("name: x\n", {})
        for fields in results:
            writer.result(Result(
                chain="edge", direction="forward", execution="rtc", load_pps=1e6,
                throughput_pps=1e6, throughput_gbps_l1=1, throughput_gbps_l2=1, offered_pps=1e6,
                sent_pps=1e6, received_pps=1e6, loss_ratio=0, sent=1000, intended=1001,
                audit=Audit(verdict="ok", unsent=1), **({"workload": "64B"} | fields),
            ))  # fmt: skip
    blocks = section(report(Bundle(folder))).blocks
    [folded] = [b for b in blocks if isinstance(b, Folded) and b.title == title]
    [facts] = folded.blocks
    assert isinstance(facts, FactList)
    return dict(facts.rows)


def packets(folder: Path, *results: dict[str, Any]) -> dict[str, str]:
    return facts_of(folder, "Packets", *results)


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


def test_each_workload_has_its_own_floor(tmp_path: Path) -> None:
    each = [
        {
            "goal": "max", "trial": n, "repetition": 1, "workload": workload,
            "calibration": LatencyFloor(floor_ns=floor, clock_error_ppm=0.4),
        }
        for n, (workload, floor) in enumerate((("64B", 102), ("512B", 118)))
    ]  # fmt: skip
    shown = facts_of(tmp_path / "b", "Clock and latency floor", *each)
    floors = {name: text for name, text in shown.items() if "median" in name}
    assert floors == {
        "latency floor (median), 64B": "102\u202fns", "latency floor (median), 512B": "118\u202fns",
    }  # fmt: skip
    alone = facts_of(tmp_path / "one", "Clock and latency floor", each[0])
    assert alone["latency floor (median)"] == "102\u202fns"
