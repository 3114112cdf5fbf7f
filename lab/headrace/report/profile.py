# SPDX-License-Identifier: Apache-2.0
"""A profile as a sheet: cycles per packet over what they depend on."""

from __future__ import annotations

from functools import partial

from headrace.analyse.units import NOT_KNOWN, count, percent, pps, signed_percent, significant
from headrace.model.amat import (
    PREDICTED_SHARE,
    PREDICTED_WITHIN,
    predict,
    predicted_share,
    typical_error,
    verdict,
)
from headrace.model.stalls import memory_bound, not_from_memory
from headrace.report.charts import lines
from headrace.report.charts.lines import Axes, Band, Series
from headrace.report.checks import at_least, table
from headrace.report.page import both
from headrace.report.server import bytes_text
from headrace.report.sheet import Section, Sheet, Table
from headrace.spec.profile import Fit, MedianRange, Profile, ProfilePoint, Sweep

# What an entry of an NF is, where it is not a flow.
_ENTRIES = {"l3fwd": "routes", "router": "routes", "delay": "lines", "acl": "flows"}

_TITLES: dict[Sweep, tuple[str, str]] = {
    "state": ("State entries", "entries"),
    "rules": ("Rules", "rules"),
    "frame": ("Frame size", "bytes with FCS"),
    "burst": ("Burst", "packets per poll"),
    "skew": ("Skew of the flows", "Zipf exponent; 0: all flows alike"),
}


def sheet(p: Profile) -> Sheet:
    sections = [_sweep(p, sweep) for sweep in _TITLES]
    sections.insert(1, _fit(p))
    cautions = () if p.hugepages else ("Ordinary memory of 4 kB pages: TLB misses are in it.",)
    given = ", ".join(f"{k}={v}" for k, v in p.params.items())
    return Sheet(
        title=f"Profile of {p.nf}" + (f" ({given})" if given else ""),
        subtitle=f"{p.host}, {p.cpu or ''} · TSC {p.tsc_hz / 1e9:.2f} GHz · "
        f"{p.created_at[:16].replace('T', ' ')} UTC · medians of {p.repetitions}{_speed(p)}",
        answers=_answers(p),
        cautions=cautions,
        sections=tuple(s for s in (*sections, _corun(p), _pmu(p)) if s is not None),
    )


def _speed(p: Profile) -> str:
    if p.speed is None or p.speed.mhz is None:
        return ""
    beside = "" if p.speed.at_once is None else f", {p.speed.at_once:.1f} of 4 additions at once"
    return f" · cores at {p.speed.mhz:.0f} MHz{beside}"


def _answers(p: Profile) -> tuple[tuple[str, str], ...]:
    if not p.points:
        return ()
    first = p.points[0]
    found = [(significant(first.cost.nf.median), f"cycles, {_at(first)}")]
    states = [one for one in p.points if one.sweep == "state"]
    if len(states) > 1:
        found.append((significant(states[-1].cost.nf.median), f"cycles, {_at(states[-1])}"))
    if p.fit is not None:
        found.append((verdict(p.fit, _ENTRIES.get(p.nf, "flows")), "by the memory model"))
    return tuple(found)


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
    made = [one for one in p.points if one.sweep == sweep]
    if not made:
        return None
    title, unit = _TITLES[sweep]
    series = [Series("measured", tuple((_value(one), one.cost.nf.median) for one in made))]
    if sweep == "state" and p.fit is not None:
        low, high = made[0].settings.state, made[-1].settings.state
        steps = [low * (high / low) ** (i / 60) for i in range(61)]
        modelled = tuple((n, predict(p.fit, n)) for n in steps)
        series.append(Series("model", modelled, marks=False))
    axes = Axes(unit, "cycles per packet", lambda v: f"{v:,.6g}".replace(",", " "))
    drawn = sweep != "skew" and len(made) > 1
    return Section(
        title=title,
        figure=both(partial(_draw, series, axes, _bands(p) if sweep == "state" else []))
        if drawn
        else "",
        legend=tuple(s.name for s in series) if drawn and len(series) > 1 else (),
        tables=(
            Table(
                (unit, "NF, cycles", "receive", "send", "loop", "one lcore"),
                tuple(_row(one) for one in made),
            ),
        ),
    )


