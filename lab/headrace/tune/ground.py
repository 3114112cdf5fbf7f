# SPDX-License-Identifier: Apache-2.0
"""The ground of `headrace tune`: two stations of one server with a bridge between them, as they are
or with an advice applied (ground/contract.py)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headrace.collect.collector import Targets
from headrace.engine.clocks import of_machine
from headrace.errors import HeadraceError
from headrace.ground.contract import AboutEngine, Offer, Site, TrialsOnly
from headrace.host import settings
from headrace.host.ledger import Ledger
from headrace.host.scheduling import snapshot
from headrace.host.settings import Setting
from headrace.record.facts import Observation
from headrace.record.resolved import ResolvedPath
from headrace.record.verdict import Finding
from headrace.spec.collect import Collect
from headrace.spec.measure import Measure
from headrace.tune.advice import Advice, Situation
from headrace.tune.ends import LoadEnds
from headrace.tune.path import ServerPath, rebuild
from headrace.tune.seen import Seen, counters, growth
from headrace.tune.shortcut import Shortcut
from headrace.tune.wish import BASELINE, Protocol, Wish

_VERIFY_S = 0.3
_DRAINED_S = 35.0  # net.ipv4.ipfrag_time is 30 s
_FRAGMENTS_BYTES = 1 << 20  # a quarter of net.ipv4.ipfrag_high_thresh
Tried = tuple[Advice, Situation]


@dataclass
class Rig:
    """The path, and what is needed to make it afresh. The ledger notes each change before it is
    made: what a kill leaves is undone later."""

    ledger: Ledger
    folder: Path  # the run's own
    tag: str
    say: Callable[[str], None]
    cpus: tuple[int, ...]
    message_bytes: int

    @property
    def used(self) -> frozenset[int]:
        """The sender's CPU and the receiver's."""
        return frozenset({self.cpus[0], self.cpus[-1]})

    def afresh(self, path: ServerPath) -> ServerPath:
        """A run begins without fragments that the one before has left waiting."""
        if not path.own:
            return rebuild(self.tag, self.ledger)
        deadline = time.monotonic() + _DRAINED_S
        waiting = waiting_fragments_bytes(path)
        if waiting > _FRAGMENTS_BYTES:
            self.say(f"waiting until {waiting >> 10} KB of fragments are given up")
        while waiting > _FRAGMENTS_BYTES and time.monotonic() < deadline:
            time.sleep(0.5)
            waiting = waiting_fragments_bytes(path)
        return path

    def traffic(
        self, path: ServerPath, protocol: Protocol, seconds: float, segment: int = 0
    ) -> LoadEnds:
        return LoadEnds(
            path, protocol, seconds, self.message_bytes, segment, self.folder / "ready", self.cpus
        )


class Joined(TrialsOnly):
    """The path while it is up: an advice is applied for the time of a trial only."""

    notes: Sequence[str] = ()
    labels: Sequence[str] = ()

    def __init__(self, rig: Rig, path: ServerPath, protocol: Protocol, tried: Tried | None) -> None:
        self._rig, self._path, self._protocol, self._tried = rig, path, protocol, tried
        self._applied = ExitStack()
        self._seen: Seen | None = None

    def about(self) -> AboutEngine | None:
        return None

    def parts(self) -> Targets:
        return Targets(bridges=() if self._path.namespace else (self._path.bridge,))

    def verify(self) -> Sequence[Finding]:
        """This also fills caches and neighbour tables."""
        traffic = self._rig.traffic(self._path, self._protocol, _VERIFY_S)
        try:
            sender, receiver = traffic.result()
        finally:
            traffic.close()
        if not receiver["bytes"]:
            ends = f"{self._path.sender.address} to {self._path.receiver.address}"
            raise HeadraceError(f"{self._protocol}: nothing of {sender['bytes']} bytes from {ends} "
                                f"arrived over {self._path.bridge}")  # fmt: skip
        return [Finding(check="path", ok=True, text="What was sent arrived at the receiver.")]

    def most_pps(self, offer: Offer) -> float | None:
        return None

    def lacks(self, offer: Offer) -> str | None:
        return None

    def start(self, offer: Offer, load_pps: float, seconds: float) -> None:
        self._shortcut, segment = None, 0
        if self._tried is not None:
            advice, situation = self._tried
            segment = advice.segment(situation)
            self._applied.enter_context(applied(advice.changes(situation), self._rig.ledger))
            if advice.shortcut is not None:
                self._shortcut = self._applied.enter_context(Shortcut(self._path, advice.shortcut))
        self._before, self._stolen = counters(self._path), snapshot()
        self._began = time.monotonic()
        self._traffic = self._rig.traffic(self._path, self._protocol, seconds, segment)
        self._applied.callback(self._traffic.close)

    def wait(self) -> None:
        sender, receiver = self._traffic.result()
        took_s, used = (
            time.monotonic() - self._began,
            {self._rig.cpus[0], self._rig.cpus[-1]},
        )
        clocks = of_machine(self._stolen, snapshot(), took_s, used)
        grown = growth(self._before, counters(self._path))
        self._applied.close()  # only now a shortcut tells what it has redirected
        grown["receiver"] |= {name: int(receiver[name]) for name in ("compared", "wrong")}
        if self._shortcut is not None:
            redirected, dropped = self._shortcut.redirected, self._shortcut.dropped
            grown["shortcut"] = {"redirected": redirected, "dropped": dropped}
        self._seen = Seen(self._protocol, sender, receiver, grown, clocks)

    def read(self) -> Sequence[Observation]:
        return [self.seen.observation()]

    @property
    def seen(self) -> Seen:
        """The last run."""
        assert self._seen is not None, "nothing was started"
        return self._seen

    def close(self) -> None:
        self._applied.close()


@dataclass(frozen=True)
class Question:
    """What the session reads of a wish."""

    measure: Measure
    repetitions: int
    name: str = "tune"
    description: str = ""
    warmup: float = 0.0
    collect: Collect = field(default_factory=Collect)


def question(wish: Wish) -> Question:
    return Question(Measure(max=True, trial=wish.seconds), wish.rounds)


@dataclass(frozen=True)
class PathPoint:
    """The path as it was found, or with one advice, under traffic of one protocol."""

    rig: Rig
    path: ServerPath
    study: Question
    protocol: Protocol
    tried: Tried | None = None
    segments: tuple[()] = ()
    notes: tuple[str, ...] = ()

    @property
    def chain(self) -> str:
        return f"over {self.path.bridge}"

    @property
    def execution(self) -> str:
        return BASELINE if self.tried is None else self.tried[0].name

    @property
    def cpus(self) -> frozenset[int]:
        return self.rig.used

    @property
    def offers(self) -> Sequence[Offer]:
        workload = workload_name(self.protocol, self.rig.message_bytes)
        return (Offer(workload, self.protocol, paced=False),)

    @property
    def runs(self) -> Sequence[str]:
        return ()

    def resolved(self) -> ResolvedPath:
        return ResolvedPath(chain=self.chain, execution=self.execution, protocol=self.protocol)

    @contextmanager
    def deploy(self, site: Site) -> Iterator[Joined]:
        joined = Joined(self.rig, self.path, self.protocol, self.tried)
        try:
            yield joined
        finally:
            joined.close()


def workload_name(protocol: Protocol, message_bytes: int) -> str:
    return f"{protocol}, sends of {message_bytes} B"


@contextmanager
def applied(changes: Sequence[Setting], ledger: Ledger) -> Iterator[None]:
    """The settings changed while the context lasts, put back last first. All are read before any is
    changed: some follow others by themselves, as a bridge's MTU does its ports'."""
    former = [change.with_value(change.read()) for change in changes]
    for setting in former:
        ledger.note("setting", setting.model_dump_json())
    changed: list[Setting] = []
    try:
        for change, setting in zip(changes, former, strict=True):
            changed.append(setting)
            change.write()
        yield
    finally:
        for setting in reversed(changed):
            setting.write()


def waiting_fragments_bytes(path: ServerPath) -> int:
    """Memory of datagrams that reassembly waits for the rest of, on the bridge and behind it."""
    waiting = 0
    for namespace in (path.namespace, path.receiver.namespace):
        shown = settings.run(namespace, ["cat", "/proc/net/sockstat"])
        line = next((text for text in shown.splitlines() if text.startswith("FRAG:")), "")
        waiting += int(line.split()[-1]) if line else 0
    return waiting
