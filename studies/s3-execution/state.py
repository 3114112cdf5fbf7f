# SPDX-License-Identifier: Apache-2.0
"""S3's figures over state entries that need fitted models: 2 (load balancer), 7 (what is waited
for)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from cuts import NAMES, ORIGIN, PUBLISHED, Cut, spec

from headrace.analyse.units import NOT_KNOWN, count, significant
from headrace.collect import pmu
from headrace.collect.perf import PerfRefused
from headrace.host.server import detect
from headrace.model import amat
from headrace.model.stalls import stalled_for
from headrace.profile import studied
from headrace.profile.point import Bench
from headrace.profile.studied import StudiedRun
from headrace.profile.sweep import caches_of
from headrace.report.charts.lines import Axes, Series
from headrace.report.comparison import Entry, section, text
from headrace.report.document import Section, Table
from headrace.report.profile import memory_model
from headrace.spec.calibration import Calibration
from headrace.spec.profile import Fit

LB_STATES = (1_000, 4_000, 10_000, 20_000, 40_000, 100_000, 400_000, 1_000_000)
STALL_STATES = (100, 1_000, 4_000, 10_000, 40_000, 100_000, 400_000, 1_000_000)
LOCATE = 200
_WORDS = {"L2": "the second-level cache", "L3": "the last-level cache", "memory": "DRAM"}


@dataclass(frozen=True)
class Waits:
    """Curves of cycles over entries, explained function by function; `absent`: why one is not."""

    fits: dict[str, Fit]
    absent: str

    def shares(self, run: StudiedRun, entries: int) -> dict[str, float] | None:
        """Of all cycles of a packet, those that wait for its state at each level."""
        if self.absent:
            return None
        each = [amat.waits(fit, entries) for fit in self.fits.values()]
        return {level: sum(one.get(level, 0.0) for one in each) / run.busiest for level in _WORDS}

    @property
    def sections(self) -> tuple[Section, ...]:
        return tuple(
            replace(made, title=f"{made.title} of {name}")
            for name, fit in self.fits.items()
            for made in (memory_model(fit, "flows"),)
        )


def explained(
    runs: list[StudiedRun], states: tuple[int, ...], cpu: int, known: Calibration
) -> Waits:
    caches = caches_of(detect(), cpu, known)
    fits: dict[str, Fit] = {}
    absent = ""
    for name in runs[0].cycles:
        points = [(n, run.cycles[name]) for n, run in zip(states, runs, strict=True)]
        fit = amat.fit(points, caches)
        if fit is None:
            return Waits({}, "the stored calibration is not of this server and version")
        if amat.flat(fit):
            continue  # it does not wait for state
        fits[name] = fit
        if not amat.told(fit):
            absent = f"memory model of {name}: {amat.verdict(fit, 'flows')}"
    return Waits(fits, absent)


def counted(
    bench: Bench, specs: list[dict[str, Any]], cpu: int
) -> tuple[list[dict[str, float]], str]:
    """Events of the PMU per packet of each; or why there are none."""
    try:
        with pmu.counting(cpu) as count_events:
            return [
                studied.run(bench, one, ORIGIN, [0.0], count_events=count_events)[0].events
                for one in specs
            ], ""
    except PerfRefused as why:
        return [{} for _ in specs], str(why)


def of_caches(known: Calibration) -> str:
    """Why a figure that caches make may not be held against the paper's."""
    here = ", ".join(
        f"{one.name} {(one.reaches_bytes or one.bytes or 0) / (1 << 20):.3g} MB"
        for one in known.levels
        if one.name in ("L2", "L3")
    )
    paper = PUBLISHED["testbed"]
    return f"caches ({here}; the paper's L2 {paper['l2_kib'] // 1024} MB, L3 {paper['l3_mib']} MB)"


