# SPDX-License-Identifier: Apache-2.0
"""What a ground saw of a trial, and what is known of it, for the audit that judges it
(measure/audit.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from headrace.record.account import Account
from headrace.record.figures import Figures
from headrace.record.identity import Direction
from headrace.record.slices import Sliced
from headrace.record.verdict import Finding


@dataclass(frozen=True)
class LcoreTime:
    """What kept a CPU, or a process that polls on it, from its work. None: nobody can tell."""

    name: str  # begins a sentence: "Lcore 1", "VNF vnf1.1's lcore 3"
    watched_s: float  # the time that `kept_s` is of
    read_s: float  # the time that the others are of
    kept_s: float | None = None  # ready to run, and kept from it by the kernel or the hypervisor
    judged: bool = True  # False: by deployment others share its CPU, and `kept_s` is meant
    stood_s: float | None = None  # pauses of over a millisecond in its polling, explained or not
    throttled_s: float = 0.0  # of these, what a CPU quota of the deployment's own accounts for
    pace: float | None = None  # TSC cycles of an addition
    width: float | None = None  # additions at once, of four
    tsc_hz: int = 0  # with `pace`
    busy: float | None = None  # OPS / REF

    @property
    def unexplained_s(self) -> float | None:
        if self.stood_s is None:
            return None
        return max(0.0, self.stood_s - (self.kept_s or 0.0) - self.throttled_s)


@dataclass(frozen=True)
class Facts:
    """What is known of a trial. Counts are packets, of all directions that it is about, unless its
    `unit` says otherwise; a trial in a closed loop, or at maximum rate, was asked for no count."""

    sent: int
    received: int  # of those sent, each once
    lost: int  # what the figure is about: without what was dropped on purpose, where that is told
    asked: int | None = None
    unit: str = "packets"
    intended_s: float | None = None  # of sending
    took_s: float | None = None
    behind_s: float | None = None  # at most behind the schedule
    room_s: float | None = None  # what the first queue holds of it
    kept: int | None = None  # that the tester's ports did not take; they are among the lost
    kept_by: Literal["tester", "chain"] = "tester"  # whose fault that is
    sink_full: int | None = None  # lost between the chain and what measures it
    undecided: int | None = None  # came so late that nobody can tell them from duplicates
    clocks: Sequence[LcoreTime] = ()
    accounts: Sequence[Account] = ()
    created: Account | None = None  # of what functions made
    inside: int = 0  # that may be between two counters, as packets still moved when they were read
    amiss: Mapping[str, int] | None = None  # function: packets that its own counters miss
    wrong: int | None = None  # messages whose content is not what was sent
    others_cpus: float | None = None  # that processes of others took
    cpus: int = 0  # of the machine, with `others_cpus`
    more: Sequence[Finding] = field(default=())  # what only this kind of trial can ask


@dataclass(frozen=True)
class LineRead:
    """TSC cycles of a line that another lcore wrote, by looks before and behind a trial. `share`:
    of these looks, those that say so."""

    cycles: float
    share: float


@dataclass(frozen=True)
class Observation:
    """One direction of a trial, or the sum of both, as the ground saw it."""

    direction: Direction
    figures: Figures
    facts: Facts
    sliced: Sliced | None = None
    line: LineRead | None = None  # where no slices say it
