#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Towards Optimal Adaptation of NFV Packet Processing to Modern CPU Memory Architectures (Sieber et
al. 2017; S5): its figures measured on this server, with what was published beside, and whether one
may be held against the other.

    studies/s5-placement/compare.py [figure3 figure4a figure4b figure5 figure6 figure7a figure7b
                                     sampling] [--html PAGE] [--seconds S] [--repetitions N]

figure3  a minimal VNF's core utilisation over the rate, packets in local or remote memory
figure4a where its packets were: the share that did not come from memory, over the rate
figure4b what it loads from memory for a packet, over the rate
figure5  RX, ACL, TX on every placement that the server has, 2 Mpps
figure6  LLC hit ratio of an ACL that grows beyond the caches, 2 Mpps
figure7a its utilisation                figure7b its cycles, and the AMAT model fitted to them
sampling what locating one packet in 1000 costs, in turn with runs that locate none

All but figures 3 and 5 and sampling need a calibration (`headrace server calibrate`); sampling
takes about two minutes. A server of several NUMA nodes runs every placement of the paper; one of a
single node says of each that it lacks why.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from acl import figure6, figure7a, figure7b
from places import (
    CHAIN_MB,
    ONE_NODE,
    ORIGIN,
    PUBLISHED,
    UNLIKE,
    Site,
    by_node,
    chains,
    lost,
    minimal,
    sites,
    spec,
)

from headrace.cli._comparison import Part, main
from headrace.collect import pmu
from headrace.collect.perf import PerfRefused
from headrace.model.locate import corrected
from headrace.model.spread import median_interval
from headrace.model.stalls import not_from_memory
from headrace.profile import studied
from headrace.profile.point import Bench
from headrace.profile.studied import StudiedRun
from headrace.record.counters import Located
from headrace.report.charts.bars import Bar
from headrace.report.charts.lines import Axes, Series
from headrace.report.checks import at_most, table
from headrace.report.comparison import Entry, bar_section, section, text
from headrace.report.document import Section
from headrace.spec.calibration import Calibration

RATES = (0.25e6, 0.5e6, 1e6, 2e6, 4e6)
CHAIN_PPS = 2e6
LOCATE = 100
MEMORY_MB = CHAIN_MB + 1024  # for the largest ACL
SAMPLING, SAMPLING_TURNS, SAMPLING_S, SAMPLING_COST = 1000, 60, 0.2, 0.02


def vnf(run: StudiedRun, name: str = "chain") -> float:
    return run.utilisation.get(name, 0.0)


def named(rate: float, site: str) -> str:
    return f"{rate / 1e6:.3g} Mpps, {site}"


