# SPDX-License-Identifier: Apache-2.0
"""headrace hosting where: on which CPUs and NUMA nodes a chain really is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from headrace.analyse.units import size
from headrace.cli._console import print_json, stdout
from headrace.cli._groups import machine_of
from headrace.engine.describe import describe
from headrace.engine.plan_document import PlanEngine
from headrace.engine.reading import sending
from headrace.errors import BadInput, HeadraceError
from headrace.ground.contract import Site
from headrace.ground.floor import Floors
from headrace.ground.hosted.cpus import describe_cpu
from headrace.ground.hosted.ground import DeployedHosted, HostedPoint
from headrace.ground.hosted.where import Whereabouts, WhereOutput, segments_places
from headrace.ground.inline import DeployedEngine, EnginePoint
from headrace.ground.own_chains import memory_asked, points_of
from headrace.host.consoles import Terminal
from headrace.host.exclusive import HeldLcores
from headrace.host.programs import find_engine
from headrace.host.reservation import provide
from headrace.host.state import dpdk_prefix, run_state
from headrace.host.stopwatch import Stopwatch
from headrace.measure.progress import waiting_for
from headrace.report.server import cpus_text
from headrace.spec import document
from headrace.spec.document import Document
from headrace.spec.points import Wanted, has_groups, points
from headrace.spec.study import expand, read
from headrace.spec.workload import Packets

_SETTLE_S = 1.0  # queues fill, and the scheduler has its say


def where(
    spec: Annotated[Path, typer.Argument(help="A spec of a chain.")],
    rate: Annotated[float, typer.Option("--rate", min=1, help="Packets/s meanwhile.")] = 1000.0,
    seconds: Annotated[
        float, typer.Option("--seconds", min=1, max=600, help="Seconds of traffic before it looks.")
    ] = 2.0,
    group: Annotated[
        str | None, typer.Option("--group", help="The chain of this group: its first point.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Deploy a chain, say where its threads and its memory are. Status 1 when that is not what its
    placement says."""
    doc = of_group(document.load(spec), group)
    [one, *_] = points_of(list(expand(doc))[:1], doc, describe(find_engine()), Floors(wanted=False))
    places = _look(one, rate, seconds)
    astray = [line for engine in places for line in engine.astray()]
    if as_json:
        print_json(_output(one, places, astray))
    else:
        _show(one, places, stdout(soft_wrap=True))
    if astray:
        raise HeadraceError(f"not where its placement says: {'; '.join(astray)}")


def of_group(doc: Document, group: str | None) -> Document:
    """The study itself, where it has no groups and none is asked for."""
    if group is None and not has_groups(doc):
        return doc
    if group is None:
        raise BadInput(f"{doc.place}: has groups; allowed: --group {', '.join(read(doc).groups)}")
    point = points(doc, machine_of(doc), Wanted(group=group))[0]
    if point.skipped is not None:
        raise HeadraceError(f"group {group}: {point.skipped}")
    return point.doc


def _look(one: EnginePoint, rate: float, seconds: float) -> list[Whereabouts]:
    """Nothing is measured: traffic goes through, and files of the kernel are read meanwhile."""
    console = Terminal(stderr=True, highlight=False)

    def say(text: str) -> None:
        console.print(text, markup=False)

    with run_state() as state, HeldLcores(one.cpus, lambda cpu: say(waiting_for(cpu))):
        memory = provide(memory_asked(one), state, one.hosted_mb)
        engine = PlanEngine(hugepages=memory.hugepages, file_prefix=dpdk_prefix(state.path))
        with (
            one.deploy(Site(state, say, Stopwatch(), engine=engine)) as up,
            sending(up.engine, up.ways, rate, seconds + _SETTLE_S),
        ):
            time.sleep(seconds)
            return _places(up)


def _places(up: DeployedEngine) -> list[Whereabouts]:
    """A chain in the tester's engine is told apart by its segments."""
    if isinstance(up, DeployedHosted):
        return up.places()
    if up.engine.pid is None:
        raise HeadraceError("hosting where looks at this machine; the chain's engine is elsewhere")
    one = up.point
    places = segments_places(up.engine.pid, {part.name: part.cpus for part in one.segments})
    counted = up.engine.read().segments
    got = {
        segment.name: {replica.cpu: replica.packets_in for replica in counted[segment.name]}
        for segment in one.placement.segments
    }
    most = max((sum(each.values()) for each in got.values()), default=0)
    return [
        place.model_copy(
            update={"packets": got[place.name], "flows": _flows(one, got[place.name], most)}
        )
        if place.name in got
        else place
        for place in places
    ]


def _flows(one: EnginePoint, got: Mapping[int, int], most: int) -> int | None:
    """How many there are in a segment, by its part of the packets; None: where one has more packets
    than another, or replicas are to have other parts than equal ones."""
    workload = one.experiment.workload
    if not isinstance(workload, Packets) or workload.tuples_file is not None:
        return None
    if workload.flows.order == "zipf" or one.experiment.execution.elastic is not None:
        return None
    return max(1, one.experiment.flows * sum(got.values()) // max(1, most))


def _nic_node(one: EnginePoint) -> int:
    """The real NIC's, or that of the lcore that plays one."""
    nic = one.hosted.nic if isinstance(one, HostedPoint) else None
    if nic is not None and nic.pf.node is not None:
        return nic.pf.node
    return describe_cpu(one.placement.sink).node


def _placement(one: EnginePoint) -> str:
    hosting = one.experiment.hosting
    return hosting.placement if isinstance(one, HostedPoint) else hosting.kind


def _output(one: EnginePoint, places: list[Whereabouts], astray: list[str]) -> WhereOutput:
    return WhereOutput(
        placement=_placement(one),
        nic_node=_nic_node(one),
        as_placed=not astray,
        astray=tuple(astray),
        engines=tuple(places),
    )


def _show(one: EnginePoint, places: list[Whereabouts], console: Console) -> None:
    console.print(f"placement {_placement(one)}, NIC on node {_nic_node(one)}", markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    first = "engine" if isinstance(one, HostedPoint) else "segment"
    for column in (first, "placed on", "workers may run on", "last ran on", "packets", "memory"):
        table.add_column(column)
    for engine in places:
        workers = engine.workers
        table.add_row(
            engine.name,
            cpus_text(engine.lcores),
            "; ".join(dict.fromkeys(cpus_text(t.allowed) for t in workers)),
            "; ".join(f"{t.cpu} (node {t.node})" for t in workers),
            _parts(engine),
            ", ".join(f"{size(kb << 10)} on node {n}" for n, kb in sorted(engine.kb.items())),
        )
    console.print(table, markup=False)


def _parts(engine: Whereabouts) -> str:
    """Which part of them each replica got."""
    total = sum(engine.packets.values()) or 1
    return "; ".join(f"{cpu}: {got / total:.0%}" for cpu, got in sorted(engine.packets.items()))
