# SPDX-License-Identifier: Apache-2.0
"""`make bench`: what the issue's goals are held against, with peers beside, interleaved."""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from perf import (
    busy,
    engine,
    hostile,
    hostile_links,
    kept,
    moves,
    neighbour,
    nfs,
    start,
    testpmd,
    traffic,
    watched,
)
from perf.nfs import Cycles
from perf.stats import Sample, interleave, ratio
from support.engine import free_cpus

BINARY = Path(
    os.environ.get("HEADRACE_ENGINE")
    or Path(__file__).resolve().parents[2] / "build" / "engine" / "headrace-engine"
)
# Cycles of a 2.3 GHz TSC per 64 B packet, or ratios, as the project's goals state them.
GOALS = {"io": 1.1, "mac": 1.1, "chain": 120.0, "source": 45.0, "sink": 30.0, "fastpath": 0.5,
         "watched": 1.005, "watched CPU": 0.005,
         "hostile VNF": 1.02, "hostile peer": 1.1, "hostile meanwhile": 2.2, "sweep": 10.0,
         "rights": 1.01}  # fmt: skip
ADDED, OTHERS = "added", "other cycles"
WHERE = ("an lcore each", "one lcore", "the source its input", ADDED, OTHERS)  # parts of `busy`
BENCH_NF = BINARY.with_name("headrace-bench-nf")
BENCH_CHAIN = BINARY.with_name("headrace-bench-chain")
DEVICES = {
    "net_null": ["net_null0,size=60", "net_null1,size=60"],
}


