# SPDX-License-Identifier: Apache-2.0
"""Engines in pods, seen as one engine: what is read of them is one reading."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from headrace.engine.control import Control, ControlLost
from headrace.engine.counts import EngineCounts, EngineInfo
from headrace.engine.engine import EngineDied, EngineRefused
from headrace.engine.plan_document import Plan
from headrace.engine.running import RunningEngine
from headrace.errors import EXIT_BAD_INPUT, HeadraceError
from headrace.ground.kubernetes.cut import TESTER, Wire
from headrace.ground.kubernetes.engine_manifests import ENGINE
from headrace.ground.kubernetes.engine_start import CONTROL, PLAN
from headrace.ground.kubernetes.places import PLACE, place_in
from headrace.ground.kubernetes.threads import PodThreads
from headrace.ground.kubernetes.tunnel import Tunnel
from headrace.ground.kubernetes.waiting import TOLD_S, ended_within, killed
from headrace.ground.kubernetes.words import told_by
from headrace.ground.wired.pair import BOUNDS, beside, clocks_differ
from headrace.ground.wired.there import moved, renumbered
from headrace.host.cluster import Cluster
from headrace.host.cluster_stream import STDERR, CommandStream
from headrace.host.cpu_time import listed
from headrace.host.scheduling import Snapshot, Thread
from headrace.host.tool import last_words, printable
from headrace.record.pods import PodPlace

_UP_S = 180.0  # one that dies is not waited for; one without CPUs of its own has what others leave
_LOOK_S = 0.05
_QUIT_S = 5.0
_ENGINE_COMMAND = ("headrace-engine", "--plan", PLAN, "--control", CONTROL, "--with-client")
# It ends with its standard input, and the engine with its first client: when the lab is gone, or
# the way to it, no engine polls on.
_CONTROL_COMMAND = (
    "sh", "-c",
    f"until [ -S {CONTROL} ] && socat -t 300 - UNIX-CONNECT:{CONTROL} 2>/dev/null; do "
    "sleep 0.05; done",
)  # fmt: skip
_TICK_NS = 10_000_000
_FRAMES_MOST = 64  # of an engine's words that are looked at in one go


class PodEngine:
    """One engine in its pod. Its lcores have numbers from `first` on, that of its node."""

    def __init__(
        self, cluster: Cluster, namespace: str, pod: str, node: str, first: int = 0
    ) -> None:
        self.cluster, self.namespace, self.pod, self.node = cluster, namespace, pod, node
        self.first = first
        self.control: Control | None = None
        self.threads: PodThreads | None = None
        self._stream: CommandStream | None = None  # the engine's: how it ended, its last words
        self._tunnel: Tunnel | None = None
        self._words = b""

    def execute(self, *command: str, given: bytes | None = None) -> str:
        """A pod that ended says more than the command that could not be run in it."""
        try:
            done = self.cluster.execute(
                self.namespace, self.pod, ENGINE, command, given=given, timeout_s=60
            )
        except HeadraceError:
            if (why := self._over(TOLD_S)) is not None:
                raise EngineDied(why) from None
            raise
        if done.returncode:
            if killed(done.returncode) and (why := self._over(TOLD_S)) is not None:
                raise EngineDied(why)
            words = last_words(done.stderr or done.stdout)
            raise HeadraceError(f"pod {self.pod}: {command[0]}: {words}")
        return done.stdout

    def put(self, data: bytes, target: str) -> None:
        self.execute("sh", "-ec", f"head -c {len(data)} > '{target}'", given=data)

    def cpus(self) -> list[int]:
        text = self.execute(
            "sed", "-n", "s/^Cpus_allowed_list:[[:space:]]*//p", "/proc/self/status"
        )
        with told_by(self.pod, "the list of its CPUs"):
            return [self.first + cpu for cpu in sorted(listed(text.strip()))]

    def start(self, plan: Plan) -> None:
        self.put(moved(plan, -self.first).text.encode(), PLAN)
        self.execute("rm", "-f", CONTROL)
        self._stream = self.cluster.open(
            self.namespace, self.pod, ENGINE, _ENGINE_COMMAND, stdin=False
        )
        self._tunnel = Tunnel(self.cluster, self.namespace, self.pod, ENGINE, _CONTROL_COMMAND)
        self.control = Control(self._tunnel.socket)
        self.control.send("info")
        deadline = time.monotonic() + _UP_S
        while not self.control.answered(_LOOK_S):
            if self.ended():
                raise self.last_words()
            if time.monotonic() > deadline:
                raise EngineDied(f"pod {self.pod}: its engine is not ready after {_UP_S:g} s")
        try:
            self.control.receive("info")
        except ControlLost:
            raise self.last_words() from None
        self.threads = PodThreads(self.cluster, self.namespace, self.pod, ENGINE)

    def ended(self) -> bool:
        if self._stream is None:
            return True
        try:
            for _ in range(_FRAMES_MOST):
                if (frame := self._stream.next(0)) is None:
                    break
                if frame[0] == STDERR:
                    self._words = (self._words + frame[1])[-4096:]
        except Exception:  # the client's library has many of its own
            self._stream.close()
        return not self._stream.open

    @property
    def said_why(self) -> bool:
        """Whether it ended by itself, with an exit status of its own."""
        status = None if self._stream is None else self._stream.status()
        return status is not None and not killed(status)

    def last_words(self) -> HeadraceError:
        """Why it does not answer: its pod's end says more than its engine's."""
        deadline = time.monotonic() + 1.0
        while not self.ended() and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        status = None if self._stream is None else self._stream.status()
        if (why := self._over(TOLD_S if status is None or killed(status) else 0)) is not None:
            return EngineDied(why)
        lines = self._words.decode(errors="replace").strip().splitlines()
        if status == EXIT_BAD_INPUT and lines:
            place, _, problem = lines[-1].removeprefix("headrace-engine: ").partition(": ")
            return EngineRefused(place, printable(problem))
        if status is None:
            return EngineDied(
                f"pod {self.pod}: the connection by which its engine was asked is lost"
            )
        words = printable(" | ".join(lines[-3:])) or "nothing on stderr"
        return EngineDied(f"pod {self.pod}: its engine died (exit status {status}): {words}")

    def _over(self, within_s: float) -> str | None:
        """How its pod came to its end, which the API server knows a moment later."""
        return ended_within(self.cluster, self.namespace, {self.pod: self.node}, within_s)

    def scheduled(self, number: int) -> Snapshot:
        """`number`: threads of different pods may have one number."""
        assert self.threads is not None
        try:
            text = self.threads.read()
        except HeadraceError:
            if (why := self._over(TOLD_S)) is not None:
                raise EngineDied(why) from None
            raise
        with told_by(self.pod, "what its threads ran"):
            return snapshot_in(text, number, self.first)

    def stop(self) -> None:
        """Ask; an engine whose client is gone ends by itself."""
        if self.control is not None:
            with contextlib.suppress(HeadraceError):
                self.control.send("quit")
            deadline = time.monotonic() + _QUIT_S
            while not self.ended() and time.monotonic() < deadline:
                time.sleep(_LOOK_S)
            self.control.close()
            self.control = None
        if self.threads is not None:
            self.threads.close()
            self.threads = None
        if self._tunnel is not None:
            self._tunnel.close()
            self._tunnel = None
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def snapshot_in(text: str, number: int, first: int = 0) -> Snapshot:
    """`text`: what PodThreads says. `first`: what its node's CPUs are counted from."""
    threads: dict[int, Thread] = {}
    stolen: dict[int, int] = {}
    for line in text.splitlines():
        name, *fields = line.split() or [""]
        if name.startswith("cpu") and name != "cpu" and len(fields) > 7:
            stolen[first + int(name[3:])] = int(fields[7]) * _TICK_NS
        elif name.isdigit() and len(fields) >= 3 and fields[0].isdigit():
            tid = number << 32 | int(name)
            threads[tid] = Thread(first + int(fields[0]), int(fields[1]), int(fields[2]))
    return Snapshot(threads, stolen)


