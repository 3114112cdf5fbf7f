# SPDX-License-Identifier: Apache-2.0
"""What a bundle's results say: groups that stand in one table, and what limits each chain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from headrace.analyse.appliances import compared_in
from headrace.analyse.beside import Compared
from headrace.analyse.bottleneck import Pipe, pipe_of, room
from headrace.analyse.capacity import parts_of
from headrace.analyse.conclusion import Conclusion, conclude, overall
from headrace.analyse.lcores_moved import moved
from headrace.analyse.notes import doubt, not_made, tails_of_pauses
from headrace.analyse.reached import Reached, reached
from headrace.analyse.summary import Summary, key_of, summarise
from headrace.analyse.units import count, ns, percent, plural, significant
from headrace.model.paired import quietest_of, turns_of
from headrace.record.bundle import Bundle, Status
from headrace.record.claim import JudgedClaim
from headrace.record.environment import Environment
from headrace.record.frozen import Record
from headrace.record.identity import Phase
from headrace.record.rows import Goal, Measurement, Result, Trial
from headrace.record.segments import Segment

_VNF = re.compile(r"vnf(\d+)\.\d+")
ASKED: tuple[Phase, ...] = ("search", "fixed")
_IN_TITLE = 4  # chains
IDLE_LOAD = 1.0  # 1-minute load average above which a machine was not idle


class Explained(Record):
    """A summary and where its chain is narrowest."""

    summary: Summary
    pipe: Pipe


class ReportGroup(Record):
    """Results that stand in one table: the same chain and workload; of third-party VNFs all chains
    on one network.

    With traffic both ways the sum is shown and explained (an lcore serves both directions);
    the single directions stand beside it.
    """

    workload: str
    direction: str
    nfs: tuple[str, ...]  # of one chain, where several of a kind are hosted
    copies: int  # how many of them
    goals: tuple[str, ...]
    primary: str  # the goal that the pictures show
    summaries: tuple[Summary, ...]
    single: tuple[Summary, ...]  # forward and reverse apart, where `direction` is both
    explained: tuple[Explained, ...]  # of the primary goal: measured, or else predicted ones
    compared: tuple[Compared, ...] = ()  # what a study of containers says instead
    conclusion: Conclusion | None = None

    @property
    def place(self) -> str:
        """What all of it has in common, beside the workload."""
        first = self.summaries[0].key
        return first.execution if self.foreign else first.chain

    def named(self, s: Summary) -> str:
        """What tells a row from the others."""
        return s.key.chain if self.foreign else s.key.execution

    @property
    def shown(self) -> tuple[Summary, ...]:
        """What pictures show; a prediction beside its measurement."""
        names = list(dict.fromkeys(s.key.execution for s in self.summaries))
        some = [s for s in self.summaries if s.key.goal_text == self.primary]
        return tuple(sorted(some, key=lambda s: names.index(s.key.execution)))

    @property
    def goal(self) -> Goal | None:
        """The parameters of the primary goal, where it is one of a search."""
        return next((g for s in self.shown if (g := s.typical.goal_parameters)), None)

    @property
    def best(self) -> Summary | None:
        """The fastest that may be believed. Of VNFs that stand alone, in chains and in numbers none
        is: they were not measured to be chosen from."""
        if self.foreign:
            return None
        measured = [s for s in self.shown if s.key.ground == "measured"] or self.shown
        trusted = [s for s in measured if s.trusted]
        return max(trusted, key=lambda s: s.throughput_pps.median, default=None)

    @property
    def repeated(self) -> bool:
        return any(len(s.results) > 1 for s in self.summaries)

    @property
    def foreign(self) -> bool:
        """Third-party VNFs: no functions of ours, and their graph may be more than a chain."""
        return any(s.application for s in self.summaries)

    @property
    def intended(self) -> tuple[str, ...]:
        """What was dropped on purpose, where that is not in the loss."""
        rows = (*self.summaries, *self.single)
        return tuple(_by_policy(s) for s in rows if s.by_policy)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the table must know of its figures."""
        least = min(
            (s for s in self.summaries if s.key.load_pps is not None),
            key=lambda s: s.key.load_pps or 0.0,
            default=None,
        )
        small = None if least is None else _small_bursts(least)
        paused = tails_of_pauses(self.summaries)
        short = [text for s in self.summaries if (text := not_made(s)) is not None]
        return (*self.intended, *short, *filter(None, (small, paused)))

    @property
    def doubts(self) -> tuple[str, ...]:
        """What the audit found of the goals that are not explained."""
        explained = {e.summary.key for e in self.explained}
        return tuple(doubt(s) for s in self.summaries if not s.trusted and s.key not in explained)


