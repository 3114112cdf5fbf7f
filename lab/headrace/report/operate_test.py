# SPDX-License-Identifier: Apache-2.0
"""What a load that changes comes to, in a sentence."""

from __future__ import annotations

from pathlib import Path

from headrace.analyse.claims_test import bundle_of, row
from headrace.analyse.units import SPACE
from headrace.record.operate import Operated
from headrace.report.operate import sentence


def operated(policy: str, kept: float | None) -> Operated:
    return Operated(
        policy=policy, slo_p99_ns=1e6, slo_loss=0, seconds=6, windows=600, broken=60, broken_p99=60,
        broken_loss=0, kept=kept, core_seconds=6, mean_lcores=1, most_lcores=1, steps=0, moves=0,
        queued=0,
    )  # fmt: skip


def test_policies_whose_rows_no_audit_trusts_are_doubted(tmp_path: Path) -> None:
    told = bundle_of(
        tmp_path,
        row("rtc", 1e6).model_copy(update={"operated": operated("headrace", 0.9)}),
        row("rtc", 1e6, "suspect").model_copy(update={"operated": operated("static", None)}),
    )
    assert sentence(told).replace(SPACE, " ") == (
        "headrace: 1.00 lcores in the mean, SLO kept in 90.000 % of the windows; "
        "static: 1.00 lcores in the mean, no window had a packet, doubted."
    )
