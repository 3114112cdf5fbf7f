# SPDX-License-Identifier: Apache-2.0
"""S5's figures of an ACL that grows beyond the caches: 6 (hits), 7a (utilisation), 7b (AMAT)."""

from __future__ import annotations

import random
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from places import CHAIN_MB, ORIGIN, PUBLISHED, UNLIKE, Site, lost, sites, spec

from headrace.analyse.units import count, size
from headrace.collect import pmu
from headrace.collect.perf import PerfRefused
from headrace.errors import HeadraceError
from headrace.host.server import detect
from headrace.model import amat
from headrace.model.stalls import not_from_memory
from headrace.profile import studied
from headrace.profile.point import Bench
from headrace.profile.studied import StudiedRun
from headrace.profile.sweep import caches_of
from headrace.report.charts.lines import Axes, Series
from headrace.report.comparison import Entry, section, text
from headrace.report.document import Section
from headrace.report.profile import memory_model
from headrace.spec.profile import Fit

PPS = 2e6
MB = 1 << 20
RULES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
_RULE_BYTES = 96  # of five fields, which rte_acl keeps beside its tables
_TABLE_MB = 1024  # room for the largest table, and for building it


@dataclass(frozen=True)
class Size:
    """One of the tables. `absent`: why it was not measured."""

    rules: int
    bytes: int
    run: StudiedRun | None
    absent: str = ""


@dataclass(frozen=True)
class Sweep:
    sizes: tuple[Size, ...]
    fit: Fit | None
    absent: str  # why there is no model
    uncounted: str  # why no PMU counted

    @property
    def measured(self) -> list[tuple[int, StudiedRun]]:
        return [(one.bytes, one.run) for one in self.sizes if one.run is not None]


_made: list[Sweep] = []  # the three figures are of one sweep


def sweep(bench: Bench, cpus: list[int], say: studied.Say) -> Sweep:
    if not _made:
        _made.append(_sweep(bench, sites(cpus)[0], say))
    return _made[0]


def _sweep(bench: Bench, site: Site, say: studied.Say) -> Sweep:
    known = studied.calibrated("figure7b")
    found: list[Size] = []
    with tempfile.TemporaryDirectory(prefix="headrace-acl-") as name, ExitStack() as stack:
        folder, uncounted, count_events = Path(name), "", None
        try:
            count_events = stack.enter_context(pmu.counting(site.vnf))
        except PerfRefused as why:
            uncounted = str(why)
        [bare] = studied.run(bench, _acl(1, site, folder), ORIGIN, [PPS], wait=False)
        for rules in RULES:
            say(f"ACL of {count(rules)} rules")
            try:
                [run] = studied.run(
                    bench,
                    _acl(rules, site, folder),
                    ORIGIN,
                    [PPS],
                    wait=False,
                    count_events=count_events,
                )
            except HeadraceError as e:  # less memory than the largest table needs
                found.append(Size(rules, 0, None, str(e)))
                continue
            size = run.heap_bytes - bare.heap_bytes - _RULE_BYTES * (rules - 1)
            found.append(Size(rules, size, run))
    points = [(one.bytes, one.run.cycles["acl"]) for one in found if one.run is not None]
    fit = amat.fit(points, caches_of(detect(), site.vnf, known))
    absent = "the stored calibration is not of this server and version" if fit is None else ""
    if fit is not None and not amat.told(fit):
        absent = "its cycles do not tell the levels apart"
        absent += "" if amat.holds(fit) else f": {amat.verdict(fit, 'bytes of table')}"
    return Sweep(tuple(found), fit, absent, uncounted)


def _acl(rules: int, site: Site, folder: Path) -> dict[str, Any]:
    """Rules of whole addresses and ports, each with one flow, which come in another order: every
    packet walks the tries to a leaf of its own. No cache of flows spares it that."""
    draw = random.Random(rules)
    lines, flows = [], []
    for _ in range(rules):
        source, target = (draw.getrandbits(16) | base for base in (198 << 24 | 18 << 16, 20 << 24))
        ports = draw.randrange(1024, 65_000), draw.randrange(1, 65_000)
        a, b = IPv4Address(source), IPv4Address(target)
        lines.append(
            f"@{a}/32\t{b}/32\t{ports[0]} : {ports[0]}\t{ports[1]} : {ports[1]}\t0x11/0xFF"
        )
        flows.append(f"{source}\t{target}\t{ports[0]}\t{ports[1]}\t17")
    draw.shuffle(flows)
    names = {"rules": lines, "flows": flows}
    files = {name: folder / f"{name}-{rules}" for name in names}
    for name, content in names.items():
        files[name].write_text("\n".join(content) + "\n", encoding="utf-8")
    params = {"rules_file": str(files["rules"]), "cache_flows": 0, "table_mb": 0}
    memory_mb = CHAIN_MB + (_TABLE_MB if rules >= 100_000 else 0)
    made = spec(
        [{"acl": params}], [["acl"]], [[site.vnf]], [site.source], site.node, memory_mb=memory_mb
    )
    made["workload"] = {"frame": 64, "tuples_file": str(files["flows"])}
    return made