class Report(Record):
    name: str
    path: str
    status: Status
    groups: tuple[ReportGroup, ...]
    trials: int
    cautions: tuple[str, ...]  # what a reader must know before reading any figure
    environment: Environment | None
    study: str = ""  # its name
    description: str = ""  # of the study, by whoever wrote it
    reached: tuple[Reached, ...] = ()  # by deployments of third-party VNFs
    claims: tuple[JudgedClaim, ...] = ()

    @property
    def sentence(self) -> str:
        """What all of it comes to; empty where nothing can be said."""
        if lines := [c.lines[0] for g in self.groups for c in g.compared]:
            return lines[0] if len(lines) == 1 else ""
        return overall([g.conclusion for g in self.groups if g.conclusion is not None])

    @property
    def title(self) -> str:
        """The chains; the study where they are too many for a line."""
        chains = dict.fromkeys(g.place for g in self.groups if not g.foreign)
        if len(chains) > _IN_TITLE and self.study:
            return self.study
        return ", ".join(chains) or self.name


def report(bundle: Bundle) -> Report:
    results, trials = _of_packets(bundle.results()), bundle.trials()
    environment = bundle.environment
    deployed = reached(bundle)
    compared = compared_in(bundle, deployed)
    summaries = summarise(results)
    groups = tuple(
        _group([s for s in summaries if _place(s) == place], trials, compared)
        for place in dict.fromkeys(map(_place, summaries))
    )
    return Report(
        name=bundle.path.resolve().name,
        path=str(bundle.path),
        status=bundle.status,
        groups=groups,
        trials=len({t.trial for t in trials}),
        cautions=(
            *_cautions(bundle.status, summaries, bundle.results()),
            *([text] if (text := moved(trials)) else []),
            *_disturbed(environment),
        ),
        environment=environment,
        study=_said(bundle.spec_data, "name"),
        description=_said(bundle.spec_data, "description"),
        reached=tuple(deployed),
        claims=bundle.claims,
    )


def _said(data: Any, key: str) -> str:
    return str(data.get(key) or "") if isinstance(data, dict) else ""


def _place(s: Summary) -> tuple[str, str]:
    """Results of one place stand in one table: executions of a chain beside each other, or chains
    of third-party VNFs on a network."""
    return (s.key.execution if s.application else s.key.chain, s.key.workload)


def _group(
    all_ways: Sequence[Summary], trials: Sequence[Trial], compared: Sequence[Compared]
) -> ReportGroup:
    main = _main_way(all_ways)
    summaries = [s for s in all_ways if s.key.direction == main]
    first = summaries[0].key
    primary = _primary(summaries)
    shown = [s for s in summaries if s.key.goal_text == primary]
    measured = [s for s in shown if s.key.ground == "measured"]
    shown = measured or [s for s in shown if s.key.ground == "predicted"]
    explained = tuple(
        Explained(summary=s, pipe=pipe_of(s.results, above_each(s.results, trials)))
        for s in shown
        if not s.application  # its VNFs are no segments of ours
    )
    return ReportGroup(
        workload=first.workload,
        direction=first.direction,
        nfs=nfs_of(summaries),
        copies=_copies(summaries),
        goals=tuple(dict.fromkeys(s.key.goal_text for s in summaries)),
        primary=primary,
        summaries=tuple(summaries),
        single=tuple(s for s in all_ways if s.key.direction != main),
        explained=explained,
        conclusion=conclude(
            [(e.summary, e.pipe) for e in explained],
            turns_of(trials, first.chain, first.workload),
            quietest_of(trials, first.chain, first.workload),
            {one.trial: one.line_cycles for one in trials if one.line_cycles},
        ),
        compared=tuple(
            c
            for c in compared
            if (f"container {c.network}", c.workload) == (first.execution, first.workload)
        ),
    )


def _of_packets(results: Sequence[Result]) -> list[Result]:
    """Routes that converge, and what policies made of a load, are shown apart."""
    return [one for one in results if one.change is None and one.operated is None]