class Bench:
    """One run of all benchmarks; results gather in `rows` and `data`."""

    def __init__(self, wanted: argparse.Namespace, folder: Path) -> None:
        self.runs, self.seconds, self.folder = wanted.runs, wanted.seconds, folder
        self.kept: Path | None = wanted.keep
        self.until, self.where = time.monotonic() + wanted.within, wanted.where
        cpus = free_cpus()
        self.cpus = (cpus[0], cpus[1])
        self.tsc_hz = engine.tsc_hz(BINARY, folder)
        self.rows: list[tuple[str, str, str, str]] = []
        self.notes: list[str] = []
        self.data: dict[str, Any] = {
            "tsc_hz": self.tsc_hz, "runs": self.runs, "seconds": self.seconds
        }  # fmt: skip

    def row(self, what: str, sample: Sample, unit: str, goal: float | None = None) -> None:
        verdict = (
            "–" if goal is None else f"{goal:g}: {'met' if sample.median <= goal else 'NOT met'}"
        )
        digits = 3 if unit == "x" else 1
        figure = f"{sample.median:.{digits}f} {unit}"
        self.rows.append((what, figure, sample.quartiles(digits), verdict))
        self.data[what] = {"unit": unit, "values": sample.values, "goal": goal}

    def judged(self, what: str, sample: Sample, goal: float) -> None:
        """A ratio near its goal is judged by where its median lies, not by the median alone."""
        low, high = sample.interval()
        verdict = "met" if high <= goal else "NOT met" if low > goal else "not known"
        self.rows.append((what, f"{sample.median:.4f} x", f"{low:.4f}-{high:.4f} (95 % of medians)",
                          f"{goal:g}: {verdict}"))  # fmt: skip
        self.data[what] = {"unit": "x", "values": sample.values, "goal": goal,
                           "interval": [low, high]}  # fmt: skip

    def _peer(self, mode: str, nf: dict[str, Any] | None, name: str, goal: float) -> None:
        for devices_name, devices in DEVICES.items():
            plan = engine.ports_plan(devices, nf, self.cpus[1])
            samples = interleave(
                self.runs,
                {
                    "headrace": lambda plan=plan: engine.load(
                        BINARY, plan, self.folder, self.seconds
                    ).wall_cycles("dut"),
                    "testpmd": lambda devices=devices: testpmd.cycles_per_packet(
                        mode, devices, self.tsc_hz, self.seconds, self.cpus
                    ),
                },
            )
            self.row(f"{name}, {devices_name}", samples["headrace"], "cycles")
            self.row(f"testpmd {mode}, {devices_name}", samples["testpmd"], "cycles")
            self.row(
                f"{name} / testpmd {mode}",
                ratio(samples["headrace"], samples["testpmd"]),
                "x",
                goal,
            )

    def io(self) -> None:
        self._peer("io", None, "empty segment", GOALS["io"])

    def mac(self) -> None:
        self._peer("mac", {"type": "l2fwd", "params": {}}, "l2fwd", GOALS["mac"])

    def generator(self) -> None:
        """Source (varying fields, checksums, stamps) and sink, in one loop on one lcore."""
        source = {
            "frame_bytes": [64],
            "flows": traffic.FLOWS,
            "vary": ["src_ip", "src_port"],
        }
        plan = engine.generator_plan(source, self.cpus[1])
        loads = [engine.load(BINARY, plan, self.folder, self.seconds) for _ in range(self.runs)]
        for part, key in (("source", "rx_cycles"), ("sink", "tx_cycles")):
            sample = Sample(tuple(load.io_cycles("loop", key) for load in loads))
            self.row(f"{part}, {traffic.FLOWS} flows, stamped", sample, "cycles", GOALS[part])
        self.row("source and sink", Sample(tuple(x.wall_cycles("loop") for x in loads)), "cycles")

    def chain(self) -> None:
        """ACL (1000 rules) -> LB (4096 flows) -> L3FWD (1 M routes), run to completion: with acl's
        flow cache, which has room for all flows, and without."""
        plans = start.plans(traffic.write_chain(self.folder), self.cpus)
        starts = start.kept(self.kept, BINARY, plans)
        while few := [name for name in plans if len(starts[name]) < self.runs]:
            for name in few:
                one = start.start(BINARY, plans[name], self.folder, self.seconds, self.cpus)
                starts[name].append(one)
            if self.kept is not None:
                start.keep(self.kept, BINARY, starts)
            if time.monotonic() > self.until:
                break
        for path in start.PATHS:
            self._chain_rows(path, starts[path])
            self.notes += start.about(path, starts[path]) + start.by_state(path, starts[path])
        empty = Sample(tuple(s.load.rate_mpps("chain") for s in starts["empty"]))
        self.row("empty chain throughput", empty, "Mpps")

    def _chain_rows(self, path: str, starts: list[start.Start]) -> None:
        hits = [start.check_path(path, one) for one in starts]
        own = [one for one in starts if one.of_the_chain]
        bound = "" if own else ", bound by the generator"
        label = f"(acl: {path}{bound})"
        figures: dict[str, tuple[Callable[[start.Start], float], str]] = {
            f"acl, {path} ({min(hits):.1%} hits){bound}": (lambda s: s.nf("acl"), "cycles"),
            f"lb, known flow {label}": (lambda s: s.nf("lb"), "cycles"),
            f"l3fwd {label}": (lambda s: s.nf("l3fwd"), "cycles"),
            f"acl + lb + l3fwd {label}": (lambda s: s.work, "cycles"),
            f"receiving from the wire {label}": (lambda s: s.receiving, "cycles"),
            f"sending to the ring back {label}": (lambda s: s.sending, "cycles"),
            f"chain, rings and loop included {label}": (lambda s: s.wall, "cycles"),
            f"the same in the lcore's own cycles {label}": (lambda s: s.own, "own cycles"),
            f"chain throughput {label}": (lambda s: s.load.rate_mpps("chain"), "Mpps"),
        }
        for what, (value, unit) in figures.items():
            goal = GOALS["chain"] if what.startswith("acl + ") else None
            self.row(what, Sample(tuple(value(one) for one in own or starts)), unit, goal)
        for name, (unit, state) in start.STATES.items():
            values = [state(one) for one in starts]
            self.data[f"{name} [{path}]"] = {"unit": unit, "values": values}

    def fastpath(self) -> None:
        """ACL (1000 rules) -> firewall -> NAT -> LB -> L3FWD, 4096 flows, with it and without: with
        rings from and to another lcore, and the segment's loop alone on packets that it has. acl
        has its own flow cache, too, and hits it."""
        files = traffic.write_chain(self.folder)
        source = {"frame_bytes": [64], "headers_file": files["headers"], "order": "random"}
        functions: list[tuple[str, str, dict[str, Any]]] = [
            ("acl", "pass", {"rules_file": files["rules"], "default": "deny"}),
            ("firewall", "pass", {"default": "permit"}),
            ("nat", "out", {"pool": ["203.0.113.1", "203.0.113.2"]}),
            ("lb", "out", {"vips": [{"address": "198.19.0.1", "backends": traffic.backends()}]}),
            ("l3fwd", "out0", {"fib": "lpm", "routes_file": files["routes"]}),
        ]
        plans: dict[str, dict[str, Any]] = {}
        for name, flows in (("plain", 0), ("fast path", 65536)):
            plans[name] = engine.chain_plan(source, functions, self.cpus, 1536)
            plans[name]["segments"][1]["fastpath"] = flows
        bound: set[str] = set()

        def cycles(name: str) -> float:
            load = engine.load(BINARY, plans[name], self.folder, self.seconds)
            if load.turned_away("generator", "wire") < start.SPARE:
                bound.add(name)
            if name == "plain":
                start.check_acl("flow cache hit", start.acl_counters(load))
            return load.wall_cycles("chain")

        def alone(name: str) -> float:
            measured = engine.alone(BENCH_CHAIN, plans[name], files["headers"], self.folder)
            if name == "plain":
                start.check_acl("flow cache hit", measured["counters"]["acl"])
            return float(measured["cycles_per_packet"]["median"])

        measures: dict[str, Callable[[], float]] = {name: partial(cycles, name) for name in plans}
        measures |= {f"{name}, alone": partial(alone, name) for name in plans}
        samples = interleave(self.runs, measures)
        for name, sample in samples.items():
            label = f"{name}, bound by the generator" if name in bound else name
            label += "; acl: flow cache hit" if name.startswith("plain") else ""
            self.row(f"acl + firewall + nat + lb + l3fwd ({label})", sample, "cycles")
        for where in ("", ", alone"):
            gain = ratio(samples[f"fast path{where}"], samples[f"plain{where}"])
            self.row(f"fast path / plain{where}", gain, "x", None if where else GOALS["fastpath"])

    def busy(self) -> None:
        """Utilisation at partial load, over what a function of known cost makes it."""
        one = (self.cpus[1], self.cpus[1])
        for where, cpus, planned in (
            ("an lcore each", self.cpus, busy.plan), ("one lcore", one, busy.plan),
            ("the source its input", one, busy.direct_plan),
        ):  # fmt: skip
            if where not in self.where:
                continue
            rows = busy.shares(BINARY, self.folder, cpus, planned)
            for cycles, load, printed, over, beside_idle in rows:
                name = f"{cycles} cycles at {load:.0%}, {where}"
                self.row(f"OPS/REF, {name}", printed, "x")
                self.row(f"over known, {name}", over, "x")
                if len(set(cpus)) > 1:
                    self.row(f"over what idle turns leave, {name}", beside_idle, "x")
        for burst in (1, 4, 32) if ADDED in self.where else ():
            for cycles, over in busy.added(BINARY, self.folder, self.cpus[0], burst):
                name = f"{cycles} cycles in bursts of {burst}"
                self.row(f"added over known, {name}", over, "x")

        others = busy.beside_others(BINARY, self.folder, self.cpus) if OTHERS in self.where else []
        for cycles, load, over_rest in others:
            if over_rest is not None:
                self.row(f"over other cycles, {cycles} cycles at {load:.0%}", over_rest, "x")

    def neighbour(self) -> None:
        """Capacity beside a process that takes 30 % of an lcore in bursts."""
        for what, known, quiet in neighbour.rows(BINARY, self.folder, self.cpus, self.runs):
            self.row(f"cycles over known, {what}", known, "x")
            self.row(f"over those without, {what}", quiet, "x")

    def hostile(self) -> None:
        """What a VNF that attacks its link takes from a neighbour on its lcore, over one that
        behaves; and what another's routes wait for a routing peer that attacks."""
        cpus = list(self.cpus)
        turns = BINARY, self.folder, cpus, self.runs, min(self.seconds, 0.25)
        seen, by_packets = hostile_links.known(*turns)
        self.row("neighbour of a VNF whose work is known", seen, "x")
        self.row("by its packets", by_packets, "x")
        for attack, sample in hostile_links.taken(*turns).items():
            self.judged(f"neighbour of a VNF: {attack}", sample, GOALS["hostile VNF"])
        for attack, both in hostile.routes(BINARY, self.folder, cpus, self.runs).items():
            for what, sample in zip(("learnt", "withdrawn"), both, strict=True):
                self.row(f"routes {what}: {attack}", sample, "x", GOALS["hostile peer"])
        for attack, sample in hostile.meanwhile(BINARY, self.folder, cpus, self.runs).items():
            self.row(f"six tables, meanwhile: {attack}", sample, "x", GOALS["hostile meanwhile"])
        swept = hostile.sweeps_ms(BINARY, self.folder, cpus, self.runs)
        self.row("a request while another's table is swept", swept, "ms", GOALS["sweep"])

    def rights(self) -> None:
        """What a packet costs an engine that gave its rights up, over one that keeps them."""
        seconds = min(self.seconds, 0.3)  # many short turns: the machine changes within seconds
        given = kept.given_up(BINARY, self.folder, self.cpus[1], self.runs, seconds)
        for mode, cost, over in given:
            self.row(f"l2fwd and tester, {mode}", cost, "ns")
            self.judged(f"rights given up / kept, {mode}", over, GOALS["rights"])

    def moves(self) -> None:
        """What changes of a running chain add to p99.9, and how long half of its flows take."""
        self.notes += moves.rows(moves.seen(BINARY, self.folder, free_cpus()), self.row)

    def nfs(self) -> None:
        """Each function alone, then a multi-feature VNF of four, by the number of flows: all known
        to the functions' tables, by their counters. Alone each reads the headers; the four read
        them once."""
        for flows in nfs.FLOWS:
            stacks = {f.type: (f,) for f in nfs.ALONE} | {"stack": nfs.STACK}
            taken: dict[str, list[Cycles]] = {name: [] for name in stacks}
            for _ in range(self.runs):
                for name, functions in stacks.items():
                    taken[name].append(nfs.cycles(BENCH_NF, functions, flows))
            what = f"{flows} flows, all known"
            self._nfs_rows(taken, what, flows == nfs.FLOWS[0])

    def _nfs_rows(self, taken: dict[str, list[Cycles]], what: str, goals: bool) -> None:
        def sample(name: str, value: Callable[[Cycles], float]) -> Sample:
            return Sample(tuple(value(one) for one in taken[name]))

        headers = [one.headers for each in taken.values() for one in each]
        self.row(f"reading headers, {what}", Sample(tuple(headers)), "cycles")
        for f in nfs.ALONE:
            own = sample(f.type, lambda one: one.functions)
            self.row(f"{f.type}, {what}", own, "cycles", f.goal if goals else None)
            whole = sample(f.type, lambda one: one.functions + one.headers)
            self.row(f"{f.type} and its headers, {what}", whole, "cycles")
        name = "+".join(f.type for f in nfs.STACK)
        for label, value in (
            (name, lambda one: one.functions),
            (f"{name} and headers", lambda one: one.functions + one.headers),
        ):  # fmt: skip
            parts = [sample(f.type, value).values for f in nfs.STACK]
            total = Sample(tuple(sum(values) for values in zip(*parts, strict=True)))
            stack = sample("stack", value)
            self.row(f"{label}, {what}", stack, "cycles")
            self.row(f"{label} / its parts, {what}", ratio(stack, total), "x", 1.0)

    def watched(self) -> None:
        """ACL -> L2FWD at the highest rate, with a reader of the live page and without."""
        study = self.folder / "watched.yaml"
        study.write_text(watched.STUDY)
        seen = watched.cost(study, 2 * self.runs, 2 * self.seconds)
        self.row("throughput: not watched / watched", seen.slower, "x", GOALS["watched"])
        ms = GOALS["watched CPU"] * len(free_cpus()) * 1e3
        self.row("CPU of the live page, a reader", seen.busy_ms, "ms/s", ms)


