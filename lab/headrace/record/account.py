# SPDX-License-Identifier: Apache-2.0
"""Where the packets of a trial went."""

from __future__ import annotations

from pydantic import NonNegativeInt

from headrace.record.frozen import Record
from headrace.record.identity import Direction


class Account(Record):
    """Where the packets of one direction and size class went:
    sent = received + dropped + held + unknown. What functions made themselves is not among them."""

    direction: Direction
    size: str  # of frames with FCS, RFC 2819's classes: "64", "65-127", ..., "1519-"; or "all"
    sent: NonNegativeInt
    received: NonNegativeInt  # each once
    dropped: dict[str, int] = {}  # "place/reason"; "consumed" is one
    held: int = 0  # more than before the trial: by functions, and in queues
    unknown: int = 0
