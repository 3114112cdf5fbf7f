# SPDX-License-Identifier: Apache-2.0
"""A profile as a sheet: cycles per packet over what they depend on."""

from __future__ import annotations

from functools import partial

from headrace.model.amat import predict
from headrace.model.stalls import memory_bound, not_from_memory
from headrace.report.charts import lines
from headrace.report.charts.lines import Axes, Band, Series
from headrace.report.checks import at_most, table
from headrace.report.page import both
from headrace.report.server import bytes_text
from headrace.report.sheet import Section, Sheet, Table
from headrace.report.units import NOT_KNOWN, count, percent, pps, signed_percent, significant
from headrace.spec.profile import Point, Profile, Spread, Sweep

_RESIDUAL = 0.15  # what the memory model is to explain each point of the state sweep within

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
        found.append((percent(p.fit.worst, 2), "largest residual of the memory model"))
    return tuple(found)


def _at(p: Point) -> str:
    return f"{count(p.settings.state)} entries, {p.settings.frame_bytes} B"


def _value(p: Point) -> float:
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


def _row(p: Point) -> tuple[str, ...]:
    value = f"{_value(p):g}" if p.sweep == "skew" else count(int(_value(p)))
    parts = (p.cost.nf, p.cost.rx, p.cost.tx, p.cost.loop)
    return (value, *(_spread(part) for part in parts), pps(p.cost.throughput_pps.median))


def _spread(s: Spread) -> str:
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
        return None
    f = p.fit
    rows = [("all in L1", "", significant(f.base_cycles), "")]
    rows += [
        (
            f"misses of {one.level}",
            bytes_text(one.size_bytes),
            significant(one.cycles),
            NOT_KNOWN if one.accesses is None else significant(one.accesses, 2),
        )
        for one in f.penalties
    ]
    goal = at_most("largest residual", _RESIDUAL, f.worst)
    return Section(
        title="Memory model",
        note="Average memory access time (S5, section 4.3): miss rates from sizes, penalties by "
        f"least squares, {significant(f.bytes_per_entry, 2)} bytes touched per entry. Fitted to "
        "these points, so their residuals are no prediction's. Accesses: the penalty over the "
        "calibrated delay, how many misses a packet waits for one after another.",
        tables=(
            Table(("", "size", "cycles per packet", "accesses"), tuple(rows)),
            Table(
                ("entries", "measured", "modelled", "residual"),
                tuple(
                    (
                        count(one.state),
                        significant(one.measured),
                        significant(one.modelled),
                        signed_percent(one.residual),
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
        f"{bytes_text(p.corun[0].thrash_bytes)}, twice the last-level cache (S5, section 2). "
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
