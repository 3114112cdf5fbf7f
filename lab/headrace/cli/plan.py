# SPDX-License-Identifier: Apache-2.0
"""headrace plan: how to cut a chain into segments and on which lcores to run them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, get_args

import typer
import yaml

from headrace.cli._console import print_json, stdout
from headrace.cli._placing import PlacingOptions, place, tell_notes
from headrace.cli._study_run import open_spec
from headrace.cli.report import finish_run
from headrace.engine.describe import describe
from headrace.engine.place import usable_cpus
from headrace.errors import BadInput, HeadraceError, bad_value
from headrace.ground.dry import DryRuns
from headrace.ground.engine_check import input_files
from headrace.ground.own_chains import points_of
from headrace.host.consoles import Terminal
from headrace.host.programs import find_engine
from headrace.layout import goals
from headrace.measure.session import measuring
from headrace.profile import stored as profiles
from headrace.profile.planner import Planner
from headrace.profile.point import Bench, Json
from headrace.report.html import write as write_page
from headrace.report.plan import document as plan_document
from headrace.report.terminal import show
from headrace.spec.document import Document
from headrace.spec.plan import ChainPlan, ChainPlans, CostSource
from headrace.spec.study import Experiment, expand


def plan(
    spec: Annotated[Path, typer.Argument(help="A spec with chain and workload, or a bundle.")],
    lcores: Annotated[
        int | None, typer.Option(help="How many lcores there are, traffic's among them.")
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(help="The load, as 5M (packets/s) or 50%; alone: the fewest lcores."),
    ] = None,
    slo: Annotated[
        str | None,
        typer.Option(help="The fewest lcores that meet this, as rate=5M,latency=50us."),
    ] = None,
    aim: Annotated[
        str | None,
        typer.Option(help="throughput, latency, lcores; with --server rate, money, watts, too."),
    ] = None,
    server: Annotated[
        str | None, typer.Option(help="Place all chains on this described server (file or name).")
    ] = None,
    servers: Annotated[int, typer.Option(help="With --server: how many of them there are.")] = 1,
    busy: Annotated[
        str, typer.Option(help="With --server: how busy an lcore may be, unless the aim is rate.")
    ] = "80%",
    within: Annotated[
        float, typer.Option(min=0.5, max=3600, help="With --server: seconds to look for it.")
    ] = 10.0,
    proof: Annotated[
        Path | None, typer.Option(help="With --server: write what the checker reads here.")
    ] = None,
    costs_from: Annotated[
        str | None, typer.Option("--costs", help="measured (now; the default), profiles (stored).")
    ] = None,
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
    """The layout of a chain with the highest predicted throughput, with a proven bound. With
    --server: where to put several chains on a described server, with a proof to be checked."""
    doc = open_spec(spec, trusted=False)
    if server is not None:
        _without_server(lcores=lcores, rate=rate, slo=slo, verify=verify, costs=costs_from)
        for option, file in (("--out", out), ("--html", html), ("--proof", proof)):
            _check_output(option, file, doc)
        place(doc, PlacingOptions(server, servers, aim, busy, within, out, proof, html, as_json))
        return
    if proof is not None or servers != 1:
        raise BadInput("--proof, --servers: allowed with --server")
    asked = _Asked(aim, rate, slo, lcores, costs_from, verify, repetitions, seconds, out, html)
    _show(_planned(doc, asked), html, as_json)


@dataclass(frozen=True)
class _Asked:
    """What is given on the command line."""

    aim: str | None
    rate: str | None
    slo: str | None
    lcores: int | None
    costs: str | None
    verify: bool
    repetitions: int
    seconds: float
    out: Path | None
    html: Path | None


def _planned(doc: Document, asked: _Asked) -> list[ChainPlan]:
    """What is wrong is told before anything is measured."""
    experiments = _experiments(doc)
    costs = asked.costs or "measured"
    if costs not in get_args(CostSource):
        raise bad_value("--costs", costs, allowed=", ".join(get_args(CostSource)))
    stored = costs == "profiles"
    if stored:
        profiles.check_stored(experiments)  # before anything is taken, or waited for
    _check_out(asked.out, experiments)
    for option, file in (("--out", asked.out), ("--html", asked.html)):
        _check_output(option, file, doc)
    cpus = _cpus(asked.lcores)
    wanted = goals.wanted(asked.aim, asked.rate, asked.slo)
    run = PlanRun(doc, experiments, cpus, asked.repetitions, asked.seconds)
    console = Terminal(stderr=True, highlight=False, soft_wrap=True)  # progress

    def say(text: str) -> None:
        console.print(text, markup=False)

    _check_chains(doc, say)
    with run.bench() as bench:
        planner = Planner(bench, doc, cpus, wanted, stored, asked.verify, say)
        planned = [planner.plan(one) for one in experiments]
    finish_run(bench.session.bundle.path, None)
    say(f"Bundle: {bench.session.bundle.path}")
    if asked.out is not None:
        _write(asked.out, planned[0][1])
        say(f"chosen layout: {asked.out}")
    return [plan for plan, _ in planned]


def _check_chains(doc: Document, say: Callable[[str], None]) -> None:
    """Has the engine read functions, their files and the traffic, as before a run, while nobody
    waits for lcores yet, and where errors have lines of the spec: the layouts that are run are
    written by us. On which lcores the spec has it run is what is asked here."""
    deployment = dict(doc.data.get("deployment") or {})
    for key in ("execution", "lcores"):
        deployment.pop(key, None)
    free = replace(doc, data={**doc.data, "deployment": deployment})
    dry = DryRuns()
    for one in points_of(_experiments(free), free, describe(find_engine())):
        notes = dry.notes(one.experiment, free, one.description)
        tell_notes(free, one.chain, notes, say)


def _without_server(**given: object) -> None:
    for name, value in given.items():
        if value:
            raise bad_value(
                f"--{name}", value, allowed="none beside --server, where nothing is run"
            )


@dataclass(frozen=True)
class PlanRun:
    doc: Document
    experiments: list[Experiment]
    cpus: list[int]
    repetitions: int
    seconds: float

    @contextmanager
    def bench(self) -> Iterator[Bench]:
        """Measures in a session of its own, with lcores and memory for all of the experiments."""
        description = describe(find_engine())
        name = f"plan-{self.experiments[0].study.name}"
        with measuring(name, lambda path, shown: finish_run(path, None)) as session:
            given = self.doc.file.read_text(encoding="utf-8")
            session.inputs(given, input_files(self.experiments, self.doc, description))
            session.hold(self.cpus)
            session.provide(self.experiments[0].study.deployment)
            lcores = (self.cpus[0], self.cpus[-1])
            yield Bench(description, session, lcores, self.repetitions, self.seconds)


def _show(plans: list[ChainPlan], html: Path | None, as_json: bool) -> None:
    shown = plan_document(plans)
    if html is not None:
        write_page(shown, html)
    if as_json:
        print_json(ChainPlans(tuple(plans)))
        return
    show(shown, stdout())


def _experiments(doc: Document) -> list[Experiment]:
    """One for each chain and frame size; how they were to be executed is what is asked here."""
    if isinstance(doc.data, dict) and doc.data.get("sweep"):
        raise doc.error(("sweep",), "a plan is of one workload; allowed: no sweep")
    chosen: dict[tuple[str, str], Experiment] = {}
    for one in expand(doc):
        key = one.chain, one.workload_name
        # An execution that says where each segment runs is planned for beside the others.
        if key not in chosen or (chosen[key].execution.lcores is None and one.execution.lcores):
            chosen[key] = one
    for one in chosen.values():
        if not one.nodes:
            raise doc.error(("chain",), "is empty; allowed: at least one function to plan for")
        if one.workload.direction != "forward":
            raise doc.error(
                ("workload", "direction"),
                "plans are of one direction so far; allowed: forward",
                value=one.workload.direction,
            )
    return list(chosen.values())


def _check_out(out: Path | None, experiments: list[Experiment]) -> None:
    """Is checked before anything is measured: a spec has one layout for all of its chains and
    sizes."""
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


def _check_output(option: str, file: Path | None, doc: Document) -> None:
    if file is not None and file.exists() and file.samefile(doc.file):
        raise bad_value(option, str(file), problem="is the study itself", allowed="another file")
    _check_writable(option, file)


def _check_writable(option: str, file: Path | None) -> None:
    """Tries it before minutes of measuring, by opening it, as no look at modes knows of full or
    read-only file systems. A file that was not there is not left behind."""
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
