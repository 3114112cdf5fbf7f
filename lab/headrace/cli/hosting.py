# SPDX-License-Identifier: Apache-2.0
"""headrace hosting: what a server can host, and whether hosts survive their VNFs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._console import print_json, stdout
from headrace.cli._hosting_selftest import selftest
from headrace.cli._hosting_where import where
from headrace.errors import HeadraceError, bad_value
from headrace.host.server import detect
from headrace.model.hosting import (
    LCORES_MAX,
    NIC_VFS_MAX,
    PORTS_MAX,
    SOCKETS_MAX,
    CapacityOutput,
    ServerPorts,
    capacity,
)
from headrace.model.hosting import explain as explain_capacity
from headrace.record.bundle import Bundle
from headrace.record.outputs import AnatomyOutput, TrialAnatomy
from headrace.record.rows import Trial
from headrace.report.charts.anatomy import AnatomyStack, anatomies
from headrace.report.charts.svg import WIDE
from headrace.report.document_model import Document
from headrace.report.hosting import (
    anatomy as anatomy_section,
)
from headrace.report.hosting import (
    below_floor,
    stack_of,
)
from headrace.report.html import standalone
from headrace.report.terminal import show as show_document
from headrace.spec.hosting import VFS_MAX

app = typer.Typer(
    no_args_is_help=True,
    help="What a server can host, and where its packets' time goes.",
)


app.command()(where)
app.command()(selftest)


@app.command()
def anatomy(
    bundle: Annotated[Path, typer.Argument(help="A bundle of hosted chains.")],
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Write an SVG of stacked bars there.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Where packets spent their time: generator, switch, queue, scheduler, VNF."""
    asked = [t for t in Bundle(bundle).trials() if t.phase != "warm-up"]
    trials = [t for t in asked if t.anatomy is not None and not t.below_floor]
    left_out = below_floor(asked)
    if not trials:
        why = left_out or "hosted chains have one"
        raise HeadraceError(f"{bundle}: no trial of it has an anatomy; {why}")
    stacks = tuple(stack_of(trial) for trial in trials)
    if as_json:
        told = tuple(map(_told, trials))
        print_json(AnatomyOutput(bundle=str(bundle), trials=told, left_out=left_out or None))
    else:
        _show(bundle, trials, stacks, left_out)
    if picture is not None:
        picture.write_text(standalone(anatomies(stacks).draw(WIDE)), encoding="utf-8")


def _told(one: Trial) -> TrialAnatomy:
    assert one.anatomy is not None and one.latency_ns is not None
    return TrialAnatomy(
        trial=one.trial,
        chain=one.chain,
        execution=one.execution,
        workload=one.workload,
        direction=one.direction,
        load_pps=one.load_pps,
        mean_ns=one.latency_ns.mean,
        parts=one.anatomy,
    )


def _show(
    bundle: Path, trials: Sequence[Trial], stacks: Sequence[AnatomyStack], left_out: str
) -> None:
    if left_out:
        stdout(soft_wrap=True).print(f"Left out: {left_out}", markup=False)
    undivided = list(dict.fromkeys(t.anatomy.undivided for t in trials if t.anatomy is not None))
    section = anatomy_section(stacks)
    show_document(Document(str(bundle), sections=(section,)), stdout())
    for note in filter(None, undivided):
        stdout(soft_wrap=True).print(f"Not told apart: {note}", markup=False)


Ports = Annotated[
    int | None,
    typer.Option("--ports", min=1, max=PORTS_MAX, help="NIC ports in use.", show_default="1"),
]

Vfs = Annotated[
    int | None,
    typer.Option(
        "--vfs", min=1, max=NIC_VFS_MAX, help="Virtual functions per port.", show_default="63"
    ),
]

Lcores = Annotated[
    int | None,
    typer.Option(
        "--lcores",
        min=1,
        max=LCORES_MAX,
        help="Lcores, evenly over the sockets.",
        show_default="this machine's",
    ),
]

Sockets = Annotated[
    int | None,
    typer.Option("--sockets", min=1, max=SOCKETS_MAX, help="CPU sockets.", show_default="1"),
]

PortSocket = Annotated[
    list[int] | None,
    typer.Option("--port-socket", min=0, max=SOCKETS_MAX - 1, help="Socket of each port, in turn."),
]


@app.command("capacity")
def show_capacity(
    ports: Ports = None,
    vfs: Vfs = None,
    lcores: Lcores = None,
    sockets: Sockets = None,
    port_socket: PortSocket = None,
    here: Annotated[
        bool, typer.Option("--here", help="This server, as `headrace server detect` finds it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """The largest number of VNFs without substantial loss.

    The model of Wang et al. 2016, Toward High-Performance and Scalable Network Functions
    Virtualization."""
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
