# SPDX-License-Identifier: Apache-2.0
"""What commands print with --json, where that is made of records (docs/json.md)."""

from __future__ import annotations

from headrace.record.claim import JudgedClaim
from headrace.record.frozen import Record
from headrace.record.rows import ResultRow


class RunOutput(Record):
    """headrace run"""

    bundle: str
    results: tuple[ResultRow, ...]
    claims: tuple[JudgedClaim, ...]


class CleanOutput(Record):
    """headrace clean"""

    done: tuple[str, ...]  # what was undone
