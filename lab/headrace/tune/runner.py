# SPDX-License-Identifier: Apache-2.0
"""Tries advice: interleaved runs with and without each, in rounds, on one path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.collect.hardware import cpu_times
from headrace.collect.os import protocols
from headrace.engine.clocks import of_machine
from headrace.errors import HeadraceError
from headrace.host import settings
from headrace.host.ledger import Ledger
from headrace.host.scheduling import snapshot
from headrace.host.settings import Setting, inside
from headrace.measure.audit import audit
from headrace.record.facts import Facts, LcoreTime
from headrace.tune import load
from headrace.tune.advice import Advice, Situation
from headrace.tune.discover import discover
from headrace.tune.path import ServerPath, build, cpus, rebuild
from headrace.tune.result import BASELINE, Considered, Protocol, TuneResult, TuneTrial
from headrace.tune.shortcut import Shortcut

_GRACE_S = 30.0
_WARMUP_S = 0.3
_DRAINED_S = 35.0  # net.ipv4.ipfrag_time is 30 s
_FRAGMENTS_BYTES = 1 << 20  # a quarter of net.ipv4.ipfrag_high_thresh
Say = Callable[[str], None]


@dataclass(frozen=True)
class Ends:
    """Namespaces of the user's own, as named on the command line."""

    sender: str
    receiver: str
    bridge: str = ""  # the bridge's; this one unless said


@dataclass(frozen=True)
class Wish:
    advice: Sequence[Advice]
    protocols: Sequence[Protocol]
    rounds: int
    seconds: float
    message_bytes: int
    ends: Ends | None = None  # None: a path is made


@dataclass
class Tuning:
    """The ledger notes each change before it is made: what a kill leaves is undone later."""

    wish: Wish
    ledger: Ledger
    folder: Path  # the run's own
    tag: str
    say: Say
    cpus: tuple[int, ...] = field(default_factory=lambda: tuple(cpus()))

    def all(self) -> TuneResult:
        before = os.getloadavg()[0]
        ends = self.wish.ends
        path = (
            discover(ends.sender, ends.receiver, ends.bridge)
            if ends is not None
            else build(self.tag, self.ledger)
        )
        considered: list[Considered] = []
        trials: list[TuneTrial] = []
        for protocol in self.wish.protocols:
            found, applicable = self._consider(path, protocol)
            considered += found
            trials += self._rounds(path, protocol, applicable)
        return TuneResult(
            kernel=os.uname().release, cpus=self.cpus,
            load_average=(before, os.getloadavg()[0]),
            message_bytes=self.wish.message_bytes, seconds=self.wish.seconds, path=path,
            considered=tuple(considered), trials=tuple(trials),
        )  # fmt: skip

    def _consider(
        self, path: ServerPath, protocol: Protocol
    ) -> tuple[list[Considered], list[tuple[Advice, Situation]]]:
        """From a run on the path as it is, which also fills caches and neighbour tables."""
        run_load(path, protocol, _WARMUP_S, self.wish.message_bytes, 0, self._ready(), self.cpus)
        found = self._trial(path, protocol, None, 0)
        situation = Situation(path, protocol, found, self.cpus, self.wish.message_bytes)
        said, applicable = [], []
        for advice in self.wish.advice:
            verdict = advice.applies(situation)
            changes = advice.changes(situation) if verdict.applies else []
            said.append(
                Considered(
                    advice=advice.name, finding=advice.finding, protocol=protocol,
                    applies=verdict.applies, why=verdict.why, warning=advice.warning,
                    changes=tuple(dict.fromkeys(c.text for c in changes)),
                )
            )  # fmt: skip
            if verdict.applies:
                applicable.append((advice, situation))
            applies = "applies" if verdict.applies else "does not apply"
            self.say(f"{protocol} {advice.name}: {applies}: {verdict.why}")
        return said, applicable

    def _rounds(
        self, path: ServerPath, protocol: Protocol, applicable: list[tuple[Advice, Situation]]
    ) -> list[TuneTrial]:
        """Every other round backwards: what drifts with time is in both orders."""
        trials = []
        for number in range(1, self.wish.rounds + 1):
            order: list[tuple[Advice, Situation] | None] = [None, *applicable]
            for one in order if number % 2 else reversed(order):
                path = self._afresh(path)
                if one is not None:
                    one = (one[0], replace(one[1], path=path))
                trial = self._trial(path, protocol, one, number)
                trials.append(trial)
                self.say(f"{protocol} round {number}, {trial.advice}: {trial.gbps:.2f} Gbit/s")
        return trials

    def _afresh(self, path: ServerPath) -> ServerPath:
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

    def _trial(
        self,
        path: ServerPath,
        protocol: Protocol,
        one: tuple[Advice, Situation] | None,
        number: int,
    ) -> TuneTrial:
        segment, shortcut = 0, None
        with ExitStack() as stack:
            if one is not None:
                advice, situation = one
                segment = advice.segment(situation)
                stack.enter_context(applied(advice.changes(situation), self.ledger))
                if advice.shortcut is not None:
                    shortcut = stack.enter_context(Shortcut(path, advice.shortcut))
            before, stolen, began = _counters(path), snapshot(), time.monotonic()
            said = run_load(path, protocol, self.wish.seconds, self.wish.message_bytes, segment,
                            self._ready(), self.cpus)  # fmt: skip
            seconds, used = time.monotonic() - began, {self.cpus[0], self.cpus[-1]}
            clocks = of_machine(stolen, snapshot(), seconds, used)
            after = _counters(path)
        return _record(
            one[0].name if one else BASELINE, protocol, number, said,
            {k: after[k] - before[k] for k in after},
            shortcut, clocks,
        )  # fmt: skip

    def _ready(self) -> Path:
        return self.folder / "ready"