def _size(one: Size) -> str:
    where = f"{count(one.rules)} rules"
    return where if one.run is None else f"{where}, {size(one.bytes)}{lost(one.run)}"


def figure6(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    made, published = sweep(bench, cpus, say), PUBLISHED["acl_llc_hit"]
    entries: list[Entry] = []
    lines: dict[str, list[tuple[float, float]]] = {"memory model": [], "PMU": []}
    for one in made.sizes:
        ratio = None if one.run is None or made.absent else _llc_hits(made.fit, one.bytes)
        by_pmu = None if one.run is None else not_from_memory(one.run.events)
        for name, value, why in (
            ("memory model", ratio, made.absent or "its reads do not miss the second level"),
            ("PMU", by_pmu, made.uncounted or "no event of this processor is known"),
        ):
            entries.append(
                Entry(
                    f"{_size(one)}, by the {name}",
                    value,
                    text(published) if one is made.sizes[-1] else None,
                    "" if value is not None else one.absent or why,
                    unlike=f"{UNLIKE}; a last-level cache of another size",
                )
            )
            if value is not None:
                lines[name].append((one.bytes / MB, value))
    return section(
        "Figure 6: LLC hit ratio of the ACL",
        f"{PPS / 1e6:g} Mpps. Of the reads that miss the second level, those that the last level "
        "serves: by the memory model of figure 7b and, where there is one, by the PMU.",
        entries,
        "share",
        [Series(name, tuple(points)) for name, points in lines.items()],
        Axes("size of the ACL's tables, MB", "share"),
    )


def _llc_hits(fit: Fit | None, size: int) -> float | None:
    if fit is None:
        return None
    *_, second, last = (
        amat.miss_rate(one.size_bytes, size * fit.bytes_per_entry) for one in fit.penalties
    )
    return 1 - last / second if second > 0 else None


def figure7a(bench: Bench, cpus: list[int], say: studied.Say) -> Section:
    made = sweep(bench, cpus, say)
    entries = [
        Entry(_size(one), None if one.run is None else _busy(one.run), skipped=one.absent)
        for one in made.sizes
    ]
    return section(
        "Figure 7a: utilisation of the ACL over its size",
        f"{PPS / 1e6:g} Mpps of 64 B; rules of whole addresses and ports, a flow for each, no flow "
        "cache. Sizes are those of rte_acl's tables. The paper states no numbers of this figure.",
        entries,
        "share",
        [Series("utilisation", tuple((size / MB, _busy(run)) for size, run in made.measured))],
        Axes("size of the ACL's tables, MB", "utilisation"),
    )


def _busy(run: StudiedRun) -> float:
    return run.utilisation.get("chain", 0.0)


def figure7b(bench: Bench, cpus: list[int], say: studied.Say) -> tuple[Section, ...]:
    made = sweep(bench, cpus, say)
    sizes = [(size / MB, run.cycles["acl"]) for size, run in made.measured]
    series = [Series("measured", tuple(sizes))]
    if made.fit is not None and sizes:
        low, high = sizes[0][0], sizes[-1][0]
        steps = [low * (high / low) ** (i / 60) for i in range(61)]
        line = tuple((mb, amat.predict(made.fit, mb * MB)) for mb in steps)
        series.append(Series("AMAT", line, marks=False))
    drawn = section(
        "Figure 7b: the ACL's cycles, and its average memory access time",
        "Cycles per packet of the ACL at the same rate, and the fit. The paper states no numbers.",
        [
            Entry(_size(one), None if one.run is None else one.run.cycles["acl"], None, one.absent)
            for one in made.sizes
        ],
        "cycles",
        series,
        Axes("size of the ACL's tables, MB", "cycles per packet"),
    )
    return (drawn,) if made.fit is None else (drawn, memory_model(made.fit, "bytes of table"))
