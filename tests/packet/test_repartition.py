# SPDX-License-Identifier: Apache-2.0
"""Functions go from one segment to another under traffic: pipelines become run-to-completion and
pipelines again, with what the functions keep."""

from __future__ import annotations

import copy
import itertools
import os
import random
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap

from headrace.record.latency import decode
from support.engine import Engine, EngineError, memory_engine, nf_imbalance
from support.plans import beside_its_ends

PACKETS, RATE_PPS, FLOWS, BUCKETS = 10_000, 8000, 1000, 256
SOME, LOOK = 40, 8  # changes; and at one in so many what is read is looked at
CHANGES = 1000 if os.environ.get("HEADRACE_SLOW") else SOME
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
MANY, MANY_PPS, MANY_CHANGES = 1_000_000, 200_000, 1000
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


def _between(i: int) -> str:
    return f"between{i}"


def _segments(parts: Parts, cpus: Sequence[Sequence[int]], elastic: int) -> list[dict[str, Any]]:
    """The chain's functions, cut so, on these CPUs."""
    segments = []
    for part, on in zip(parts, cpus, strict=True):
        first, last = NAMES.index(part[0]), NAMES.index(part[-1])
        onwards = [*part[1:], f"link:{_between(last) if last < len(NAMES) - 1 else 'back'}"]
        nodes = {
            name: {"forward": {CHAIN[name][0]: to}} for name, to in zip(part, onwards, strict=True)
        }
        segments.append(
            {
                "name": "-".join(part), "cpus": list(on), "elastic": elastic, "nodes": nodes,
                "inputs": [{"link": _between(first - 1) if first else "wire", "to": part[0]}],
            }
        )  # fmt: skip
    return segments


def _plan(
    cpus: Sequence[int], parts: Parts, on: Sequence[Sequence[int]], elastic: int = 0
) -> dict[str, Any]:
    nfs = {name: {"type": name, "params": params} for name, (_, params) in CHAIN.items()}
    plan = beside_its_ends([cpus[0], cpus[0]], nfs, {})
    ends, _, sink = plan["segments"]
    plan["segments"] = [ends, *_segments(parts, on, elastic), sink]
    for i in range(len(NAMES) - 1):
        params = {"size": 1024, "on_full": "wait", "spare": max(1, elastic)}
        plan["links"][_between(i)] = {"type": "ring", "params": params}
    plan["links"]["gen"]["params"] |= {
        "flows": FLOWS, "dst_ip": VIP["address"], "vary": ["src_ip"]
    }  # fmt: skip
    plan["engine"]["spare_cpus"] = sorted({cpus[0], cpus[-1]})
    return plan