def figure3(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    published = PUBLISHED["utilisation_1mpps"]
    entries, series = [], []
    busy: dict[str, float] = {}
    for site in sites(cpus):
        say(f"figure 3, {site.name}")
        runs = studied.run(bench, minimal(site), ORIGIN, RATES, wait=False)
        points = list(zip(RATES, runs, strict=True))
        entries += [
            Entry(
                named(rate, site.name) + lost(run),
                vnf(run),
                text(published[site.name]) if rate == 1e6 else None,
                unlike=UNLIKE,
            )
            for rate, run in points
        ]
        series.append(Series(site.name, tuple((rate / 1e6, vnf(run)) for rate, run in points)))
        busy[site.name] = dict(points)[1e6].utilisation.get("chain", 0.0)
    if "remote" not in busy:
        entries.append(Entry(named(1e6, "remote"), None, text(published["remote"]), ONE_NODE))
    over = busy["remote"] / busy["local"] if busy.get("remote") and busy["local"] else None
    paper = f"{published['remote'] / published['local']:.2f}"
    why = "" if over is not None else ONE_NODE
    entries.append(Entry("remote over local, 1 Mpps", over, paper, why, unlike=UNLIKE))
    return section(
        "Figure 3: core utilisation of a minimal VNF",
        "It receives, reads the first byte of the header and drops; 64 B. Busy cycles of its "
        "segment (algorithm 1 of the paper) over all cycles while sending; polls that find nothing "
        "are not busy. Remote: packets made on one NUMA node, in its memory, and the VNF on "
        "another.",
        entries,
        "share",
        [*series, *(Series(f"paper, {where}", ((1.0, v),)) for where, v in published.items())],
        Axes("Mpps", "utilisation"),
    )


@dataclass(frozen=True)
class Seen:
    """A minimal VNF at one rate; where its packets were."""

    site: Site
    rate: float  # 0: as fast as possible
    run: StudiedRun
    index: float | None

    @property
    def name(self) -> str:
        fastest = "" if self.rate else " (as fast as possible)"
        return named(self.rate or self.run.throughput_pps, self.site.name) + fastest

    @property
    def mpps(self) -> float:
        return (self.rate or self.run.throughput_pps) / 1e6


_located: list[tuple[list[Seen], str]] = []  # both parts of figure 4 are of the same runs


def located(bench: Bench, cpus: list[int], say: studied.Say) -> tuple[list[Seen], str]:
    """And why no PMU counted, if none did."""
    if not _located:
        found, absent = [], ""
        for site in sites(cpus):
            say(f"figure 4, {site.name}")
            seen, absent = _seen(bench, site)
            found += seen
        _located.append((found, absent))
    return _located[0]


def _seen(bench: Bench, site: Site) -> tuple[list[Seen], str]:
    calibration = studied.calibrated("figure4")
    rates = (*RATES, 0.0)
    with ExitStack() as stack:
        absent, count = "", None
        try:
            count = stack.enter_context(pmu.counting(site.vnf))
        except PerfRefused as why:
            absent = str(why)
        runs = studied.run(
            bench, minimal(site, LOCATE), ORIGIN, rates, wait=False, count_events=count
        )
    made = []
    for rate, run in zip(rates, runs, strict=True):
        first = run.received
        index = None if first is None else network_efficiency(first, calibration)
        made.append(Seen(site, rate, run, index))
    return made, absent or "no event of this processor is known"


def figure4a(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    published, calibration = PUBLISHED["llc_hit"], studied.calibrated("figure4a")
    seen, absent = located(bench, cpus, say)
    entries = []
    lines: dict[str, list[tuple[float, float]]] = {}
    for one in seen:
        by_pmu = not_from_memory(one.run.events)
        samples = one.run.received.samples if one.run.received is not None else 0
        paper = None if one.rate else text(published[one.site.name])
        for name, value, why in (
            (f"{samples} located", one.index, "no packet was located"),
            ("by the PMU", by_pmu, absent),
        ):
            missing = "" if value is not None else why
            entries.append(Entry(f"{one.name}, {name}", value, paper, missing, unlike=UNLIKE))
            if value is not None:
                line = "PMU" if name == "by the PMU" else "located"
                lines.setdefault(f"{line}, {one.site.name}", []).append((one.mpps, value))
    if all(one.site.name != "remote" for one in seen):
        entries.append(
            Entry("as fast as possible, remote", None, text(published["remote"]), ONE_NODE)
        )
    return section(
        "Figure 4a: LLC hit ratio of packets",
        "Share of located packets whose first header load did not come from memory: the paper's "
        "Network Efficiency Index. Shares are corrected for how often the calibration found lines "
        f"of each place taken for another ({calibration.locate.agreement:.1%} right). A class that "
        "mixes memory with another core's cache counts as memory, and one that mixes the last "
        f"level with another's as the last level: {classes(calibration)}. By the PMU: all loads of "
        "the lcore that its own caches did not have, prefetched packets among them.",
        entries,
        "share",
        [Series(name, tuple(points)) for name, points in lines.items()],
        Axes("Mpps", "share not from memory"),
    )


def figure4b(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    seen, absent = located(bench, cpus, say)
    entries = []
    lines: dict[str, list[tuple[float, float]]] = {}
    for one in seen:
        for name, value, why in (
            ("header", None if one.index is None else 1 - one.index, "no packet was located"),
            ("all loads, by the PMU", one.run.events.get("loads_memory"), absent),
        ):
            missing = "" if value is not None else why
            entries.append(Entry(f"{one.name}, {name}", value, None, missing))
            if value is not None:
                lines.setdefault(f"{name}, {one.site.name}", []).append((one.mpps, value))
    if all(one.site.name != "remote" for one in seen):
        entries.append(Entry("as fast as possible, remote", None, None, ONE_NODE))
    return section(
        "Figure 4b: memory accesses of a packet",
        "Loads per packet that memory served: of the header, one per packet at most, by located "
        "packets; of all that the lcore loads, by the PMU. The paper states no numbers.",
        entries,
        "loads",
        [Series(name, tuple(points)) for name, points in lines.items()],
        Axes("Mpps", "loads from memory per packet"),
    )


def classes(calibration: Calibration) -> str:
    return ", ".join(one.name for one in calibration.locate.classes)


def network_efficiency(found: Located, calibration: Calibration) -> float | None:
    shares = corrected(found.classes, calibration.locate.classes)
    if shares is None:
        return found.index
    return sum(share for name, share in shares.items() if "memory" not in name)


def figure5(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    published = PUBLISHED["chain_utilisation_2mpps"]
    nfs: list[dict[str, Any]] = [
        {"name": "rx", "nf": "null"},
        {"acl": {"rules_file": "data/quickstart.rules", "default": "deny"}},
        {"name": "tx", "nf": "null"},
    ]
    places, here = chains(cpus), next(iter(by_node(cpus).values()))
    say(f"figure 5, {len(places)} placements in turn")
    segments = [["rx"], ["acl"], ["tx"]]
    specs = [
        spec(nfs, segments, [[cpu] for cpu in on.lcores], (here[0], here[-1]), on.node)
        for on in places
    ]
    runs = studied.in_rounds(bench, specs, ORIGIN, CHAIN_PPS, wait=False)
    bars = [Bar(f"paper, nodes {on}", value, True) for on, value in published.items()]
    entries = []
    for on, run in zip(places, runs, strict=True):
        name = on.name + lost(run)
        bars.append(Bar(name, vnf(run, "acl")))
        shared = "" if on.apart else "lcores are shared; "
        paper = published.get(on.name.split(",")[0])
        entries.append(
            Entry(
                name,
                vnf(run, "acl"),
                None if paper is None else text(paper),
                unlike=shared + UNLIKE,
            )
        )
    if len(by_node(cpus)) < 2:
        entries.append(Entry("0-1-0", None, text(published["0-1-0"]), ONE_NODE))
    return bar_section(
        "Figure 5: RX, ACL, TX on every placement",
        "2 Mpps of 64 B; utilisation by the ACL's segment. 0-1-0: RX on NUMA node 0, the ACL on "
        "node 1, TX on node 0; packets are in the first node's memory, and source and sink on its "
        "first and last lcore.",
        entries,
        "share",
        bars,
    )


def sampling(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    """One engine that locates and does not, in turn: the host's moods are longer than a turn."""
    acl = {"acl": {"rules_file": "data/quickstart.rules", "default": "deny"}}
    tried: dict[str, list[dict[str, Any]]] = {
        "l2fwd": [{"l2fwd": {}}],
        "l2fwd, acl": [{"l2fwd": {}}, acl],
    }
    entries, checks = [], []
    short = replace(bench, seconds=min(bench.seconds, SAMPLING_S))
    for name, nfs in tried.items():
        say(f"sampling, {name}, {SAMPLING_TURNS} turns")
        names = [next(iter(nf)) for nf in nfs]
        data = spec(nfs, [names], [[cpus[-1]]], (cpus[0], cpus[-1]), None, locate=SAMPLING)
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
    return made.plus(table(checks))


def locating(every: int) -> studied.Setting:
    return lambda engine: engine.request("locate", every=every)


PARTS: dict[str, Part] = {
    "figure3": figure3,
    "figure4a": figure4a,
    "figure4b": figure4b,
    "figure5": figure5,
    "figure6": figure6,
    "figure7a": figure7a,
    "figure7b": figure7b,
    "sampling": sampling,
}


if __name__ == "__main__":
    sys.exit(
        main(
            PARTS,
            "NFV Packet Processing and Modern CPU Memory Architectures, measured here",
            "Sieber et al., CAN 2017",
            (__doc__ or "").splitlines()[0],
            MEMORY_MB,
        )
    )
