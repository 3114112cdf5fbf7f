# SPDX-License-Identifier: Apache-2.0
"""What the layers said of each deployment, for the report."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from headrace.collect.layers import Goodput
from headrace.measure.appliance_measure import Row
from headrace.report.layers import fragment, read


def section(watched: Sequence[tuple[str, Path]], rows: Sequence[Row]) -> str:
    """HTML, a part for each deployment that was watched."""
    said, results = goodput(rows), [row.result for row in rows]
    found = ((title, read(folder, said, results)) for title, folder in watched)
    return "".join(
        f"<details><summary>{escape(title)}</summary>{fragment('', layers)}</details>"
        for title, layers in found
        if layers is not None
    )


def goodput(rows: Sequence[Row]) -> dict[int, Goodput]:
    """By trial, as the load generators say it."""
    found = {}
    for row in rows:
        application, latency = row.result.application, row.result.latency_ns
        if application is not None and row.result.trial is not None:
            found[row.result.trial] = Goodput(
                application.gbps, latency.mean / 1e9 if latency else None
            )
    return found
