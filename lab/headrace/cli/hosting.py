# SPDX-License-Identifier: Apache-2.0
"""headrace hosting: what a server can host, and whether hosts survive their VNFs."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headrace.errors import BadInput, HeadraceError
from headrace.measure.prepare import prepare
from headrace.model.hosting import Server, capacity, explain
from headrace.spec.study import load_study
from headrace.testbed.describe import describe
from headrace.testbed.exclusive import Lcores
from headrace.testbed.hosting.chaos import chaos as run_chaos
from headrace.testbed.hosting.hosted import HostedEngine
from headrace.testbed.memory import provide
from headrace.testbed.plan import paths
from headrace.testbed.programs import find_engine
from headrace.testbed.state import RunState, dpdk_directories, dpdk_prefix

app = typer.Typer(no_args_is_help=True, help="What a server can host; VNFs killed under traffic.")


@app.command()
def chaos(
    spec: Annotated[Path, typer.Argument(help="A spec with `hosting: process`.")],
    seconds: Annotated[float, typer.Option("--seconds", min=1, help="How long.")] = 600.0,
    every: Annotated[float, typer.Option("--every", min=0.1, help="Seconds between kills.")] = 1.0,
    rate: Annotated[float, typer.Option("--rate", min=1, help="Packets/s.")] = 50_000.0,
    seed: Annotated[int, typer.Option("--seed", help="Of the choice of VNFs.")] = 1,
) -> None:
    """Kill a random VNF again and again under traffic. Status 1 when the host leaks or anything
    is left behind."""
    doc, experiments = load_study(spec)
    [one, *_] = prepare(experiments[:1], doc, describe(find_engine()))
    if one.hosted is None:
        raise BadInput(f"{spec}: deployment.hosting: got inline; allowed: process")
    said = Console(stderr=True, highlight=False)
    state = RunState()
    [way] = paths(one.experiment)
    try:
        memory = provide(one.experiment.study.deployment, state)
        engine = {"hugepages": memory.hugepages, "file_prefix": dpdk_prefix(state.path)}
        with (
            Lcores(one.placement.cpus, lambda cpu: said.print(f"lcore {cpu}: waiting")),
            HostedEngine(find_engine(), one.with_memory(engine), one.hosted, state) as running,
        ):
            outcome = run_chaos(
                running, way.source, way.sink, rate, seconds, every, seed, said.print
            )
        left = sorted(str(p) for p in state.path.rglob("*.sock"))
    finally:
        state.remove()
    left += [str(p) for p in dpdk_directories(f"{dpdk_prefix(state.path)}*")]
    left += [str(state.path)] if state.path.exists() else []
    outcome = dataclasses.replace(outcome, left=tuple(left))
    typer.echo(json.dumps(dataclasses.asdict(outcome) | {"passed": outcome.passed}, indent=2))
    if not outcome.passed:
        raise HeadraceError("the host did not come through unharmed; see above")


@app.command("capacity")
def show_capacity(
    ports: Annotated[int, typer.Option("--ports", min=1, help="NIC ports in use.")] = 1,
    vfs: Annotated[int, typer.Option("--vfs", min=1, help="Virtual functions per port.")] = 63,
    lcores: Annotated[
        int, typer.Option("--lcores", min=1, help="Lcores, evenly over the sockets.")
    ] = os.cpu_count() or 1,
    sockets: Annotated[int, typer.Option("--sockets", min=1, help="CPU sockets.")] = 1,
    port_socket: Annotated[
        list[int] | None, typer.Option("--port-socket", min=0, help="Socket of each port, in turn.")
    ] = None,
) -> None:
    """The largest number of VNFs without substantial loss (S1's model)."""
    where = tuple(port_socket or [i * sockets // ports for i in range(ports)])
    server = Server(ports=where, vfs=vfs, lcores=lcores, sockets=sockets)
    typer.echo(f"{capacity(server)} VNFs")
    for line in explain(server):
        typer.echo(f"  {line}")