def main() -> int:
    known: dict[str, Callable[[Bench], None]] = {
        "io": Bench.io,
        "mac": Bench.mac,
        "generator": Bench.generator,
        "chain": Bench.chain,
        "fastpath": Bench.fastpath,
        "nfs": Bench.nfs,
        "busy": Bench.busy,
        "neighbour": Bench.neighbour,
        "hostile": Bench.hostile,
        "rights": Bench.rights,
        "moves": Bench.moves,
        "watched": Bench.watched,
    }
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("what", nargs="*", choices=[*known, []], help="all of them by default")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument(
        "--keep", type=Path, metavar="FILE",
        help="of `chain`: starts are kept here and count, in later turns too, up to --runs",
    )  # fmt: skip
    parser.add_argument(
        "--within", type=float, default=math.inf, metavar="S",
        help="of `chain`: no further starts after so many seconds",
    )  # fmt: skip
    parser.add_argument(
        "--where", nargs="+", choices=WHERE, default=WHERE, help="of `busy`: these parts only"
    )
    parser.add_argument("--json", type=Path, default=Path("runs/bench.json"))
    arguments = parser.parse_args()
    console = Console()
    if len(free_cpus()) < 2:
        console.print("make bench needs two CPUs; this process may use one")
        return 1
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        bench = Bench(arguments, Path(folder))
        failed = []
        for name in arguments.what or known:
            if not part(name, partial(known[name], bench), bench, console):
                failed.append(name)
            engine.save(arguments.json, bench.data)
    console.print(
        f"{arguments.runs} interleaved runs of {arguments.seconds:g} s each; TSC "
        f"{bench.tsc_hz / 1e9:.2f} GHz; load average {os.getloadavg()[0]:.1f}"
    )
    if engine.loads:
        console.print(_machine(engine.loads))
    console.print(f"All runs: {arguments.json}")
    if failed:
        console.print(f"FAILED: {', '.join(failed)}")
    return 1 if failed else 0


