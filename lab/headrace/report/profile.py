# SPDX-License-Identifier: Apache-2.0
"""A profile as a document: cycles per packet over what they depend on."""

from __future__ import annotations

from headrace.analyse.units import count, percent, significant, size
from headrace.model.amat import (
    PREDICTED_SHARE,
    PREDICTED_WITHIN,
    predict,
    predicted_share,
    typical_error,
    verdict,
)
from headrace.model.stalls import memory_bound, not_from_memory
from headrace.report.charts.curves import Axes, Band, Series
from headrace.report.checks import at_least, table
from headrace.report.document_model import Block, Cell, Column, Document, Section, Table, curves
from headrace.report.profile_curves import spread, state_pmu, table_sections
from headrace.spec.profile import Fit, Profile, ProfilePoint, Sweep

# What an entry of an NF is, where it is not a flow.
_ENTRIES = {"l3fwd": "routes", "router": "routes", "delay": "lines", "acl": "flows"}

_TITLES: dict[Sweep, tuple[str, str]] = {
    "state": ("State entries", "entries"),
    "rules": ("Rules", "rules"),
    "frame": ("Frame size", "bytes with FCS"),
    "burst": ("Burst", "packets per poll"),
    "skew": ("Skew of the flows", "Zipf exponent; 0: all flows alike"),
}


def document(p: Profile) -> Document:
    sections = [_sweep(p, sweep) for sweep in _TITLES]
    sections[1:1] = [_fit(p), *state_pmu(p, _unit(p)), *table_sections(p)]
    cautions = () if p.hugepages else ("Ordinary memory of 4 kB pages: TLB misses are in it.",)
    given = ", ".join(f"{k}={v}" for k, v in p.params.items())
    return Document(
        title=f"Profile of {p.nf}" + (f" ({given})" if given else ""),
        subtitle=f"{p.host}, {p.cpu or ''} · TSC {p.tsc_hz / 1e9:.2f} GHz · "
        f"{p.created_at[:16].replace('T', ' ')} UTC · medians of {p.repetitions}{_speed(p)}",
        sentence=_sentence(p),
        cautions=cautions,
        sections=tuple(s for s in (*sections, _corun(p), _pmu(p)) if s is not None),
    )


def _speed(p: Profile) -> str:
    if p.speed is None or p.speed.mhz is None:
        return ""
    beside = "" if p.speed.at_once is None else f", {p.speed.at_once:.1f} of 4 additions at once"
    return f" · cores at {p.speed.mhz:.0f} MHz{beside}"


def _sentence(p: Profile) -> str:
    if not p.points:
        return ""
    first = p.points[0]
    told = f"A packet takes {p.nf} {significant(first.cost.nf.median)} cycles with {_at(first)}"
    states = [one for one in p.points if one.sweep == "state"]
    if len(states) > 1:
        told += f", {significant(states[-1].cost.nf.median)} with {_at(states[-1])}"
    return f"{told}; {verdict(p.fit, _unit(p))}." if p.fit is not None else f"{told}."


def _unit(p: Profile) -> str:
    return _ENTRIES.get(p.nf, "flows")


def _at(p: ProfilePoint) -> str:
    return f"{count(p.settings.state)} entries, {p.settings.frame_bytes} B"


def _value(p: ProfilePoint) -> float:
    s = p.settings
    values = {
        "state": s.state,
        "rules": s.rules,
        "frame": s.frame_bytes,
        "burst": s.burst,
        "skew": s.skew,
    }
    return float(values[p.sweep])


def _sweep(p: Profile, sweep: Sweep) -> Section | None:
    points = [one for one in p.points if one.sweep == sweep]
    if not points:
        return None
    title, unit = _TITLES[sweep]
    series = [Series("measured", tuple((_value(one), one.cost.nf.median) for one in points))]
    if sweep == "state" and p.fit is not None:
        low, high = points[0].settings.state, points[-1].settings.state
        steps = [low * (high / low) ** (i / 60) for i in range(61)]
        modelled = tuple((n, predict(p.fit, n)) for n in steps)
        series.append(Series("model", modelled, marks=False))
    axes = Axes(unit, "cycles per packet", "count")
    first = Column(unit) if sweep == "skew" else Column(unit, "count")
    costs = ("function, cycles", "receive", "send", "loop")
    columns = (first, *costs, Column("one lcore", "own-rate"))
    blocks: tuple[Block, ...] = (Table(columns, tuple(_row(one) for one in points)),)
    if sweep != "skew" and len(points) > 1:
        blocks = (curves(series, axes, _bands(p) if sweep == "state" else ()), *blocks)
    return Section(title, blocks=blocks)


