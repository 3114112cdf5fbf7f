# SPDX-License-Identifier: Apache-2.0
"""Where a Study runs: what every ground gives, and all that the session asks of one.

A ground checks a study before anything is made, and deploys its points one at a time. What is
deployed offers load and says what came of it; it neither judges a trial nor numbers, repeats,
searches or writes one down: that is the session's, once for all grounds (measure/session.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from headrace.collect.base import Targets
from headrace.host.state import RunState
from headrace.record.facts import Facts
from headrace.record.record import Direction, Figures, Finding, Segment
from headrace.spec.document import Document
from headrace.spec.study import Study

Json = dict[str, Any]


@dataclass(frozen=True)
class Site:
    """What all points of a run have from it: its folder with the ledger of what must be undone,
    and a place for words to the user."""

    state: RunState
    bundle: Path | None = None  # None: nothing is kept
    engine: Mapping[str, Any] = field(default_factory=dict)  # memory of engines, as decided once


@dataclass(frozen=True)
class Observation:
    """One direction of a trial, or the sum of both, as the ground saw it."""

    direction: Direction
    figures: Figures
    facts: Facts


@dataclass(frozen=True)
class Offer:
    """A load that a point can be given: what its row calls it, and the spec's entry."""

    workload: str
    spec: Any
    paced: bool = True  # it takes a rate; what does not (a closed loop) has one kind of trial: max


class Deployed(Protocol):
    """A point that is up. Leaving the context that gave it undoes all of it."""

    @property
    def notes(self) -> Sequence[str]:
        """For the user, once: what is not as one would expect."""

    @property
    def labels(self) -> Sequence[str]:
        """What a reader must know before comparing a figure of it with another."""

    def about(self) -> Json:
        """Of its engine, for the environment; empty without one."""

    def parts(self) -> Targets:
        """Processes, control groups, bridges that belong to it, for the collectors."""

    def verify(self) -> Sequence[Finding]:
        """The path proved end to end, before anything is measured; raises when there is none."""

    def most_pps(self, offer: Offer) -> float | None:
        """What its tester makes at most, each way; None: nobody knows before it is tried."""

    def start(self, offer: Offer, load_pps: float, seconds: float) -> None:
        """Begin to send: each way at this rate; 0 is as fast as possible."""

    def read(self) -> Sequence[Observation]:
        """Wait for the end of what was started, drain, and tell; each direction, then their sum."""

    def counters(self) -> Mapping[str, Mapping[str, int]]:
        """Part -> counter -> value since it was deployed."""


class Point(Protocol):
    """One deployment of a study: what a row of its results calls it, and how to have it."""

    @property
    def chain(self) -> str: ...
    @property
    def execution(self) -> str: ...
    @property
    def study(self) -> Study: ...
    @property
    def cpus(self) -> frozenset[int]:
        """Lcores that must be its own while it runs."""

    @property
    def segments(self) -> tuple[Segment, ...]: ...
    @property
    def offers(self) -> Sequence[Offer]: ...
    @property
    def notes(self) -> Sequence[str]: ...
    def deploy(self, site: Site) -> AbstractContextManager[Deployed]: ...


@dataclass(frozen=True)
class Checked:
    """A study that can be run here."""

    points: Sequence[Point]
    inputs: Mapping[str, Path]  # files that the spec names, by the name that it uses
    seconds: float | None  # that deploying takes in all, beside measuring; None: nobody knows


class Ground(Protocol):
    """One kind of place. What is wrong with a study is raised as BadInput before anything is made;
    what this machine or user lacks as HeadraceError."""

    def check(self, doc: Document) -> Checked: ...
