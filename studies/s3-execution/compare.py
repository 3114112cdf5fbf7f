#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""S3's tables and figures measured on this server, with what was published beside.

    studies/s3-execution/compare.py [table1 table2 table3 figure2 figure5 figure6 figure7]
                                    [--html PAGE] [--seconds S] [--repetitions N]

table1   delays of the memory hierarchy           table2   cycles per function, both models
table3   what handing a packet over costs         figure2  throughput over lcores
figure5  throughput over frame sizes              figure6  throughput over state entries
figure7  the share of the time that is spent waiting for memory

Tables 1 and 3 read the stored calibration (`headrace server calibrate`). Source and sink are on the
chain's first and last lcore, since a server of two has no others; their cost is shown apart.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headrace.cli.comparison import Part, main
from headrace.measure.collectors import pmu
from headrace.measure.collectors.perf import Refused
from headrace.measure.profile import chain as costs
from headrace.measure.profile import point as points
from headrace.measure.profile import studied
from headrace.measure.profile.point import Bench
from headrace.measure.profile.studied import Run, workload
from headrace.model.stalls import memory_bound
from headrace.optimize import search
from headrace.report.charts.lines import Axes, Series
from headrace.report.comparison import Entry, section, text
from headrace.report.sheet import Section
from headrace.spec.calibration import Calibration

HERE = Path(__file__).resolve().parent
ORIGIN = HERE.parent / "s3-execution.yaml"  # what paths of the specs are relative to
PUBLISHED = yaml.safe_load((HERE / "published.yaml").read_text(encoding="utf-8"))
FRAMES = (64, 128, 256, 512, 1024, 1518)
STATES = (100, 1_000, 10_000, 100_000, 1_000_000)
STATE_FRAMES = (64, 128)
FLOWS = 90
NAMES = ("acl", "lb", "l3fwd")
MEMORY_MB = 1536
LOCATE = 200

Groups = tuple[tuple[str, ...], ...]
Places = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Cut:
    groups: Groups
    lcores: Places


def rtc(cpus: list[int]) -> Cut:
    return Cut((NAMES,), (tuple(cpus),))


def pipeline(cpus: list[int]) -> Cut:
    """A function per lcore; where there are fewer lcores they are shared."""
    return Cut(tuple((n,) for n in NAMES), tuple((cpus[i % len(cpus)],) for i in range(len(NAMES))))


