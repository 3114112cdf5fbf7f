# SPDX-License-Identifier: Apache-2.0
"""The generator's audit: may a trial's figure be believed as the chain's?

A software generator fails silently: it sends less than told, takes longer, or stalls and then sends
a burst. Each is checked on every trial; so is that the counters add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.record import Audit, Counters, Finding, Verdict
from headrace.testbed.plan import GENERATOR, SINK, Path

if TYPE_CHECKING:
    from headrace.measure.trial import Context, Flow, Reading

UNSENT_LIMIT = 1e-3  # of the intended packets
STRETCH_LIMIT = 1.01  # of the intended duration,
STRETCH_SLACK_NS = 10_000_000  # or this, in a trial so short that a scheduler's tick shows
PREEMPTION_LIMIT = 1e-3  # of the duration, when packets were lost;
PREEMPTION_LATENCY_LIMIT = 0.05  # or when none were: the latencies have that waiting in them

OVER_LIMIT = 1.02  # of an lcore's time, busy; readings of it are not of one instant

BURST_MAX = 64  # engine/core/nf.h
WIDTH_LIMIT = 2.8  # of four; a core to itself does 3.5 and more, beside a busy hyperthread 2
PACE_LIMIT = 1.1  # TSC cycles for what takes one cycle of a core at its base frequency


def audit(
    reading: Reading,
    ways: Sequence[Path],
    flows: Sequence[Flow],
    counters: Counters,
    context: Context,
    lost: int,
) -> Audit:
    sources = [reading.after["links"][way.source] for way in ways]
    unsent = sum(f.unsent for f in flows)
    behind = max(int(source["behind_max_ns"]) for source in sources)
    actual = max(int(source["duration_ns"]) for source in sources)
    intended = max(int(source["intended_duration_ns"]) for source in sources)
    unlimited = reading.load_pps == 0
    findings = [
        _unsent(unsent, sum(f.intended for f in flows), unlimited),
        _stretched(actual, intended, unlimited),
        _stall(behind, reading, context, lost, unlimited),
        _sink(counters, context),
        _preemption(reading, lost),
        _standstill(reading, counters, lost),
        _pace(counters),
        _alone(counters),
        _conservation(counters, reading),
        _time(counters),
    ]
    return Audit(
        verdict=_verdict(findings),
        findings=tuple(findings),
        unsent=unsent,
        behind_max_ns=behind,
        duration_ns=actual,
        intended_duration_ns=intended,
    )


def _verdict(findings: list[Finding]) -> Verdict:
    failed = {finding.check for finding in findings if not finding.ok}
    if failed & {"conservation", "time"}:
        return "invalid"
    if failed & {"unsent", "stretched"}:
        return "generator-bound"
    return "suspect" if failed else "ok"


def _time(counters: Counters) -> Finding:
    """OPS is a part of REF; VNFs that share an lcore are read one after the other."""
    over = [w for w in counters.workers if w.utilisation > OVER_LIMIT]
    text = "No lcore was busy for longer than there was time."
    if over:
        worst = max(over, key=lambda w: w.utilisation)
        text = (
            f"Lcore {worst.cpu} was busy for {worst.utilisation:.2f} times the time that there "
            "was: its cycles were not counted right."
        )
    most = max((w.utilisation for w in counters.workers), default=0.0)
    return Finding(check="time", ok=not over, text=text, value=most, limit=OVER_LIMIT)


def _unsent(unsent: int, intended: int, unlimited: bool) -> Finding:
    ratio = unsent / intended if intended and not unlimited else 0.0
    text = f"The source made all {intended} packets."
    if unsent:
        text = f"The source could not make {unsent} of {intended} packets in time ({ratio:.3%})."
    return Finding(
        check="unsent", ok=ratio <= UNSENT_LIMIT, text=text, value=ratio, limit=UNSENT_LIMIT
    )


def _stretched(actual: int, intended: int, unlimited: bool) -> Finding:
    stretch = actual / intended if intended and not unlimited else 1.0
    return Finding(
        check="stretched",
        ok=stretch <= STRETCH_LIMIT or actual - intended <= STRETCH_SLACK_NS,
        text=f"Sending took {actual / 1e9:.3f} s of an intended {intended / 1e9:.3f} s.",
        value=stretch,
        limit=STRETCH_LIMIT,
    )


def _stall(
    behind_ns: int, reading: Reading, context: Context, lost: int, unlimited: bool
) -> Finding:
    """After a stall an open-loop source sends what is due at once. If that is more than the first
    ring holds, a loss there says nothing about the chain."""
    wire = context.plan["links"].get(context.ways[0].wire)
    if unlimited or wire is None or not reading.load_pps:
        return Finding(check="stall", ok=True, text="No schedule to fall behind.")
    room_ns = wire["params"]["size"] / reading.load_pps * 1e9
    late = behind_ns > room_ns and lost > 0
    text = f"The source was at most {behind_ns / 1e3:.0f} us behind its schedule"
    if late:
        text += f"; the burst that followed was more than the first ring holds ({lost} lost)"
    return Finding(
        check="stall", ok=not late, text=f"{text}.", value=float(behind_ns), limit=room_ns
    )


def _preemption(reading: Reading, lost: int) -> Finding:
    """Other work on an lcore, or another guest on its core, loses packets in the chain's name."""
    worst = max(reading.waited_ns, key=lambda cpu: reading.waited_ns[cpu], default=None)
    if worst is None:
        return Finding(check="preemption", ok=True, text="No lcore to watch.")
    share = _share(reading.waited_ns[worst] / 1e9, reading.watched_s)
    text = f"Lcore {worst} was kept from running for {share:.2%} of the trial"
    limit = PREEMPTION_LIMIT if lost else PREEMPTION_LATENCY_LIMIT
    if share > limit and lost:
        text += f", and {lost} packets were lost; whose loss they are cannot be told"
    elif share > limit:
        text += ": the latencies are the machine's as much as the chain's"
    return Finding(check="preemption", ok=share <= limit, text=f"{text}.", value=share, limit=limit)


