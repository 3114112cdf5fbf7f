# SPDX-License-Identifier: Apache-2.0
"""headrace hosting: what a server can host, and whether hosts survive their VNFs."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from pydantic import ValidationError
from rich.console import Console

from headrace.analyse.units import plural
from headrace.cli._console import print_json, stdout
from headrace.cli._folder import make_folder
from headrace.cli._hosting_where import where
from headrace.cli.run import run as run_spec
from headrace.engine.describe import describe
from headrace.engine.place import usable_cpus
from headrace.engine.plan import paths
from headrace.errors import BadInput, HeadraceError, bad_value
from headrace.ground.chains import points_of
from headrace.ground.hosted.chaos import chaos as run_chaos
from headrace.ground.hosted.container import no_containers
from headrace.ground.hosted.cpus import describe_cpu
from headrace.ground.hosted.ground import HostedPoint
from headrace.ground.hosted.hosted import HostedEngine
from headrace.ground.hosted.sriov import no_functions
from headrace.ground.hosted.vm_accel import no_kvm
from headrace.host.exclusive import WAIT_S, Lcores
from headrace.host.memory import provide
from headrace.host.programs import find_engine
from headrace.host.server import detect
from headrace.host.state import RunState, dpdk_directories, dpdk_prefix
from headrace.measure.progress import waiting_for
from headrace.model.hosting import CapacityOutput, ServerPorts, capacity
from headrace.model.hosting import explain as explain_capacity
from headrace.record.bundle import Bundle
from headrace.report.hosting import (
    below_floor,
    brief,
    draw_stack,
    flow,
    show_rows,
    show_stack,
    stack_of,
    with_best_case,
)
from headrace.report.hosting_page import sheet
from headrace.report.sheet import write
from headrace.spec import document
from headrace.spec.hosting import VFS_MAX
from headrace.spec.invalid import explain
from headrace.spec.points import Machine, Point, PointsFile, points, span
from headrace.spec.study import load_study

app = typer.Typer(no_args_is_help=True, help="What a server can host; VNFs killed under traffic.")


app.command()(where)


@app.command()
def chaos(
    spec: Annotated[Path, typer.Argument(help="A spec whose VNFs are hosted apart.")],
    seconds: Annotated[float, typer.Option("--seconds", min=1, help="How long.")] = 600.0,
    every: Annotated[float, typer.Option("--every", min=0.1, help="Seconds between kills.")] = 1.0,
    rate: Annotated[float, typer.Option("--rate", min=1, help="Packets/s.")] = 50_000.0,
    seed: Annotated[int, typer.Option("--seed", help="Of the choice of VNFs.")] = 1,
) -> None:
    """Kill a random VNF again and again under traffic. Status 1 when the host leaks or anything
    is left behind."""
    doc, experiments = load_study(spec)
    [one, *_] = points_of(experiments[:1], doc, describe(find_engine()))
    if not isinstance(one, HostedPoint):
        raise doc.error(("deployment", "hosting"), "got inline; allowed: process, container")
    said = Console(stderr=True, highlight=False)
    state = RunState()
    try:
        memory = provide(one.experiment.study.deployment, state)
        engine = {"hugepages": memory.hugepages, "file_prefix": dpdk_prefix(state.path)}
        with (
            Lcores(one.placement.cpus, lambda cpu: said.print(waiting_for(cpu))),
            HostedEngine(find_engine(), one.with_memory(engine), one.hosted, state) as running,
        ):
            outcome = run_chaos(
                running, paths(one.experiment), rate, seconds, every, seed, said.print
            )
        left = [*running.left(), *sorted(str(p) for p in state.path.rglob("*.sock"))]
    finally:
        state.remove()
    left += [str(p) for p in dpdk_directories(f"{dpdk_prefix(state.path)}*")]
    left += [str(state.path)] if state.path.exists() else []
    outcome = dataclasses.replace(outcome, left=tuple(left))
    typer.echo(json.dumps(dataclasses.asdict(outcome) | {"passed": outcome.passed}, indent=2))
    if not outcome.passed:
        raise HeadraceError("the host did not come through unharmed; see above")


@app.command()
def study(
    file: Annotated[Path, typer.Argument(help="A paper's points: studies/*-hosting/points.yaml.")],
    group: Annotated[str | None, typer.Option("--group", help="Only this one.")] = None,
    figure: Annotated[
        int | None, typer.Option("--figure", min=1, help="Only what is of this figure.")
    ] = None,
    only: Annotated[str | None, typer.Option("--point", help="Only this one of them.")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="New folder for bundles and rows; runs/NAME-TIME by default."),
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="Show the points, measure nothing.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Check the points, measure nothing.")
    ] = False,
) -> None:
    """Measure a paper's points, those that this machine can have; say why of the others."""
    if show and check:
        raise BadInput("--list, --check: got both; allowed: one of them")
    doc = document.load(file)
    try:
        made = PointsFile.model_validate(doc.data)
    except ValidationError as error:
        raise explain(doc, error, PointsFile) from None
    if group is not None and group not in made.groups:
        raise BadInput(f"--group: got {group}; allowed: {', '.join(made.groups)}")
    drawn = sorted(set().union(*(one.numbers for one in made.groups.values())))
    if figure is not None and figure not in drawn:
        raise BadInput(f"--figure: got {figure}; allowed: {', '.join(map(str, drawn))}")
    cpus = usable_cpus()
    described = [describe_cpu(cpu) for cpu in cpus]
    nodes, cores = len({cpu.node for cpu in described}), len({cpu.core for cpu in described})
    machine = Machine(len(cpus), nodes, no_kvm, no_containers, cores, no_functions)
    found = list(points(made, machine, group, figure))
    if only is not None:
        names = [point.name for point in found]
        found = [point for point in found if point.name == only]
        if not found:
            raise BadInput(f"--point: got {only}; allowed: {', '.join(names)}")
    said = stdout()
    for shared in _shared(found, figure):
        said.print(
            f"Figures {shared} of the paper have these points between them: which of them are "
            f"figure {figure}'s is not told apart.",
            markup=False,
        )
    if show:
        for point in found:
            text = ", ".join(f"{path}={flow(value)}" for path, value in point.values.items())
            where = f"figure {', '.join(point.figures)}, " if point.figures else ""
            said.print(
                f"{where}{point.name}: {text}  [{point.skipped or 'can be measured here'}]",
                markup=False,
            )
        return
    if check:
        for point in found:
            if not point.skipped:
                _run(point, file, made.name, None)
        possible = plural(sum(not p.skipped for p in found), "point")
        said.print(f"{file}: {possible} can be measured here")
        return
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    target = out or Path("runs") / f"{made.name}-{stamp}"
    _new_folder(target)
    rows = with_best_case([_measured(point, file, target) for point in found])
    (target / "rows.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    write(sheet(made, rows), target / "study.html")
    show_rows(made, rows, said)
    said.print(f"Rows: {target / 'rows.json'}", markup=False)
    said.print(f"Page: {target / 'study.html'}", markup=False)
    if failed := [row["point"] for row in rows if "failed" in row]:
        raise HeadraceError(f"{len(failed)} of {len(rows)} points failed: {', '.join(failed)}")


def _shared(found: list[Point], figure: int | None) -> list[str]:
    """Spans of figures that points of the one asked for belong to."""
    spans = {text for point in found for text in point.figures if len(span(text)) > 1}
    return sorted(text for text in spans if figure is not None and figure in span(text))


def _new_folder(path: Path) -> None:
    """An empty one will do: what was measured before is never replaced."""
    if path.is_dir() and any(path.iterdir()):
        raise bad_value("--out", str(path), problem="has something already; name a new folder")
    make_folder(path)


def _measured(point: Point, file: Path, target: Path) -> dict[str, Any]:
    """One row per result; a point that fails is a row too, and the others go on."""
    row: dict[str, Any] = {
        "group": point.group,
        "figures": list(point.figures),
        "point": point.name,
        "values": point.values,
    }
    if point.skipped:
        return row | {"skipped": point.skipped, "results": []}
    bundle = target / point.name
    try:
        _run(point, file, target.name, bundle)
    except HeadraceError as error:
        return row | {"failed": str(error), "results": []}
    return row | {"bundle": str(bundle), "results": [brief(r) for r in Bundle(bundle).results()]}


def _run(point: Point, file: Path, prefix: str, bundle: Path | None) -> None:
    """Without a bundle it is checked only."""
    spec = file.parent / f".{prefix}-{point.name}.yaml"  # file names are relative to a spec
    spec.write_text(yaml.safe_dump(point.spec, sort_keys=False), encoding="utf-8")
    try:
        run_spec(spec, out=bundle, as_json=False, wait=WAIT_S, check=bundle is None)
    finally:
        spec.unlink()


@app.command()
def anatomy(
    bundle: Annotated[Path, typer.Argument(help="A bundle of hosted chains.")],
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Write an SVG of stacked bars there.")
    ] = None,
) -> None:
    """Where packets spent their time: generator, switch, queue, scheduler, VNF (S1 figure 8)."""
    asked = [t for t in Bundle(bundle).trials() if t.phase != "warm-up"]
    trials = [t for t in asked if t.anatomy is not None and not t.below_floor]
    left_out = below_floor(asked)
    if not trials:
        why = left_out or "hosted chains have one"
        raise HeadraceError(f"{bundle}: no trial of it has an anatomy; {why}")
    if left_out:
        typer.echo(f"Left out: {left_out}")
    bars = [stack_of(trial) for trial in trials]
    show_stack(bars, stdout())
    for note in dict.fromkeys(t.anatomy.undivided for t in trials if t.anatomy is not None):
        if note:
            typer.echo(f"Not told apart: {note}")
    if picture is not None:
        picture.write_text(draw_stack(bars), encoding="utf-8")