def chain(flows: int) -> list[dict[str, Any]]:
    backends = [{"address": f"198.19.{i}.{j}"} for i in range(1, 5) for j in (1, 2)]
    vip = {"address": "198.19.0.1", "port": 80, "protocol": "udp", "backends": backends}
    hops = [{"dst_mac": f"02:00:00:00:03:0{i}"} for i in range(1, 5)]
    return [
        {"acl": {"rules_file": "data/quickstart.rules", "default": "deny"}},
        {"lb": {"vips": [vip], "flows": max(4096, flows + flows // 4)}},
        {"l3fwd": {"fib": "lpm", "routes_file": "data/quickstart.routes", "next_hops": hops}},
    ]


def spec(cut: Cut, cpus: list[int], frame: int, flows: int, locate: int = 0) -> dict[str, Any]:
    return {
        "name": "s3-execution",
        "chain": chain(flows),
        "deployment": {
            "execution": {
                "segments": [list(group) for group in cut.groups],
                "lcores": [list(on) for on in cut.lcores],
            },
            "lcores": {"traffic": list(dict.fromkeys((cpus[0], cpus[-1]))), "shared": True},
            "steer": "even",
            "memory_mb": MEMORY_MB,
            "locate": locate,
        },
        "workload": workload(frame, flows),
    }


def fastest(bench: Bench, cut: Cut, cpus: list[int], frame: int, flows: int) -> Run:
    [found] = studied.run(bench, spec(cut, cpus, frame, flows), ORIGIN, [0.0])
    return found


def table1(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    calibration = studied.calibrated("table1")
    published = PUBLISHED["memory_hierarchy_cycles"]
    names = {"memory": "DRAM"}
    entries = [
        Entry(name := names.get(one.name, one.name), one.cycles, text(published[name]))
        for one in calibration.levels
        if names.get(one.name, one.name) in published
    ]
    reason = "this server has one NUMA node"
    chases = calibration.measured.chase
    far = max(chases[1].points, key=lambda p: p.bytes).min if len(chases) > 1 else None
    entries += [
        Entry(
            "remote L3",
            None,
            text(published["remote L3"]),
            reason if far is None else "lines of another node's cache are not placed so far",
        ),
        Entry("remote DRAM", far, text(published["remote DRAM"]), "" if far else reason),
    ]
    hz = calibration.measured.tsc_hz
    return section(
        "Table 1: access delay",
        f"TSC cycles of {hz / 1e9:.2f} GHz; the paper's are core cycles of 2.7 to 3.4 GHz. A delay "
        "bounds what a core can do with two dependent accesses per packet.",
        [*entries, *bounds(calibration)],
        "cycles",
    )


def bounds(calibration: Calibration) -> list[Entry]:
    """Two accesses per packet, one after the other, and nothing else."""
    cycles = {one.name: one.cycles for one in calibration.levels}
    found = []
    for level, key in (("memory", "dram"), ("L3", "l3")):
        rate = calibration.measured.tsc_hz / (2 * cycles[level]) / 1e6 if level in cycles else None
        found.append(
            Entry(
                f"Mpps per core, two accesses to {key.upper()}",
                rate,
                text(PUBLISHED["bound_mpps"][key]),
                "" if rate else f"this server has no {level}",
            )
        )
    return found


def table2(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    entries = []
    cuts = {"rtc": Cut((NAMES,), ((cpus[-1],),)), "pipeline": pipeline(cpus)}
    shared = "" if len(cpus) >= len(NAMES) else f", {len(NAMES)} stages on {len(cpus)} lcores"
    for model, cut in cuts.items():
        say(f"table 2, {model}")
        found = fastest(bench, cut, cpus, 64, FLOWS)
        # Receiving is what the paper's functions pay for a packet of another core.
        rx = found.rx / len(cut.groups)
        for name in NAMES:
            first = any(group[0] == name for group in cut.groups)
            cycles = found.cycles[name] + (rx if first and model == "pipeline" else 0.0)
            entries.append(
                Entry(
                    f"{name}, {model}{shared if model == 'pipeline' else ''}",
                    cycles,
                    text(PUBLISHED[f"cycles_{model}"][name]),
                )
            )
    return section(
        "Table 2: cycles per packet of each function",
        "64 B, 90 flows. Run to completion on one core; in a pipeline with what each stage pays to "
        "receive.",
        entries,
        "cycles",
    )


def table3(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    calibration = studied.calibrated("table3")
    published = text(PUBLISHED["transfer_cycles"])
    entries = [
        Entry(f"line, CPU {t.source} to {t.target}, {kind}", figure.median, published)
        for t in calibration.measured.transfer or ()
        for kind, figure in (("clean", t.clean), ("modified", t.modified))
        if figure is not None
    ]
    ring = next((r for r in calibration.measured.ring or () if r.touched and r.burst == 32), None)
    if ring is not None:
        say("table 3, hand-over in the chain")
        handed = handed_over(bench, cpus)
        alone = ring.enqueue.median + ring.dequeue.median
        entries += [
            Entry("packet through a ring, both sides (calibrated, burst 32)", alone),
            Entry("packet between the chain's segments, both sides", handed),
            Entry(
                "the chain's over the calibrated",
                handed / alone if alone else None,
                skipped="" if alone else "the calibrated one is zero",
            ),
        ]
    return section(
        "Table 3: transfer between cores",
        "A cache line, and a packet with its descriptor and header; the paper has one range for a "
        "packet's transfer within a socket.",
        entries,
        "cycles",
    )


def handed_over(bench: Bench, cpus: list[int]) -> float:
    """What sending, receiving and the first touch cost more than within a segment: the same
    function that forwards, behind a ring of another core."""
    data = {
        "name": "s3-transfer",
        "chain": [{"l2fwd": {}}],
        "deployment": {"memory_mb": MEMORY_MB},
        "workload": workload(64, FLOWS),
    }
    doc, experiment = points.experiment_of(data, ORIGIN)
    found = costs.problem(bench, doc, experiment, [cpus[0], cpus[-1]], lambda _: None)
    nf = found.nfs[0]
    return nf.tx.apart + nf.rx.apart + max(0.0, nf.work.apart - nf.work.same)


def figure2(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    entries, lines = [], {"RTC": [], "pipeline": []}
    for n in range(1, len(cpus) + 1):
        for name, cut in (("RTC", rtc(cpus[:n])), ("pipeline", pipeline(cpus[:n]))):
            say(f"figure 2, {name} on {n}")
            mpps = fastest(bench, cut, cpus, 64, FLOWS).throughput_pps / 1e6
            lines[name].append((float(n), mpps))
            entries.append(Entry(f"{name}, {n} lcores", mpps))
    entries.append(Entry("18 lcores", None, None, f"this server lets {len(cpus)} lcores be used"))
    return section(
        "Figure 2: throughput over lcores",
        "64 B, 90 flows; source and sink run on the first and last lcore, and take their part.",
        entries,
        "Mpps",
        [Series(name, tuple(found)) for name, found in lines.items()],
        Axes("lcores", "Mpps", lambda v: f"{v:g}"),
    )


def figure5(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    ratio, large = PUBLISHED["rtc_over_pipeline"], PUBLISHED["equal_large"]
    cuts = {"RTC": rtc(cpus), "pipeline": pipeline(cpus), "planned": planned(bench, cpus, say)}
    entries: list[Entry] = []
    lines: dict[str, list[tuple[float, float]]] = {name: [] for name in cuts}
    for frame in FRAMES:
        rates = {}
        for name, cut in cuts.items():
            say(f"figure 5, {frame} B, {name}")
            rates[name] = fastest(bench, cut, cpus, frame, FLOWS).throughput_pps / 1e6
            lines[name].append((float(frame), rates[name]))
            entries.append(Entry(f"{frame} B, {name}, Mpps", rates[name]))
        low, high = ratio["frames"]
        entries.append(
            Entry(
                f"{frame} B, RTC over pipeline",
                rates["RTC"] / rates["pipeline"],
                text(ratio["ratio"]) if low <= frame <= high else "1 (both at line rate)",
            )
        )
    entries.append(
        Entry("1024 B and more, Gbit/s", None, text(large["gbps"]), "there is no NIC to fill here")
    )
    shape = " | ".join("+".join(g) for g in cuts["planned"].groups)
    return section(
        "Figure 5: throughput over frame sizes",
        f"90 flows, steered evenly; {len(cpus)} lcores, the paper's 18. The planned layout (for "
        f"64 B) is {shape} on {cuts['planned'].lcores}.",
        entries,
        "Mpps or ratio",
        [Series(name, tuple(found)) for name, found in lines.items()],
        Axes("frame, bytes", "Mpps", lambda v: f"{v:g}"),
    )


def planned(bench: Bench, cpus: list[int], say: studied.Say) -> Cut:
    data = spec(rtc(cpus), cpus, 64, FLOWS)
    data["deployment"] = {"steer": "even", "memory_mb": MEMORY_MB}
    doc, experiment = points.experiment_of(data, ORIGIN)
    problem = costs.problem(bench, doc, experiment, cpus, say)
    layout = search.best(problem).layout
    return Cut(layout.groups(NAMES), layout.lcores)


def figure6(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    drop = PUBLISHED["state_drop"]
    entries: list[Entry] = []
    series = []
    for frame in STATE_FRAMES:
        rates = {}
        for state in STATES:
            say(f"figure 6, {frame} B, {state} entries")
            rates[state] = fastest(bench, rtc(cpus), cpus, frame, state).throughput_pps / 1e6
            entries.append(Entry(f"{frame} B, {state} entries, Mpps", rates[state]))
        series.append(Series(f"{frame} B", tuple((float(s), r) for s, r in rates.items())))
        entries.append(
            Entry(
                f"{frame} B, drop from {drop['from']} to {drop['to']} entries",
                rates[drop["from"]] / rates[drop["to"]],
                text(drop["factor"]),
            )
        )
    return section(
        "Figure 6: throughput over state entries",
        f"Run to completion on {len(cpus)} lcores (the paper's 18); an entry per flow in the ACL's "
        "cache and the load balancer's table.",
        entries,
        "Mpps or factor",
        series,
        Axes("state entries", "Mpps", lambda v: f"{v:,.6g}".replace(",", " ")),
    )


def figure7(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    """What a packet costs more than with state that fits the first level is waiting; and what its
    own header's load waits, by located packets; and cycles that the PMU calls stalled."""
    studied.calibrated("figure7")
    with ExitStack() as stack:
        absent, count = "", None
        try:
            count = stack.enter_context(pmu.counting(cpus[-1]))
        except Refused as why:
            absent = str(why)
        runs = []
        for state in STATES:
            say(f"figure 7, {state} entries")
            data = spec(Cut((NAMES,), ((cpus[-1],),)), cpus, 64, state, LOCATE)
            runs += studied.run(bench, data, ORIGIN, [0.0], count_events=count)
    least = min(sum(run.cycles.values()) for run in runs)
    lines: dict[str, list[tuple[float, float]]] = {"state": [], "header": [], "PMU": []}
    entries: list[Entry] = []
    for state, run in zip(STATES, runs, strict=True):
        shares = memory_shares(run, least)
        stalled = memory_bound(run.events)
        for name, share in (*shares.items(), ("PMU", stalled)):
            if share is not None:
                lines[name].append((float(state), share))
        both = sum(shares.values())
        entries += [
            Entry(f"{state} entries, waiting for state", shares["state"]),
            Entry(f"{state} entries, waiting for the header", shares["header"]),
            Entry(
                f"{state} entries, stalled by the PMU",
                stalled,
                skipped="" if stalled is not None else absent or "no event of this processor known",
            ),
        ]
        if stalled is not None:
            entries.append(Entry(f"{state} entries, PMU less both", stalled - both))
    return section(
        "Figure 7: the memory-bound share",
        "Run to completion on one core. State: cycles beyond those of the smallest state, over all "
        "cycles. Header: the mean of timed first loads beyond a first-level hit, over all cycles; "
        "a prefetch hides most of it in packets that are not timed, so it is an upper bound. "
        "PMU: cycles in which the lcore, sink and ring included, retired nothing or, where the "
        "processor tells that apart, waited for a load. The paper has it from a PMU, and states no "
        "numbers.",
        entries,
        "share",
        [Series(name, tuple(found)) for name, found in lines.items()],
        Axes("state entries", "share of cycles", lambda v: f"{v:,.6g}".replace(",", " ")),
    )


def memory_shares(run: Run, least: float) -> dict[str, float]:
    """Of all cycles of a packet; `least`: of its functions where their state fits."""
    cycles = sum(run.cycles.values())
    first = run.received
    wait = 0.0 if first is None else first.mean_cycles or 0.0
    whole = run.rx + cycles + run.tx
    return {"state": max(0.0, (cycles - least) / whole), "header": min(1.0, wait / whole)}


PARTS: dict[str, Part] = {
    "table1": table1,
    "table2": table2,
    "table3": table3,
    "figure2": figure2,
    "figure5": figure5,
    "figure6": figure6,
    "figure7": figure7,
}


if __name__ == "__main__":
    sys.exit(
        main(
            PARTS,
            "S3, measured here",
            "Zheng et al. 2019, execution models",
            (__doc__ or "").splitlines()[0],
            MEMORY_MB,
        )
    )