@contextmanager
def applied(changes: Sequence[Setting], ledger: Ledger) -> Iterator[None]:
    """The settings changed while the context lasts, put back last first. All are read before any is
    changed: some follow others by themselves, as a bridge's MTU does its ports'."""
    found = [change.with_value(change.read()) for change in changes]
    for was in found:
        ledger.note("setting", was.model_dump_json())
    done: list[Setting] = []
    try:
        for change, was in zip(changes, found, strict=True):
            done.append(was)
            change.write()
        yield
    finally:
        for was in reversed(done):
            was.write()


def run_load(
    path: ServerPath,
    protocol: Protocol,
    seconds: float,
    size: int,
    segment: int,
    ready: Path,
    allowed: Sequence[int],
) -> dict[str, dict[str, Any]]:
    """Sender on the first core, receiver on the last: the softirqs come where the sender is."""
    ready.unlink(missing_ok=True)
    common = ["--protocol", protocol, "--host", path.receiver.address, "--bytes", str(size),
              "--segment", str(segment)]  # fmt: skip
    receiver = _start(path.receiver.namespace, "receive", *common, "--ready", str(ready),
                      "--cpu", str(allowed[-1]))  # fmt: skip
    try:
        deadline = time.monotonic() + _GRACE_S
        while not ready.exists():
            if receiver.poll() is not None or time.monotonic() > deadline:
                raise HeadraceError(f"the receiver did not start: {_words(receiver)}")
            time.sleep(0.005)
        sender = _start(path.sender.namespace, "send", *common, "--seconds", str(seconds),
                        "--cpu", str(allowed[0]))  # fmt: skip
        try:
            sent = _end(sender, "sender", seconds)
            # A receiver whom nothing has reached would go on waiting for the sender's start.
            ready.unlink(missing_ok=True)
            return {"sender": sent, "receiver": _end(receiver, "receiver", seconds)}
        finally:
            _kill(sender)
    finally:
        _kill(receiver)