def _large(plan: dict[str, Any]) -> dict[str, Any]:
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
    changes: Counter[str] = field(default_factory=Counter)
    took_ns: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    waited: int = 0

    def _note(self, kind: str, told: dict[str, Any]) -> None:
        self.changes[kind] += 1
        self.took_ns[kind].append(told["took_ns"])
        self.waited += told["waited"]

    def _lcores(self) -> list[list[int]]:
        two, most = [self.cpus[0], self.cpus[-1]], self.elastic or 1
        return [self.draw.choices(two, k=self.draw.randrange(1, most + 1)) for _ in self.parts]

    def _to(self, parts: Parts) -> None:
        self.parts = parts
        wanted = self.of(_plan(self.cpus, parts, self._lcores(), self.elastic))
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
            self._to(self.parts)
        else:
            self._to(self.draw.choice([RTC, PIPELINE, _cut(self.draw)]))

    def say(self) -> str:
        lines = []
        for kind, took in sorted(self.took_ns.items()):
            middle, most = sorted(took)[len(took) // 2] // 1000, max(took) // 1000
            lines.append(
                f"{self.changes[kind]} of {kind}: {middle} us in the median, at most {most}"
            )
        return "\n".join([*lines, f"{self.waited} packets waited"])


def _counters(reading: dict[str, Any], function: str, counter: str) -> int:
    return sum(
        replica["nfs"][function]["counters"][counter]
        for replicas in reading["segments"].values()
        for replica in replicas
        if function in replica["nfs"]
    )


def _p999_us(reading: dict[str, Any]) -> float:
    histogram = decode(reading["links"]["meas"]["latency"]["hdr"])
    assert histogram is not None
    return float(histogram.get_value_at_percentile(99.9)) / 1000


def _ended(engine: Engine) -> dict[str, Any]:
    engine.call("stop")
    engine.wait_for(lambda: engine.read()["links"]["gen"]["state"] == "done", "the end", seconds=60)
    return engine.settle(engine.read()["links"]["gen"]["sent"])


def _all_came(reading: dict[str, Any]) -> None:
    """What was sent, in its flow's order."""
    sink = reading["links"]["meas"]
    assert sink["received"] == reading["links"]["gen"]["sent"] > 0
    assert (sink["lost"], sink["reordered"], sink["duplicated"]) == (0, 0, 0)


def _as_if_nothing_changed(
    changes: Changes, began: float, sources: dict[str, Any], still_s: float, flows: int
) -> None:
    """Traffic that came since `began` ends, and comes again for `still_s` without a change."""
    took = time.monotonic() - began
    changed = _ended(changes.engine)
    changes.engine.call("start", sources=sources)
    time.sleep(min(took, still_s))
    still = _ended(changes.engine)
    for one in (changed, still):
        _all_came(one)
    # With the sessions that it began with.
    begun = {name: _counters(still, name, counter) for name, counter in BEGUN.items()}
    assert begun == dict.fromkeys(BEGUN, flows)
    assert not any(nf_imbalance(still).values())
    print(f"{took:.1f} s of changes, {changed['links']['gen']['sent']} packets")
    print(changes.say())
    print(f"p99.9: {_p999_us(changed):.0f} us, and {_p999_us(still):.0f} without changes")


@pytest.mark.parametrize("elastic", [0, 2], ids=["one-replica", "elastic"])
def test_functions_change_segments_and_nothing_is_lost(
    start_engine: Callable[..., Engine], cpus: list[int], elastic: int
) -> None:
    plan = _plan(cpus, PIPELINE, [[cpus[-1]]] * len(NAMES), elastic)
    sources = {"gen": {"rate_pps": RATE_PPS, "duration_s": 3600}}
    with start_engine(plan) as engine:
        changes = Changes(engine, plan, cpus, elastic, random.Random(1), PIPELINE)
        began = time.monotonic()
        engine.call("start", sources=sources)
        for turn in range(CHANGES):
            if turn % LOOK:
                changes.one()
                continue
            before = engine.read()
            changes.one()
            after = engine.read()
            assert list(after["segments"]) == [one["name"] for one in changes.plan["segments"]]
            for name in BEGUN:
                assert _counters(after, name, BEGUN[name]) >= _counters(before, name, BEGUN[name])
        engine.wait_for(
            lambda: engine.read()["links"]["gen"]["sent"] > PACKETS, "traffic", seconds=120
        )
        _as_if_nothing_changed(changes, began, sources, 20 if CHANGES > SOME else 1, FLOWS)
    assert changes.changes["partition"] > CHANGES // 6


@pytest.mark.slow
def test_a_million_flows_change_segments(
    start_engine: Callable[..., Engine], cpus: list[int]
) -> None:
    """IMIX over a million flows, all of which have their sessions before the first change."""
    plan = _large(_plan(cpus, RTC, [[cpus[-1]]], elastic=2))
    with start_engine(plan) as engine:
        changes = Changes(engine, plan, cpus, 2, random.Random(1), RTC, of=_large)
        sources = {"gen": {"rate_pps": MANY_PPS, "duration_s": 3600}}
        engine.call("start", sources=sources)
        engine.wait_for(
            lambda: engine.read()["links"]["meas"]["received"] > MANY, "flows", seconds=300
        )
        began = time.monotonic()
        for _ in range(MANY_CHANGES):
            changes.one()
        _as_if_nothing_changed(changes, began, sources, 20, MANY)


STREAMS = 500
RULE = 'alert tcp any any -> any any (content:"half of it and the rest"; sid:1;)'
WATCHED = {"dpi": {"rules": [RULE]}, "ids": {"rules": [RULE], "eve_file": "/dev/null"}}
ROOM = {"flows": 2 * STREAMS, "streams": 2 * STREAMS}


def _streams(capture: Path) -> Path:
    """All streams begin, then each has the first half of the text, then each the second one."""
    parts = ((b"", "S"), (b"half of it", "A"), (b" and the rest", "A"))
    wrpcap(
        str(capture),
        [
            Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
            / IP(src=f"10.0.{i // 250}.{i % 250 + 1}", dst="198.18.0.1")
            / TCP(sport=4000, dport=80, flags=flags, seq=1 + len(b"".join(before)) + (part > 0))
            / Raw(text)
            for part, (text, flags) in enumerate(parts)
            for before in ([one for one, _ in parts[:part]],)
            for i in range(STREAMS)
        ],
    )
    return capture


def _watching(capture: Path, cpus: list[int], cut: bool) -> dict[str, Any]:
    """Both in one segment, or each in its own."""
    wait = {"type": "ring", "params": {"size": 1024, "on_full": "wait", "spare": 1}}
    params = {"pcap_file": str(capture), "pcap_timing": "load", "stamp": False}
    to = {"dpi": "link:between" if cut else "ids", "ids": "drop"}
    nodes = {name: {"forward": {"out": to[name]}} for name in WATCHED}
    parts = [["dpi"], ["ids"]] if cut else [["dpi", "ids"]]
    chain = [
        {
            "name": "-".join(part), "cpus": [cpus[-1]],
            "inputs": [{"link": "wire" if "dpi" in part else "between", "to": part[0]}],
            "nodes": {name: nodes[name] for name in part},
        }
        for part in parts
    ]  # fmt: skip
    ends = {"name": "ends", "cpus": [cpus[0]], "inputs": [{"link": "gen", "to": "link:wire"}]}
    nfs = {name: {"type": name, "params": one | ROOM} for name, one in WATCHED.items()}
    return {
        "version": 1,
        "engine": memory_engine(),
        "links": {"gen": {"type": "source", "params": params}, "wire": wait, "between": wait},
        "nfs": nfs,
        "segments": [ends, *chain],
    }


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def test_streams_under_inspection_go_along(
    start_engine: Callable[..., Engine], cpus: list[int], folder: Path
) -> None:
    """Each stream has half of a text before, and half of it behind a change: both functions see all
    of it, in every stream, whatever segments they were in meanwhile."""
    folder.chmod(0o755)  # the engine, a user of its own by then, looks at the file with each plan
    capture = _streams(folder / "streams.pcap")
    one, two = (_watching(capture, cpus, cut) for cut in (False, True))
    two["engine"] = one["engine"]
    with start_engine(one) as engine:
        source = {"rate_pps": 1000, "packets": 3 * STREAMS}
        engine.call("start", sources={"gen": source})
        changes = 0
        while engine.read()["links"]["gen"]["state"] != "done":
            answer = engine.call("plan", plan=one if changes % 2 else two, within_ms=LONG_MS)
            assert answer["partition"]["functions"] == 2
            changes += 1
        reading = engine.settle(3 * STREAMS)
        hits = [
            engine.call("update", nf=name, op={"show": "rules"})["reply"]["rules"][0]["hits"]
            for name in WATCHED
        ]
    assert hits == [STREAMS, STREAMS] and changes > 10
    assert not any(nf_imbalance(reading).values())


def test_what_cannot_be_is_named(start_engine: Callable[..., Engine], cpus: list[int]) -> None:
    on = [[cpus[-1]]]
    rtc = _plan(cpus, RTC, on)
    without = _plan(cpus, [NAMES[:-1]], on)
    without["segments"][1]["nodes"]["lb"]["forward"]["out"] = "link:back"
    two = _plan(cpus, RTC, [[cpus[0], cpus[-1]]])
    elastic = _plan(cpus, RTC, on)
    elastic["segments"][1]["elastic"] = 2
    fast = _plan(cpus, RTC, on)
    fast["segments"][1]["fastpath"] = 64
    elsewhere = _plan(cpus, PIPELINE, [[250], *([[cpus[0]]] * (len(NAMES) - 1))])
    torn = _plan(cpus, PIPELINE, [[cpus[0]]] * len(NAMES))
    torn["segments"][2]["inputs"] = [{"link": "between2", "to": "nat"}]
    source = _plan(cpus, RTC, on)
    source["segments"][0]["name"] = "other"
    for plan in (without, two, elastic, fast, elsewhere, torn, source):
        plan["engine"] = rtc["engine"]
    with start_engine(rtc) as engine:
        for wrong, says in (
            (without, 'plan.segments: "monitor" would be in no segment'),
            (two, r"plan.segments\[1\]: 2 replicas; allowed: as many as there are, 1"),
            (elastic, r'segments\[1\]: "acl" keeps what it keeps for one worker, and .* is `ela'),
            (fast, r"segments\[1\]: .* has a fast path, which stays as it is"),
            (elsewhere, r"segments\[1\]: CPU 250; allowed: .* started with"),
            (torn, 'link "between2" is read twice'),
            (source, 'plan.segments: "ends" has "gen", a source, which stays where it is'),
        ):
            with pytest.raises(EngineError, match=says):
                engine.call("plan", plan=wrong)
        engine.call("start", sources={"gen": {"rate_pps": 0, "packets": 1000}})
        assert engine.settle(1000)["links"]["meas"]["received"] == 1000


def test_rings_that_are_not_spare_stay(
    start_engine: Callable[..., Engine], cpus: list[int]
) -> None:
    """A ring that nobody reads or writes is one only by its word."""
    plan = _plan(cpus, PIPELINE, [[cpus[-1]]] * len(NAMES))
    for i in range(len(NAMES) - 1):
        del plan["links"][_between(i)]["params"]["spare"]
    rtc = copy.deepcopy(plan)
    rtc["segments"] = _plan(cpus, RTC, [[cpus[-1]]])["segments"]
    with (
        start_engine(plan) as engine,
        pytest.raises(EngineError, match=r"plan.links.between0: no segment .*; allowed: `spare`"),
    ):
        engine.call("plan", plan=rtc)
    with (
        pytest.raises(EngineError, match=r"links\.between0: a ring needs a reader"),
        start_engine(rtc),
    ):
        pass
