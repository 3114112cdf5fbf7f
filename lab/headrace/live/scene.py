# SPDX-License-Identifier: Apache-2.0
"""What is known of a run that goes on, for threads that only show it."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rich.text import Text

from headrace.errors import HeadraceError
from headrace.ground.contract import Deployed, Looking, Point
from headrace.measure.observer import Observer, TrialBegun
from headrace.measure.outcome import Bounds
from headrace.record.moment import Moment
from headrace.record.rows import Result, Trial
from headrace.record.segments import Segment
from headrace.report.charts.trials import TrialDot

NOTES, FOUND, RATES = 40, 40, 300  # lines, findings, looks that are kept

NO_POINT = "Nothing is deployed at the moment."
NO_COUNTERS = (
    "This ground has no counters that can be read while a trial runs: "
    "figures come when a trial has ended."
)


@dataclass(frozen=True)
class Disturbance:
    """A check that a trial did not pass."""

    trial: int
    check: str
    text: str


@dataclass(frozen=True)
class Rates:
    """Over all directions, of one look."""

    at_s: float
    sent_pps: float
    received_pps: float


@dataclass(frozen=True)
class Scene:
    """A snapshot; what changes is replaced, never altered."""

    study: str
    bundle: str
    label: str = ""
    number: int = 0
    total: int = 0
    chain: str = ""
    execution: str = ""
    segments: tuple[Segment, ...] = ()
    trial: TrialBegun | None = None  # that runs
    trial_began_s: float = 0.0
    last: Trial | None = None  # over all directions
    trials: int = 0
    verdicts: Mapping[str, int] = field(default_factory=dict)
    checks: Mapping[str, int] = field(default_factory=dict)  # that failed: in how many trials
    bounds: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    search: tuple[TrialDot, ...] = ()
    disturbances: tuple[Disturbance, ...] = ()  # the newest first
    results: tuple[Result, ...] = ()
    notes: tuple[str, ...] = ()
    moment: Moment | None = None
    deployed: bool = False  # what the moment is of is still there
    moment_s: float = 0.0
    unseen: str = NO_POINT  # why there is no moment
    rates: tuple[Rates, ...] = ()
    ended: str = ""


class Onlooker(Observer):
    """Keeps the scene. The thread that measures tells it, others look."""

    def __init__(self, study: str, bundle: str) -> None:
        self._lock = threading.Lock()
        self._scene = Scene(study, bundle)
        self._began = time.monotonic()
        self._looking: Looking | None = None
        self._look_lock = threading.Lock()  # held while counters are read
        self._notes: deque[str] = deque(maxlen=NOTES)
        self._found: deque[Disturbance] = deque(maxlen=FOUND)
        self._rates: deque[Rates] = deque(maxlen=RATES)
        self._verdicts: Counter[str] = Counter()
        self._checks: Counter[str] = Counter()

    @property
    def scene(self) -> Scene:
        with self._lock:
            return self._scene

    @property
    def seconds(self) -> float:
        """Seconds since it began to look on."""
        return time.monotonic() - self._began

    def look(self) -> Scene:
        """Read the counters once. At most one thread does so at a time, and none while what is
        deployed is undone."""
        with self._look_lock:
            if self._looking is not None:
                self._take(self._looking)
        return self.scene

    def exposed(self) -> Mapping[str, str]:
        """The engines' own Prometheus text, by VNF; none where there are no engines."""
        with self._look_lock:
            if self._looking is None:
                return {}
            try:
                return self._looking.exposed()
            except HeadraceError:
                return {}

    def end(self, why: str) -> None:
        self._change(ended=why, trial=None)

    def said(self, text: str) -> None:
        self._notes.append(Text.from_markup(text).plain.strip())
        self._change(notes=tuple(self._notes))

    def experiment(self, label: str, number: int, total: int) -> None:
        self._change(label=label, number=number, total=total)

    def deployed(self, point: Point, up: Deployed | None) -> None:
        with self._look_lock:
            self._looking = None if up is None else up.looking()
        if up is None:  # what was seen last stays in the picture until the next is there
            self._change(deployed=False, unseen=NO_POINT)
            return
        self._rates.clear()
        self._change(
            chain=point.chain, execution=point.execution, segments=tuple(point.segments),
            moment=None, deployed=True, unseen="" if self._looking else NO_COUNTERS,
            bounds={}, search=(), rates=(),
        )  # fmt: skip

    def trial_begins(self, begun: TrialBegun) -> None:
        self._change(trial=begun, trial_began_s=self.seconds)

    def trial_ends(self, trials: Sequence[Trial]) -> None:
        whole = trials[-1]
        self._verdicts[whole.audit.verdict] += 1
        for finding in whole.audit.failed:
            self._checks[finding.check] += 1
            self._found.appendleft(Disturbance(whole.trial, finding.check, finding.text))
        search = self.scene.search
        if whole.phase == "search":
            load = trials[0].load_pps
            one = TrialDot(whole.trial, load, whole.loss_ratio, whole.audit.verdict)
            search = (*search, one)
        self._change(
            trial=None, last=whole, trials=whole.trial, verdicts=dict(self._verdicts),
            checks=dict(self._checks), disturbances=tuple(self._found), search=search,
        )  # fmt: skip

    def bounds(self, bounds_pps: Bounds) -> None:
        self._change(bounds=dict(bounds_pps))

    def results(self, results: Sequence[Result]) -> None:
        self._change(results=(*self.scene.results, *results))

    def _take(self, looking: Looking) -> None:
        try:
            moment = looking.look()
        except HeadraceError as why:  # the thread that measures finds the same, and ends the run
            self._change(moment=None, unseen=str(why))
            return
        sent = sum(way.sent_pps for way in moment.ways)
        received = sum(way.received_pps for way in moment.ways)
        self._rates.append(Rates(self.seconds, sent, received))
        self._change(moment=moment, moment_s=self.seconds, unseen="", rates=tuple(self._rates))

    def _change(self, **what: object) -> None:
        with self._lock:
            self._scene = replace(self._scene, **what)  # type: ignore[arg-type]