def primary_results(results: Sequence[Result]) -> list[Result]:
    """Those that are explained: of each table's primary goal; both directions in sum, where there
    are both."""
    results = _of_packets(results)
    summaries = summarise(results)
    keys = set()
    for place in dict.fromkeys(map(_place, summaries)):
        here = [s for s in summaries if _place(s) == place]
        main = [s for s in here if s.key.direction == _main_way(here)]
        goal = _primary(main)
        keys |= {s.key.model_dump_json() for s in main if s.key.goal_text == goal}
    return [r for r in results if key_of(r).model_dump_json() in keys]


def _main_way(summaries: Sequence[Summary]) -> str:
    """The sum of both directions, or the only one."""
    ways = [s.key.direction for s in summaries]
    return "both" if "both" in ways else ways[0]


def _primary(summaries: Sequence[Summary]) -> str:
    """The strictest search goal; else the maximum rate; else the highest load that most
    executions were measured at."""
    measured = [s for s in summaries if s.key.ground == "measured"] or list(summaries)
    texts = [s.key.goal_text for s in measured]

    def strictness(s: Summary) -> tuple[int, float, float]:
        goal = s.results[0].goal_parameters
        if goal is not None:
            return (0, goal.loss_ratio, 0.0)
        if s.key.load_pps is None:
            return (1, 0.0, 0.0)
        return (2, -texts.count(s.key.goal_text), -s.key.load_pps)

    return min(measured, key=strictness).key.goal_text


def nfs_of(summaries: Sequence[Summary]) -> tuple[str, ...]:
    """The chain's NFs in order, from the cut of the first summary that has one."""
    for s in summaries:
        cut = [g for g in s.typical.segments if g.role == "chain"]
        if cut:
            return tuple(nf for g in cut if _hosted_chain(g) in (None, 1) for nf in g.nfs)
    return tuple(summaries[0].nf_cycles)


def _hosted_chain(segment: Segment) -> int | None:
    """`vnf2.1` is the first VNF of the second chain; None: in no chain of VNFs."""
    numbered = _VNF.fullmatch(segment.name) if segment.hosting != "inline" else None
    return int(numbered[1]) if numbered else None


def _copies(summaries: Sequence[Summary]) -> int:
    return max((_hosted_chain(g) or 1 for s in summaries for g in s.typical.segments), default=1)


def _by_policy(s: Summary) -> str:
    dropped, sent = sum(r.policy_dropped for r in s.results), sum(r.sent for r in s.results)
    way = "" if s.key.direction in ("forward", "both") else f", {s.key.direction}"
    share = percent(dropped / (sent or 1))
    return (
        f"{s.key.execution}, {s.key.goal_text}{way}: {count(dropped)} of "
        f"{count(sent)} packets sent ({share}) were dropped by policy; they are in "
        "neither the loss nor the throughput."
    )


def _small_bursts(s: Summary) -> str | None:
    """Why a function's cycles at a part of the load are not those at full load."""
    parts = [p for p in parts_of(s.typical) if p.role == "chain" and room(p)]
    if not parts:
        return None
    part = min(parts, key=lambda p: p.burst or 0.0)
    full = (
        f" In full bursts a packet takes {part.name} {significant(part.full_burst_cycles)} cycles "
        f"in all, here {significant(part.cycles_per_packet)}."
        if part.full_burst_cycles and part.cycles_per_packet
        else ""
    )
    return (
        f"{s.key.execution}, {s.key.goal_text}: {part.name}'s polls found "
        f"{significant(part.burst or 0.0, 2)} of at most {part.most_burst} packets. What a poll "
        "and caches that have gone cold cost once is spread over so few: cycles at a part of the "
        f"load are more than at all of it.{full}"
    )


def above_each(results: Sequence[Result], trials: Sequence[Trial]) -> list[Measurement]:
    return [one for r in results if (one := above(r, trials)) is not None]


def above(result: Result, trials: Sequence[Trial]) -> Measurement | None:
    """The trial of the same repetition at the lowest load that the chain did not carry, of those
    that were asked for: a warm-up or a calibration is far beyond what anybody wants to know."""
    allowed = result.goal_parameters.loss_ratio if result.goal_parameters else 0.0
    candidates = [
        t
        for t in trials
        if t.chain == result.chain
        and t.direction == result.direction
        and t.execution == result.execution
        and t.workload == result.workload
        and t.repetition == result.repetition
        and t.phase in ASKED
        and t.load_pps > result.load_pps
        and t.loss_ratio > allowed
        and t.counters is not None
    ]
    return min(candidates, key=lambda t: t.load_pps, default=None)


