# SPDX-License-Identifier: Apache-2.0
"""A chain whose functions, replicas and buckets change at random while traffic runs."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.record.latency import decode
from support.engine import Engine
from support.plans import beside_its_ends

FLOWS, BUCKETS = 1000, 256
LONG_MS = 10_000  # where a machine that others load may stand still
VIP = {
    "address": "203.0.113.1",
    "backends": [{"address": "198.51.100.1"}, {"address": "198.51.100.2"}],
}
CHAIN: dict[str, tuple[str, dict[str, Any]]] = {
    "acl": ("pass", {"rules": [{"action": "permit"}]}),
    "nat": ("out", {"pool": ["192.0.2.1", "192.0.2.2"], "seed": 1}),
    "firewall": ("pass", {"rules": [{"action": "permit"}]}),
    "lb": ("out", {"vips": [VIP], "table_size": 251}),
    "monitor": ("out", {}),
}
BEGUN = {"nat": "new-sessions", "firewall": "new-flows", "lb": "new-flows", "monitor": "new-flows"}
# What a million flows want beyond that, with room for what chance puts into one bucket.
MANY = 1_000_000
IMIX = [64] * 7 + [594] * 4 + [1518]
LARGE: dict[str, dict[str, Any]] = {
    "acl": {},
    "nat": {"pool": [f"192.0.2.{i}" for i in range(1, 41)], "sessions": 2 * MANY},
    "firewall": {"flows": 2 * MANY},
    "lb": {"flows": 2 * MANY},
    "monitor": {"flows": 2 * MANY},
}
NAMES = list(CHAIN)
RTC = [NAMES]
PIPELINE = [[name] for name in NAMES]

Parts = Sequence[Sequence[str]]


def between(i: int) -> str:
    return f"between{i}"


def segments_of(parts: Parts, cpus: Sequence[Sequence[int]], elastic: int) -> list[dict[str, Any]]:
    """The chain's functions, cut so, on these CPUs."""
    segments = []
    for part, on in zip(parts, cpus, strict=True):
        first, last = NAMES.index(part[0]), NAMES.index(part[-1])
        onwards = [*part[1:], f"link:{between(last) if last < len(NAMES) - 1 else 'back'}"]
        nodes = {
            name: {"forward": {CHAIN[name][0]: to}} for name, to in zip(part, onwards, strict=True)
        }
        segments.append(
            {
                "name": "-".join(part), "cpus": list(on), "elastic": elastic, "nodes": nodes,
                "inputs": [{"link": between(first - 1) if first else "wire", "to": part[0]}],
            }
        )  # fmt: skip
    return segments


def plan_of(
    cpus: Sequence[int], parts: Parts, on: Sequence[Sequence[int]], elastic: int = 0
) -> dict[str, Any]:
    nfs = {name: {"type": name, "params": params} for name, (_, params) in CHAIN.items()}
    plan = beside_its_ends([cpus[0], cpus[0]], nfs, {})
    ends, _, sink = plan["segments"]
    plan["segments"] = [ends, *segments_of(parts, on, elastic), sink]
    for i in range(len(NAMES) - 1):
        params = {"size": 1024, "on_full": "wait", "spare": max(1, elastic)}
        plan["links"][between(i)] = {"type": "ring", "params": params}
    plan["links"]["gen"]["params"] |= {
        "flows": FLOWS, "dst_ip": VIP["address"], "vary": ["src_ip"]
    }  # fmt: skip
    plan["engine"]["spare_cpus"] = sorted({cpus[0], cpus[-1]})
    return plan


def large(plan: dict[str, Any]) -> dict[str, Any]:
    for name, params in LARGE.items():
        plan["nfs"][name]["params"] = plan["nfs"][name]["params"] | params
    plan["links"]["gen"]["params"] |= {"flows": MANY, "frame_bytes": IMIX}
    plan["engine"]["memory_mb"] = 4096
    return plan


def _cut(draw: random.Random) -> Parts:
    cuts = [0, *sorted(draw.sample(range(1, len(NAMES)), draw.randrange(len(NAMES)))), len(NAMES)]
    return [NAMES[a:b] for a, b in itertools.pairwise(cuts)]


@dataclass
class Changes:
    """At random: the chain cut anew, replicas that come and go, buckets that move; each timed."""

    engine: Engine
    plan: dict[str, Any]  # that it has
    cpus: Sequence[int]
    elastic: int
    draw: random.Random
    parts: Parts
    of: Callable[[dict[str, Any]], dict[str, Any]] = lambda plan: plan  # what else is in its plans
    on: Sequence[int] = ()  # for replicas; none: the first and the last of `cpus`
    changes: Counter[str] = field(default_factory=Counter)
    took_ns: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    waited: int = 0

    def _note(self, kind: str, told: dict[str, Any]) -> None:
        self.changes[kind] += 1
        self.took_ns[kind].append(told["took_ns"])
        self.waited += told["waited"]

    def _lcores(self) -> list[list[int]]:
        two, most = self.on or [self.cpus[0], self.cpus[-1]], self.elastic or 1
        return [self.draw.choices(two, k=self.draw.randrange(1, most + 1)) for _ in self.parts]

    def to(self, parts: Parts, on: Sequence[Sequence[int]] = ()) -> None:
        """`on`: the CPUs of each; none: at random."""
        self.parts = parts
        wanted = self.of(plan_of(self.cpus, parts, on or self._lcores(), self.elastic))
        wanted["engine"] = self.plan["engine"]
        answer = self.engine.call("plan", plan=wanted, within_ms=LONG_MS)
        assert "late" not in answer
        self.plan = wanted
        if "partition" in answer:
            self._note("partition", answer["partition"])
        for one in answer["moves"]:
            self._note("replicas", one)

    def _move(self) -> None:
        segment = self.draw.choice(self.plan["segments"][1:-1])
        some = self.draw.sample(range(BUCKETS), self.draw.randrange(1, BUCKETS))
        told = self.engine.call(
            "move", segment=segment["name"], buckets=some, within_ms=LONG_MS,
            to=self.draw.randrange(len(segment["cpus"])),
        )  # fmt: skip
        assert "late" not in told
        self._note("half of the buckets" if told["buckets"] >= BUCKETS // 2 else "buckets", told)

    def one(self) -> None:
        kind = self.draw.random()
        if self.elastic and kind < 0.4:
            self._move()
        elif self.elastic and kind < 0.6:
            self.to(self.parts)
        else:
            self.to(self.draw.choice([RTC, PIPELINE, _cut(self.draw)]))

    def say(self) -> str:
        lines = []
        for kind, took in sorted(self.took_ns.items()):
            middle, most = sorted(took)[len(took) // 2] // 1000, max(took) // 1000
            lines.append(
                f"{self.changes[kind]} of {kind}: {middle} us in the median, at most {most}"
            )
        return "\n".join([*lines, f"{self.waited} packets waited"])


def counters(reading: dict[str, Any], function: str, counter: str) -> int:
    return sum(
        replica["nfs"][function]["counters"][counter]
        for replicas in reading["segments"].values()
        for replica in replicas
        if function in replica["nfs"]
    )


def p999_us(reading: dict[str, Any]) -> float:
    histogram = decode(reading["links"]["meas"]["latency"]["hdr"])
    assert histogram is not None
    return float(histogram.get_value_at_percentile(99.9)) / 1000