def figure2(bench: Bench, cpus: list[int], say: studied.Say) -> tuple[Section, ...]:
    """One lcore of the load balancer alone; its traffic is another's."""
    known, lcore = studied.calibrated("figure2"), cpus[-1]
    specs = [spec(Cut((("lb",),), ((lcore,),)), (cpus[0],), 64, n) for n in LB_STATES]
    say(f"figure 2, {len(specs)} points in turn")
    runs = studied.in_rounds(bench, specs, ORIGIN)
    waits = explained(runs, LB_STATES, lcore, known)
    events, absent = counted(bench, specs, lcore)
    published = PUBLISHED["lb_entries"]
    entries, rates = [], []
    shares: dict[str, list[tuple[float, float]]] = {"by the memory model": [], "by PMU": []}
    for n, run, seen in zip(LB_STATES, runs, events, strict=True):
        paper = published.get(n, {})
        rates.append((float(n), run.carries_pps / 1e6))
        entries.append(
            Entry(
                f"{count(n)} entries: rate, Mpps",
                run.carries_pps / 1e6,
                text(paper["mpps"]) if paper else None,
                unlike=f"one lcore; the paper's is its server's rate, and {of_caches(known)}",
            )
        )
        by_model, by_pmu = waits.shares(run, n), stalled_for(seen)
        for name, of, why in (
            ("by the memory model", by_model, waits.absent),
            ("by PMU", by_pmu, absent or "no such event is known"),
        ):
            value = None if of is None else of["memory"]
            entries.append(
                Entry(
                    f"{count(n)} entries: cycles that wait for DRAM, {name}",
                    value,
                    text(paper["dram"]) if paper else None,
                    "" if value is not None else why,
                    unlike=of_caches(known),
                )
            )
            if value is not None:
                shares[name].append((float(n), value))
    by = dict(zip(LB_STATES, runs, strict=True))
    first, last = published
    entries.append(
        Entry(
            f"rate with {count(last)} over that with {count(first)} entries",
            by[last].carries_over(by[first]),
            f"{published[last]['mpps'] / published[first]['mpps']:.2f}",
            unlike=of_caches(known),
        )
    )
    made = section(
        "Figure 2: the load balancer over its flow entries",
        "64 B; one lcore of it, and as many packets as it has cycles for. The DRAM share: cycles "
        "that wait for DRAM over all cycles of the lcore, by the memory model below and, where "
        "there is one, by the PMU. Packets come from another core's cache here, so that only state "
        "is waited for.",
        entries,
        "Mpps or share",
        [Series("one lcore, Mpps", tuple(rates))],
        Axes("flow entries", "Mpps", "count"),
    )
    drawn = section(
        "Figure 2: the share of DRAM",
        "The paper states under 0.20 at 4 k and over 0.55 at 40 k entries.",
        [],
        "share",
        [Series(name, tuple(points)) for name, points in shares.items()],
        Axes("flow entries", "share of cycles", "count"),
    )
    return (made, replace(drawn, blocks=drawn.blocks[:1]), *waits.sections)


def figure7(bench: Bench, cpus: list[int], say: studied.Say) -> tuple[Section, ...]:
    """What a packet waits for: state by the level that has it, told by the memory model; its own
    header, by located packets; and both by the PMU's stalls."""
    known, lcore = studied.calibrated("figure7"), cpus[-1]
    cut = Cut((NAMES,), ((lcore,),))
    specs = [spec(cut, (cpus[0],), 64, n, True, LOCATE) for n in STALL_STATES]
    say(f"figure 7, {len(specs)} points in turn")
    runs = studied.in_rounds(bench, specs, ORIGIN)
    waits = explained(runs, STALL_STATES, lcore, known)
    events, absent = counted(bench, specs, lcore)
    lines: dict[str, list[tuple[float, float]]] = {words: [] for words in _WORDS.values()}
    entries: list[Entry] = []
    least = min(sum(run.cycles.values()) for run in runs)
    lines["state in all"] = []
    for n, run, seen in zip(STALL_STATES, runs, events, strict=True):
        share, stalled = waits.shares(run, n), stalled_for(seen)
        whole = (sum(run.cycles.values()) - least) / run.busiest
        lines["state in all"].append((float(n), whole))
        entries.append(Entry(f"{count(n)} entries, more than with the fewest", whole))
        for level, words in _WORDS.items():
            value = None if share is None else share.get(level)
            entries.append(
                Entry(f"{count(n)} entries, waits for {words}", value, skipped=waits.absent)
            )
            if value is not None:
                lines[words].append((float(n), value))
        for level, words in _WORDS.items():
            value = None if stalled is None else stalled[level]
            why = "" if value is not None else absent or "no such event is known"
            entries.append(
                Entry(f"{count(n)} entries, stalled for {words}, by PMU", value, None, why)
            )
    made = section(
        "Figure 7: what is waited for",
        "Run to completion on one lcore, 64 B, traffic from another. All shares are of the lcore's "
        "cycles. More than with the fewest: what the functions take longer than with the smallest "
        "state, measured. Waits for the second and the last level and for DRAM: by the memory "
        "models of the functions below, where they hold for all of them. By PMU: stalled "
        "cycles while a load misses a level. Last table: the header's first load of a located "
        "packet, which nothing prefetches; in others a prefetch hides most of it. The paper has "
        "its figure from a PMU, and states no numbers.",
        entries,
        "share",
        [Series(name, tuple(found)) for name, found in lines.items()],
        Axes("state entries", "share of cycles", "count"),
    )
    headers = Table(
        ("entries", "header's first load, cycles", "came from"),
        tuple(_header(run, n) for n, run in zip(STALL_STATES, runs, strict=True)),
    )
    return (made.plus(headers), *waits.sections)


def _header(run: StudiedRun, n: int) -> tuple[str, str, str]:
    first = run.received
    if first is None or not first.samples or first.mean_cycles is None:
        return (count(n), NOT_KNOWN, "no packet was located")
    places = ", ".join(f"{k} {v / first.samples:.0%}" for k, v in first.classes.items() if v)
    return (count(n), significant(first.mean_cycles), places)
