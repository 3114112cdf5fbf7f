# SPDX-License-Identifier: Apache-2.0
"""What the comparison of offloaded forwarding says of its figures."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from headrace.measure.audit import audit, unrefused
from headrace.record.facts import Facts
from headrace.report.offload import document, remarks, verdicts
from headrace.report.terminal import show


def row(mode: str, **changed: Any) -> dict[str, Any]:
    figures = {"spread": 0.1, "generator_bound": False, "of_bare_metal": None,
               "times_conventional": None, "of_still": None}  # fmt: skip
    goal = {"loss_ratio": 1e-5, "pps": 1e6, **figures}
    return {
        "mode": mode, "throughput_pps": 2e6, "cycles_per_packet": 80.0, "updates_per_s": 0.0,
        "load_pps": 1e5, "loss_ratio": 0.0, "unsent": 0, "latency_p50_ns": 1e3,
        "latency_p99_ns": 2e3, "ipdv_mean_ns": 10.0, **figures, "goals": {"ndr": goal},
        "verdict": "ok", "repetitions": [], **changed,
    }  # fmt: skip


@pytest.mark.parametrize(("part", "verdict"), [(0.95, "met"), (0.9499, "missed")])
def test_verdicts(part: float, verdict: str) -> None:
    [line] = verdicts([row("bare-metal"), row("offload", of_bare_metal=part)])
    assert line.startswith("offload, saturation: 0.95 of bare metal's")
    assert line.endswith(f"(goal 0.95: {verdict})")


def test_goals_have_verdicts_of_their_own() -> None:
    offload = row("offload", times_conventional=6.0)
    offload["goals"]["ndr"]["times_conventional"] = 4.0
    lines = list(verdicts([offload]))
    assert [line.split(":")[0] for line in lines] == ["offload, saturation", "offload, ndr"]
    assert [line.rsplit(" ", 1)[1] for line in lines] == ["met)", "missed)"]


def test_what_the_generator_limited_is_marked() -> None:
    rows = [row("offload", generator_bound=True)]
    console = Console(record=True, width=80)
    show(document("o", rows), console)
    assert "≥ 2.000" in console.export_text()
    assert len(list(remarks(rows))) == 1
    assert not list(remarks([row("offload")]))


def test_what_the_audit_says_of_trials_is_said() -> None:
    lazy = audit(Facts(sent=95, received=95, lost=0, asked=100)).model_dump()
    limited = unrefused(audit(Facts(sent=100, received=100, lost=0)), 0, 100).model_dump()
    repetitions = [{"audit": limited, "load_audit": lazy}]
    changed = {"verdict": "generator-bound", "repetitions": repetitions}
    [line] = remarks([row("offload", **changed)])
    assert line == (
        "offload: generator-bound, 1 of 2 trials: The source could not make 5 of 100 packets in "
        "time (5.000%)."
    )
