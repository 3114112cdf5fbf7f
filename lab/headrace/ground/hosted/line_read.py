# SPDX-License-Identifier: Apache-2.0
"""What a line costs between the host's lcore and a VNF's.

An engine of several lcores reads it in each slice (engine/core/loop/slices.c). A host and its VNFs
are engines of one lcore each, and no memory of theirs is written by both for this alone. So the
calibrator reads it between trials. It has both lcores to itself meanwhile, for some milliseconds,
before whatever else wants them: who waits for a poller's turn would read what the scheduler does.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.engine.place import Placement
from headrace.errors import HeadraceError
from headrace.host.programs import find_tool, run_tool
from headrace.record.facts import LineRead

CALIBRATE = "headrace-calibrate"
EACH_S = 1.0
Run = Callable[[Path, Sequence[str], str], str]


@dataclass
class LineBetween:
    """Looks before and behind trials, at most once in `EACH_S`: looks take a tenth of a second, and
    a host moves CPUs every few seconds at the most."""

    pair: tuple[int, int] | None
    look: Callable[[tuple[int, int]], float | None] = lambda pair: read_line(pair)
    clock: Callable[[], float] = time.monotonic
    _last: float | None = None
    _at: float = -math.inf

    def begin(self) -> None:
        if self._at == -math.inf:
            self._again()

    def end(self) -> LineRead | None:
        before = self._last
        self._again()
        return line_between(before, self._last)

    def _again(self) -> None:
        if self.pair is not None and self.clock() - self._at >= EACH_S:
            self._last, self._at = self.look(self.pair), self.clock()


def line_between(before: float | None, behind: float | None) -> LineRead | None:
    """None: nobody knows. Where the two are of different states the trial is of neither whole."""
    from headrace.model.lines_between import same_state  # now: a check needs no numpy

    known = [one for one in (before, behind) if one]
    if not known:
        return None
    if same_state(before, behind):
        return LineRead(sum(known) / len(known), 1.0)
    return LineRead(known[0], 1 / len(known))


def pair_of(placement: Placement) -> tuple[int, int] | None:
    """The lcores of the source and of the first VNF that is on another one."""
    host = placement.generator
    apart = [cpu for segment in placement.segments for cpu in segment.cpus if cpu != host]
    return (host, apart[0]) if apart else None


def read_line(pair: tuple[int, int], run: Run = run_tool) -> float | None:
    """The cheaper of both ways, as there is one way between two lcores. None: this user may not
    have lcores before others, or there is no such program."""
    first = shutil.which("chrt")
    if first is None:
        return None
    try:
        tool = find_tool(CALIBRATE, "calibrate")
        cpus = ",".join(map(str, pair))
        asked = ["-f", "1", str(tool), "--only", "transfer", "--cpus", cpus]
        told: Any = json.loads(run(Path(first), asked, CALIBRATE))
    except HeadraceError:
        return None
    return min(float(one["modified"]["median"]) for one in told["transfer"]) or None
