# SPDX-License-Identifier: Apache-2.0
"""What became of a self-test's parts."""

from __future__ import annotations

from typing import Literal

from headrace.record.frozen import Record

SELFTEST_FILE = "selftest.json"  # among the samples


class SelftestPart(Record):
    """One way of hosting, tried or not."""

    group: str
    part: str  # its point, as in `results`
    about: str
    outcome: Literal["passed", "failed", "skipped"]
    why: str | None = None  # it failed, or was skipped
    doubts: tuple[str, ...] = ()  # what the audit found that concerns figures alone
    sent: int = 0  # packets, of all trials and directions
    received: int = 0


class SelftestOutput(Record):
    """What `headrace hosting selftest` prints."""

    bundle: str | None  # none where nothing could be tried
    passed: int
    failed: int
    skipped: int
    parts: tuple[SelftestPart, ...]
