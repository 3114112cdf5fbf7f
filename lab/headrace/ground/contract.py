# SPDX-License-Identifier: Apache-2.0
"""Where a Study runs: what every ground gives, and all that the session asks of one.

A ground checks a study before anything is made, and deploys its points one at a time. What is
deployed offers load and says what came of it; it neither judges a trial nor numbers, repeats,
searches or writes one down: that is the session's, once for all grounds (measure/session.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel

from headrace.collect.collector import Targets
from headrace.collect.elsewhere import Elsewhere
from headrace.engine.counts import EngineInfo
from headrace.engine.plan_document import PlanEngine
from headrace.host.state import RunState
from headrace.host.stopwatch import Stopwatch
from headrace.record.chaos import HandedOver, TakenOver
from headrace.record.convergence import RouteChange
from headrace.record.deployment import DeployedGraph
from headrace.record.environment import Environment
from headrace.record.facts import Observation
from headrace.record.moment import Moment
from headrace.record.resolved import ResolvedExperiment, ResolvedPoint
from headrace.record.segments import Segment
from headrace.record.verdict import Finding
from headrace.spec.collect import Collect
from headrace.spec.deployment import Deployment
from headrace.spec.document import Document
from headrace.spec.measure import Measure

if TYPE_CHECKING:
    from headrace.ground.operable import Operable, SharedOperable  # numpy: not for a start


@dataclass(frozen=True)
class Site:
    """What all points of a run have from it: its folder with the ledger of what must be undone, a
    place for words to the user, and where the time goes."""

    state: RunState
    say: Callable[[str], None]
    stopwatch: Stopwatch  # phases of deploying are the ground's to name
    bundle: Path | None = None  # None: nothing is kept
    engine: PlanEngine = field(default_factory=PlanEngine)  # memory of engines, as decided once
    status: Callable[[str], None] = lambda text: None  # a passing state
    at_limit: bool = False  # what is deployed is driven to its limit, where losses do not count


class Asked(Protocol):
    """All that the session reads of a study; what else it says is its ground's."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def measure(self) -> Measure: ...
    @property
    def repetitions(self) -> int: ...
    @property
    def warmup(self) -> float: ...
    @property
    def collect(self) -> Collect: ...


@dataclass(frozen=True)
class Offer:
    """A load that a point can be given: what its row calls it, and the spec's entry. A workload
    that says itself how long it is and how fast has a `measure` of its own."""

    workload: str
    spec: Any
    measure: Measure | None = None  # None: the study's
    paced: bool = True  # it takes a rate; what does not (a closed loop) has one kind of trial: max
    lasts_s: float | None = None  # of `measure.operate`: its load's time, where that has to pass


@dataclass(frozen=True)
class AboutEngine:
    info: EngineInfo
    shielded: bool = False  # from other work on its lcores
    servers: Mapping[str, Environment] = field(default_factory=dict)  # where engines are, if not
    # on this machine


@dataclass(frozen=True)
class AboutServer:
    """A described server, which runs nothing."""

    name: str
    tsc_hz: int


@dataclass(frozen=True)
class AboutCluster:
    """A cluster of other machines than the lab's."""

    version: str
    nodes: Mapping[str, Mapping[str, Any]]  # name: what its kubelet says of it
    info: EngineInfo | None = None  # of the tester's engine, if there is one


About = AboutEngine | AboutServer | AboutCluster | None


class Deployed(Protocol):
    """A point that is up. Leaving the context that gave it undoes all of it."""

    @property
    def notes(self) -> Sequence[str]:
        """Tells the user, once, what is not as one would expect."""

    @property
    def labels(self) -> Sequence[str]:
        """What a reader must know before comparing a figure of it with another."""

    def about(self) -> About:
        """What the environment says of it; None: it has no engine."""

    def parts(self) -> Targets:
        """Processes, control groups, bridges that belong to it, for the collectors."""

    def elsewhere(self) -> Elsewhere | None:
        """Is what reads its layers where it runs; None: this machine's collectors do."""

    def verify(self) -> Sequence[Finding]:
        """The path proved end to end, before anything is measured; raises when there is none."""

    def most_pps(self, offer: Offer) -> float | None:
        """What its tester makes at most, each way; None: nobody knows before it is tried."""

    def lacks(self, offer: Offer) -> str | None:
        """Why it cannot be made after all, as is seen only now; None: it can."""

    def start(self, offer: Offer, load_pps: float, seconds: float) -> None:
        """Begin to send: each way at this rate; 0 is as fast as possible."""

    def wait(self) -> None:
        """Waits for the end of what was started, and for its last packets. The collectors' share of
        a trial is from `start` to here: what reads a ground's counters is no part of its load."""

    def read(self) -> Sequence[Observation]:
        """What came of it; each direction, then their sum."""

    def looking(self) -> Looking | None:
        """Serves whoever looks on while a trial runs; None: no counters can be read then."""

    def left_alone(self, seconds: float) -> float | None:
        """Looks for so long whether something else wants its lcores, which carry nothing meanwhile:
        the share of that time in which nothing did, of the worst of them. None: it cannot tell."""

    def killable(self) -> Killable | None:
        """Is what `measure.chaos` kills; None: it has no VNFs that could be killed."""

    def converging(self) -> Converging | None:
        """Is what `measure.convergence` asks; None: it has no routing daemons."""

    def operable(self) -> Operable | None:
        """Is what `measure.operate` changes; None: its lcores are those that it was deployed
        with."""

    def sharing(self) -> Mapping[str, SharedOperable] | None:
        """The same of each of several chains on the same lcores; None: there is one chain."""


