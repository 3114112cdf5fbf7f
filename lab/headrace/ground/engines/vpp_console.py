# SPDX-License-Identifier: Apache-2.0
"""VPP's command line: what it is told, and what its nodes, errors and interfaces counted."""

from __future__ import annotations

import re
import socket
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import median

from headrace.errors import HeadraceError
from headrace.host.bounded import Unbounded, run_bounded
from headrace.host.tool import printable

_TOLD_S, _ASKED_S = 300.0, 30.0
_IDLE_S, _IDLE_LOOKS, _LINK_S = 0.02, 5, 0.1
_LINK = re.compile(r"^(\S+) +\d+ +(up|down) ", re.MULTILINE)
# Lines that may be many or long are read from a file, whose output nobody gets.
_BULK = ("ip route add", "set ip neighbor", "set acl-plugin acl")
# What others print that did as they were told.
_FINE = re.compile(r"^(lb_vip_add ok \d+|host-\S+)$")
_THREAD = re.compile(r"^Thread (\d+) ", re.MULTILINE)
_NODE = re.compile(
    r"^(\S+) +(?:\S+ )*\S+ +(\d+) +(\d+) +(\d+) +(\d*\.\d+e[+-]?\d+) +\d*\.\d+\s*$", re.MULTILINE
)
_ERROR = re.compile(r"^ *(\d+) +(\S+) +(\S.*?) +(error|warn|info|\S+) *$", re.MULTILINE)
_COUNTS = {"rx packets": "rx", "tx packets": "tx", "drops": "drops", "rx-miss": "rx-miss",
           "tx-error": "tx-error"}  # fmt: skip
_COUNT = re.compile(rf" ({'|'.join(_COUNTS)}) +(\d+)\s*$")
_ENTRY = "ethernet-input"
_INPUTS = ("memif-input", "af-packet-input")


@dataclass
class VppNode:
    """What one node did: calls that found nothing are in `calls` and `cycles`, too."""

    calls: int = 0
    vectors: int = 0
    cycles: float = 0.0


@dataclass
class VppConsole:
    """`file`: for lines that are many. `ports`: names of the chain's ports by the interface's.
    `counted`: of its nodes' errors those that are a function's drops. Each look begins its nodes'
    counts anew, as they are told as means of three digits."""

    vppctl: Path
    socket: Path
    file: Path
    lines: Sequence[str]
    plugins: Sequence[str]
    ports: Mapping[str, str]
    counted: Mapping[tuple[str, str], str]
    _told: bool = False
    _up: bool = False
    _poll: float = 0.0  # cycles of one that finds nothing
    _sums: Counter[str] = field(default_factory=Counter)

    def forwards(self) -> bool:
        """Its ports' links come up some time after it was told of them."""
        if not self._told and not _listens(self.socket):
            return False
        if not self._told:
            self._tell()
            self._told = True
        if not self._up:
            links = _LINK.findall(self._ask("show hardware-interfaces brief", _ASKED_S))
            if not set(self.ports) <= {name for name, state in links if state == "up"}:
                time.sleep(_LINK_S)
                return False
            self._poll = median(self._idle_poll() for _ in range(_IDLE_LOOKS))
            self._up = True
        return True

    def _idle_poll(self) -> float:
        """One of several looks: a worker that is kept from running meanwhile has dear polls."""
        self._ask("clear runtime", _ASKED_S)
        time.sleep(_IDLE_S)
        mean = _mean_poll(nodes(self._ask("show runtime", _ASKED_S)))
        self._ask("clear runtime", _ASKED_S)
        return mean

    def _tell(self) -> None:
        there = self._ask("show plugins", _ASKED_S)
        for plugin in self.plugins:
            if plugin not in there:
                raise HeadraceError(f"vpp: its plugin {plugin} is not there")
        for many, group in groupby(self.lines, lambda line: line.startswith(_BULK)):
            if not many:
                for line in group:
                    _check_fine(line, self._ask(line, _ASKED_S))
                continue
            self.file.write_text("\n".join((*group, "")))
            _check_fine("exec", self._ask(f"exec {self.file}", _TOLD_S))

    def counters(self) -> dict[str, int]:
        """All since it began."""
        did = nodes(self._ask("show runtime", _ASKED_S))
        self._ask("clear runtime", _ASKED_S)
        self._sums.update(self._since(did))
        now = Counter(interfaces(self._ask("show interface", _ASKED_S), self.ports))
        for (node, reason), count in errors(self._ask("show errors", _ASKED_S)).items():
            now[self.counted.get((node, reason), f"{node}/{reason}")] += count
        return {**dict.fromkeys(self.counted.values(), 0), **self._sums, **now}

    def _since(self, did: Mapping[str, VppNode]) -> dict[str, int]:
        """Polls that found nothing are told apart: each cost what those did before there were
        packets. What the others took is a port's, also where a node counts no vectors of them."""
        busy = did.get(_ENTRY, VppNode()).calls
        counts: Counter[str] = Counter()
        for name, node in did.items():
            idle = max(0, node.calls - busy) * self._poll if name in _INPUTS else 0.0
            cycles = max(0.0, node.cycles - idle)
            if node.vectors or (busy and name in _INPUTS):
                counts["cycles"] += round(cycles)
                counts[f"{name}/cycles"] += round(cycles)
                counts[f"{name}/vectors"] += node.vectors
                counts[f"{name}/calls"] += busy if name in _INPUTS else node.calls
            if name in _INPUTS:
                counts["idle-cycles"] += round(min(idle, node.cycles))
        return counts

    def _ask(self, command: str, seconds: float) -> str:
        words = (str(self.vppctl), "-s", str(self.socket), *command.split())
        try:
            done = run_bounded(words, seconds)
        except Unbounded as why:
            raise HeadraceError(f"vpp: `{command}` {why}") from None
        if done.returncode:
            text = printable((done.stderr.strip() or "no answer").splitlines()[-1])
            raise HeadraceError(f"vpp: `{command}`: {text}")
        return done.stdout.replace("\r", "")


