# SPDX-License-Identifier: Apache-2.0
"""headrace plan: how to cut a chain into segments and on which lcores to run them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Annotated, get_args

import typer
import yaml
from pydantic import TypeAdapter
from rich.console import Console

from headrace.cli._console import stdout
from headrace.cli.report import finish_run
from headrace.engine.describe import describe
from headrace.engine.place import usable_cpus
from headrace.errors import BadInput, HeadraceError, bad_value
from headrace.ground.engine_check import input_files
from headrace.host.programs import find_engine
from headrace.layout import goals, search
from headrace.layout.goals import Wanted
from headrace.layout.layout import Layout, Problem, loads, throughput
from headrace.measure.session import measuring
from headrace.profile import chain as costs
from headrace.profile import deploy, finalists, verified
from headrace.profile import stored as profiles
from headrace.profile.point import Bench, Json
from headrace.profile.verified import Verified
from headrace.report import sheet
from headrace.report.plan import sheet as plan_sheet
from headrace.spec import document
from headrace.spec.document import Document
from headrace.spec.plan import (
    ChainPlan,
    CostSource,
    FunctionCost,
    LayoutPlan,
    Role,
    SegmentPlan,
)
from headrace.spec.study import Experiment, expand

_LCORES_SHARED = 3  # on so few, the lcores of the traffic run the chain, too


def plan(
    spec: Annotated[Path, typer.Argument(help="A spec (YAML) with the chain and its workload.")],
    lcores: Annotated[
        int | None, typer.Option(help="How many lcores there are, traffic's among them.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option(help="The load, as 5M (packets/s); alone: the fewest lcores.")
    ] = None,
    slo: Annotated[
        str | None,
        typer.Option(help="The fewest lcores that meet this, as rate=5M,latency=50us."),
    ] = None,
    aim: Annotated[
        str | None, typer.Option(help="throughput, latency (at --rate) or lcores.")
    ] = None,
    costs_from: Annotated[
        str, typer.Option("--costs", help="measured (here and now) or profiles (stored).")
    ] = "measured",
    verify: Annotated[
        bool, typer.Option("--verify", help="Run the choice, RTC and pipeline, too.")
    ] = False,
    repetitions: Annotated[
        int, typer.Option(min=1, max=1000, help="Trials per measured cost.")
    ] = 5,
    seconds: Annotated[float, typer.Option(min=0.05, max=3600, help="Length of a trial.")] = 0.3,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Write the choice here, as a spec that `headrace run` takes."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the page here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plans.")] = False,
) -> None:
    """The layout of a chain with the highest predicted throughput, with a proven bound."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)  # progress
    doc = document.load(spec)
    experiments = _experiments(doc)
    if costs_from not in get_args(CostSource):
        raise bad_value("--costs", costs_from, allowed=", ".join(get_args(CostSource)))
    if costs_from == "profiles":
        profiles.check_stored(experiments)  # before anything is taken, or waited for
    _check_out(out, experiments)
    for option, file in (("--out", out), ("--html", html)):
        _check_writable(option, file)
    cpus = _cpus(lcores)
    wanted = goals.wanted(aim, rate, slo)
    description = describe(find_engine())
    name = f"plan-{experiments[0].study.name}"
    with measuring(name, lambda path, shown: finish_run(path, None)) as session:
        given = doc.file.read_text(encoding="utf-8")
        session.inputs(given, input_files(experiments, doc, description))
        session.hold(cpus)
        session.provide(experiments[0].study.deployment)
        bench = Bench(description, session, (cpus[0], cpus[-1]), repetitions, seconds)
        planned = [
            _one(bench, doc, e, cpus, wanted, costs_from == "profiles", verify, console)
            for e in experiments
        ]
    finish_run(session.bundle.path, None)
    console.print(f"Bundle: {session.bundle.path}", markup=False)
    plans = [plan for plan, _ in planned]
    if out is not None:
        _write(out, planned[0][1])
        console.print(f"chosen layout: {out}", markup=False)
    shown = plan_sheet(plans)
    if html is not None:
        sheet.write(shown, html)
    if as_json:
        adapter = TypeAdapter(list[ChainPlan])
        typer.echo(json.dumps(adapter.dump_python(plans, mode="json"), indent=1))
        return
    sheet.show(shown, stdout(soft_wrap=True))


