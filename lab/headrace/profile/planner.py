# SPDX-License-Identifier: Apache-2.0
"""How `headrace plan` plans one chain: its costs, the best layout by them, and what that does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from headrace.engine.resteering import resteering
from headrace.layout import cut_search, cuts, goals
from headrace.layout.goals import WantedLayout
from headrace.layout.layout import Layout, NfCost, Problem, loads, throughput
from headrace.profile import chain_costs as costs
from headrace.profile import finalists, layout_point, stored, verified
from headrace.profile.point import Bench, Json
from headrace.profile.verified import ReferenceRun, Verified
from headrace.spec import plan as planned
from headrace.spec.document import Document
from headrace.spec.plan import ChainPlan, FunctionCost, LayoutPlan, Role, SegmentPlan
from headrace.spec.study import Experiment

_LCORES_SHARED = 3  # on so few, the lcores of the traffic run the chain, too


@dataclass(frozen=True)
class _Costs:
    """What a chain costs here, what was run meanwhile, and which layouts the costs come from."""

    problem: Problem
    reference: ReferenceRun | None = None
    mixed: bool = False  # not all in one state of the machine
    line_cycles: float | None = None
    taken: frozenset[Layout] = frozenset()


@dataclass(frozen=True)
class Planner:
    bench: Bench
    doc: Document
    cpus: Sequence[int]
    wanted: WantedLayout
    stored: bool  # costs come from profiles
    verify: bool
    say: Callable[[str], None]

    def plan(self, experiment: Experiment) -> tuple[ChainPlan, Json]:
        """The plan, and the layout that it chooses as a spec."""
        self.say(f"{experiment.chain}, {experiment.workload_name}:")
        priced = self._costs(experiment)
        at_its_load = replace(self, wanted=self.wanted.at(priced.problem))
        return at_its_load._planned(experiment, priced)

    def _planned(self, experiment: Experiment, priced: _Costs) -> tuple[ChainPlan, Json]:
        problem = priced.problem
        choice = goals.choose_layout(problem, self.wanted)
        if not self.stored and self.wanted.aim == "throughput":
            choice = finalists.tried(
                self.bench, self.doc, experiment, problem, choice, self._detail
            )
        layouts = _layouts(experiment, problem, choice.layout)
        figures, paces = self._verified(experiment, priced, layouts)
        names = [node.name for node in experiment.nodes]
        plan = ChainPlan(
            chain=experiment.chain,
            workload=experiment.workload_name,
            lcores=problem.lcores,
            generator=problem.traffic.generator,
            measure=problem.traffic.measure,
            tsc_hz=problem.tsc_hz,
            how=choice.how,
            bound_pps=choice.bound_pps,
            rate_pps=self.wanted.rate_pps,
            within_us=None if self.wanted.within_s is None else self.wanted.within_s * 1e6,
            aim=self.wanted.aim,
            costs="profiles" if self.stored else "measured",
            functions=tuple(
                _function_cost(nf, visits)
                for nf, visits in zip(problem.nfs, problem.visits, strict=True)
            ),
            source=(problem.traffic.source.same, problem.traffic.source.apart),
            sink=(problem.traffic.sink.same, problem.traffic.sink.apart),
            mixed=priced.mixed,
            line_cycles=priced.line_cycles,
            kept=problem.kept,
            layouts=tuple(
                _layout_plan(priced, names, role, layout, figures.get(role), self.wanted.rate_pps)
                for role, layout in layouts.items()
            ),
            reference=paces,
        )
        spec = layout_point.as_spec(
            self.doc, experiment, problem, choice.layout, self.bench.description
        )
        return plan, spec

    def _detail(self, text: str) -> None:
        self.say(f"  {text}")

    def _costs(self, experiment: Experiment) -> _Costs:
        """Costs with the lcores that the chain may have, and which functions may run side by
        side."""
        priced = self._from_profiles(experiment) if self.stored else self._measured(experiment)
        problem = priced.problem
        if len(self.cpus) > _LCORES_SHARED:
            problem = replace(problem, lcores=tuple(self.cpus[1:-1]))
        for_latency = self.wanted.aim == "latency" or self.wanted.within_s is not None
        if for_latency and len(problem.lcores) > 1:
            runs = layout_point.side_by_side(self.bench, self.doc, experiment, problem)
            problem = replace(problem, runs=runs)
            names = [node.name for node in experiment.nodes]
            together = [" and ".join(names[r.first : r.first + r.size]) for r in runs]
            neighbours = "; ".join(together) or "no neighbours"
            self._detail(f"may work on a packet side by side: {neighbours}")
        return replace(priced, problem=problem)

    def _from_profiles(self, experiment: Experiment) -> _Costs:
        cpus = list(self.cpus)
        resteers = resteering(experiment, self.bench.description)
        problem = stored.problem(self.doc, experiment, cpus, self._detail, resteers)
        line, mixed = stored.line_cycles(experiment)
        priced = _Costs(problem, mixed=mixed, line_cycles=line)
        if not self.verify:
            return priced
        # Layouts are held against costs of where lcores were for the profiles, not of where they
        # are now.
        self.bench.lines = {} if line is None else {frozenset((cpus[0], cpus[-1])): line}
        reference = stored.reference(self.bench, experiment, cpus, self._folder())
        return replace(priced, reference=reference)

    def _measured(self, experiment: Experiment) -> _Costs:
        at_a_load = self.wanted.at_a_load
        priced = costs.problem(
            self.bench, self.doc, experiment, list(self.cpus), self._detail, for_latency=at_a_load
        )
        return _Costs(
            priced.problem,
            priced.reference,
            self.bench.mixed,
            self.bench.line_cycles(self.cpus),
            priced.taken,
        )

    def _folder(self) -> Path:
        """It belongs to this run, and is gone with it."""
        folder = self.bench.session.state.path / "profile"
        folder.mkdir(exist_ok=True)
        return folder

    def _verified(
        self, experiment: Experiment, priced: _Costs, layouts: Mapping[Role, Layout]
    ) -> tuple[dict[Role, Verified], planned.Reference | None]:
        """What each layout does when it is run, and how fast the machine was meanwhile."""
        if not self.verify:
            return {}, None
        prepared = {  # what is the same runs once
            one: layout_point.deployed(self.bench, self.doc, experiment, priced.problem, one)
            for one in layouts.values()
        }
        several, beside = verified.verify(
            self.bench, prepared, layouts["best"], priced.reference, self.wanted.rate_pps
        )
        figures = {role: several[layout] for role, layout in layouts.items()}
        if priced.reference is None:
            return figures, None
        paces = verified.then_and_now(priced.reference, beside, self.bench.tsc_hz)
        self._detail(f"pace of the machine since costs were taken: {paces.pace:.2f}")
        return figures, paces


def _layouts(experiment: Experiment, problem: Problem, best: Layout) -> dict[Role, Layout]:
    layouts: dict[Role, Layout] = {
        "best": best,
        "rtc": cuts.run_to_completion(problem),
        "pipeline": cuts.pipeline(problem),
    }
    if (given := layout_point.told(experiment, problem)) is not None:
        layouts["given"] = given
    return layouts


def _function_cost(nf: NfCost, visits: float) -> FunctionCost:
    return FunctionCost(
        name=nf.name,
        work=(nf.work.same, nf.work.apart),
        receive=(nf.rx.same, nf.rx.apart),
        send=(nf.tx.same, nf.tx.apart),
        loop=nf.loop,
        poll=nf.poll,
        replicated=nf.replicated,
        share=visits,
    )


def _layout_plan(
    priced: _Costs,
    names: list[str],
    role: Role,
    layout: Layout,
    figures: Verified | None,
    rate_pps: float | None,
) -> LayoutPlan:
    problem = priced.problem
    rates = figures.counting if figures else []
    quiet = figures.quiet if figures else []
    whole = figures.whole_p99s_s if figures else []
    predicted = None if rate_pps is None else cut_search.expected(problem, layout, rate_pps)
    tail = None if predicted is None else predicted.p99_s
    return LayoutPlan(
        role=role,
        taken=layout in priced.taken,
        segments=tuple(
            _segment(layout, names, i, group, on)
            for i, (group, on) in enumerate(zip(layout.groups(names), layout.lcores, strict=True))
        ),
        predicted_pps=throughput(problem, layout),
        cycles_per_lcore=loads(problem, layout),
        measured_pps=median(rates) if rates else None,
        measured_min_pps=min(rates, default=None),
        measured_max_pps=max(rates, default=None),
        paced_pps=figures.paced_pps if figures else None,
        elsewhere=figures is not None and figures.elsewhere,
        latency_elsewhere=figures is not None and figures.delays_elsewhere,
        over_chosen=_over_chosen(figures),
        predicted_latency_us=None if predicted is None else predicted.median_s * 1e6,
        measured_latency_us=median(one.p50_s for one in quiet) * 1e6 if quiet else None,
        predicted_p99_us=None if tail is None else tail * 1e6,
        measured_p99_us=median(one.p99_s for one in quiet) * 1e6 if quiet else None,
        quiet_share=figures.quiet_share if figures else None,
        whole_p99_us=median(whole) * 1e6 if whole else None,
    )


def _over_chosen(figures: Verified | None) -> planned.OverChosen | None:
    ahead = None if figures is None else figures.over_chosen
    if ahead is None:
        return None
    return planned.OverChosen(over=ahead.over, least=ahead.least, most=ahead.most)


def _segment(
    layout: Layout, names: list[str], i: int, group: tuple[str, ...], on: tuple[int, ...]
) -> SegmentPlan:
    here = layout.beside_in(i)
    if here is None:
        return SegmentPlan(functions=group, lcores=on)
    first, size = here.run.first, here.run.size
    return SegmentPlan(
        functions=group,
        lcores=on,
        parallel=tuple(names[first : first + size]),
        beside=here.lcores,
    )