class TrialsOnly:
    """A deployment that has no more than trials, unless it says otherwise."""

    def elsewhere(self) -> Elsewhere | None:
        return None

    def looking(self) -> Looking | None:
        return None

    def left_alone(self, seconds: float) -> float | None:
        return None

    def killable(self) -> Killable | None:
        return None

    def converging(self) -> Converging | None:
        return None

    def operable(self) -> Operable | None:
        return None

    def sharing(self) -> Mapping[str, SharedOperable] | None:
        return None


class Looking(Protocol):
    """The counters of a deployment, for another thread than the one that measures."""

    def look(self) -> Moment:
        """What grew since the look before this one; at first, since it was deployed. Raises
        HeadraceError when its engine is gone."""

    def exposed(self) -> Mapping[str, str]:
        """Its engines' counters in Prometheus' text form, by VNF; the host's own is ""."""


@dataclass(frozen=True)
class ChainHealth:
    """A host whose VNFs are killed: packets since its load began, and what it holds."""

    sent: int
    sending_s: float  # by the sources: until the last packet that they made
    received: int
    corrupt: int  # descriptors that a VNF left broken in the memory it shares
    updates: int  # route changes taken in
    mbufs: int  # packet buffers in use


class Killable(Protocol):
    """A deployment whose VNFs can be killed, for `measure.chaos`."""

    flows_on: bool  # packets go on while one of several VNFs is down
    restarts: int
    ways_count: int  # directions that have the load

    @property
    def frame_bytes(self) -> float: ...
    @property
    def victims(self) -> Sequence[str]: ...
    @property
    def mbufs_room(self) -> int:
        """Buffers that queues and drivers may hold more than before."""

    def sending(self, load_pps: float, seconds: float) -> AbstractContextManager[None]:
        """Each way at this rate, until it is left."""

    def up(self) -> Sequence[str]:
        """VNFs that can be killed now."""

    def kill(self, name: str) -> None:
        """Kills one and starts it again; it may take its time to come up."""

    def settle(self) -> Sequence[str]:
        """End the load, and wait for all VNFs and their packets: those that did not come back."""

    def health(self) -> ChainHealth: ...
    def handed_over(self) -> HandedOver | None:
        """What waited for VNFs that replaced others; None: they are killed."""

    def taken(self) -> TakenOver | None:
        """What those started again took over of those killed; None: without checkpoints."""

    def left(self) -> Sequence[str]:
        """What it left on the machine, asked when all of it is undone."""


class Converging(Protocol):
    """A deployment whose routes can be changed, all of them at once."""

    def changes(self, repetition: int) -> Iterator[RouteChange]:
        """Routes announced, changed and withdrawn; each when the engine has taken it."""


class Point(Protocol):
    """One deployment of a study: what a row of its results calls it, and how to have it."""

    @property
    def chain(self) -> str: ...
    @property
    def execution(self) -> str: ...
    @property
    def study(self) -> Asked: ...
    @property
    def cpus(self) -> frozenset[int]:
        """Lcores that must be its own while it runs."""

    @property
    def segments(self) -> tuple[Segment, ...]: ...
    @property
    def offers(self) -> Sequence[Offer]: ...
    @property
    def runs(self) -> Sequence[str]:
        """Programs, images and machines that are started for it, as this machine names them."""

    @property
    def notes(self) -> Sequence[str]:
        """Tells the user also which of the study's workloads it cannot be given, and why."""

    def resolved(self) -> ResolvedPoint | DeployedGraph:
        """What the spec came to, for the bundle."""

    def deploy(self, site: Site) -> AbstractContextManager[Deployed]: ...


def resolved_of(point: Point, study: BaseModel) -> ResolvedExperiment:
    return ResolvedExperiment(
        chain=point.chain,
        execution=point.execution,
        workload=point.offers[0].workload,
        study=study.model_dump(mode="json"),
        lcores={s.name: s.cpus for s in point.segments},
    )


@dataclass(frozen=True)
class Checked:
    """A study that can be run here."""

    points: Sequence[Point]
    inputs: Mapping[str, Path]  # files that the spec names, by the name that it uses
    seconds: float | None  # that deploying takes in all, beside measuring; None: nobody knows
    # Repetitions outside, points inside, so that a machine which slows down does so for all alike;
    # False where deploying a point takes longer than measuring it.
    interleaved: bool = True
    apart: bool = False  # a point that fails does not end the others
    memory: Deployment | None = None  # that asks most of the engines' memory; None: no engine
    hosted_mb: int = 0  # that VNFs apart have of hugepages, at most
    notes: Sequence[str] = ()  # for the user: of what has no point
    # Files and sockets that functions are told to write to, by the name that the spec uses.
    writes: Mapping[str, Path] = field(default_factory=dict)
    computed: Sequence[Point] = ()  # those of `points` that are predicted: no trial takes its time
    lacking: str | None = None  # why this user cannot run it, though it can be checked
    close: Callable[[], None] = lambda: None  # what the check opened, and points have use of


class Ground(Protocol):
    """One kind of place. What is wrong with a study is raised as BadInput before anything is made;
    what this machine or user lacks as HeadraceError."""

    def check(self, doc: Document) -> Checked: ...