def _experiments(doc: Document) -> list[Experiment]:
    """One for each chain and frame size; how they were to be executed is what is asked here."""
    if isinstance(doc.data, dict) and doc.data.get("sweep"):
        raise doc.error(("sweep",), "a plan is of one workload; allowed: no sweep")
    found: dict[tuple[str, str], Experiment] = {}
    for one in expand(doc):
        key = one.chain, one.workload_name
        # An execution that says where each segment runs is planned for beside the others.
        if key not in found or (found[key].execution.lcores is None and one.execution.lcores):
            found[key] = one
    for one in found.values():
        if not one.nodes:
            raise doc.error(("chain",), "is empty; allowed: at least one function to plan for")
        if one.study.workload.direction != "forward":
            raise doc.error(
                ("workload", "direction"),
                "plans are of one direction so far; allowed: forward",
                value=one.study.workload.direction,
            )
    return list(found.values())


def _check_out(out: Path | None, experiments: list[Experiment]) -> None:
    """Before anything is measured: a spec has one layout for all of its chains and sizes."""
    if out is None:
        return
    if len(experiments) > 1:
        named = ", ".join(f"{one.chain} {one.workload_name}" for one in experiments)
        raise bad_value(
            "--out",
            str(out),
            problem=f"the spec has several plans: {named}",
            allowed="with one chain and one frame size",
        )


def _check_writable(option: str, file: Path | None) -> None:
    """Before minutes of measuring: by opening it, as no look at modes knows of full or read-only
    file systems. A file that was not there is not left behind."""
    if file is None:
        return
    new = not file.exists()
    try:
        file.open("a", encoding="utf-8").close()
    except OSError as error:
        why = f"cannot be written: {error.strerror}"
        raise bad_value(option, str(file), problem=why, allowed="a file to write to") from None
    if new:
        file.unlink()


def _write(out: Path, chosen: Json) -> None:
    try:
        out.write_text(yaml.safe_dump(chosen, sort_keys=False), encoding="utf-8")
    except OSError as error:
        raise BadInput(f"--out {out}: {error.strerror}") from None


def _cpus(wanted: int | None) -> list[int]:
    cpus = usable_cpus()
    if len(cpus) < 2:
        raise HeadraceError("plan: needs two CPUs to tell hand-over apart; this process has one")
    if wanted is None:
        return cpus
    if not 2 <= wanted <= len(cpus):
        problem = f"this machine has {len(cpus)}" if wanted > len(cpus) else ""
        raise bad_value("--lcores", wanted, problem=problem, allowed=f"2..{len(cpus)}")
    return cpus[:wanted]


