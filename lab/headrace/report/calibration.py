# SPDX-License-Identifier: Apache-2.0
"""What a server costs: Zheng et al.'s tables 1 and 3 for one's own server, and more."""

from __future__ import annotations

from headrace.analyse.units import NOT_KNOWN, ns, percent, significant, size
from headrace.model.levels import memory
from headrace.report.charts.curves import Axes, Band, Series
from headrace.report.checks import Check, at_least, table
from headrace.report.document_model import Answer, Cell, Column, Document, Section, Table, curves
from headrace.spec.base import MedianRange
from headrace.spec.calibration import Calibration, Classes, Placed, RingCost

# Zheng et al. 2019, table 1: 2 x Xeon Platinum 8168, in core cycles. Another machine: beside, never
# instead.
_TABLE = {"L1": "4", "L2": "14", "L3": "44-70", "memory": "250"}
_TABLE_OTHER, _TABLE_REMOTE = "100-150", "420"
_TABLE_TRANSFER = "52-68"
_NOISY = 1.0  # load per CPU beside which figures are doubtful
_INTERRUPTED = 0.05
_AGREEMENT = 0.95


def document(c: Calibration) -> Document:
    m = c.measured
    answers = [Answer(significant(level.cycles), f"cycles, {level.name}") for level in c.levels]
    if m.transfer:
        dearest = max(t.modified.median for t in m.transfer)
        answers.append(Answer(significant(dearest), "cycles, a line another core modified"))
    return Document(
        title=f"Calibration of {c.server.hostname}",
        subtitle=f"{c.server.cpu or c.server.architecture} · TSC {m.tsc_hz / 1e9:.2f} GHz · "
        f"{c.created_at[:16].replace('T', ' ')} UTC · {m.rounds} rounds",
        answers=tuple(answers),
        cautions=_cautions(c),
        sections=tuple(
            s
            for s in (
                _levels(c),
                _gather(c),
                _transfers(c),
                _rings(c),
                _locate(c),
                _clock(c),
                _sharing(c),
            )
            if s is not None
        ),
    )


def _cautions(c: Calibration) -> tuple[str, ...]:
    texts = []
    if c.load_average > _NOISY:
        texts.append(
            f"Other work ran meanwhile (load average {c.load_average:g}): figures may be too high. "
            "Repeat on a quiet machine."
        )
    share = c.measured.clock.interruptions_ns.share
    if share > _INTERRUPTED:
        texts.append(f"{percent(share, 2)} of a polling core's time went to others.")
    shared = [
        level
        for level in c.levels
        if level.bytes and level.reaches_bytes and level.reaches_bytes < level.bytes / 2
    ]
    texts.extend(
        f"{level.name} has {size(level.bytes)}, but only working sets up to "
        f"{size(level.reaches_bytes)} find it: neighbours have the rest, or the "
        "hypervisor's description is not the hardware."
        for level in shared
    )
    return tuple(texts)


def _ns(c: Calibration, cycles: float) -> float:
    return cycles / c.measured.tsc_hz * 1e9


def _levels(c: Calibration) -> Section:
    rows: list[tuple[Cell, ...]] = [
        (
            level.name,
            level.bytes,
            level.reaches_bytes,
            level.cycles,
            _ns(c, level.cycles),
            _TABLE.get(level.name),
        )
        for level in c.levels
    ]
    for curve in c.measured.chase[1:]:
        last = memory(curve, c.levels)
        rows.append((f"memory, node {curve.node}", "", "", last, _ns(c, last), _TABLE_REMOTE))
    bands, before = [], 0
    for level in c.levels:
        bands.append(Band(level.name, before + 1, level.bytes))
        before = level.bytes or 0
    series = [
        Series(f"node {curve.node}" if curve.node >= 0 else "chase", _points(curve.points))
        for curve in c.measured.chase
    ]
    axes = Axes("working set", "cycles per dependent load", "bytes", log_y=True)
    pages = size(c.measured.chase[0].page_bytes)
    return Section(
        title="Access delay",
        note="Loads that each wait for the one before, in random order over a working set; the "
        f"least of {c.measured.rounds} medians, on pages of {pages}. The last column is table 1 of "
        "Zheng et al. 2019 (A Closer Look at NFV Execution Models), in core cycles of another "
        "machine.",
        blocks=(
            curves(series, axes, bands),
            Table(
                (
                    "level",
                    Column("size", "bytes"),
                    Column("found up to", "bytes"),
                    "TSC cycles",
                    Column("time", "own-time"),
                    "Zheng et al., cycles",
                ),
                tuple(rows),
            ),
        ),
    )


