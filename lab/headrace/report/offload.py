# SPDX-License-Identifier: Apache-2.0
"""What offloaded forwarding keeps and gains, what routing daemons reach, and whether a host comes
through when its VNFs are killed, as sections of a bundle's report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.analyse.convergence import Converged, converged
from headrace.analyse.offload import MAX, OffloadMode, offload_modes, remarks, verdicts
from headrace.record.bundle import Bundle
from headrace.record.chaos import ChaosOutcome, chaos_outcomes
from headrace.record.convergence import old_changes
from headrace.record.known import known
from headrace.report.document_model import AtLeast, Cell, Column, Items, Row, Section, Table

_RATE = (Column("throughput", "rate", digits=4), Column("spread", "share", digits=2))
_RATIOS = (
    Column("of bare metal", "share", optional=True),
    Column("times conventional", optional=True),
)


def sections(bundle: Bundle) -> Iterator[Section]:
    """None of a bundle of something else."""
    if _has_modes(bundle):
        yield from _compared(offload_modes(bundle.results()))
    changes = [one.change for one in bundle.results() if one.change is not None]
    if rows := converged(changes or old_changes(bundle.path)):
        yield _converged(rows)
    for number, outcome in chaos_outcomes(bundle.path).items():
        yield _killed(number, outcome)


def sentence(bundle: Bundle) -> str:
    """What offloading keeps and gains at saturation; empty of a bundle of something else."""
    if not _has_modes(bundle):
        return ""
    texts = list(verdicts(offload_modes(bundle.results())))
    told = [one for one in texts if ", saturation:" in one] or texts
    return f"{'; '.join(told)}." if told else ""


def _has_modes(bundle: Bundle) -> bool:
    return any(one.mode is not None for one in known(bundle).experiments)


def _compared(modes: Sequence[OffloadMode]) -> Iterator[Section]:
    for goal in dict.fromkeys(rate.goal for one in modes for rate in one.rates):
        yield _goal(goal, modes)
    yield from _delays(modes)
    lines = (*verdicts(modes), *remarks(modes))
    if lines:
        yield Section("What it comes to", blocks=(Items(lines),))


def _goal(goal: str, modes: Sequence[OffloadMode]) -> Section:
    most = goal == MAX
    more = (Column("cycles"), Column("updates", unit="per s")) if most else ()
    rows, lost = [], None
    for one in modes:
        for rate in (rate for rate in one.rates if rate.goal == goal):
            lost = rate.loss_ratio
            pps: Cell = AtLeast(rate.pps) if rate.generator_bound else rate.pps
            cells = (one.mode, pps, rate.spread, rate.of_bare_metal, rate.times_conventional)
            own = (one.cycles_per_packet, one.updates_per_s) if most else ()
            rows.append(Row((*cells, *own), doubtful=one.verdict != "ok"))
    table = Table((Column("mode", "text"), *_RATE, *_RATIOS, *more), tuple(rows))
    about = "" if lost is None else f"highest load with at most {lost:.3%} lost"
    return Section(
        "Modes at saturation" if most else f"Modes: {goal}", blocks=(table,), about=about
    )


def _delays(modes: Sequence[OffloadMode]) -> Iterator[Section]:
    columns = (
        Column("mode", "text"),
        *(Column(name, "time") for name in ("p50", "p99", "IPDV")),
        Column("loss", "loss"),
    )
    for load in dict.fromkeys(delay.load_pps for one in modes for delay in one.delays):
        rows = tuple(
            (one.mode, delay.p50_ns, delay.p99_ns, delay.ipdv_ns, delay.loss_ratio)
            for one in modes
            for delay in one.delays
            if delay.load_pps == load
        )
        about = f"at {load:.0f} packets/s"
        yield Section("Modes: delays and loss", blocks=(Table(columns, rows),), about=about)


def _converged(rows: Sequence[Converged]) -> Section:
    columns = (
        *(Column(heading, "text") for heading in ("daemon", "change")),
        Column("times", "count"),
        *(Column(heading, unit="routes/s") for heading in ("median", "from", "to")),
        *(Column(heading, unit="s") for heading in ("first", "last")),
        Column("CPUs busy", "text"),
    )
    lines = tuple(
        (
            one.daemon, one.event, one.changes, one.per_s, one.per_s_min, one.per_s_max,
            one.reaction_s, one.seconds,
            ", ".join(f"{name} {share:.2f}" for name, share in one.busy.items()),
        )
        for one in rows
    )  # fmt: skip
    title = f"Changes of {rows[0].routes} routes, by BGP, until the engine has them"
    return Section(title, blocks=(Table(columns, lines),))


def _killed(number: int, outcome: ChaosOutcome) -> Section:
    kills, killed = sum(outcome.kills.values()), outcome.handed_over is None
    how = "killed and started again" if killed else "replaced by another one"
    lines = (
        f"{kills} times one of {len(outcome.kills)} VNFs was {how}, in "
        f"{outcome.seconds:.0f} s; {outcome.received} of {outcome.sent} packets came through.",
        *(f"{'' if f.ok else '✗ '}{f.text}" for f in outcome.findings),
    )
    about = "the host came through" if outcome.passed else "the host was harmed"
    title = f"VNFs {'killed' if killed else 'replaced'}, trial {number}"
    return Section(title, blocks=(Items(lines),), about=about)
