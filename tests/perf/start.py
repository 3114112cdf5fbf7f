# SPDX-License-Identifier: Apache-2.0
"""Starts of ACL -> LB -> L3FWD on an lcore of its own, each with the state that it depended on.

What receiving and sending cost depends on more than the chain. The generator's lcore and the
chain's need about as long for a packet, so that a little decides which of them waits for the other.
While the wire is full, the chain finds 32 packets a poll that were written long ago. When it waits,
it takes each burst, or a part of one, out of the other core's hands, and receiving costs up to
three times as much. A host may also move the two CPUs nearer to each other or further apart, or
change their clock.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

from headrace.model.lines_between import same_state, states
from perf import engine, traffic
from perf.nfs import BenchError
from perf.stats import within

FUNCTIONS = ("acl", "lb", "l3fwd")
# By the paths that acl's packets take: its parameters.
PATHS: dict[str, dict[str, Any]] = {"flow cache hit": {}, "classification": {"cache_flows": 0}}
CACHE_HITS = 0.99  # of the packets looked up, where the figure is called a hit's
ASKED = 0.9  # of all packets; acl counts look-ups at ticks, the last of which may be missing
KNOWN = 0.999  # of the load balancer's packets, after the warm-up
# The wire turned away this share of the packets at least: else the chain waited for the generator.
SPARE = 0.05
WINDOW = 0.05  # starts of one bench lie within this of each other


@dataclass(frozen=True)
class Start:
    """One start of an engine, and what a line cost between its two lcores before and after."""

    load: engine.Load
    transfer: tuple[float, float]

    @property
    def spare(self) -> float:
        return self.load.turned_away("generator", "wire")

    @property
    def of_the_chain(self) -> bool:
        return self.spare >= SPARE

    def nf(self, name: str) -> float:
        return self.load.nf_cycles("chain", name)

    @property
    def work(self) -> float:
        return sum(self.nf(name) for name in FUNCTIONS)

    @property
    def receiving(self) -> float:
        return self.load.io_cycles("chain", "rx_cycles")

    @property
    def sending(self) -> float:
        return self.load.io_cycles("chain", "tx_cycles")

    @property
    def wall(self) -> float:
        return self.load.wall_cycles("chain")

    @property
    def own(self) -> float:
        return self.load.own_cycles("chain")

    @property
    def burst(self) -> float:
        return self.load.burst("chain")


STATES: dict[str, tuple[str, Callable[[Start], float]]] = {
    "clock": ("MHz", lambda s: s.load.mhz()),
    "additions at once": ("", lambda s: s.load.width()),
    "standing still": ("%", lambda s: s.load.standstill() * 100),
    "turned away by the wire": ("%", lambda s: s.spare * 100),
    "packets a poll": ("", lambda s: s.burst),
    "transfer of a line before": ("cycles", lambda s: s.transfer[0]),
    "transfer of a line after": ("cycles", lambda s: s.transfer[1]),
}
# What of a state is not the usual: a share of its median, or so many of its unit.
USUAL = {"standing still": (0.0, 1.0), "turned away by the wire": (0.5, 5.0)}


def plans(files: dict[str, str], cpus: tuple[int, int]) -> dict[str, dict[str, Any]]:
    source = {"frame_bytes": [64], "headers_file": files["headers"], "order": "random"}
    by_name = {"empty": engine.chain_plan(source, [], cpus, 512)}
    vips = [{"address": "198.19.0.1", "backends": traffic.backends()}]
    for path, params in PATHS.items():
        rules = {"rules_file": files["rules"], "default": "deny", **params}
        chain: list[tuple[str, str, dict[str, Any]]] = [
            ("acl", "pass", rules),
            ("lb", "out", {"vips": vips}),
            ("l3fwd", "out0", {"fib": "lpm", "routes_file": files["routes"]}),
        ]
        by_name[path] = engine.chain_plan(source, chain, cpus, 1536)
    return by_name


def start(
    binary: Path, plan: dict[str, Any], folder: Path, seconds: float, cpus: tuple[int, int]
) -> Start:
    calibrate = binary.parent / "calibrate" / "headrace-calibrate"
    before = engine.transfer_cycles(calibrate, cpus)
    load = engine.load(binary, plan, folder, seconds)
    return Start(load, (before, engine.transfer_cycles(calibrate, cpus)))


def kept(file: Path | None, binary: Path, names: Collection[str]) -> dict[str, list[Start]]:
    """What earlier turns of a bench have left there, of this very engine: a machine that is shared
    has no hour at once."""
    if file is None or not file.exists():
        return {name: [] for name in names}
    data = json.loads(file.read_text())
    if data["engine"] != _digest(binary):
        raise BenchError(f"{file}: its starts are of another engine; allowed: a file that is new")
    return {
        name: [
            Start(
                engine.Load(one["before"], one["after"]), (one["transfer"][0], one["transfer"][1])
            )
            for one in data["starts"][name]
        ]
        for name in names
    }


def keep(file: Path, binary: Path, starts: Mapping[str, Sequence[Start]]) -> None:
    each = {
        name: [
            {"before": one.load.before, "after": one.load.after, "transfer": one.transfer}
            for one in several
        ]
        for name, several in starts.items()
    }
    engine.save(file, {"engine": _digest(binary), "starts": each})


def _digest(binary: Path) -> str:
    return hashlib.sha256(binary.read_bytes()).hexdigest()


def acl_counters(load: engine.Load) -> dict[str, int]:
    names = ("permitted", "cache-hits", "cache-misses")
    return {name: load.counter("chain", "acl", name) for name in names}


def check_acl(path: str, counters: dict[str, int]) -> float:
    """That the packets went the way that the figure is called after; the share of cache hits."""
    packets, hits = counters["permitted"], counters["cache-hits"]
    asked = hits + counters["cache-misses"]
    hit = asked >= ASKED * packets and hits >= CACHE_HITS * asked
    if not (hit if path == "flow cache hit" else asked == 0):
        raise BenchError(
            f'acl: not the path "{path}": of {packets} packets {asked} were looked up in its flow '
            f"cache, and {hits} found"
        )
    return hits / asked if asked else 0.0


def check_path(path: str, one: Start) -> float:
    """The same of a start, and that lb knows the flows; acl's share of cache hits."""
    counters = acl_counters(one.load)
    known = one.load.counter("chain", "lb", "hits") / counters["permitted"]
    if known < KNOWN:
        raise BenchError(f"lb: {known:.2%} of the packets are of flows that it knows")
    return check_acl(path, counters)


