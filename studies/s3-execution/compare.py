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
from dataclasses import replace
from statistics import median

from cuts import FLOWS, MEMORY_MB, NAMES, ORIGIN, PUBLISHED, Cut, fastest, pipeline, rtc, spec
from frames import figure5

from headrace.cli.comparison import Part, main
from headrace.measure.collectors import pmu
from headrace.measure.collectors.perf import Refused
from headrace.measure.profile import handover, studied
from headrace.measure.profile import point as points
from headrace.measure.profile.point import Bench
from headrace.measure.profile.studied import Run, workload
from headrace.model.stalls import memory_bound
from headrace.report.charts.lines import Axes, Series
from headrace.report.checks import at_most, table
from headrace.report.comparison import Entry, section, text
from headrace.report.sheet import Section
from headrace.spec.calibration import Calibration

STATES = (100, 1_000, 10_000, 100_000, 1_000_000)
STATE_FRAMES = (64, 128)
LOCATE = 200
TRANSFER_ROUNDS, TRANSFER_MOST = 5, 1.2


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
    say("table 2, both models in turn")
    runs = fastest(bench, [(cut, 64, FLOWS) for cut in cuts.values()], cpus)
    for (model, cut), found in zip(cuts.items(), runs, strict=True):
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
        entries += [
            Entry(f"source, {model}: no part of the chain", found.source),
            Entry(f"sink, {model}: no part of the chain", found.sink),
        ]
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
    found = handed_over(bench, cpus, say)
    ratio = median(one.chain / one.ring for one in found)
    sent, received = (median(getattr(one, side) for one in found) for side in ("sent", "received"))
    bursts = f"{sent:.0f} packets at once into it, {received:.0f} out of it"
    entries += [
        Entry(f"packet through a ring, both sides ({bursts})", median(o.ring for o in found)),
        Entry("packet between the chain's segments, both sides", median(o.chain for o in found)),
        *(
            Entry(f"round {i}: the chain's over the ring's", one.chain / one.ring)
            for i, one in enumerate(found, 1)
        ),
        Entry("the chain's over the ring's, median", ratio),
    ]
    made = section(
        "Table 3: transfer between cores",
        "A cache line, by the stored calibration; and a packet with its descriptor and header, "
        "through a ring alone and through that between a chain's segments, in turn, at the bursts "
        "that the chain had; the paper has one range for a packet's transfer within a socket.",
        entries,
        "cycles",
    )
    check = at_most(
        "a packet's transfer over the ring's", TRANSFER_MOST, ratio, lambda v: f"{v:.2f}x"
    )
    return replace(made, tables=(*made.tables, table([check])))


def handed_over(bench: Bench, cpus: list[int], say: studied.Say) -> list[handover.HandOver]:
    """A function that forwards, behind a ring of another core, and in front of one."""
    data = {
        "name": "s3-transfer",
        "chain": [{"l2fwd": {}}],
        "deployment": {"memory_mb": MEMORY_MB},
        "workload": workload(64, FLOWS),
    }
    doc, experiment = points.experiment_of(data, ORIGIN)
    say(f"table 3, hand-over, {TRANSFER_ROUNDS} rounds")
    return handover.measure(bench, doc, experiment, cpus, TRANSFER_ROUNDS)


def figure2(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    cuts = [
        (name, n, cut)
        for n in range(1, len(cpus) + 1)
        for name, cut in (("RTC", rtc(cpus[:n])), ("pipeline", pipeline(cpus[:n])))
    ]
    say(f"figure 2, {len(cuts)} points in turn")
    runs = fastest(bench, [(cut, 64, FLOWS) for _, _, cut in cuts], cpus)
    entries: list[Entry] = []
    lines: dict[str, list[tuple[float, float]]] = {"RTC": [], "pipeline": []}
    for (name, n, _), run in zip(cuts, runs, strict=True):
        mpps = run.throughput_pps / 1e6
        lines[name].append((float(n), mpps))
        entries.append(Entry(f"{name}, {n} lcores", mpps))
    entries.append(Entry("18 lcores", None, None, f"this server lets {len(cpus)} lcores be used"))
    return section(
        "Figure 2: throughput over lcores",
        "64 B, 90 flows; source and sink run on the first and last lcore, and take their part. The "
        "paper states no numbers of this figure.",
        entries,
        "Mpps",
        [Series(name, tuple(found)) for name, found in lines.items()],
        Axes("lcores", "Mpps", lambda v: f"{v:g}"),
    )


def figure6(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    drop = PUBLISHED["state_drop"]
    wanted = [(rtc(cpus), frame, state) for frame in STATE_FRAMES for state in STATES]
    say(f"figure 6, {len(wanted)} points in turn")
    runs = dict(zip(wanted, fastest(bench, wanted, cpus), strict=True))
    entries: list[Entry] = []
    series = []
    for frame in STATE_FRAMES:
        found = {state: runs[rtc(cpus), frame, state] for state in STATES}
        rates = {state: run.throughput_pps / 1e6 for state, run in found.items()}
        entries += [Entry(f"{frame} B, {s} entries, Mpps", rate) for s, rate in rates.items()]
        series.append(Series(f"{frame} B", tuple((float(s), r) for s, r in rates.items())))
        before, after = drop["from"], drop["to"]
        factor = found[before].over(found[after])
        entries.append(
            Entry(f"{frame} B, drop from {before} to {after} entries", factor, text(drop["factor"]))
        )
        # The paper states the factor only: drawn from the rate here.
        ends = ((float(before), rates[before]), (float(after), rates[before] / min(drop["factor"])))
        series.append(Series(f"{frame} B, published drop", ends, marks=False))
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