def _one(
    bench: Bench,
    doc: Document,
    experiment: Experiment,
    cpus: list[int],
    wanted: Wanted,
    stored: bool,
    verify: bool,
    console: Console,
) -> tuple[ChainPlan, Json]:
    """And the choice as a spec."""
    console.print(f"{experiment.chain}, {experiment.workload_name}:", markup=False)

    def say(text: str) -> None:
        console.print(f"  {text}", markup=False)

    reference, taken = None, frozenset[Layout]()
    if stored:
        problem = profiles.problem(doc, experiment, cpus, say)
        if verify:
            reference = profiles.reference(bench, experiment, cpus, _folder(bench))
    else:
        at_a_load = wanted.rate_pps is not None
        priced = costs.problem(bench, doc, experiment, cpus, say, for_latency=at_a_load)
        problem, reference, taken = priced.problem, priced.reference, priced.taken
    if len(cpus) > _LCORES_SHARED:
        problem = replace(problem, lcores=tuple(cpus[1:-1]))
    if (wanted.aim == "latency" or wanted.within_s is not None) and len(problem.lcores) > 1:
        problem = replace(problem, runs=deploy.side_by_side(bench, doc, experiment, problem))
        names = [n.name for n in experiment.nodes]
        runs = [" and ".join(names[r.first : r.first + r.size]) for r in problem.runs]
        say(f"may work on a packet side by side: {'; '.join(runs) or 'no neighbours'}")
    choice = goals.choose(problem, wanted)
    if not stored and wanted.aim == "throughput":
        choice = finalists.tried(bench, doc, experiment, problem, choice, say)
    layouts: dict[Role, Layout] = {
        "best": choice.layout,
        "rtc": search.run_to_completion(problem),
        "pipeline": search.pipeline(problem),
    }
    if (told := deploy.told(experiment, problem)) is not None:
        layouts["given"] = told
    found: dict[Role, Verified] = {}
    paces = None
    if verify:
        different = list(dict.fromkeys(layouts.values()))  # what is the same runs once
        prepared = [deploy.deployed(bench, doc, experiment, problem, one) for one in different]
        several, beside = verified.verify(bench, prepared, reference, wanted.rate_pps)
        found = {role: several[different.index(layout)] for role, layout in layouts.items()}
        if reference is not None:
            paces = verified.then_and_now(reference, beside, bench.tsc_hz)
            say(f"pace of the machine since costs were taken: {paces.pace:.2f}")
    names = [n.name for n in experiment.nodes]
    plan = ChainPlan(
        chain=experiment.chain,
        workload=experiment.workload_name,
        lcores=problem.lcores,
        generator=problem.traffic.generator,
        measure=problem.traffic.measure,
        tsc_hz=problem.tsc_hz,
        how=choice.how,
        bound_pps=choice.bound_pps,
        rate_pps=wanted.rate_pps,
        within_us=None if wanted.within_s is None else wanted.within_s * 1e6,
        aim=wanted.aim,
        costs="profiles" if stored else "measured",
        functions=tuple(
            FunctionCost(
                name=nf.name,
                work=(nf.work.same, nf.work.apart),
                receive=(nf.rx.same, nf.rx.apart),
                send=(nf.tx.same, nf.tx.apart),
                loop=nf.loop,
                poll=nf.poll,
                replicated=nf.replicated,
                share=visits,
            )
            for nf, visits in zip(problem.nfs, problem.visits, strict=True)
        ),
        source=(problem.traffic.source.same, problem.traffic.source.apart),
        sink=(problem.traffic.sink.same, problem.traffic.sink.apart),
        kept=problem.kept,
        layouts=tuple(
            _layout(problem, names, role, layout, found.get(role), wanted.rate_pps, taken)
            for role, layout in layouts.items()
        ),
        reference=paces,
    )
    return plan, deploy.as_spec(doc, experiment, problem, choice.layout, bench.description)


def _folder(bench: Bench) -> Path:
    """Of this run, and gone with it."""
    found = bench.session.state.path / "profile"
    found.mkdir(exist_ok=True)
    return found


def _layout(
    problem: Problem,
    names: list[str],
    role: Role,
    layout: Layout,
    found: Verified | None,
    rate_pps: float | None,
    taken: frozenset[Layout],
) -> LayoutPlan:
    rates = found.rates if found else []
    latencies = [one * 1e6 for one in found.latencies_s] if found else []
    tails = [one * 1e6 for one in found.p99s_s] if found else []
    predicted = None if rate_pps is None else search.expected(problem, layout, rate_pps)
    tail = None if predicted is None else predicted.p99_s
    return LayoutPlan(
        role=role,
        taken=layout in taken,
        segments=tuple(
            _segment(layout, names, i, group, on)
            for i, (group, on) in enumerate(zip(layout.groups(names), layout.lcores, strict=True))
        ),
        predicted_pps=throughput(problem, layout),
        cycles_per_lcore=loads(problem, layout),
        measured_pps=median(rates) if rates else None,
        measured_min_pps=min(rates, default=None),
        measured_max_pps=max(rates, default=None),
        paced_pps=found.paced_pps if found else None,
        predicted_latency_us=None if predicted is None else predicted.median_s * 1e6,
        measured_latency_us=median(latencies) if latencies else None,
        predicted_p99_us=None if tail is None else tail * 1e6,
        measured_p99_us=min(tails, default=None),
    )


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
