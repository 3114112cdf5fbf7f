#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""S5's figures measured on this server, with what was published beside.

    studies/s5-placement/compare.py [figure3 figure5 figure6 figure7 sampling]
                                    [--html PAGE] [--seconds S] [--repetitions N]

figure3  a minimal VNF's core utilisation over the rate, packets in local or remote memory
figure5  where its packets were: the share that did not come from memory, over the rate
figure6  RX, ACL, TX on every placement that the server has, 2 Mpps
figure7  an ACL from 64 KB to 320 MB at a constant rate
sampling what locating one packet in 1000 costs, in turn with runs that locate none

Figure 5 and the hit ratios of figure 7 need a calibration (`headrace server calibrate`); sampling
takes about two minutes.
"""

from __future__ import annotations

import itertools
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from headrace.cli.comparison import Part, main
from headrace.errors import HeadraceError
from headrace.measure.collectors import pmu
from headrace.measure.collectors.perf import Refused
from headrace.measure.profile import studied
from headrace.measure.profile.point import Bench
from headrace.measure.profile.studied import Run, workload
from headrace.model.locate import corrected
from headrace.model.spread import median_interval
from headrace.model.stalls import not_from_memory
from headrace.record import Located
from headrace.report.charts.bars import Bar
from headrace.report.charts.lines import Axes, Series
from headrace.report.checks import at_most, table
from headrace.report.comparison import Entry, bar_section, section, text
from headrace.report.sheet import Section
from headrace.spec.calibration import Calibration
from headrace.testbed.server import detect

HERE = Path(__file__).resolve().parent
ORIGIN = HERE.parent / "s5-placement.yaml"
PUBLISHED = yaml.safe_load((HERE / "published.yaml").read_text(encoding="utf-8"))
RATES = (0.25e6, 0.5e6, 1e6, 2e6, 4e6)
CHAIN_PPS = 2e6
ACL_PPS = 1e6
KB, MB = 1 << 10, 1 << 20
ACL_BYTES = (64 * KB, 256 * KB, MB, 4 * MB, 16 * MB, 64 * MB, 128 * MB, 320 * MB)
# Lines that a packet reads of the table, each after the one before.
ACL_READS = 4
FRAME, FLOWS = 64, 1000
CHAIN_MB = 512  # mbufs and rings
MEMORY_MB = CHAIN_MB + ACL_BYTES[-1] // MB
LOCATE = 100
SAMPLING, SAMPLING_TURNS, SAMPLING_S, SAMPLING_COST = 1000, 60, 0.2, 0.02


def spec(
    nfs: list[dict[str, Any]],
    segments: list[list[str]],
    lcores: list[list[int]],
    cpus: list[int],
    locate: int = 0,
) -> dict[str, Any]:
    traffic = list(dict.fromkeys((cpus[0], cpus[-1])))
    return {
        "name": "s5-placement",
        "chain": nfs,
        "deployment": {
            "execution": {"segments": segments, "lcores": lcores},
            "lcores": {"traffic": traffic, "shared": True},
            "memory_mb": CHAIN_MB,
            "locate": locate,
        },
        "workload": workload(FRAME, FLOWS),
    }


def minimal(cpus: list[int], locate: int = 0) -> dict[str, Any]:
    """Receives, touches the header, sends; its packets come from another core."""
    return spec([{"l2fwd": {}}], [["l2fwd"]], [[cpus[-1]]], cpus, locate)


def vnf(run: Run, name: str = "chain") -> float:
    return run.utilisation.get(name, 0.0)


def remote_reason() -> str:
    nodes = [n for n in detect().nodes if n.memory_bytes]
    if len(nodes) < 2:
        return "this server has one NUMA node"
    return "memory of a chosen node is not given to an engine so far"


def figure3(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    published = PUBLISHED["utilisation_1mpps"]
    say("figure 3, local")
    runs = studied.run(bench, minimal(cpus), ORIGIN, RATES, wait=False)
    points = list(zip(RATES, runs, strict=True))
    entries = [
        Entry(
            f"{rate / 1e6:g} Mpps, local" + lost(run),
            vnf(run),
            text(published["local"]) if rate == 1e6 else None,
        )
        for rate, run in points
    ]
    entries.append(Entry("1 Mpps, remote", None, text(published["remote"]), remote_reason()))
    return section(
        "Figure 3: core utilisation of a minimal VNF",
        "l2fwd, 64 B. Busy cycles of its segment (S5, algorithm 1) over all cycles while sending; "
        "polls that find nothing are not busy.",
        entries,
        "share",
        [
            Series("local", tuple((rate / 1e6, vnf(run)) for rate, run in points)),
            *(Series(f"paper, {where}", ((1.0, value),)) for where, value in published.items()),
        ],
        Axes("Mpps", "utilisation", lambda v: f"{v:g}"),
    )


def lost(run: Run) -> str:
    return f" ({run.loss:.1%} lost)" if run.loss > 0.001 else ""


def figure5(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    published = PUBLISHED["llc_hit"]
    calibration = studied.calibrated("figure5")
    say("figure 5, local")
    rates = (*RATES, 0.0)
    with ExitStack() as stack:
        absent, count = "", None
        try:
            count = stack.enter_context(pmu.counting(cpus[-1]))
        except Refused as why:
            absent = str(why)
        runs = studied.run(
            bench, minimal(cpus, LOCATE), ORIGIN, rates, wait=False, count_events=count
        )
    entries, line, counted = [], [], []
    for rate, run in zip(rates, runs, strict=True):
        pps = rate or run.throughput_pps
        name = f"{pps / 1e6:.3g} Mpps, local" + (" (as fast as possible)" if not rate else "")
        first = run.received
        index = None if first is None else network_efficiency(first, calibration)
        if first is None or index is None:
            entries.append(Entry(name, None, None, "no packet was located"))
            continue
        entries.append(
            Entry(
                f"{name}, {first.samples} samples",
                index,
                None if rate else text(published["local"]),
            )
        )
        line.append((pps / 1e6, index))
        by_pmu = not_from_memory(run.events)
        why = "" if by_pmu is not None else absent or "no event of this processor known"
        entries.append(Entry(f"{name}, by the PMU", by_pmu, skipped=why))
        if by_pmu is not None:
            entries.append(Entry(f"{name}, PMU less located", by_pmu - index))
            counted.append((pps / 1e6, by_pmu))
    entries.append(Entry("high rate, remote", None, text(published["remote"]), remote_reason()))
    return section(
        "Figure 5: packets found in a cache",
        "Share of located packets whose first header load did not come from memory: S5's Network "
        "Efficiency Index. Shares are corrected for how often the calibration found lines of each "
        f"place taken for another ({calibration.locate.agreement:.1%} right). A class that mixes "
        f"memory with another core's cache counts as memory: {classes(calibration)}. By the PMU: "
        "all loads of the lcore that its own caches did not have, prefetched packets among them.",
        entries,
        "share",
        [
            Series("located", tuple(line)),
            Series("PMU", tuple(counted)),
            # "At a high rate": at the end of the axis.
            *(
                Series(f"paper, {where}", ((line[-1][0], value),))
                for where, value in (published.items() if line else ())
            ),
        ],
        Axes("Mpps", "share not from memory", lambda v: f"{v:g}"),
    )


def classes(calibration: Calibration) -> str:
    return ", ".join(one.name for one in calibration.locate.classes)


def network_efficiency(found: Located, calibration: Calibration) -> float | None:
    shares = corrected(found.classes, calibration.locate.classes)
    if shares is None:
        return found.index
    return sum(share for name, share in shares.items() if "memory" not in name)


def figure6(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    published = PUBLISHED["chain_utilisation_2mpps"]
    entries = [Entry("0-1-0, nodes", None, text(published["0-1-0"]), remote_reason())]
    nfs: list[dict[str, Any]] = [
        {"name": "rx", "nf": "null"},
        {"acl": {"rules_file": "data/quickstart.rules", "default": "deny"}},
        {"name": "tx", "nf": "null"},
    ]
    places = list(itertools.product(cpus, repeat=3))
    say(f"figure 6, {len(places)} placements in turn")
    specs = [spec(nfs, [["rx"], ["acl"], ["tx"]], [[cpu] for cpu in on], cpus) for on in places]
    runs = studied.in_rounds(bench, specs, ORIGIN, CHAIN_PPS, wait=False)
    bars = [Bar(f"paper, nodes {on}", value, True) for on, value in published.items()]
    for on, run in zip(places, runs, strict=True):
        name = f"lcores {'-'.join(map(str, on))}"
        bars.append(Bar(name + lost(run), vnf(run, "acl")))
        entries.append(
            Entry(
                name + lost(run),
                vnf(run, "acl"),
                # The paper has a core for each.
                text(published["0-0-0"]) if len(set(on)) == len(on) else None,
            )
        )
    if len(cpus) < 3:
        entries.append(
            Entry(
                "0-0-0, nodes, a core each",
                None,
                text(published["0-0-0"]),
                f"{len(cpus)} lcores: at least two of the three share one",
            )
        )
    return bar_section(
        "Figure 6: RX, ACL, TX on every placement",
        "2 Mpps of 64 B; utilisation by the ACL's segment. Which lcore RX, ACL and TX are on, all "
        "of them on one node; source and sink are on the first and last lcore.",
        entries,
        "share",
        bars,
    )


def figure7(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    published = PUBLISHED["acl_llc_hit"]
    calibration = studied.calibrated("figure7")
    entries: list[Entry] = []
    utilisation, hits = [], []
    for size in ACL_BYTES:
        say(f"figure 7, {size // KB} kB")
        table = {"table_bytes": size, "table_reads": ACL_READS}
        nfs = [{"name": "acl", "nf": "delay", "params": table}]
        data = spec(nfs, [["acl"]], [[cpus[-1]]], cpus)
        data["deployment"]["memory_mb"] = CHAIN_MB + size // MB
        try:
            [run] = studied.run(bench, data, ORIGIN, [ACL_PPS], wait=False)
        except HeadraceError as e:  # less memory than the largest table needs
            entries.append(Entry(f"{size / MB:g} MB", None, None, str(e)))
            continue
        where = f"{size / MB:g} MB{lost(run)}"
        utilisation.append((size / MB, vnf(run)))
        entries.append(Entry(f"{where}, utilisation", vnf(run)))
        hit = llc_hits(run.cycles["acl"] / ACL_READS, calibration)
        hits.append((size / MB, hit))
        largest = size == ACL_BYTES[-1]
        entries.append(
            Entry(f"{where}, LLC hit ratio of its reads", hit, text(published) if largest else None)
        )
    return section(
        "Figure 7: an ACL from 64 KB to 320 MB",
        f"{ACL_PPS / 1e6:g} Mpps. A table of that size, of which each packet reads {ACL_READS} "
        "lines at random places one after the other, is in the place of the paper's ACL, whose "
        "compiled size cannot be chosen. Its hit ratio is where the cycles of a read lie between "
        "the calibrated delays of the last level and of memory.",
        entries,
        "share",
        [
            Series("utilisation", tuple(utilisation)),
            Series("LLC hit ratio", tuple(hits)),
            *(
                Series(f"paper, {which}", ((ACL_BYTES[-1] / MB, value),))
                for which, value in published.items()
            ),
        ],
        Axes("size, MB", "share", lambda v: f"{v:g}"),
    )


def sampling(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    """One engine that locates and does not, in turn: the host's moods are longer than a turn."""
    acl = {"acl": {"rules_file": "data/quickstart.rules", "default": "deny"}}
    chains = {"l2fwd": [{"l2fwd": {}}], "l2fwd, acl": [{"l2fwd": {}}, acl]}
    entries, checks = [], []
    short = replace(bench, seconds=min(bench.seconds, SAMPLING_S))
    for name, nfs in chains.items():
        say(f"sampling, {name}, {SAMPLING_TURNS} turns")
        names = [next(iter(nf)) for nf in nfs]
        data = spec(nfs, [names], [[cpus[-1]]], cpus, SAMPLING)
        [off, on] = studied.in_turn(
            short, data, ORIGIN, [locating(0), locating(SAMPLING)], SAMPLING_TURNS
        )
        ratios = sorted(b / a for a, b in zip(off, on, strict=True))
        low, high = median_interval(len(ratios))
        entries += [
            Entry(f"{name}: with over without, median of {len(ratios)} turns", median(ratios)),
            Entry(f"{name}: 95 % interval of the median, from", ratios[low]),
            Entry(f"{name}: to", ratios[high]),
        ]
        cost = max(0.0, 1 - median(ratios))
        checks.append(at_most(f"{name}: what locating costs", SAMPLING_COST, cost))
    made = section(
        "What sampling costs",
        f"Throughput with one packet in {SAMPLING} located over that with none; turns of "
        f"{short.seconds:g} s in one engine at full load on one core, with and without, the first "
        "of them alternating.",
        entries,
        "ratio",
    )
    return replace(made, tables=(*made.tables, table(checks)))


def locating(every: int) -> studied.Setting:
    return lambda engine: engine.request("locate", every=every)


def llc_hits(cycles_per_read: float, calibration: Calibration) -> float:
    delays = {one.name: one.cycles for one in calibration.levels}
    last = [one for one in calibration.levels if one.name != "memory"][-1]
    share = (delays["memory"] - cycles_per_read) / (delays["memory"] - last.cycles)
    return min(1.0, max(0.0, share))


PARTS: dict[str, Part] = {
    "figure3": figure3,
    "figure5": figure5,
    "figure6": figure6,
    "figure7": figure7,
    "sampling": sampling,
}


if __name__ == "__main__":
    sys.exit(
        main(
            PARTS,
            "S5, measured here",
            "Sieber et al. 2017, memory placement",
            (__doc__ or "").splitlines()[0],
            MEMORY_MB,
        )
    )
