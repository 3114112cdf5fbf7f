# SPDX-License-Identifier: Apache-2.0
"""The audit: may a trial's figure be believed as the chain's?

A generator fails silently: it sends less than told, takes longer, or stalls and then sends a
burst. A CPU stands still and nobody says so. A counter is missing, and a loss has no place. Each is
checked on every trial, of whatever kind: a trial says what it knows as `Facts`, and one set of
checks and limits judges it. What a trial cannot know is not checked, and not among its findings.
What only a result can doubt (whose maximum it is, where a search ended) is in doubts.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headrace.record.account import Account
from headrace.record.counters import WIDTH_LIMIT
from headrace.record.facts import Facts, LcoreTime
from headrace.record.verdict import Audit, Finding, Verdict

SENT_LIMIT = 1e-3  # of the packets asked for: that were not sent, or sent without being asked for
REFUSED_MIN = 1e-3  # lost at maximum rate; with less, the chain took what the generator could make
STRETCH_LIMIT = 1.01  # of the intended duration,
STRETCH_SLACK_NS = 10_000_000  # or this, in a trial so short that a scheduler's tick shows
PREEMPTION_LIMIT = 1e-3  # of the duration, when packets were lost;
PREEMPTION_LATENCY_LIMIT = 0.05  # or when none were: the latencies have that waiting in them
OTHERS_LIMIT = 0.3  # CPUs taken by others, where the load has no CPU of its own
OVER_LIMIT = 1.02  # of an lcore's time, busy; readings of it are not of one instant
PACE_LIMIT = 1.1  # TSC cycles for what takes one cycle of a core at its base frequency

# What may have lost packets that the chain did not: a search repeats such a trial.
DISTURBED = frozenset({"stall", "sink", "preemption", "standstill"})
_INVALID = frozenset({"conservation", "accounting", "surplus", "content", "time"})
_GENERATOR = frozenset({"unsent", "oversent", "stretched", "generator-limit", "port"})
_BEHIND = frozenset({"unsent", "stretched"})


def audit(facts: Facts) -> Audit:
    findings = tuple(_findings(facts))
    behind, took, meant = facts.behind_s, facts.took_s, facts.intended_s
    return Audit(
        verdict=verdict(findings),
        findings=findings,
        unsent=max(0, (facts.asked or 0) - facts.sent),
        behind_max_ns=round((behind or 0.0) * 1e9),
        duration_ns=None if took is None else round(took * 1e9),
        intended_duration_ns=None if meant is None else round(meant * 1e9),
    )


def verdict(findings: Sequence[Finding]) -> Verdict:
    failed = {finding.check for finding in findings if not finding.ok}
    if failed & _INVALID:
        return "invalid"
    if failed & (_GENERATOR - _BEHIND if starved(findings) else _GENERATOR):
        return "generator-bound"
    return "suspect" if failed else "ok"


def starved(findings: Iterable[Finding]) -> bool:
    """Whether an lcore was kept from running for as long as a source was behind: then it was the
    machine that was too slow, and the generator's own limit is not known."""
    told = {one.check: one for one in findings}

    def share(check: str) -> float:
        return told[check].value or 0.0 if check in told else 0.0

    held = max(share("preemption"), share("standstill"))
    behind = {"unsent": share("unsent"), "stretched": share("stretched") - 1}
    missed = max((behind[check] for check in _BEHIND if check in told and not told[check].ok),
                 default=0.0)  # fmt: skip
    return 0 < missed <= held


def with_findings(judged: Audit, *more: Finding) -> Audit:
    """A trial's audit, and what is only known when others are done."""
    findings = (*judged.findings, *more)
    return judged.model_copy(update={"findings": findings, "verdict": verdict(findings)})


