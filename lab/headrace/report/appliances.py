# SPDX-License-Identifier: Apache-2.0
"""What a report has of several deployments of third-party VNFs beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import RootModel

from headrace.analyse.appliances import scale_up, scaled_out
from headrace.analyse.reached import Reached
from headrace.graph.knowledge import Category
from headrace.record import own
from headrace.record.figures import ApplicationFigures
from headrace.record.rows import Result
from headrace.report.charts.graphs import Graphs
from headrace.report.document_model import (
    Block,
    Cell,
    Chart,
    Column,
    Folded,
    Heading,
    Items,
    Row,
    Section,
    Table,
    Text,
)

HOW = (
    "HTTP is driven closed-loop: latency is the time of a request under so many connections, not "
    "under a set rate. All containers, clients and servers share this machine's CPUs. A rate in "
    "Gbit/s is goodput: payload that arrived (of HTTP with its headers). To servers and to "
    "clients: Gbit/s of frames in each direction, acknowledgements and all, as they arrive at the "
    "interfaces there. Hits: the share of requests that the chain's first cache answered itself, "
    "of that which was asked for."
)
_TIME_FILE = "time.json"  # among the samples


class _Seconds(RootModel[dict[str, float]]):
    """By what a run did."""


def roles(reached: Sequence[Reached]) -> dict[str, str]:
    return {one.deployed.chain: one.deployed.role for one in reached}


def sections(reached: Sequence[Reached], samples: Path) -> Iterator[Section]:
    if rows := tuple(_scaled(reached)):
        columns = (
            "VNF",
            Column("chain", "text"),
            Column("network", "text"),
            Column("workload", "text"),
            Column("instances", "count"),
            Column("rate", "text"),
            Column("times"),
            Column("", "bar"),
            Column("audit", "verdict"),
        )
        yield Section("Scaled out", blocks=(Table(columns, rows),))
    yield from _networks(reached)
    if sentences := tuple(scale_up(reached)):
        yield Section("Scaling up", blocks=(Items(sentences),))
    if (told := own.sample_record(samples, _TIME_FILE, _Seconds)) is not None:
        text = ", ".join(f"{what} {s:.0f} s" for what, s in told.root.items())
        yield Section("Time", blocks=(Text(text),))
    chains = {one.deployed.chain: one.deployed for one in reached if one.deployed.role == "chain"}
    graphs = tuple(point.graph for point in chains.values() if point.graph)
    categories = {
        vertex: Category(category)
        for point in chains.values()
        for vertex, category in point.categories.items()
    }
    if graphs:
        picture = Chart(Graphs(graphs, categories))
        yield Section("Chain graphs", blocks=(picture,), on="page")


def _scaled(reached: Sequence[Reached]) -> Iterator[Row]:
    """Each VNF that was scaled out: what its chain reached with so many instances."""
    places = dict.fromkeys((one.deployed.network, one.workload) for one in reached)
    for network, workload in places:
        here = [
            one for one in reached if (one.deployed.network, one.workload) == (network, workload)
        ]
        for (vnf, chain), by_count in scaled_out(here).items():
            least = next(iter(by_count.values())).rate
            for count, one in by_count.items():
                times = 1 + one.rate.gain(least) if least.median else None
                cells: tuple[Cell, ...] = (vnf, chain, network, workload, count, str(one.rate))
                verdict = one.verdict or "ok"
                yield Row((*cells, times, one.rate.median, verdict), doubtful=bool(one.verdict))


def _networks(reached: Sequence[Reached]) -> Iterator[Section]:
    """The same chain on each network, side by side."""
    networks = list(dict.fromkeys(one.deployed.network for one in reached))
    if len(networks) < 2:
        return
    blocks: list[Block] = []
    for workload in dict.fromkeys(one.workload for one in reached):
        lines: dict[tuple[str, str], dict[str, Reached]] = {}
        for one in (r for r in reached if r.workload == workload):
            name = (one.deployed.chain, one.deployed.role)
            lines.setdefault(name, {})[one.deployed.network] = one
        blocks += [Heading(workload), _side_by_side(networks, lines)]
    yield Section("Networks", blocks=tuple(blocks))


def _side_by_side(
    networks: Sequence[str], lines: Mapping[tuple[str, str], Mapping[str, Reached]]
) -> Table:
    first, *others = networks
    rows = []
    for name, by in lines.items():
        ratios: list[Cell] = []
        for other in others:
            both = first in by and other in by and by[first].rate.median
            ratios.append(by[other].rate.median / by[first].rate.median if both else None)
        rows.append((*name, *(str(by[n].rate) if n in by else None for n in networks), *ratios))
    columns = (
        Column("chain", "text"),
        Column("", "text"),
        *(Column(n) for n in networks),
        *(Column(f"{n} / {first}") for n in others),
    )
    return Table(columns, tuple(rows))


def used(results: Sequence[Result]) -> Folded | None:
    """CPU that containers took, of each result that knows it."""
    blocks: list[Block] = []
    for r in results:
        if r.application is not None and (lines := tuple(_used(r.application))):
            title = f"{r.execution}: {r.chain}, {r.workload}, repetition {r.repetition}"
            blocks += [Heading(title), Items(lines)]
    return Folded("CPU of containers", "in each trial", tuple(blocks)) if blocks else None


def _used(application: ApplicationFigures) -> Iterator[str]:
    listed = {
        "CPUs used by processes": (application.cpu, ".2f"),
        "CPUs used by the kernel's stack, on packets of": (application.stack, ".2f"),
        "Share used of the CPU allowed (`cpus`)": (application.quota, ".0%"),
        "Cycles for each packet received": (application.cycles, ".0f"),
    }
    for title, (values, digits) in listed.items():
        if values:
            shown = ", ".join(f"{name} {value:{digits}}" for name, value in values.items())
            yield f"{title}: {shown}"
