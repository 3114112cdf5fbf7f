# SPDX-License-Identifier: Apache-2.0
"""What is seen of a deployment between two looks at its counters, trials or not."""

from __future__ import annotations

from pydantic import NonNegativeFloat, NonNegativeInt

from headrace.record.counters import Counters
from headrace.record.frozen import Record
from headrace.record.identity import Direction
from headrace.record.latency import Histogram


class WayNow(Record):
    """One direction's traffic. Rates are means over the time between the looks; packets that are
    on their way are sent and not received."""

    direction: Direction
    sending: bool
    sent_pps: NonNegativeFloat
    received_pps: NonNegativeFloat  # by the sink: with what functions made and what came twice
    sent: NonNegativeInt  # in this trial
    received: NonNegativeInt  # in this trial, of what was sent, each once
    latency: Histogram | None = None  # of the trial that goes on or was the last


class Moment(Record):
    """`counters` and `dropped` are what grew; `dropped_ever` is since the deployment. Places are
    "function/reason" or "link/full"."""

    seconds: NonNegativeFloat
    ways: tuple[WayNow, ...]
    counters: Counters
    dropped: dict[str, int] = {}
    dropped_ever: dict[str, int] = {}