def _findings(facts: Facts) -> Iterable[Finding]:
    checks = (
        *_sent(facts),
        _kept(facts),
        _surplus(facts),
        _stretched(facts),
        _stall(facts),
        _sink(facts),
        _late(facts),
        _preemption(facts),
        _standstill(facts),
        _pace(facts),
        _alone(facts),
        _time(facts),
        _others(facts),
        _content(facts),
        _conservation(facts),
        _accounting(facts),
    )
    return (*filter(None, checks), *facts.more)


def _sent(facts: Facts) -> list[Finding]:
    if facts.asked is None:
        return []
    asked, unsent = facts.asked, max(0, facts.asked - facts.sent)
    ratio = unsent / asked if asked else 0.0
    text = f"The source made all {asked} {facts.unit}."
    if unsent:
        text = f"The source could not make {unsent} of {asked} {facts.unit} in time ({ratio:.3%})."
    checks = [
        Finding(check="unsent", ok=ratio <= SENT_LIMIT, text=text, value=ratio, limit=SENT_LIMIT)
    ]
    over = (facts.sent - asked) / asked if asked else 0.0
    if over > SENT_LIMIT:
        text = f"The source sent {facts.sent} {facts.unit} where {asked} were asked for."
        checks.append(Finding(check="oversent", ok=False, text=text, value=over, limit=SENT_LIMIT))
    return checks


def refused(lost: int, sent: int) -> bool:
    """Whether the chain, and not the generator, set a trial's figure at maximum rate."""
    return lost > sent * REFUSED_MIN


def _kept(facts: Facts) -> Finding | None:
    """What the tester's own ports did not take. Whose figure a maximum then is shows in what became
    of the rest; a load that was asked for is not the one that left them."""
    if facts.kept is None:
        return None
    kept, left = facts.kept, facts.sent - facts.kept
    share, own = f"{kept} of {facts.sent} {facts.unit}", facts.lost - kept
    chains = facts.kept_by == "chain" or (facts.asked is None and refused(own, left))
    text = "The tester's ports took all that was sent."
    if kept:
        text = f"The tester's ports had no room for {share}"
    if kept and facts.kept_by == "chain":
        text += (
            ": they are memory that the chain shares, and it did not take what was there. That is "
            "the chain's loss."
        )
    elif kept and chains:
        text += (
            f"; of the {left} that left them the chain lost {own}: more than it can carry "
            "reached it."
        )
    elif kept:
        text += ": their loss, and not the chain's."
    ok = chains or not kept
    return Finding(check="port", ok=ok, text=text, value=float(kept), limit=0)


def _surplus(facts: Facts) -> Finding | None:
    """A loss below zero."""
    over = facts.received - facts.sent
    if over <= 0:
        return None
    return Finding(
        check="surplus",
        ok=False,
        text=f"{over} {facts.unit} more arrived than were sent: an earlier trial left them in "
        "queues, or they came twice.",
        value=float(over),
        limit=0,
    )


def _stretched(facts: Facts) -> Finding | None:
    if facts.took_s is None or not facts.intended_s:
        return None
    stretch = facts.took_s / facts.intended_s
    slack = (facts.took_s - facts.intended_s) * 1e9 <= STRETCH_SLACK_NS
    return Finding(
        check="stretched",
        ok=stretch <= STRETCH_LIMIT or slack,
        text=f"Sending took {facts.took_s:.3f} s of an intended {facts.intended_s:.3f} s.",
        value=stretch,
        limit=STRETCH_LIMIT,
    )


def _stall(facts: Facts) -> Finding | None:
    """After a stall an open-loop source sends what is due at once. If that is more than the first
    ring holds, a loss there says nothing about the chain."""
    if facts.behind_s is None or facts.room_s is None:
        return None
    late = facts.behind_s > facts.room_s and facts.lost > 0
    text = f"The source was at most {facts.behind_s * 1e6:.0f} us behind its schedule"
    if late:
        text += f"; the burst that followed was more than the first ring holds ({facts.lost} lost)"
    return Finding(
        check="stall",
        ok=not late,
        text=f"{text}.",
        value=facts.behind_s * 1e9,
        limit=facts.room_s * 1e9,
    )


