# SPDX-License-Identifier: Apache-2.0
"""The evidence of a report: what was checked, with what, on what, and how it was counted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.analyse.document import Report
from headrace.analyse.summary import Summary
from headrace.analyse.units import count, exact_percent, flat, ns, percent, plural, pps, significant
from headrace.record.frozen import Record
from headrace.record.rows import Goal, Result
from headrace.record.verdict import Finding, Verdict

Facts = tuple[tuple[str, str], ...]

LOSS = (
    "Loss is what the source sent and the sink did not receive, over what was sent; a packet that "
    "comes twice counts once, and one that the source did not send (a copy that a function made) "
    "not at all. What an NF drops on purpose is part of it and listed by reason. What the source "
    "could not send in time is the generator's failure and never the chain's loss. A packet that "
    "found a link full is lost at that link and charged to its reader."
)
RATES = (
    "Rates count whole frames: L2 bits include the FCS, L1 bits also the 20 bytes of preamble, "
    "start delimiter and gap of each frame (IEEE 802.3)."
)
LATENCY = (
    "Latency runs from the intended send time, so that a stalled generator cannot hide it. PDV "
    "and IPDV are those of RFC 5481: latency less the smallest one, and the mean absolute "
    "difference between successive packets."
)
CYCLES = (
    "Cycles are of the TSC, sampled; an lcore's utilisation is its busy (OPS) over its total (REF) "
    "cycles. Capacity is TSC Hz over the cycles that a packet costs an lcore, links included, "
    "over all lcores of the part."
)


class Audited(Record):
    execution: str
    goal: str
    repetition: int
    verdict: Verdict
    findings: tuple[Finding, ...]


class Evidence(Record):
    audits: tuple[Audited, ...]
    searches: tuple[tuple[str, Facts], ...]  # per goal: its parameters and what was found
    integrity: Facts
    calibration: Facts
    shared: tuple[str, ...]
    located: Facts
    environment: tuple[tuple[str, Facts], ...]
    method: tuple[str, ...] = (LOSS, RATES, LATENCY, CYCLES)


def evidence(report: Report) -> Evidence:
    summaries = [s for g in report.groups for s in g.summaries if s.key.ground == "measured"]
    results = [r for s in summaries for r in s.results]
    return Evidence(
        audits=tuple(_audits(summaries)),
        searches=tuple(_searches(results)),
        integrity=_integrity(results),
        calibration=_calibration(results),
        shared=tuple(
            dict.fromkeys(
                f"{r.execution}: {s.name} shares its lcore with {', '.join(s.shares_cpu_with)}"
                for r in results
                for s in r.segments
                if s.shares_cpu_with
            )
        ),
        located=tuple(_located(results)),
        environment=_environment(report),
    )


def _located(results: list[Result]) -> Iterable[tuple[str, str]]:
    """Of each result: the shares, and the index with its proper name."""
    for r in results:
        # Packets that the generator makes on its own core, or the sink ends, are no VNF's.
        traffic = {s.name for s in r.segments if s.role != "chain"}
        for one in r.located:
            if not one.samples or one.segment in traffic:
                continue
            shares = ", ".join(
                f"{name} {percent(n / one.samples, 3)}" for name, n in one.classes.items()
            )
            text = shares or f"{significant(one.mean_cycles or 0)} cycles in the mean"
            if one.index is not None:
                name = "not from memory" if one.behind_first else "Network Efficiency Index"
                text += f"; {name} {percent(one.index, 3)}"
            yield (
                f"{r.execution}, {r.goal}, repetition {r.repetition}: {one.place}",
                f"{text} ({count(one.samples)} samples)",
            )


def _audits(summaries: Iterable[Summary]) -> Iterable[Audited]:
    for s in summaries:
        for r in s.results:
            yield Audited(
                execution=s.key.execution,
                goal=s.key.goal_text,
                repetition=r.repetition,
                verdict=r.audit.verdict,
                findings=r.audit.findings,
            )


def _searches(results: list[Result]) -> Iterable[tuple[str, Facts]]:
    goals: dict[str, Goal] = {
        r.goal: r.goal_parameters for r in results if r.goal_parameters is not None
    }
    for name, goal in goals.items():
        rows = [
            ("loss ratio allowed", exact_percent(goal.loss_ratio)),
            ("final trial", f"{significant(goal.final_trial_s)} s"),
            ("sum of trials at a bound", f"{significant(goal.duration_sum_s)} s"),
            ("width of the bounds", f"at most {exact_percent(goal.width)}"),
            ("exceed ratio", significant(goal.exceed_ratio)),
            ("compliance", goal.label or "none claimed"),
        ]
        for r in results:
            if r.goal == name and r.bounds:
                b = r.bounds
                rows.append(
                    (
                        f"{r.execution}, repetition {r.repetition}",
                        f"{pps(b.lower_pps, 4)} … {pps(b.upper_pps, 4)} ({percent(b.width, 2)}), "
                        f"{plural(b.trials, 'trial')} in {b.seconds:.0f} s"
                        + (f", ended by {b.stopped_by}" if b.stopped_by else ""),
                    )
                )
        yield name, tuple(rows)


def _integrity(results: list[Result]) -> Facts:
    def total(name: str) -> str:
        return count(sum(getattr(r, name) for r in results))

    return (
        ("intended", total("intended")),
        ("sent", total("sent")),
        ("received", total("received")),
        ("lost", total("lost")),
        ("reordered", total("reordered")),
        ("duplicated", total("duplicated")),
        ("late", total("late")),
        ("received, not the source's", total("unstamped")),
        ("unsent (the generator's)", count(sum(r.audit.unsent for r in results))),
    )


def _calibration(results: Iterable[Result]) -> Facts:
    measured = list(results)
    known = [r.calibration for r in measured if r.calibration is not None]
    if not known:
        return (("latency floor", "not calibrated"),)
    c = known[0]
    below = any(r.below_floor for r in measured)
    doubt = ", above a latency that was measured: its calibration was disturbed" if below else ""
    rows = [("latency floor (median)", ns(c.floor_ns) + doubt)]
    if c.floor_p99_ns is not None:
        rows.append(("latency floor (p99)", ns(c.floor_p99_ns)))
    if c.clock_read_cycles is not None:
        rows.append(("reading the clock", f"{significant(c.clock_read_cycles)} cycles"))
    if c.clock_error_ppm is not None:
        rows.append(("clock error", f"{significant(c.clock_error_ppm, 2)} ppm"))
    return tuple(rows)


def _environment(report: Report) -> tuple[tuple[str, Facts], ...]:
    e = report.environment
    if e is None:
        return ()
    topics: dict[str, dict[str, Any]] = {
        "machine": {"hostname": e.hostname} | e.cpu,
        "memory": e.memory,
        "kernel": e.kernel,
        "engine": e.engine,
        "headrace": e.headrace,
        "virtualisation": e.virtualisation,
        "network": e.network,
        "mitigations": dict(e.mitigations),
        "noise": e.noise,
    }
    return tuple(
        (topic, tuple(flat(facts))) for topic, facts in topics.items() if any(True for _ in facts)
    )