def shared(segments: Sequence[Segment]) -> list[str]:
    return [
        f"{s.name} shares its lcore with {', '.join(s.shares_cpu_with)}."
        for s in segments
        if s.shares_cpu_with
    ]


def _cautions(status: Status, summaries: Sequence[Summary], results: Sequence[Result]) -> list[str]:
    texts = []
    if (unfinished := status.unfinished) is not None:
        texts.append(f"{unfinished} It holds the trials that had ended.")
    if not results:
        texts.append("There are no results in it.")
    measured = [s for s in summaries if s.key.ground == "measured"]
    for verdict, meaning in _MEANING.items():
        doubtful = [s for s in measured if s.verdict == verdict and not _short_of_load(s)]
        if doubtful:
            texts.append(f"{meaning}: {_rows(doubtful)}.")
    short = [s for s in measured if _short_of_load(s)]
    if short:
        texts.append(f"The generator did not make these loads as asked: {_rows(short)}.")
    apart = [s for s in measured if s.disagree]
    for name in dict.fromkeys(s.key.chain for s in apart):
        of_chain = [s for s in measured if s.key.chain == name]
        several = len({s.key.workload for s in of_chain}) > 1
        rows = "; ".join(_spread(s, several) for s in of_chain if s.disagree)
        texts.append(f"Repetitions of {name} do not agree within 5 %: {rows}.")
    texts += _below_floor(measured)
    left_out = sum(s.excluded for s in measured)
    if left_out:
        texts.append(f"{plural(left_out, 'invalid repetition')} left out of the figures.")
    return texts


def _below_floor(summaries: Sequence[Summary]) -> list[str]:
    rows = [s for s in summaries if any(r.below_floor for r in s.results)]
    rates = [r for s in rows for r in s.results if r.below_floor]
    floors = [r.calibration.floor_ns for r in rates if r.calibration is not None]
    if not floors:
        return []
    latencies = [r.latency_ns.p50 for r in rates if r.latency_ns is not None]
    return [
        f"The tester's own latency floor ({ns(max(floors))}) is above what was measured through "
        f"the chain (p50 from {ns(min(latencies))}), so it is none: other work disturbed its "
        f"calibration. Latencies stand as measured, without it: {_rows(rows)}."
    ]


def _disturbed(environment: Environment | None) -> list[str]:
    """Other work at the start; the load at the end is mostly the engine's own polling."""
    load = environment.load_before if environment else None
    if load is None or load < IDLE_LOAD:
        return []
    return [
        f"Other work ran on this machine when the run began (load average {load:.1f}): "
        "expect lower and less steady figures than on an idle one."
    ]


_MEANING = {
    "generator-bound": "The generator, not the chain, set these loads; they are lower bounds",
    "suspect": "An audit check failed; read its finding before using these figures",
    "invalid": "These are no measurements of the chain",
    "not-audited": "Nothing checked the generator for these figures",
}


def _short_of_load(s: Summary) -> bool:
    return s.verdict == "generator-bound" and not s.lower_bound


def _rows(summaries: Sequence[Summary]) -> str:
    """`rtc (ndr, pdr); pipeline (ndr)`, with the chain's name where there are several."""
    goals: dict[str, list[str]] = {}
    chains = len({s.key.chain for s in summaries}) > 1 or any(s.application for s in summaries)
    for s in summaries:
        name = f"{s.key.chain}, {s.key.execution}" if chains else s.key.execution
        known = goals.setdefault(name, [])
        if s.key.goal_text not in known:
            known.append(s.key.goal_text)
    return "; ".join(f"{name} ({', '.join(known)})" for name, known in goals.items())


def _spread(s: Summary, with_workload: bool) -> str:
    way = "" if s.key.direction in ("forward", "both") else f", {s.key.direction}"
    workload = f", {s.key.workload}" if with_workload else ""
    spread = percent(s.throughput_pps.relative, 2)
    return f"{s.key.execution}, {s.key.goal_text}{workload}{way} ({spread})"
