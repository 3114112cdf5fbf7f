# SPDX-License-Identifier: Apache-2.0
"""What the layers said of each deployment, for the report."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from headrace.collect.layers import Goodput
from headrace.record.rows import Result
from headrace.report.layers import fragment, read


def section(watched: Sequence[tuple[str, Path]], results: Sequence[Result]) -> str:
    """HTML, a part for each deployment that was watched."""
    said = goodput(results)
    found = ((title, read(folder, said, results)) for title, folder in watched)
    return "".join(
        f"<details><summary>{escape(title)}</summary>{fragment('', layers)}</details>"
        for title, layers in found
        if layers is not None
    )


def goodput(results: Sequence[Result]) -> dict[int, Goodput]:
    """By trial, as the load generators say it."""
    found = {}
    for result in results:
        application, latency = result.application, result.latency_ns
        if application is not None and result.trial is not None:
            found[result.trial] = Goodput(application.gbps, latency.mean / 1e9 if latency else None)
    return found