def _start(namespace: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", load.__name__, *arguments]
    return subprocess.Popen(
        inside(namespace, command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, errors="replace"
    )


def _end(process: subprocess.Popen[str], role: str, seconds: float) -> dict[str, Any]:
    try:
        out, said = process.communicate(timeout=seconds + _GRACE_S)
    except subprocess.TimeoutExpired:
        raise HeadraceError(f"the {role} did not end") from None
    if process.returncode:
        raise HeadraceError(f"the {role} failed: {(said.strip() or 'no word').splitlines()[-1]}")
    found: dict[str, Any] = json.loads(out)
    return found


def _words(process: subprocess.Popen[str]) -> str:
    _kill(process)
    return ((process.stderr.read() if process.stderr else "").strip() or "no word").splitlines()[-1]


def _kill(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


def _counters(path: ServerPath) -> dict[str, float]:
    """Counters of this machine's cores, and of the stations' and the bridge's namespaces."""
    stat = Path("/proc/stat").read_text()
    found = {f"softirq {r.place}": r.value for r in cpu_times(stat) if r.metric == "cpu_softirq_s"}
    for role, namespace in (("server", path.namespace), ("receiver", path.receiver.namespace)):
        snmp = protocols(settings.run(namespace, ["cat", "/proc/net/snmp"]))
        found[f"fragments {role}"] = snmp.get("Ip.ReasmReqds", 0)
        found[f"checksum {role}"] = snmp.get("Tcp.InCsumErrors", 0) + snmp.get(
            "Udp.InCsumErrors", 0
        )
    statistics = f"/sys/class/net/{path.sender.device}/statistics"
    read = settings.run(
        path.sender.namespace, ["cat", f"{statistics}/tx_packets", f"{statistics}/tx_bytes"]
    ).split()
    found["packets"], found["bytes"] = float(read[0]), float(read[1])
    return found


def waiting_fragments_bytes(path: ServerPath) -> int:
    """Memory of datagrams that reassembly waits for the rest of, on the bridge and behind it."""
    found = 0
    for namespace in (path.namespace, path.receiver.namespace):
        shown = settings.run(namespace, ["cat", "/proc/net/sockstat"])
        line = next((text for text in shown.splitlines() if text.startswith("FRAG:")), "")
        found += int(line.split()[-1]) if line else 0
    return found


def _record(
    advice: str,
    protocol: Protocol,
    number: int,
    said: dict[str, dict[str, Any]],
    grown: dict[str, float],
    shortcut: Shortcut | None,
    clocks: Sequence[LcoreTime],
) -> TuneTrial:
    sender, receiver = said["sender"], said["receiver"]
    received, sent = int(receiver["bytes"]), int(sender["bytes"])
    facts = Facts(
        sent=sent, received=received, lost=sent - received, unit="bytes", clocks=clocks,
        wrong=int(receiver["wrong"]), took_s=float(sender["seconds"]),
    )  # fmt: skip
    seconds = max(receiver["seconds"], 1e-9)
    cpu_s = sender["cpu_s"] + receiver["cpu_s"]
    return TuneTrial(
        advice=advice,
        protocol=protocol,
        round=number,
        gbps=received * 8 / seconds / 1e9,
        sent_gbps=sender["bytes"] * 8 / sender["seconds"] / 1e9,
        cpu_s_per_gb=cpu_s / (received / 1e9) if received else 0.0,
        softirq_s={k.split()[1]: v for k, v in grown.items() if k.startswith("softirq ")},
        packets=int(grown["packets"]),
        packet_bytes=grown["bytes"] / grown["packets"] if grown["packets"] else 0.0,
        fragments={r: int(grown[f"fragments {r}"]) for r in ("server", "receiver")},
        checksum_errors=int(sum(v for k, v in grown.items() if k.startswith("checksum "))),
        compared=receiver["compared"],
        wrong=receiver["wrong"],
        audit=audit(facts),
        redirected=shortcut.redirected if shortcut else None,
        shortcut_dropped=shortcut.dropped if shortcut else None,
    )
