# SPDX-License-Identifier: Apache-2.0
"""Figures of a folder's bundles are those of their reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.analyse.bundle_report import report
from headrace.live.bundles import Folder
from headrace.record.bundle import Bundle, BundleWriter
from headrace.record.rows import Result
from headrace.record.verdict import Audit, Verdict


def result(repetition: int, pps: float, verdict: Verdict) -> Result:
    return Result(
        chain="edge", direction="forward", repetition=repetition, execution="rtc", workload="64B",
        goal="fixed", load_pps=1e6, throughput_pps=pps, throughput_gbps_l1=1, throughput_gbps_l2=1,
        offered_pps=1e6, sent_pps=1e6, received_pps=pps, loss_ratio=1 - pps / 1e6,
        audit=Audit(verdict=verdict),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("verdicts", "median", "shown"),
    [
        (("ok", "ok", "invalid"), 0.85e6, "ok"),
        (("ok", "suspect", "ok"), 0.8e6, "suspect"),
        (("invalid", "invalid", "invalid"), 0.8e6, "invalid"),
    ],
)
def test_a_repetition_that_measured_nothing_is_in_no_figure(
    tmp_path: Path, verdicts: tuple[Verdict, ...], median: float, shown: Verdict
) -> None:
    rates = (0.9e6, 0.8e6, 0.1e6)
    with BundleWriter(tmp_path / "b") as writer:
        writer.spec("name: x\n", {})
        for n, (pps, verdict) in enumerate(zip(rates, verdicts, strict=True), 1):
            writer.result(result(n, pps, verdict))
    folder = Folder(tmp_path)
    _, [row] = folder.figures(folder.bundles())
    assert row.throughput_pps == pytest.approx(median) and row.verdict == shown
    [group] = report(Bundle(tmp_path / "b")).groups
    [summary] = group.summaries
    assert row.throughput_pps == summary.throughput_pps.median
    assert row.loss_ratio == pytest.approx(summary.loss_ratio.median)
    assert (row.low_pps, row.high_pps) == (summary.throughput_pps.min, summary.throughput_pps.max)