def part(name: str, measure: Callable[[], None], bench: Bench, console: Console) -> bool:
    """Measured and printed: what comes after it may fail. A part that fails is a row, behind those
    that it had by then; whether it did not."""
    console.print(f"{name} ...", style="dim")
    bench.rows, bench.notes, failure = [], [], None
    try:
        measure()
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
        bench.rows.append((f"{name}: FAILED", escape(failure), "", ""))
        bench.data[f"{name}: failed"] = failure
    table = Table(title=f"{name}: 64 B frames; TSC cycles per packet, medians and quartiles")
    for column in ("what", "median", "quartiles", "goal"):
        table.add_column(column, justify="left" if column == "what" else "right", overflow="fold")
    for row in bench.rows:
        table.add_row(*row)
    console.print(table)
    for note in bench.notes:
        console.print(note, highlight=False)
    return failure is None


def _machine(loads: list[engine.Load]) -> str:
    """A host that lends its CPUs to others makes every figure above worse, and says nothing."""
    mhz = Sample(tuple(load.mhz() for load in loads))
    width = Sample(tuple(load.width() for load in loads))
    still = Sample(tuple(load.standstill() * 100 for load in loads))
    return (
        f"What the machine gave: the slowest lcore worked at {mhz.median:.0f} MHz (quartiles "
        f"{mhz.spread}) and did {width.median:.1f} additions at once ({width.spread}; 4 on a core "
        f"to itself, 2 beside a busy hyperthread), the worst stood still for {still.median:.1f} % "
        f"of the time ({still.spread}) in pauses of over a millisecond"
    )


if __name__ == "__main__":
    sys.exit(main())