def _sink(facts: Facts) -> Finding | None:
    """Packets that the chain delivered and the sink had no time for are no loss of the chain."""
    if facts.sink_full is None:
        return None
    full = facts.sink_full
    text = "The sink took all that the chain gave."
    if full:
        text = f"{full} packets were lost between the chain and the sink: the sink was too slow."
    return Finding(check="sink", ok=full == 0, text=text, value=float(full), limit=0)


def _late(facts: Facts) -> Finding | None:
    if not facts.undecided:
        return None
    return Finding(
        check="late",
        ok=False,
        text=f"{facts.undecided} packets came so late that they cannot be told from duplicates, as "
        "the memory for missing numbers was full; they do not count as received.",
        value=float(facts.undecided),
        limit=0,
    )


def _share(seconds: float, of: float) -> float:
    """It is all at most: the kernel counts stolen time in ticks, and a pause that began before the
    first reading is counted when it ends."""
    return min(1.0, seconds / of) if of > 0 else 0.0


def _most(facts: Facts, shares: Mapping[LcoreTime, float]) -> tuple[LcoreTime, float, float] | None:
    worst = max(shares, key=lambda clock: shares[clock], default=None)
    if worst is None:
        return None
    return worst, shares[worst], PREEMPTION_LIMIT if facts.lost else PREEMPTION_LATENCY_LIMIT


def _preemption(facts: Facts) -> Finding | None:
    """Other work on an lcore, or another guest on its core, loses packets in the chain's name."""
    shares = {
        c: _share(c.kept_s, c.watched_s) for c in facts.clocks if c.judged and c.kept_s is not None
    }
    worst = _most(facts, shares)
    if worst is None:
        return None
    clock, share, limit = worst
    text = f"{clock.name} was kept from running for {share:.2%} of the trial"
    if share > limit and facts.lost:
        text += f", and {facts.lost} {facts.unit} were lost; whose loss they are cannot be told"
    elif share > limit:
        text += ": the latencies are the machine's as much as the chain's"
    return Finding(check="preemption", ok=share <= limit, text=f"{text}.", value=share, limit=limit)


def _standstill(facts: Facts) -> Finding | None:
    """Pauses of a poller that the kernel does not account for: it was stopped, or a host lends the
    CPU to other guests and does not own up to it as steal."""
    shares = {
        c: _share(c.unexplained_s, c.read_s) for c in facts.clocks if c.unexplained_s is not None
    }
    worst = _most(facts, shares)
    if worst is None:
        return None
    clock, share, limit = worst
    if not share:
        return Finding(check="standstill", ok=True, text="No lcore stood still unexplained.")
    text = f"{clock.name} stood still for {share:.2%} of the trial, and the kernel knows not why"
    if share > limit:
        text += ": it was stopped, or a host lends its CPU to others"
    return Finding(check="standstill", ok=share <= limit, text=f"{text}.", value=share, limit=limit)


def _pace(facts: Facts) -> Finding | None:
    """A core that saves power is slow while nothing else says so: its work takes longer by the
    clock."""
    paces = {c: c.pace for c in facts.clocks if c.pace is not None}
    worst = max(paces, key=lambda clock: paces[clock], default=None)
    if worst is None:
        return None
    pace, mhz = paces[worst], worst.tsc_hz / 1e6
    text = f"{worst.name} worked at {mhz / pace:.0f} MHz (base frequency {mhz:.0f} MHz)"
    if pace > PACE_LIMIT:
        text += ": to save power, or because of heat"
    return Finding(
        check="pace", ok=pace <= PACE_LIMIT, text=f"{text}.", value=pace, limit=PACE_LIMIT
    )


