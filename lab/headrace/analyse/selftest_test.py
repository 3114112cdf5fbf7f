# SPDX-License-Identifier: Apache-2.0
"""What a self-test makes of its results: faults fail a part, doubts of figures do not."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.analyse.selftest import selftest_output
from headrace.record.figures import gbps
from headrace.record.points import PointRow
from headrace.record.rows import Result
from headrace.record.selftest import SelftestPart
from headrace.record.verdict import Audit, Finding


def result(**changes: Any) -> Result:
    known = {
        "chain": "a-1", "workload": "64 B", "direction": "forward", "repetition": 1,
        "execution": "rtc", "goal": "fixed", "load_pps": 1e3, "throughput_pps": 1e3,
        "throughput_gbps_l1": gbps(1e3, 84), "throughput_gbps_l2": gbps(1e3, 64),
        "offered_pps": 1e3, "sent_pps": 1e3, "received_pps": 1e3, "loss_ratio": 0.0,
        "duration_s": 1.0, "frame_bytes_mean": 64, "intended": 1000, "sent": 1000,
        "received": 1000, "lost": 0, "audit": Audit(verdict="ok"),
    }  # fmt: skip
    return Result(**known | changes)


def failing(*checks: str) -> Audit:
    findings = tuple(Finding(check=one, ok=False, text=f"{one} is wrong.") for one in checks)
    return Audit(verdict="suspect", findings=findings)


def part(*results: Result, lacking: tuple[str, ...] = (), **row: Any) -> SelftestPart:
    rows = [PointRow(group="a", point="a-1", **row)]
    [only] = selftest_output("b", rows, {"a": "about a"}, results, lacking).parts
    return only


def test_a_part_that_works() -> None:
    one = part(result(), result(chain="a-2", lost=7))
    assert (one.outcome, one.why, one.sent, one.received) == ("passed", None, 1000, 1000)
    both = [result(direction=way) for way in ("forward", "reverse")]
    whole = part(*both, result(direction="both", sent=2000, received=2000))
    assert (whole.sent, whole.received) == (2000, 2000)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"lost": 2, "received": 998, "drops": {"nic/full": 2}},
         "Of 1000 packets 2 were lost (nic/full 2)."),
        ({"sent": 0, "received": 0}, "Nothing was sent."),
        ({"duplicated": 3}, "3 packets came twice."),
        ({"audit": failing("placement")}, "placement is wrong."),
        ({"audit": failing("emulated", "stall")}, "emulated is wrong."),
        ({"audit": failing("accounting")}, "accounting is wrong."),
    ],
)  # fmt: skip
def test_a_part_that_does_not(changes: dict[str, Any], why: str) -> None:
    one = part(result(), result(repetition=2, **changes))
    assert (one.outcome, one.why) == ("failed", why)


def test_what_concerns_figures_alone_is_a_doubt() -> None:
    one = part(result(audit=failing("preemption", "pace")))
    assert (one.outcome, one.doubts) == ("passed", ("preemption is wrong.", "pace is wrong."))


def test_what_was_not_tried() -> None:
    assert part().outcome == "failed" and part().why == "Nothing was measured."
    skipped = part(skipped="needs KVM: no")
    assert (skipped.outcome, skipped.why) == ("skipped", "needs KVM: no")
    died = part(failed="vnf1.1 ended")
    assert (died.outcome, died.why) == ("failed", "vnf1.1 ended")
    lacks = part(failed="qemu: not found", lacking=("a-1",))
    assert (lacks.outcome, lacks.why) == ("skipped", "qemu: not found")


def test_counts() -> None:
    rows = [
        PointRow(group="a", point="a-1"),
        PointRow(group="a", point="a-2", skipped="x"),
        PointRow(group="a", point="a-3", failed="y"),
    ]
    output = selftest_output("b", rows, {"a": ""}, [result()], ())
    assert (output.passed, output.failed, output.skipped) == (1, 1, 1)