def _listens(path: Path) -> bool:
    """Its socket is there some time before anybody is taken at it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
        try:
            end.connect(str(path))
        except OSError:
            return False
    return True


def _check_fine(line: str, answer: str) -> None:
    for one in filter(None, map(str.strip, answer.splitlines())):
        if not _FINE.match(one):
            raise HeadraceError(f"vpp: `{line}`: {printable(one)}")


def nodes(text: str) -> dict[str, VppNode]:
    """Sums over the workers, of what `show runtime` prints. Cycles are a mean of packets, or of
    calls where there were none."""
    sums: dict[str, VppNode] = {}
    for number, part in _threads(text):
        for name, calls, vectors, suspends, mean in _NODE.findall(part) if number else ():
            node = sums.setdefault(name, VppNode())
            node.calls += int(calls)
            node.vectors += int(vectors)
            node.cycles += float(mean) * (int(vectors) or int(calls) or int(suspends))
    return sums


def _threads(text: str) -> Iterator[tuple[int, str]]:
    """The main thread is number 0."""
    starts = list(_THREAD.finditer(text))
    for i, one in enumerate(starts):
        end = starts[i + 1].start() if i + 1 < len(starts) else len(text)
        yield int(one[1]), text[one.end() : end]


def _mean_poll(did: Mapping[str, VppNode]) -> float:
    polls = next((did[name] for name in _INPUTS if name in did), VppNode())
    return polls.cycles / polls.calls if polls.calls else 0.0


def errors(text: str) -> Counter[tuple[str, str]]:
    """By node and reason, of what `show errors` prints."""
    counts: Counter[tuple[str, str]] = Counter()
    _, _, table = text.partition("Severity")
    for count, node, reason, _ in _ERROR.findall(table.partition("  Name  ")[0]):
        counts[node, reason] += int(count)
    return counts


def interfaces(text: str, ports: Mapping[str, str]) -> dict[str, int]:
    """By port and counter, of what `show interface` prints."""
    counts = {f"{port}/{what}": 0 for port in ports.values() for what in _COUNTS.values()}
    name = ""
    for line in text.splitlines():
        if line[:1].strip():
            name = line.split()[0]
        counter = _COUNT.search(line)
        if counter and name in ports:
            counts[f"{ports[name]}/{_COUNTS[counter[1]]}"] = int(counter[2])
    return counts