def about(path: str, starts: Sequence[Start]) -> list[str]:
    """Sentences on starts that are not alike: whose figure each is, and what differs."""
    lines = []
    waited = [s for s in starts if not s.of_the_chain]
    if waited:
        lines.append(
            f"{path}: {len(waited)} of {len(starts)} starts were the generator's, as the wire "
            f"turned away less than {SPARE:.0%} of its packets; there receiving cost "
            f"{_range(s.receiving for s in waited)} cycles, sending "
            f"{_range(s.sending for s in waited)}, with "
            f"{_range(s.burst for s in waited)} packets a poll"
        )
    own = [s for s in starts if s.of_the_chain]
    if len(own) < 2:
        return lines
    by_tsc, inside = (within([f(s) for s in own], WINDOW) for f in (_wall, _own))
    others = [s for i, s in enumerate(own) if i not in inside]
    lines.append(
        f"{path}: of the chain's {len(own)} starts {len(by_tsc)} lie within {WINDOW:.0%} of each "
        f"other by the TSC ({_range(s.load.mhz() for s in own)} MHz), and {len(inside)} in the "
        "lcore's own cycles without standing still" + (". The others:" if others else "")
    )
    return [*lines, *(_other(s, [own[i] for i in inside]) for s in others)]


def by_state(path: str, starts: Sequence[Start]) -> list[str]:
    """The same of the starts in each state of the machine, by what a line took between its lcores
    before and after: figures of two states are not of one machine."""
    own = [s for s in starts if s.of_the_chain]
    stayed = [s for s in own if same_state(*s.transfer)]
    lines = []
    for usual in sorted(states(mean(s.transfer) for s in stayed)):
        here = [s for s in stayed if same_state(mean(s.transfer), usual)]
        by_tsc, inside = (within([f(s) for s in here], WINDOW) for f in (_wall, _own))
        lines.append(
            f"{path}: {len(here)} starts where a line took {usual:.0f} cycles: {len(inside)} "
            f"within {WINDOW:.0%} of each other in own cycles ({_range(map(_own, here))}, median "
            f"{median(map(_own, here)):.1f}), {len(by_tsc)} by the TSC"
        )
    if moved := len(own) - len(stayed):
        lines.append(f"{path}: {moved} starts during which the host moved the lcores")
    return lines


def _wall(one: Start) -> float:
    return one.wall


def _own(one: Start) -> float:
    return one.own


def _range(values: Iterable[float]) -> str:
    inorder = sorted(values)
    return f"{inorder[0]:.1f}-{inorder[-1]:.1f}"


def _other(one: Start, usual: Sequence[Start]) -> str:
    differs = []
    for name, (unit, value) in STATES.items():
        middle = median(value(s) for s in usual)
        share, absolute = USUAL.get(name, (0.03, 0.0))
        if abs(value(one) - middle) > max(share * abs(middle), absolute):
            differs.append(f"{name} {value(one):.1f} {unit}".rstrip() + f", usually {middle:.1f}")
    return f"  {one.own:.1f} own cycles: " + ("; ".join(differs) or "no state looked at differs")