def _row(p: ProfilePoint) -> tuple[str, ...]:
    value = f"{_value(p):g}" if p.sweep == "skew" else count(int(_value(p)))
    parts = (p.cost.nf, p.cost.rx, p.cost.tx, p.cost.loop)
    return (value, *(_spread(part) for part in parts), pps(p.cost.throughput_pps.median))


def _spread(s: MedianRange) -> str:
    return f"{significant(s.median)} ({significant(s.min)}–{significant(s.max)})"


def _draw(series: list[Series], axes: Axes, bands: list[Band], width: float) -> str:
    return lines.draw(series, axes, width, bands)


def _bands(p: Profile) -> list[Band]:
    """Up to how many entries the working set fits into which cache, by the fit."""
    if p.fit is None:
        return []
    bands, before = [], 0.0
    for one in p.fit.penalties:
        fits = one.size_bytes / p.fit.bytes_per_entry
        bands.append(Band(f"fits {one.level}", before + 1e-9, fits))
        before = fits
    return [*bands, Band("memory", before, float("inf"))]


def _fit(p: Profile) -> Section | None:
    if p.fit is None:
        if sum(one.sweep == "state" for one in p.points) < 2:
            return None
        return Section(
            title="Memory model",
            note="None: it needs this server's calibration (`headrace server calibrate`, of this "
            "version) and at least five points of state.",
        )
    return memory_model(p.fit, _ENTRIES.get(p.nf, "flows"))


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def memory_model(f: Fit, unit: str) -> Section:
    """A fit, how well it predicts what it has not seen, and what follows from it in words."""
    rows = [("all in L1", "", significant(f.base_cycles), "", "", "")]
    rows += [
        (
            f"misses of {one.level}",
            bytes_text(one.size_bytes),
            significant(one.cycles),
            significant(one.alone),
            significant(one.together),
            NOT_KNOWN if one.parallelism is None else significant(one.parallelism, 2),
        )
        for one in f.penalties
    ]
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
        tables=(
            Table(
                ("", "size", "cycles per packet", "a miss alone", "together", "parallelism"),
                tuple(rows),
            ),
            Table(
                (unit, "measured", "fitted", "predicted by a fit to the others", "error"),
                tuple(
                    (
                        count(one.state),
                        significant(one.measured),
                        significant(one.modelled),
                        NOT_KNOWN if one.left_out is None else significant(one.left_out),
                        signed_percent(one.error),
                    )
                    for one in f.points
                ),
            ),
            table([goal]),
        ),
    )


def _corun(p: Profile) -> Section | None:
    if not p.corun:
        return None
    return Section(
        title="Beside a neighbour",
        note="The same with another core writing at random all over "
        f"{bytes_text(p.corun[0].thrash_bytes)}, twice the last-level cache (Sieber et al. 2017, "
        "section 2). "
        "Source, NF and sink share one lcore here.",
        tables=(
            Table(
                ("entries", "alone", "beside", "change"),
                tuple(
                    (
                        count(one.settings.state),
                        _spread(one.alone),
                        _spread(one.beside),
                        signed_percent(one.beside.median / one.alone.median - 1),
                    )
                    for one in p.corun
                ),
            ),
        ),
    )


def _pmu(p: Profile) -> Section:
    if p.pmu is None:
        return Section(title="Hardware counters", note=f"None: {p.pmu_absent}.")
    rows = [(name.replace("_", " "), significant(value)) for name, value in p.pmu.items()]
    return Section(
        title="Hardware counters",
        note="Per packet, of the NF's whole lcore. Loads: those that the first-level cache did not "
        "have, by where their line was. Stalled: no operation retired or, where the processor "
        "tells that apart, a load was waited for: its share bounds the memory-bound one from "
        "above.",
        tables=(
            Table(("event", "per packet"), tuple(rows)),
            Table(
                ("share", ""),
                (
                    ("stalled cycles", percent(memory_bound(p.pmu))),
                    ("loads beyond own caches not from memory", percent(not_from_memory(p.pmu))),
                ),
            ),
        ),
    )
