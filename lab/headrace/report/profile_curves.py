# SPDX-License-Identifier: Apache-2.0
"""Curves of a profile: a table that grows beyond the caches (Sieber et al. 2017, figures 6, 7a and
7b), and what a PMU counted over the state (Zheng et al. 2019, figure 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from headrace.analyse.units import pps, significant
from headrace.model import amat
from headrace.model.stalls import not_from_memory, stalled_for
from headrace.report.charts.curves import Axes, Series
from headrace.report.document_model import Block, Cell, Column, Section, Table, Text, curves
from headrace.spec.base import MedianRange
from headrace.spec.profile import Fit, Profile, TablePoint, TableSweep

_STEPS = 60
Counted = Sequence[tuple[float, Mapping[str, float] | None]]  # entries or bytes; events per packet


def state_pmu(p: Profile, unit: str) -> Iterator[Section]:
    """None where no PMU counted."""
    states = [(float(one.settings.state), one.pmu) for one in p.points if one.sweep == "state"]
    blocks = tuple(_counted(states, Axes(unit, "share", "count")))
    if blocks:
        yield Section("Hardware counters over state", blocks=blocks)


def _counted(points: Counted, axes: Axes) -> Iterator[Block]:
    """Cycles that wait, by what for; loads beyond the lcore's own caches that memory spares."""
    waits = {name: _line(points, partial(_waiting, name)) for name in ("L2", "L3", "memory")}
    if any(waits.values()):
        yield Text("Share of all cycles in which a load is waited for, by what serves it.")
        yield curves([Series(f"waits for {n}", line) for n, line in waits.items()], axes, ())
    if hits := _line(points, not_from_memory):
        yield Text("Share of the loads beyond the lcore's own caches that memory did not serve.")
        yield curves([Series("PMU", hits)], axes, ())


def _waiting(level: str, counted: Mapping[str, float]) -> float | None:
    shares = stalled_for(counted)
    return None if shares is None else shares[level]


def _line(
    points: Counted, share: Callable[[Mapping[str, float]], float | None]
) -> tuple[tuple[float, float], ...]:
    shares = ((at, share(counted)) for at, counted in points if counted is not None)
    return tuple((at, value) for at, value in shares if value is not None)


def table_sections(p: Profile) -> Iterator[Section]:
    """None where it was not asked for."""
    if p.tables is None:
        return
    sweep = p.tables
    note = (
        f"Rules of whole addresses and ports, each with a flow of its own, no cache of flows; "
        f"{pps(sweep.load_pps)}. Sizes are those of the tables that are looked up in."
    )
    yield Section("Tables beyond the caches", note, (_table(sweep), *_absent(sweep)))
    if len(sweep.points) < 2:
        return
    axes = Axes("size of the tables", "cycles per packet", "bytes")
    cycles = [(float(one.table_bytes), one.cycles.median) for one in sweep.points]
    lines = [Series("measured", tuple(cycles))]
    if sweep.fit is not None:
        lines.append(Series("model", _modelled(sweep, amat.predict), marks=False))
    yield Section("Cycles over the size of the tables", blocks=(curves(lines, axes, ()),))
    busy = tuple((float(one.table_bytes), one.utilisation.median) for one in sweep.points)
    drawn = curves([Series("measured", busy)], axes._replace(y="utilisation"), ())
    yield Section("Utilisation over the size of the tables", blocks=(drawn,))
    yield from _hits(sweep, axes._replace(y="share"))


def _hits(sweep: TableSweep, axes: Axes) -> Iterator[Section]:
    """They are the model's only where the curve tells the levels apart."""
    counted: Counted = [(float(one.table_bytes), one.pmu) for one in sweep.points]
    lines = [Series("PMU", _line(counted, not_from_memory))]
    if sweep.fit is not None and amat.told(sweep.fit):
        lines.append(Series("model", _modelled(sweep, llc_hits), marks=False))
    lines = [one for one in lines if one.points]
    if lines:
        note = "Of the reads that miss the second level, those that the last level serves."
        drawn = curves(lines, axes, ())
        yield Section("Hits in the last level over the size of the tables", note, (drawn,))


def _modelled(
    sweep: TableSweep, value: Callable[[Fit, float], float | None]
) -> tuple[tuple[float, float], ...]:
    assert sweep.fit is not None
    low, high = (float(sweep.points[i].table_bytes) for i in (0, -1))
    sizes = [low * (high / low) ** (i / _STEPS) for i in range(_STEPS + 1)]
    known = ((size, value(sweep.fit, size)) for size in sizes)
    return tuple((size, one) for size, one in known if one is not None)


def llc_hits(curve: Fit, size: float) -> float | None:
    """The share that the last level serves of reads that miss the second; None: there are none, or
    one level only."""
    missed = [amat.miss_rate(p.size_bytes, size * curve.bytes_per_entry) for p in curve.penalties]
    if len(missed) < 2 or missed[-2] <= 0:
        return None
    return 1 - missed[-1] / missed[-2]


def _table(sweep: TableSweep) -> Table:
    columns = (
        Column("rules", "count"),
        Column("tables", "bytes"),
        "cycles per packet",
        Column("utilisation", "share"),
        Column("last-level hits, model", "share", optional=True),
        Column("last-level hits, PMU", "share", optional=True),
    )
    told = sweep.fit if sweep.fit is not None and amat.told(sweep.fit) else None
    return Table(columns, tuple(_row(one, told) for one in sweep.points))


def _row(one: TablePoint, told: Fit | None) -> tuple[Cell, ...]:
    by_model = None if told is None else llc_hits(told, one.table_bytes)
    by_pmu = None if one.pmu is None else not_from_memory(one.pmu)
    cycles = spread(one.cycles)
    return (one.rules, one.table_bytes, cycles, one.utilisation.median, by_model, by_pmu)


def spread(s: MedianRange) -> str:
    return f"{significant(s.median)} ({significant(s.min)}–{significant(s.max)})"


def _absent(sweep: TableSweep) -> Iterator[Text]:
    for rules, why in sweep.absent.items():
        yield Text(f"{rules} rules were not measured: {why}")
    if sweep.fit is None:
        yield Text("No model: it needs this server's calibration (`headrace server calibrate`).")
    elif not amat.told(sweep.fit):
        yield Text(f"The model does not tell levels apart: {amat.verdict(sweep.fit, 'bytes')}.")
