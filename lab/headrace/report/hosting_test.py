# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from headrace.report.hosting import PARTS, Stack, draw_stack, with_best_case


def row(chains: int, wait: str, pps: float, goal: str = "ndr") -> dict[str, Any]:
    values = {"deployment.hosting.chains": chains, "deployment.hosting.wait": wait}
    results = [{"goal": goal, "throughput_pps": pps}]
    return {"group": "g", "point": f"{chains}{wait}", "values": values, "results": results}


def best(rows: list[dict[str, Any]]) -> list[float | None]:
    return [one["best_case_pps"] for made in with_best_case(rows) for one in made["results"]]


def test_additive_line_is_of_the_same_settings() -> None:
    rows = [row(1, "poll", 10.0), row(4, "poll", 25.0), row(1, "adaptive", 20.0)]
    assert best([*rows, row(8, "adaptive", 1.0)]) == [10.0, 40.0, 20.0, 160.0]


def test_no_line_without_one_chain_or_at_a_fixed_load() -> None:
    assert best([row(4, "poll", 25.0)]) == [None]
    assert best([row(1, "poll", 5.0, "fixed"), row(4, "poll", 5.0, "fixed")]) == [None, None]


def test_stack_is_to_scale() -> None:
    bars = [Stack("<one>", (1.0, 2.0, 3.0, 4.0, 10.0)), Stack("two", (0.0, 0.0, 0.0, 0.0, 40.0))]
    root = ElementTree.fromstring(draw_stack(bars))
    bar_rects = [r for r in root if r.tag.endswith("rect")]
    widths = [float(r.get("width", "0")) for r in bar_rects]
    assert len(widths) == 2 * len(PARTS)
    assert abs(sum(widths[: len(PARTS)]) - sum(widths[len(PARTS) :]) / 2) < 0.1
    assert abs(widths[1] - 2 * widths[0]) < 0.02
