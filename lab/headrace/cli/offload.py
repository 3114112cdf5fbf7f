# SPDX-License-Identifier: Apache-2.0
"""headrace offload: routing daemons in VNFs, forwarding in the host."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.analyse.units import plural
from headrace.cli._console import stdout
from headrace.engine.place import usable_cpus
from headrace.errors import HeadraceError
from headrace.ground.offload.asked import HOSTING, asked
from headrace.ground.offload.checks import checked
from headrace.ground.offload.service import Service
from headrace.host.exclusive import WAIT_S, Lcores, holder
from headrace.measure.offload_chaos import chaos as run_chaos
from headrace.measure.offload_compare import compare, traffic_cpus
from headrace.measure.offload_convergence import convergence, prefixes
from headrace.report.offload import convergence as convergence_document
from headrace.report.offload import document as compare_document
from headrace.report.terminal import show
from headrace.spec import document
from headrace.spec.document import Document
from headrace.spec.offload import ChaosSpec, CompareSpec, ConvergenceSpec, OffloadService


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
    parsed = asked(doc)
    if not isinstance(parsed, OffloadService):
        raise doc.error(
            (*HOSTING, "vnfs"), "a number of VNFs is measured, by `headrace run`; allowed: VNFs by "
            "name, each with its interfaces",
        )  # fmt: skip
    if check:
        checked(parsed, doc)
        vnfs, ports = plural(len(parsed.vnfs), "VNF"), plural(len(parsed.ports), "port")
        print(f"{spec}: {vnfs} on {ports}")
        return
    _needs_root()
    service = Service(parsed, doc, _say)
    with Lcores([service.cpu], _waiting, wait), service:
        service.run(seconds, interval, lambda: _report(service, as_json))
        _report(service, as_json)


def measure(doc: Document, as_json: bool, wait: float, check: bool) -> None:
    parsed = asked(doc)
    if isinstance(parsed, CompareSpec):
        _compare(parsed, as_json, wait, check)
    elif isinstance(parsed, ChaosSpec):
        _chaos(parsed, doc, wait, check)
    elif isinstance(parsed, ConvergenceSpec):
        _convergence(parsed, doc, as_json, wait, check)
    else:
        raise doc.error(
            (*HOSTING, "vnfs"), "VNFs by name are a service, which `headrace offload` runs; "
            "allowed: how many there are",
        )  # fmt: skip


def _compare(spec: CompareSpec, as_json: bool, wait: float, check: bool) -> None:
    if check:
        print(f"{spec.name}: {', '.join(spec.compare.modes)}")
        return
    cpus = traffic_cpus()
    with Lcores(set(cpus), _waiting, wait):
        rows = compare(spec, cpus, _say)
    if as_json:
        print(json.dumps({"name": spec.name, "modes": rows}))
    else:
        show(compare_document(spec.name, rows), stdout())


def _chaos(spec: ChaosSpec, doc: Document, wait: float, check: bool) -> None:
    if check:
        print(f"{spec.name}: {spec.chaos.vnfs} VNFs, one killed every {spec.chaos.every:g} s")
        return
    _needs_root()
    cpus = traffic_cpus()
    with Lcores(set(cpus), _waiting, wait):
        outcome = run_chaos(spec, doc, cpus, _say)
    print(json.dumps(dataclasses.asdict(outcome) | {"passed": outcome.passed}, indent=2))
    if not outcome.passed:
        raise HeadraceError("offload: the host did not come through unharmed; see above")


def _convergence(
    spec: ConvergenceSpec, doc: Document, as_json: bool, wait: float, check: bool
) -> None:
    if check:
        routes = len(prefixes(spec.convergence, doc))
        print(f"{spec.name}: {', '.join(spec.convergence.daemons)}, {routes} routes")
        return
    _needs_root()
    cpu = usable_cpus()[-1]
    with Lcores([cpu], _waiting, wait):
        rows = convergence(spec, doc, cpu, _say)
    if as_json:
        print(json.dumps({"name": spec.name, "changes": rows}))
    else:
        show(convergence_document(spec.name, rows), stdout())


def _needs_root() -> None:
    if os.geteuid() != 0:
        raise HeadraceError("offload: needs root, to make network namespaces and TAPs")


def _report(service: Service, as_json: bool) -> None:
    shown = service.show()
    if as_json:
        print(json.dumps(shown), flush=True)
        return
    for vnf in shown["vnfs"]:
        state = "up" if vnf["up"] else "held" if vnf["held"] else "down"
        print(
            f"{vnf['name']:16} {state:5} routes {vnf['ipv4_routes']} IPv4, {vnf['ipv6_routes']} "
            f"IPv6  next hops {vnf['next_hops']}  neighbours {vnf['neighbours']}  "
            f"updates {vnf['updates']}",
            flush=True,
        )


def _waiting(cpu: int) -> None:
    _say(f"lcore {cpu} is held by {holder(cpu)}; waiting")


def _say(text: str) -> None:
    print(f"headrace offload: {text}", file=sys.stderr, flush=True)
