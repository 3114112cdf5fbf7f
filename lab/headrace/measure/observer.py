# SPDX-License-Identifier: Apache-2.0
"""Who looks on while a run goes: told of each step by the thread that measures."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.ground.contract import Deployed, Point
from headrace.measure.outcome import Bounds
from headrace.record.frozen import Record
from headrace.record.identity import Phase
from headrace.record.rows import Result, Trial


class TrialBegun(Record):
    """What a trial is to be, before its first packet."""

    number: int
    phase: Phase
    repetition: int
    workload: str
    load_pps: float  # each way; 0 is as fast as possible
    seconds: float


class Observer:
    """Does nothing with it. Whoever overrides a method keeps it short: a run waits meanwhile."""

    def said(self, text: str) -> None:
        """A line for the user, in the markup of rich."""

    def experiment(self, label: str, number: int, total: int) -> None:
        """The next point, of so many."""

    def deployed(self, point: Point, up: Deployed | None) -> None:
        """None: it is about to be undone; nothing of it may be read any more."""

    def trial_begins(self, begun: TrialBegun) -> None: ...

    def trial_ends(self, trials: Sequence[Trial]) -> None:
        """Judged: each direction, then their sum."""

    def bounds(self, bounds_pps: Bounds) -> None:
        """A search's, after each of its trials."""

    def results(self, results: Sequence[Result]) -> None: ...