def _points(points: object) -> tuple[tuple[float, float], ...]:
    return tuple((float(p.bytes), p.min) for p in points)  # type: ignore[attr-defined]


def _gather(c: Calibration) -> Section:
    hz = c.measured.tsc_hz
    rows = tuple((p.bytes, p.min, hz / p.min / 1e6) for p in c.measured.gather[0].points)
    return Section(
        title="Gather rate",
        note="Random lines, prefetched 32 at a time before they are read: what tables that batch "
        "their lookups can reach. Parallelism: what a level takes longer than the first one where "
        "each load waits for the one before, over what it takes longer here; so many misses a core "
        "has under way at once.",
        blocks=(
            Table(
                (
                    Column("working set", "bytes"),
                    "cycles per line",
                    Column("lines", unit="millions per s"),
                ),
                rows,
            ),
            Table(
                ("level", "one by one, cycles", "32 at once", Column("parallelism", digits=2)),
                _together(c),
            ),
        ),
    )


def _together(c: Calibration) -> tuple[tuple[Cell, ...], ...]:
    first = c.levels[0]
    rows = []
    for level in c.levels:
        if level.gather_cycles is None or first.gather_cycles is None:
            return ()
        longer = level.gather_cycles - first.gather_cycles
        parallelism = (level.cycles - first.cycles) / longer if longer > 0 else None
        rows.append((level.name, level.cycles, level.gather_cycles, parallelism))
    return tuple(rows)


def _figure(f: MedianRange | None) -> str:
    return NOT_KNOWN if f is None else f"{significant(f.median)} ({significant(f.min)})"


def _transfers(c: Calibration) -> Section | None:
    if not c.measured.transfer:
        return None
    rows = tuple(
        (f"{t.source} → {t.target}", _figure(t.clean), _figure(t.modified), _figure(t.own))
        for t in c.measured.transfer
    )
    return Section(
        title="Between cores",
        note="A line that another core has in its cache, clean or modified, loaded by this one; "
        "then once more from its own. TSC cycles, median (least). Zheng et al.'s table 3 has "
        f"{_TABLE_TRANSFER} for a packet's transfer within a socket, table 1 {_TABLE_OTHER} to "
        "another's cache.",
        blocks=(Table(("CPUs", "clean", "modified", "own, then"), rows),),
    )


def _rings(c: Calibration) -> Section | None:
    if not c.measured.ring:
        return None

    def series(name: str, touched: bool, part: str) -> Series:
        costs = [r for r in c.measured.ring or () if r.touched == touched]
        return Series(name, tuple((float(r.burst), getattr(r, part).median) for r in costs))

    shown = [
        series("rate, touched", True, "total"),
        series("rate, pointers only", False, "total"),
        series("one core, touched", True, "same_core"),
    ]
    axes = Axes("burst", "cycles per packet", log_y=True)
    return Section(
        title="Ring hand-over",
        note="Per packet through an rte_ring to another core and back; touched: with the packet's "
        "descriptor and first header line, written on one side and read on the other. Enqueue and "
        "dequeue are what each side pays in polls that found packets; rate is what the slower side "
        "makes of it. TSC cycles, median (least).",
        blocks=(
            curves(shown, axes),
            Table(
                ("burst", "what", "enqueue", "dequeue", "rate", "on one core"),
                tuple(_ring_row(r) for r in c.measured.ring),
            ),
        ),
    )


