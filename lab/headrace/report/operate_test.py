# SPDX-License-Identifier: Apache-2.0
"""What a load that changes comes to, in a sentence."""

from __future__ import annotations

from pathlib import Path

from headrace.analyse.claims_test import bundle_of, row
from headrace.analyse.units import SPACE
from headrace.record.operate import Operated, SharedLcores
from headrace.report.document_model import Table
from headrace.report.operate import sections, sentence


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


def test_chains_that_share_lcores_are_added_up(tmp_path: Path) -> None:
    """Two thirds and a third of three lcores; of 4 M packets that were asked for 1 M was held
    back, all of it of the second chain."""
    rows = []
    for chain, weight, lcores, held in (("edge", 2.0, 2.0, 0), ("core", 1.0, 1.0, 1_000_000)):
        shared = SharedLcores(
            weight=weight, lcores=3, mean_asked=2, backpressure=True, held_back=held,
            broken_held=0, wasted_core_seconds=0.5,
        )  # fmt: skip
        of = operated("headrace", 0.5).model_copy(update={"shared": shared, "mean_lcores": lcores})
        more = {"chain": chain, "operated": of, "intended": 2_000_000, "sent": 2_000_000 - held}
        rows.append(row("pipeline", 1e6).model_copy(update=more))
    told = bundle_of(tmp_path, *rows)
    first, *each = sections(told)
    assert first.title == "Chains that share lcores" and len(each) == 2
    [table] = [block for block in first.blocks if isinstance(block, Table)]
    names = [column.name for column in table.typed]
    every = [dict(zip(names, line.cells, strict=True)) for line in table.lines]
    assert [line["chain"] for line in every] == ["edge", "core", "all"]
    assert [line["held back"] for line in every] == [0, 0.5, 0.25]
    assert every[2]["lcores"] == 3 and every[2]["wasted"] == 1 and every[2]["done"] == 2e6
    assert sentence(told).replace(SPACE, " ") == (
        "headrace, edge: 2.00 lcores in the mean, SLO kept in 50.000 % of the windows; "
        "headrace, core: 1.00 lcores in the mean, SLO kept in 50.000 % of the windows."
    )
