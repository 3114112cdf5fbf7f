# SPDX-License-Identifier: Apache-2.0
"""What only a result can doubt: whose maximum a figure is, and where a search ended."""

from __future__ import annotations

from headrace.measure.audit import REFUSED_MIN, refused, with_findings
from headrace.measure.outcome import GoalOutcome, Limits
from headrace.record.rows import Trial
from headrace.record.text import rate
from headrace.record.verdict import Audit, Finding

WIRE = "wire-"  # the rings in front of a chain (engine/plan_compiler.py)
SPARE_MIN = 0.05  # with so much to spare the ring is full all the time (docs/design/handover.md)
GENERATOR_BUSY = 0.95  # of its time; one that the chain holds back finds no room in its ring


def of_maximum(one: Trial) -> Audit:
    """Whose the maximum is: the chain's, or the generator's."""
    counters = one.counters
    traffic = {cpu for s in one.segments if s.role == "generator" for cpu in s.cpus}
    shared = any(traffic & set(s.cpus) for s in one.segments if s.role == "chain")
    rings = {} if counters is None else counters.rings
    if counters is None or not any(
        ring.on_full == "wait" for name, ring in rings.items() if name.startswith(WIRE)
    ):
        judged = unrefused(one.audit, one.lost, one.sent)
        return judged if shared else handed_over(judged, one.lost, one.sent)
    if shared:
        return one.audit  # one lcore's time for both: how they share it is what was measured
    busy = max((w.utilisation for w in counters.workers if w.cpu in traffic), default=1.0)
    return held_back(one.audit, busy)


def unrefused(judged: Audit, lost: int, sent: int) -> Audit:
    """A trial at maximum rate that lost nothing found the generator's limit, not the chain's."""
    if refused(lost, sent):
        return judged
    finding = Finding(
        check="generator-limit",
        ok=False,
        text="The chain took all that the generator could send; it can do at least this.",
        value=lost / sent if sent else 0.0,
        limit=REFUSED_MIN,
    )
    return with_findings(judged, finding)


def handed_over(judged: Audit, lost: int, sent: int) -> Audit:
    """Where the first ring turned little away at maximum rate, the chain waited for its generator
    for a part of the time, and what it received then was in another core's hands."""
    share = lost / sent if sent else 0.0
    if not refused(lost, sent) or share >= SPARE_MIN:
        return judged
    finding = Finding(
        check="transfer",
        ok=False,
        text=f"Only {share:.1%} of the packets were lost: for a part of the time the chain waited "
        "for its generator, and receiving then costs up to three times as much, out of another "
        "core's cache; its cycles are of both states.",
        value=share,
        limit=SPARE_MIN,
    )
    return with_findings(judged, finding)


def held_back(judged: Audit, busy: float) -> Audit:
    """The same where the first ring waits, so that nothing is lost there: who was narrower shows in
    how busy the generator's lcore was, which does nothing else."""
    ok = busy <= GENERATOR_BUSY
    whose = "the chain held it back" if ok else "the chain can do at least this"
    finding = Finding(
        check="generator-limit",
        ok=ok,
        text=f"The first ring waits; the generator was busy for {busy:.1%} of the time: {whose}.",
        value=busy,
        limit=GENERATOR_BUSY,
    )
    return with_findings(judged, finding)


def of_search(audit: Audit, outcome: GoalOutcome, limits: Limits) -> Audit:
    """The search's own reasons to doubt, added to those of the trial."""
    text, check = _doubt(outcome, limits)
    if text is None:
        return audit
    return with_findings(audit, Finding(check=check, ok=False, text=text))


def _doubt(outcome: GoalOutcome, limits: Limits) -> tuple[str | None, str]:
    if outcome.generator_bound:
        return (
            "The load above was refused by the generator, not by the chain, which can do at least "
            "this.",
            "generator-limit",
        )
    if outcome.disturbed:
        return (
            "At the load above packets were lost only while something else ran on the lcores, or "
            "the generator stalled; on a quiet machine the chain may do more.",
            "search",
        )
    if outcome.stopped_by == "max-load":
        return (
            f"The chain took the highest load that was tried ({rate(limits.max_load)}); "
            "it can do at least this.",
            "generator-limit",
        )
    if outcome.stopped_by == "min-load":
        return (
            f"Not even the lowest load ({rate(limits.min_load)}) met the goal; the figures "
            "are that trial's.",
            "search",
        )
    if outcome.stopped_by == "time":
        return "The search ran out of time; the bounds are those it had.", "search"
    return None, ""