def _alone(facts: Facts) -> Finding | None:
    """A busy hyperthread on the same core, ours or another guest's, takes half of its adders."""
    widths = {c: c.width for c in facts.clocks if c.width is not None}
    worst = min(widths, key=lambda clock: widths[clock], default=None)
    if worst is None:
        return None
    width = widths[worst]
    text = f"{worst.name} did {width:.1f} additions at once, where 4 were asked for"
    if width < WIDTH_LIMIT:
        text += ": a hyperthread beside it, be it another guest's, takes a part of its core"
    return Finding(
        check="alone", ok=width >= WIDTH_LIMIT, text=f"{text}.", value=width, limit=WIDTH_LIMIT
    )


def _time(facts: Facts) -> Finding | None:
    """OPS is a part of REF; VNFs that share an lcore are read one after the other."""
    shares = {c: c.busy for c in facts.clocks if c.busy is not None}
    worst = max(shares, key=lambda clock: shares[clock], default=None)
    if worst is None:
        return None
    most = shares[worst]
    text = "No lcore was busy for longer than there was time."
    if most > OVER_LIMIT:
        text = (
            f"{worst.name} was busy for {most:.2f} times the time that there was: its cycles were "
            "not counted right."
        )
    return Finding(check="time", ok=most <= OVER_LIMIT, text=text, value=most, limit=OVER_LIMIT)


def _others(facts: Facts) -> Finding | None:
    """Work of others on the same CPUs makes a trial's figures theirs as much as the chain's."""
    if facts.others_cpus is None:
        return None
    cpus = max(0.0, facts.others_cpus)
    return Finding(
        check="other work",
        ok=cpus <= OTHERS_LIMIT,
        text=f"Other processes of this machine took {cpus:.2f} of its {facts.cpus} CPUs.",
        value=cpus,
        limit=OTHERS_LIMIT,
    )


def _content(facts: Facts) -> Finding | None:
    if facts.wrong is None:
        return None
    text = f"{facts.wrong} {facts.unit} arrived with another content than was sent."
    return Finding(
        check="content", ok=facts.wrong == 0, text=text, value=float(facts.wrong), limit=0
    )


def _conservation(facts: Facts) -> Finding | None:
    """in + created = out + dropped + consumed + change in held, at every function."""
    if facts.amiss is None:
        return None
    wrong = {name: count for name, count in facts.amiss.items() if abs(count) > facts.inside}
    text = "Every function's counters add up."
    if wrong:
        text = "Packets unaccounted for at " + ", ".join(f"{n} ({c})" for n, c in wrong.items())
    return Finding(check="conservation", ok=not wrong, text=text, value=float(len(wrong)), limit=0)


def _accounting(facts: Facts) -> Finding | None:
    """sent = received once + dropped at a place + held, of each direction and size class."""
    if not facts.accounts:
        return None
    created = [] if facts.created is None else [facts.created]
    everything = [*facts.accounts, *created]
    wrong = [one for one in everything if abs(one.unknown) > facts.inside]
    worst = max(abs(one.unknown) for one in everything)
    shown = wrong or [one for one in everything if one.size == "all"]
    text = "; ".join(_words(one, one is facts.created) for one in shown)
    if wrong:
        text = f"Nobody knows where packets went: {text}"
    return Finding(
        check="accounting",
        ok=not wrong,
        text=f"{text[0].upper()}{text[1:]}.",
        value=float(worst),
        limit=float(facts.inside),
    )


def _words(one: Account, created: bool) -> str:
    size = "" if one.size == "all" else f" of {one.size} bytes"
    what = "made by functions" if created else f"sent {one.direction}"
    if one.direction == "both" and not created:
        what = "sent both ways"
    places = ", ".join(f"{place} {count}" for place, count in sorted(one.dropped.items()))
    dropped = f"{sum(one.dropped.values())} were dropped" + (f" ({places})" if places else "")
    return (
        f"of {one.sent} packets{size} {what} {one.received} arrived, {dropped}, "
        f"{one.held} are held, {one.unknown} unknown"
    )