def _row(p: ProfilePoint) -> tuple[Cell, ...]:
    value = f"{_value(p):g}" if p.sweep == "skew" else int(_value(p))
    parts = (p.cost.nf, p.cost.rx, p.cost.tx, p.cost.loop)
    return (value, *(spread(part) for part in parts), p.cost.throughput_pps.median)


def _bands(p: Profile) -> list[Band]:
    """Up to how many entries the working set fits into which cache, by the fit."""
    if p.fit is None:
        return []
    bands, before = [], 0.0
    for one in p.fit.penalties:
        fits = one.size_bytes / p.fit.bytes_per_entry
        bands.append(Band(f"fits {one.level}", before + 1e-9, fits))
        before = fits
    return [*bands, Band("memory", before, None)]


def _fit(p: Profile) -> Section | None:
    if p.fit is None:
        if sum(one.sweep == "state" for one in p.points) < 2:
            return None
        return Section(
            title="Memory model",
            note="None: it needs this server's calibration (`headrace server calibrate`, of this "
            "version) and at least five points of state.",
        )
    return memory_model(p.fit, _unit(p))


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def memory_model(f: Fit, unit: str) -> Section:
    """A fit, how well it predicts what it has not seen, and what follows from it in words."""
    within = percent(PREDICTED_WITHIN, 2)
    goal = at_least(
        f"points that a fit to the others predicts within {within}",
        PREDICTED_SHARE,
        predicted_share(f),
        why="an older headrace made this fit",
    )
    kind = "while others are under way" if f.overlapped else "one after another"
    accesses = "" if f.accesses is None else f"{significant(f.accesses, 2)} accesses, {kind}, and "
    typical = typical_error(f)
    error = "" if typical is None else f" Leave-one-out error: median {typical:.1%}."
    return Section(
        title="Memory model",
        note=f"{sentence(verdict(f, unit))}.{error} Average memory access time (Sieber et al. "
        "2017, section 4.3): miss rates from sizes, what a miss costs from the calibration: of "
        "loads that wait for one another, and of those that are under way together, whose "
        f"quotient is the memory-level parallelism. Fitted: the base, {accesses}"
        f"{significant(f.bytes_per_entry, 2)} bytes touched per entry. Memory-bound: over half of "
        f"a packet's cycles wait for its {unit}.",
        blocks=(_penalties(f), _points(f, unit), table([goal])),
    )


def _penalties(f: Fit) -> Table:
    columns = (
        "",
        Column("size", "bytes"),
        "cycles per packet",
        "a miss alone",
        "together",
        Column("parallelism", digits=2),
    )
    rows: list[tuple[Cell, ...]] = [("all in L1", "", f.base_cycles, "", "", "")]
    for one in f.penalties:
        costs = (one.cycles, one.alone, one.together, one.parallelism)
        rows.append((f"misses of {one.level}", one.size_bytes, *costs))
    return Table(columns, tuple(rows))


def _points(f: Fit, unit: str) -> Table:
    columns = (
        Column(unit, "count"),
        "measured",
        "fitted",
        "predicted by a fit to the others",
        Column("error", "change"),
    )
    rows = ((one.state, one.measured, one.modelled, one.left_out, one.error) for one in f.points)
    return Table(columns, tuple(rows))


def _corun(p: Profile) -> Section | None:
    if not p.corun:
        return None
    return Section(
        title="Beside a neighbour",
        note="The same with another core writing at random all over "
        f"{size(p.corun[0].thrash_bytes)}, twice the last-level cache (Sieber et al. 2017, "
        "section 2). "
        "Source, function and sink share one lcore here.",
        blocks=(
            Table(
                (Column("entries", "count"), "alone", "beside", Column("change", "change")),
                tuple(
                    (
                        one.settings.state,
                        spread(one.alone),
                        spread(one.beside),
                        one.beside.median / one.alone.median - 1,
                    )
                    for one in p.corun
                ),
            ),
        ),
    )


def _pmu(p: Profile) -> Section:
    if p.pmu is None:
        return Section(title="Hardware counters", note=f"None: {p.pmu_absent}.")
    rows = [(name.replace("_", " "), value) for name, value in p.pmu.items()]
    return Section(
        title="Hardware counters",
        note="Per packet, of the function's whole lcore. Loads: those that the first-level cache "
        "did not have, by where their line was. Stalled: no operation retired or, where the "
        "processor tells that apart, a load was waited for: its share bounds the memory-bound one "
        "from above.",
        blocks=(
            Table(("event", "per packet"), tuple(rows)),
            Table(
                ("share", Column("", "share")),
                (
                    ("stalled cycles", memory_bound(p.pmu)),
                    ("loads beyond own caches not from memory", not_from_memory(p.pmu)),
                ),
            ),
        ),
    )
