# SPDX-License-Identifier: Apache-2.0
"""The evidence of a run: what was checked, with what, on what, and how it was counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from headrace.analyse.bundle_report import Report
from headrace.analyse.summary import Summary
from headrace.analyse.units import count, exact_percent, flat, ns, percent, plural, pps, significant
from headrace.record.environment import Environment
from headrace.record.rows import Goal, Result
from headrace.report.appliances import used
from headrace.report.document_model import (
    Block,
    Column,
    FactList,
    Folded,
    Heading,
    Items,
    Row,
    Section,
    Table,
    Text,
)

Rows = tuple[tuple[str, str], ...]

LOSS = (
    "Loss is what the source sent and the sink did not receive, over what was sent; a packet that "
    "comes twice counts once, and one that the source did not send (a copy that a function made) "
    "not at all. What a function drops on purpose is part of it and listed by reason. What the "
    "source could not send in time is the generator's failure and never the chain's loss. A packet "
    "that found a link full is lost at that link and charged to its reader."
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


def section(report: Report, more: Sequence[Block] = ()) -> Section:
    every = [s for g in report.groups for s in g.summaries]
    summaries = [s for s in every if s.key.ground == "measured"] or every
    note = (
        "What was checked and how it was counted. Figures above that failed a check are labelled "
        "there."
    )
    return Section("Evidence", note, (*_blocks(summaries, report.environment), *more), on="page")


def in_brief(report: Report) -> Section:
    """Says as much as a terminal has room for."""
    results = [r for g in report.groups for s in g.summaries for r in s.results]
    goals = {r.goal: r.goal_parameters for r in results if r.goal_parameters}
    lines = [
        f"{name}: loss at most {exact_percent(goal.loss_ratio)}, trials of "
        f"{significant(goal.final_trial_s)} s, {significant(goal.duration_sum_s)} s in sum, bounds "
        f"within {exact_percent(goal.width)}; {goal.label or 'no compliance label'}"
        for name, goal in goals.items()
    ]
    if (e := report.environment) is not None:
        facts = (e.hostname, e.cpu.get("model"), e.kernel.get("release"), e.engine.get("dpdk"))
        lines.insert(0, ", ".join(str(f) for f in facts if f))
    lines.append(f"{plural(report.trials, 'trial')} in {report.path}")
    return Section("", blocks=tuple(Text(line, style="dim") for line in lines), on="terminal")


def _blocks(summaries: Sequence[Summary], environment: Environment | None) -> Iterator[Block]:
    results = [r for s in summaries for r in s.results]
    good = sum(r.audit.verdict == "ok" for r in results)
    note = f"{good} of {len(results)} results passed every check"
    if results:  # what was operated has its audit beside its figures
        yield Folded("Audit", note, (_audits(summaries),))
    for name, rows in _searches(results):
        yield _folded(f"Search: {name}", "goal parameters and bounds found", rows)
    yield _folded("Packets", "of the trials behind the results", _integrity(results))
    yield _folded("Clock and latency floor", "", _calibration(results))
    if located := tuple(_located(results)):
        note = "when a function first touched their headers"
        yield _folded("Where packets were", note, located)
    shared = dict.fromkeys(
        f"{r.execution}: {s.name} shares its lcore with {', '.join(s.shares_cpu_with)}"
        for r in results
        for s in r.segments
        if s.shares_cpu_with
    )
    if shared:
        yield Folded("Shared lcores", "", (Items(tuple(shared)),))
    if (folded := used(results)) is not None:
        yield folded
    if environment is not None:
        yield Folded("Environment", environment.cpu_model, tuple(_environment(environment)))
    method = (LOSS, RATES, LATENCY, CYCLES)
    yield Folded("How it is counted", "", tuple(Text(text) for text in method))


def _folded(title: str, note: str, rows: Rows) -> Folded:
    return Folded(title, note, (FactList(rows),))


def _located(results: list[Result]) -> Iterable[tuple[str, str]]:
    """Each result has its shares, and the index with its proper name."""
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
                if one.corrected is not None:
                    text += f", {percent(one.corrected, 3)} corrected for places mistaken"
            yield (
                f"{r.execution}, {r.goal}, repetition {r.repetition}: {one.place}",
                f"{text} ({count(one.samples)} samples)",
            )


def _audits(summaries: Iterable[Summary]) -> Table:
    rows = []
    for s in summaries:
        for r in s.results:
            failed = " ".join(f.text for f in r.audit.failed)
            checks = failed or f"none of {len(r.audit.findings)}"
            cells = (s.key.execution, s.key.goal_text, r.repetition, r.audit.verdict, checks)
            rows.append(Row(cells, doubtful=not r.audit.trusted))
    columns = (
        "execution",
        Column("goal", "text"),
        Column("repetition", "count"),
        Column("verdict", "verdict"),
        Column("failed checks", "text"),
    )
    return Table(columns, tuple(rows))


def _searches(results: list[Result]) -> Iterable[tuple[str, Rows]]:
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


def _integrity(results: list[Result]) -> Rows:
    """A trial that answers several goals counts once."""
    trials = list({_trial_of(n, r): r for n, r in enumerate(results)}.values())

    def total(name: str) -> str:
        return count(sum(getattr(r, name) for r in trials))

    by_policy = (("dropped by policy", total("policy_dropped")),)
    return (
        ("intended", total("intended")),
        ("sent", total("sent")),
        ("received", total("received")),
        ("lost", total("lost")),
        *(by_policy if any(r.policy_dropped for r in trials) else ()),
        ("reordered", total("reordered")),
        ("duplicated", total("duplicated")),
        ("late", total("late")),
        ("received, not the source's", total("unstamped")),
        ("unsent (the generator's)", count(sum(r.audit.unsent for r in trials))),
    )


def _trial_of(number: int, r: Result) -> tuple[object, ...]:
    """What is no trial's has none of its packets anywhere else."""
    if r.trial is None:
        return (number,)
    return r.trial, r.ground, r.chain, r.execution, r.workload, r.direction, r.repetition


def _calibration(results: Iterable[Result]) -> Rows:
    """Each workload has a floor of its own: longer packets take longer."""
    known: dict[str, list[Result]] = {}
    for r in results:
        if r.calibration is not None:
            known.setdefault(r.workload, []).append(r)
    if not known:
        return (("latency floor", "not calibrated"),)
    rows = []
    for workload, measured in known.items():
        of = f", {workload}" if len(known) > 1 else ""
        rows += [(f"{name}{of}", text) for name, text in _calibrated(measured)]
    return tuple(rows)


def _calibrated(measured: Sequence[Result]) -> Iterator[tuple[str, str]]:
    c = measured[0].calibration
    assert c is not None
    below = any(r.below_floor for r in measured)
    doubt = ", above a latency that was measured: its calibration was disturbed" if below else ""
    yield "latency floor (median)", ns(c.floor_ns) + doubt
    if c.floor_p99_ns is not None:
        yield "latency floor (p99)", ns(c.floor_p99_ns)
    if c.clock_read_cycles is not None:
        yield "reading the clock", f"{significant(c.clock_read_cycles)} cycles"
    if c.clock_error_ppm is not None:
        yield "clock error", f"{significant(c.clock_error_ppm, 2)} ppm"


def _environment(e: Environment) -> Iterator[Block]:
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
    for topic, facts in topics.items():
        if facts:
            yield Heading(topic)
            yield FactList(tuple(flat(facts)))