def _standstill(reading: Reading, counters: Counters, lost: int) -> Finding:
    """Pauses of a poller that the kernel does not account for: a host may lend the CPU to other
    guests and not own up to it as steal."""
    seconds = {
        w.cpu: w.standstill_cycles / counters.tsc_hz - reading.waited_ns.get(w.cpu, 0) / 1e9
        for w in counters.workers
    }
    worst = max(seconds, key=lambda cpu: seconds[cpu], default=None)
    if worst is None or seconds[worst] <= 0:
        return Finding(check="standstill", ok=True, text="No lcore stood still unexplained.")
    share = _share(seconds[worst], reading.read_s)
    limit = PREEMPTION_LIMIT if lost else PREEMPTION_LATENCY_LIMIT
    text = f"Lcore {worst} stood still for {share:.2%} of the trial, and the kernel knows not why"
    if share > limit:
        text += ": a host lends this CPU to others"
    return Finding(check="standstill", ok=share <= limit, text=f"{text}.", value=share, limit=limit)


def _share(seconds: float, of: float) -> float:
    """At most all: the kernel counts stolen time in ticks, and a pause that began before the first
    reading is counted when it ends."""
    return min(1.0, seconds / of)


def _pace(counters: Counters) -> Finding:
    """A core that saves power is slow while nothing else says so: its work takes longer by the
    clock."""
    paces = {w.cpu: w.pace for w in counters.workers if w.pace is not None}
    worst = max(paces, key=lambda cpu: paces[cpu], default=None)
    if worst is None:
        return Finding(check="pace", ok=True, text="Too short for the cores' pace to be taken.")
    pace, mhz = paces[worst], counters.tsc_hz / 1e6
    text = f"Lcore {worst} worked at {mhz / pace:.0f} MHz (base frequency {mhz:.0f} MHz)"
    if pace > PACE_LIMIT:
        text += ": to save power, or because of heat"
    return Finding(
        check="pace", ok=pace <= PACE_LIMIT, text=f"{text}.", value=pace, limit=PACE_LIMIT
    )


def _alone(counters: Counters) -> Finding:
    """A busy hyperthread on the same core, ours or another guest's, takes half of its adders."""
    widths = {w.cpu: w.width for w in counters.workers if w.width is not None}
    worst = min(widths, key=lambda cpu: widths[cpu], default=None)
    if worst is None:
        return Finding(check="alone", ok=True, text="Too short to tell whether cores are shared.")
    width = widths[worst]
    text = f"Lcore {worst} did {width:.1f} additions at once, where 4 were asked for"
    if width < WIDTH_LIMIT:
        text += ": a hyperthread beside it, be it another guest's, takes a part of its core"
    return Finding(
        check="alone", ok=width >= WIDTH_LIMIT, text=f"{text}.", value=width, limit=WIDTH_LIMIT
    )


def _sink(counters: Counters, context: Context) -> Finding:
    """Packets that the chain delivered and the sink had no time for are no loss of the chain."""
    backs = {way.back for way in context.ways}
    full = sum(ring.full for name, ring in counters.rings.items() if name in backs)
    text = "The sink took all that the chain gave."
    if full:
        text = f"{full} packets were lost between the chain and the sink: the sink was too slow."
    return Finding(check="sink", ok=full == 0, text=text, value=float(full), limit=0.0)


def _conservation(counters: Counters, reading: Reading) -> Finding:
    """in + created = out + dropped + consumed + change in held, at every function. Where packets
    still waited when it was read, a function was at work, and has a burst in it."""
    waiting = any(link.get("used") for link in reading.after["links"].values())
    inside = BURST_MAX if waiting else 0
    wrong: dict[str, int] = {}
    for replica in counters.replicas:
        if replica.segment in (GENERATOR, SINK):
            continue
        for name, nf in replica.nfs.items():
            if abs(nf.missing) > inside:
                wrong[name] = wrong.get(name, 0) + nf.missing
    text = "Every function's counters add up."
    if wrong:
        text = "Packets unaccounted for at " + ", ".join(f"{n} ({c})" for n, c in wrong.items())
    return Finding(check="conservation", ok=not wrong, text=text, value=float(len(wrong)), limit=0)
