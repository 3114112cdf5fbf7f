# SPDX-License-Identifier: Apache-2.0
"""headrace offload: routing daemons in VNFs, forwarding in the host."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.analyse.units import plural
from headrace.errors import HeadraceError
from headrace.ground.offload.asked import service_of
from headrace.ground.offload.needs import checked
from headrace.ground.offload.service import Service
from headrace.host.exclusive import WAIT_S, HeldLcores, holder
from headrace.record.offload_report import OffloadedVnf
from headrace.spec import document


def offload(
    spec: Annotated[
        Path,
        typer.Argument(help="A study with `hosting: {kind: offload}` and VNFs by name."),
    ],
    seconds: Annotated[
        float | None, typer.Option("--for", min=0, help="Seconds to run; until Ctrl-C by default.")
    ] = None,
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, help="Seconds between reports.")
    ] = 5.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Reports as JSON, one object per line.")
    ] = False,
    wait: Annotated[
        float, typer.Option("--wait", min=0, help="Seconds to wait for an lcore that a run holds.")
    ] = WAIT_S,
    check: Annotated[bool, typer.Option("--check", help="Check the spec and stop.")] = False,
) -> None:
    """Run VNFs whose control plane is theirs and whose packets the host forwards; what that costs
    is measured by `headrace run`."""
    doc = document.load(spec)
    parsed = service_of(doc)
    if check:
        checked(parsed, doc)
        vnfs, ports = plural(len(parsed.vnfs), "VNF"), plural(len(parsed.ports), "port")
        print(f"{spec}: {vnfs} on {ports}")
        return
    _needs_root()
    service = Service(parsed, doc, _say)
    with HeldLcores([service.cpu], _waiting, wait), service:
        service.run(seconds, interval, lambda: _report(service, as_json))
        _report(service, as_json)


def _needs_root() -> None:
    if os.geteuid() != 0:
        raise HeadraceError("offload: needs root, to make network namespaces and TAPs")


def _report(service: Service, as_json: bool) -> None:
    shown = service.show()
    if as_json:
        print(shown.model_dump_json(), flush=True)
        return
    for vnf in shown.vnfs:
        print(_line(vnf), flush=True)


def _line(vnf: OffloadedVnf) -> str:
    state = "up" if vnf.up else "held" if vnf.held else "down"
    refused = f"  no room for {vnf.no_room}" if vnf.no_room else ""
    return (
        f"{vnf.name:16} {state:5} routes {vnf.ipv4_routes} IPv4, {vnf.ipv6_routes} IPv6  "
        f"next hops {vnf.next_hops}  neighbours {vnf.neighbours}  updates {vnf.updates}{refused}"
    )


def _waiting(cpu: int) -> None:
    _say(f"lcore {cpu} is held by {holder(cpu)}; waiting")


def _say(text: str) -> None:
    print(f"headrace offload: {text}", file=sys.stderr, flush=True)
