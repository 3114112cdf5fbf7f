# SPDX-License-Identifier: Apache-2.0
"""What is said of repetitions is what their table has."""

from __future__ import annotations

from typing import Any

from headrace.analyse.summary import agreement, summarise
from headrace.record.rows import Result
from headrace.record.verdict import Audit

NARROW = "\u202f"


def result(repetition: int, pps: float, **changes: Any) -> Result:
    fields: dict[str, Any] = {
        "chain": "edge", "direction": "forward", "repetition": repetition, "execution": "rtc",
        "workload": "64B", "goal": "ndr", "load_pps": pps, "throughput_pps": pps,
        "throughput_gbps_l1": 1, "throughput_gbps_l2": 1, "offered_pps": pps, "sent_pps": pps,
        "received_pps": pps, "loss_ratio": 0, "audit": Audit(verdict="ok"),
    }  # fmt: skip
    return Result(**(fields | changes))


def test_repetitions_agree_or_it_is_said_by_the_tables_figures() -> None:
    rows = [result(1, 1.00e6), result(2, 1.02e6), result(3, 1.60e6)]
    assert agreement(rows[:1]) == []
    [close], [far] = agreement(rows[:2]), agreement(rows)
    assert f"2 repetitions agree within 5% (median 1.010{NARROW}Mpps, spread 2.0{NARROW}%)" in close
    assert f"do not agree within 5% (median 1.020{NARROW}Mpps, spread 59{NARROW}%)" in far
    [summary] = summarise(rows)
    assert summary.throughput_pps.relative == (1.60e6 - 1.00e6) / 1.02e6


def test_what_measured_nothing_disagrees_with_nothing() -> None:
    """The table leaves it out, too."""
    broken = result(3, 5.0, audit=Audit(verdict="invalid"))
    [sentence] = agreement([result(1, 1.00e6), result(2, 1.02e6), broken])
    assert "2 repetitions agree" in sentence


def test_a_part_of_what_was_found_is_a_load_of_its_own() -> None:
    each = [result(n, 1e6, goal="fixed", load_share=f"{share}% of ndr") for n in (1, 2)
            for share in (50, 90)]  # fmt: skip
    assert len(agreement(each)) == 2
