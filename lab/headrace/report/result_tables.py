# SPDX-License-Identifier: Apache-2.0
"""The tables of a run's results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from headrace.analyse.bundle_report import ReportGroup
from headrace.analyse.reached import rate
from headrace.analyse.summary import Spread, Summary
from headrace.analyse.units import exact_percent, percent
from headrace.record.text import between
from headrace.report.document_model import AtLeast, Below, Cell, Column, Medium, Row, Table


class Field(NamedTuple):
    column: Column
    cell: Callable[[Summary], Cell]


def results(group: ReportGroup) -> Table:
    """With policy drops what was offered stands beside what came through."""
    rows = (*group.summaries, *group.single)
    offered = (OFFERED,) if any(s.by_policy for s in rows) else ()
    ends = ENDS if group.foreign else ()
    return _table(group, (*offered, *RESULTS, *ends), group.summaries)


def applications(group: ReportGroup, roles: Mapping[str, str]) -> Table:
    """`roles`: what each chain was measured for, where that is known."""
    role = Field(Column("", "text", optional=True), lambda s: roles.get(s.key.chain, ""))
    return _table(group, (*((role,) if roles else ()), *APPLICATIONS), group.summaries)


def directions(group: ReportGroup, on: Medium) -> Table:
    return _table(group, RESULTS, group.single, on)


def _table(
    group: ReportGroup, fields: Sequence[Field], summaries: Sequence[Summary], on: Medium = "both"
) -> Table:
    """Rows by goal; a prediction stands beside its measurement."""
    # A fixed load of both directions together is twice that of each: a goal of its own.
    goals = list(dict.fromkeys((*group.goals, *(s.key.goal_text for s in summaries))))
    names = list(dict.fromkeys(map(group.named, summaries)))
    rows = sorted(
        summaries, key=lambda s: (goals.index(s.key.goal_text), names.index(group.named(s)))
    )
    return Table(
        (
            Column("chain" if group.foreign else "execution", "text"),
            *(field.column for field in fields),
            Column("audit", "verdict"),
        ),
        tuple(
            Row(
                (_named(group, s), *(field.cell(s) for field in fields), s.verdict),
                s.key.goal_text,
                not s.trusted,
            )
            for s in rows
        ),
        "goal",
        on,
    )


def _named(group: ReportGroup, s: Summary) -> str:
    ground = "" if s.key.ground == "measured" else f" ({s.key.ground})"
    way = "" if group.foreign or s.key.direction == "forward" else f", {s.key.direction}"
    return group.named(s) + ground + way


def _hits(s: Summary) -> Cell:
    """What the chain's first cache answered itself, of what it was to."""
    seen = [r.application for r in s.results if r.application]
    ratios = [a.hit_ratio for a in seen if a.hit_ratio is not None]
    asked = [a.hit_ratio_asked for a in seen if a.hit_ratio_asked is not None]
    if not ratios:
        return None
    return percent(median(ratios), 2) + (f" of {exact_percent(median(asked))}" if asked else "")


def _offered(s: Summary) -> Cell:
    return AtLeast(s.offered_pps) if s.lower_bound else s.offered_pps


def rate_cell(s: Summary) -> Cell:
    # A lower bound is of the load: of what passes a policer, more load is not more.
    if s.unmet_pps is not None:
        return Below(s.unmet_pps)
    median = s.throughput_pps.median
    return AtLeast(median) if s.lower_bound and not s.by_policy else median


def _bits(rate: Callable[[Summary], Spread]) -> Callable[[Summary], Cell]:
    return lambda s: None if s.unmet_pps is not None else rate(s).median


def _of(name: str, spreads: Callable[[Summary], dict[str, Spread]]) -> Callable[[Summary], Cell]:
    def median(s: Summary) -> Cell:
        spread = spreads(s).get(name)
        return spread.median if spread else None

    return median


def _latency(name: str, on: Medium = "both", from_width: int = 0) -> Field:
    column = Column(name, "time", on=on, from_width=from_width)
    return Field(column, _of(name, lambda s: s.latency_ns))


def _requests(s: Summary) -> float | None:
    """None of streams, which ask for nothing."""
    asked = any(r.application and r.application.requests for r in s.results)
    return s.application["requests_per_s"].median if asked else None


def _seen(column: Column, name: str) -> Field:
    return Field(column, _of(name, lambda s: s.application))


def _carried(s: Summary) -> Cell:
    """Between which rates a described server's prediction lies: a load that was chosen is none."""
    one = s.typical.predicted
    if one is None or one.carried_pps is None or s.key.goal == "fixed":
        return None
    return between(one.carried_pps.low, one.carried_pps.high)


OFFERED = Field(Column("offered", "own-rate"), _offered)
SPREAD = Field(
    Column("spread", "share", "max − min", digits=2),
    lambda s: None if s.unmet_pps is not None else s.throughput_pps.relative,
)
LOSS = Field(Column("loss", "loss"), lambda s: s.loss_ratio.median)
TIMES = (_latency("p50", from_width=88), _latency("p99"))
RESULTS = (
    Field(Column("throughput", "rate", digits=4), rate_cell),
    SPREAD,
    Field(Column("predicted range", "text", from_width=120, optional=True), _carried),
    Field(Column("L1", unit="Gbit/s", from_width=100), _bits(lambda s: s.throughput_gbps_l1)),
    Field(Column("L2", unit="Gbit/s", on="page"), _bits(lambda s: s.throughput_gbps_l2)),
    LOSS,
    *TIMES,
    _latency("max", "page"),
    Field(Column("PDV p99", "time", from_width=110), _of("p99", lambda s: s.pdv_ns)),
    Field(
        Column("cycles", on="terminal", from_width=90, optional=True),
        lambda s: s.cycles.median if s.cycles else None,
    ),
)
APPLICATIONS = (
    Field(Column("rate", "text"), lambda s: str(rate(s.results))),
    Field(Column("", "bar"), lambda s: rate(s.results).median),
    Field(
        Column("spread", "share", "max − min", digits=2, optional=True),
        lambda s: rate(s.results).spread if len(s.results) > 1 else None,
    ),
    _seen(Column("goodput", unit="Gbit/s", on="page"), "gbps"),
    _seen(Column("to servers", unit="Gbit/s", from_width=110, optional=True), "to_servers_gbps"),
    _seen(Column("to clients", unit="Gbit/s", from_width=110, optional=True), "to_clients_gbps"),
    Field(Column("requests", unit="per s", on="page", optional=True), _requests),
    Field(Column("cache hits", from_width=100), _hits),
    Field(Column("loss", "loss", on="terminal"), LOSS.cell),
    *(field._replace(column=replace(field.column, optional=True)) for field in TIMES),
)
ENDS = (_seen(Column("errors"), "errors"), _seen(Column("retransmits"), "retransmits"))