@app.command("capacity")
def show_capacity(
    ports: Annotated[
        int | None, typer.Option("--ports", min=1, help="NIC ports in use.", show_default="1")
    ] = None,
    vfs: Annotated[
        int | None,
        typer.Option("--vfs", min=1, help="Virtual functions per port.", show_default="63"),
    ] = None,
    lcores: Annotated[
        int | None,
        typer.Option(
            "--lcores",
            min=1,
            help="Lcores, evenly over the sockets.",
            show_default="this machine's",
        ),
    ] = None,
    sockets: Annotated[
        int | None, typer.Option("--sockets", min=1, help="CPU sockets.", show_default="1")
    ] = None,
    port_socket: Annotated[
        list[int] | None, typer.Option("--port-socket", min=0, help="Socket of each port, in turn.")
    ] = None,
    here: Annotated[
        bool, typer.Option("--here", help="This server, as `headrace server detect` finds it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """The largest number of VNFs without substantial loss (S1's model)."""
    told = {"--ports": ports, "--vfs": vfs, "--lcores": lcores, "--sockets": sockets,
            "--port-socket": port_socket}  # fmt: skip
    if here:
        for name, value in told.items():
            if value:
                raise bad_value(name, value, problem="together with --here", allowed="one of them")
        server = ServerPorts.detected(detect())
    else:
        count, places = ports or 1, sockets or 1
        sides = tuple(port_socket or [i * places // count for i in range(count)])
        server = ServerPorts.even(sides, vfs or VFS_MAX, lcores or os.cpu_count() or 1, places)
    if as_json:
        because = tuple(explain_capacity(server))
        print_json(CapacityOutput(vnfs=capacity(server), because=because, server=server))
        return
    typer.echo(f"{capacity(server)} VNFs")
    for line in explain_capacity(server):
        typer.echo(f"  {line}")