class PodEngines(RunningEngine):
    """The tester's engine is first, and ends first: of two that share memory, the one that listens
    does not outlive the other."""

    def __init__(
        self, engines: Mapping[str, PodEngine], plans: Mapping[str, Plan], wires: Sequence[Wire]
    ) -> None:
        super().__init__()
        self.engines = {name: engines[name] for name in plans}
        self.wires = tuple(wires)
        self._ahead_tsc: dict[str, int] = {}  # of the tester's clock; another node has its own
        try:
            for name, plan in plans.items():
                self.engines[name].start(plan)
            self.control = self.engines[TESTER].control
            self._check_clocks()
            self._wait_up()
        except BaseException:
            self.close()
            raise

    def _check_clocks(self) -> None:
        """Cycles of all stand side by side."""
        ours = self.info().tsc_hz
        for name, one in self._elsewhere():
            assert one.control is not None
            with self._answering():
                one.control.send("info")
                theirs = one.control.receive_as("info", EngineInfo).tsc_hz
            if clocks_differ(ours, theirs):
                raise HeadraceError(
                    f"pod {name}: the TSC of {one.node} has {theirs / 1e6:.1f} MHz, that of the "
                    f"tester's node {ours / 1e6:.1f}; allowed: nodes whose TSCs have the same rate"
                )

    def _elsewhere(self) -> Iterator[tuple[str, PodEngine]]:
        """Those on another node than the tester."""
        node = self.engines[TESTER].node
        return ((name, one) for name, one in self.engines.items() if one.node != node)

    def _wait_up(self) -> None:
        deadline = time.monotonic() + _UP_S
        while True:
            read = self.read()
            down = [wire for wire in self.wires if not read.port(wire.end).up]
            if not down:
                return
            if time.monotonic() > deadline:
                raise HeadraceError(f"{down[0].name}: not up after {_UP_S:g} s")
            time.sleep(_LOOK_S)

    @property
    def pid(self) -> int | None:
        return None

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """What else has their CPUs is the cluster's to say."""
        yield

    def scheduled(self) -> Snapshot:
        with ThreadPoolExecutor(len(self.engines)) as pool:
            every = list(pool.map(lambda i: i[1].scheduled(i[0]), enumerate(self.engines.values())))
        threads = {tid: thread for one in every for tid, thread in one.threads.items()}
        stolen = {cpu: ns for one in every for cpu, ns in one.stolen_ns.items()}
        return Snapshot(threads, stolen)

    def scheduled_beside(self) -> Snapshot | None:
        return None

    def lost(self, why: ControlLost) -> HeadraceError:
        return self._gone()

    def _gone(self) -> HeadraceError:
        """The first whose engine is over; else the tester's connection. Where no engine said why, a
        pod that has ended does: its neighbours' connections may be lost before its own."""
        over = [one for one in self.engines.values() if one.ended()]
        if not any(one.said_why for one in over):
            first = self.engines[TESTER]
            nodes = {one.pod: one.node for one in self.engines.values()}
            why = ended_within(first.cluster, first.namespace, nodes, TOLD_S)
            if why is not None:
                return EngineDied(why)
        return (over or [self.engines[TESTER]])[0].last_words()

    def request(self, cmd: str, **arguments: Any) -> dict[str, Any]:
        """Slices are of all, each by its own node's clock."""
        reply = super().request(cmd, **arguments)
        for name, one in self.engines.items() if cmd == "slices" else ():
            if name == TESTER or one.control is None:
                continue
            ahead = self._ahead_tsc.get(name, 0)
            there = {at: arguments[at] + ahead for at in BOUNDS if at in arguments}
            with self._answering():
                own = one.control.request(cmd, **(arguments | there))["segments"]
            for replica in (replica for replicas in own.values() for replica in replicas):
                replica["cpu"] += one.first
            reply["segments"] = {**reply["segments"], **own}
        return reply

    def exposed(self) -> Mapping[str, str]:
        texts = {}
        with self._answering():
            for name, one in self.engines.items():
                assert one.control is not None
                key = "" if name == TESTER else name
                texts[key] = str(one.control.request("prometheus")["text"])
        return texts

    def read(self) -> EngineCounts:
        """All are asked before the first answer is awaited."""
        try:
            with self.turn:
                controls = {n: one.control for n, one in self.engines.items() if one.control}
                for control in controls.values():
                    control.send("read")
                counts = {n: c.receive_as("read", EngineCounts) for n, c in controls.items()}
        except ControlLost:
            raise self._gone() from None
        whole = counts[TESTER]
        self._ahead_tsc = {n: counts[n].tsc - whole.tsc for n, _ in self._elsewhere()}
        for name, one in counts.items():
            if name != TESTER:
                whole = beside(whole, renumbered(one, self.engines[name].first))
        return whole.model_copy(update={"missing": self._missing(whole)})

    def places(self) -> dict[str, PodPlace]:
        """Where each pod is, and what it got there."""
        [namespace] = {one.namespace for one in self.engines.values()}
        first = next(iter(self.engines.values()))
        pods = {pod["metadata"]["name"]: pod for pod in first.cluster.pods(namespace)}
        return {
            name: place_in(one.execute(*PLACE), pods[name], ENGINE, polls=True)
            for name, one in self.engines.items()
        }

    def _missing(self, read: EngineCounts) -> dict[str, int]:
        """Packets that left one end of a wire and did not come to its other end."""
        return {
            f"{wire.end}/not-received": (
                read.port(wire.out).tx_packets - read.port(wire.end).rx_packets
            )
            for wire in self.wires
        }

    def close(self) -> None:
        for one in self.engines.values():
            one.stop()
        self.control = None