def _ring_row(r: RingCost) -> tuple[str, ...]:
    what = "touched" if r.touched else "pointers"
    costs = (r.enqueue, r.dequeue, r.total, r.same_core)
    return (str(r.burst), what, *(_figure(cost) for cost in costs))


def _locate(c: Calibration) -> Section:
    rows, low = [], 0
    for one in c.locate.classes:
        below = one.below_cycles
        span = f"{low} and more" if below is None else f"{low} to {below - 1}"
        rows.append((one.name, span, one.agreement))
        low = below or low
    return Section(
        title="Where a load came from",
        note="Single loads of lines that were put somewhere on purpose, timed as the engine times "
        "packets. The limits come from one measurement, the agreement "
        f"({percent(c.locate.agreement)} over all classes) and where lines of each place were put "
        "from another. Places whose times overlap too much are one class.",
        blocks=(
            Table(("class", "timed cycles", Column("right", "share")), tuple(rows)),
            *_confusion(c.locate),
            Table(
                ("place", "samples", "p5", "median", "p95"),
                tuple(_placed_row(p) for p in c.measured.placed if p.counts),
            ),
            table([_told(c.locate)]),
        ),
    )


def _confusion(classes: Classes) -> tuple[Table, ...]:
    if not classes.confusion:
        return ()
    into = (Column(f"put into {one.name}", "share") for one in classes.classes)
    rows = tuple((one.place, one.samples, *one.put) for one in classes.confusion)
    return (Table(("lines in", Column("samples", "count"), *into), rows),)


def _told(classes: Classes) -> Check:
    """The places that a microbenchmark can be sure of."""
    right = classes.right(("l2", "llc", "memory"))
    name = "lines put into L2, last-level cache and memory are classified rightly"
    return at_least(name, _AGREEMENT, right, why="no lines were placed")


def _placed_row(p: Placed) -> tuple[str, ...]:
    total = sum(n for _, n in p.counts)
    shown = []
    for share in (0.05, 0.5, 0.95):
        seen = 0
        for cycles, n in sorted(p.counts):
            seen += n
            if seen >= share * total:
                shown.append(str(cycles))
                break
    return (p.place, str(total), *shown)


def _clock(c: Calibration) -> Section:
    k = c.measured.clock
    rows = [
        ("reading the TSC", f"{_figure(k.read_cycles)} cycles"),
        ("smallest step", f"{k.step_cycles} cycles"),
        ("late after sleeping 100 µs, median", ns(k.sleep_late_ns.p50)),
        ("p99, most", f"{ns(k.sleep_late_ns.p99)}, {ns(k.sleep_late_ns.max)}"),
        ("interruptions of a poller", f"{k.interruptions_ns.per_s:.0f} per s"),
        ("median, p99, most", ", ".join(map(ns, _three(c)))),
        ("share of its time", percent(k.interruptions_ns.share, 2)),
    ]
    rows.extend(
        (
            f"CPU {s.target} against {s.source}",
            f"{significant(s.offset)} ± {significant(s.bound)} cycles",
        )
        for s in k.skew
    )
    return Section(
        title="Clock and timers",
        note="Skew as NTP measures it, by the fastest of many pings; an offset within its bound is "
        "none.",
        blocks=(Table(("what", ""), tuple(rows)),),
    )


def _three(c: Calibration) -> tuple[float, float, float]:
    gaps = c.measured.clock.interruptions_ns
    return (gaps.p50, gaps.p99, gaps.max)


def _sharing(c: Calibration) -> Section | None:
    s = c.measured.share
    if s is None:
        return None
    return Section(
        title="Two pollers on one core",
        note="Neither sleeps, so each waits for the other's time slices: why segments that share "
        "an lcore are polled in turn by one thread.",
        blocks=(
            Table(
                ("what", ""),
                (
                    ("a wait, median", ns(s.wait_ns.median)),
                    ("the longest", ns(s.wait_max_ns)),
                    ("switches", f"{s.switches_per_s.median:.0f} per s"),
                    ("throughput lost", percent(max(0.0, s.throughput_lost.median), 2)),
                ),
            ),
        ),
    )
