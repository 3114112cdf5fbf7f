# SPDX-License-Identifier: Apache-2.0
"""The ground of third-party VNFs: each deployment of a study, its loads, and what came of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headrace.collect.collector import Targets
from headrace.collect.elsewhere import Elsewhere
from headrace.errors import HeadraceError
from headrace.ground.appliances import feasible
from headrace.ground.appliances.deploy import RunningGraph
from headrace.ground.appliances.expanded import (
    Expanded,
    GraphPoint,
    expand_study,
    tester_lcore,
    workload_problem,
)
from headrace.ground.appliances.graph import ApplianceGraph
from headrace.ground.appliances.graph_apart import GraphApart
from headrace.ground.appliances.images import build_all
from headrace.ground.appliances.load import Load, PacketsLoad, has_netperf, run_load
from headrace.ground.appliances.observed import Began, Observed, asked_s, begin, end, observation
from headrace.ground.appliances.own_counters import Counters
from headrace.ground.appliances.reachable import verify
from headrace.ground.catalogue import CatalogueEntry
from headrace.ground.contract import (
    About,
    Checked,
    Offer,
    Site,
    TrialsOnly,
)
from headrace.ground.wired.there import KnownServers, Servers
from headrace.host.ledger import Ledger
from headrace.host.tool import tool
from headrace.record.deployment import DeployedGraph, DeployedNode, swept_text
from headrace.record.facts import Observation
from headrace.record.resolved import ResolvedGraph
from headrace.record.segments import Segment
from headrace.record.verdict import Finding
from headrace.spec.document import Document
from headrace.spec.measure import Measure
from headrace.spec.study import Study
from headrace.spec.traffic_name import what_differs
from headrace.spec.workload import PACED, AnyWorkload, Packets, Pcap, RequestResponse

_FIRST_SEED = 1


class AppliancesGround:
    """Third-party VNFs on the kernel's path: each graph, network and allocation is a point."""

    def __init__(self) -> None:
        self._servers = KnownServers()

    def check(self, doc: Document) -> Checked:
        expanded = expand_study(doc)
        servers = None
        if expanded.study.servers:  # each finds by itself what it cannot do
            servers = self._servers.of(expanded.study.servers, None, doc)
        else:
            feasible.check(expanded)
        points = [
            AppliancePoint(doc, expanded, point, servers=servers) for point in expanded.points
        ]
        return Checked(
            points=[point for point in points if point.offers],
            inputs=inputs(doc, expanded.study),
            seconds=None,
            interleaved=False,
            notes=[note for point in points if not point.offers for note in point.notes],
            lacking=None if servers is not None else _lacking(doc),
            close=self._servers.close,
        )


def _lacking(doc: Document) -> str | None:
    if os.geteuid():
        return f"{doc.place}: third-party VNFs need root; run it with sudo"
    try:
        tool().answers()
    except HeadraceError as why:
        return str(why)
    return None


def _with_file(doc: Document, workload: AnyWorkload) -> AnyWorkload:
    """A replay has a copy by another name; rows go by the name that the spec gives."""
    if not isinstance(workload, Pcap):
        return workload
    return workload.model_copy(update={"file": doc.resolve(workload.file)})


def inputs(doc: Document, study: Study) -> dict[str, Path]:
    """Files that the spec names. VNFs are the catalogue's, by their names, or images."""
    captures = [w.file for w in study.workload if isinstance(w, Pcap)]
    rules = study.graphs.rules if study.graphs else ()
    return {str(given): doc.resolve(given) for given in (*captures, *rules)}


@dataclass(frozen=True)
class AppliancePoint:
    """One deployment: a chain graph, or a VNF alone, or clients and servers without any."""

    doc: Document
    expanded: Expanded
    point: GraphPoint
    servers: Servers | None = field(default=None, kw_only=True)  # None: all of it is here

    @property
    def chain(self) -> str:
        """A chain may be of a VNF that also stands alone."""
        return f"{self.point.name} alone" if self.point.role == "alone" else self.point.name

    @property
    def execution(self) -> str:
        return f"container {self.point.network}"

    @property
    def study(self) -> Study:
        return self.expanded.study

    @property
    def cpus(self) -> frozenset[int]:
        """What our own source and sink poll on. Containers share the machine's CPUs."""
        if not any(isinstance(w, Packets) for w in self.point.workloads):
            return frozenset()
        return frozenset({tester_lcore(self.study)})

    @property
    def segments(self) -> tuple[Segment, ...]:
        return ()

    @property
    def offers(self) -> Sequence[Offer]:
        return [
            Offer(
                workload=self._text(workload),
                spec=_with_file(self.doc, workload),
                measure=measure_of(self.study, workload),
                paced=isinstance(workload, Packets),
            )
            for workload in self.point.workloads
            if workload_problem(self.point, workload) is None
        ]

    def _text(self, workload: AnyWorkload) -> str:
        every = self.point.workloads
        apart = what_differs(every, every.index(workload), workload.text, lambda one: [one.text])
        return " ".join(filter(None, (workload.text, apart))) + swept_text(self.point.swept)

    @property
    def runs(self) -> Sequence[str]:
        return [supply.image for supply in self.point.supplies.values()]

    @property
    def notes(self) -> Sequence[str]:
        problems = ((w, workload_problem(self.point, w)) for w in self.point.workloads)
        where = f"{self.point.network}: {self.point.name}"
        return [f"{where}: {w.text}: skipped: {why}" for w, why in problems if why is not None]

    def resolved(self) -> ResolvedGraph:
        return ResolvedGraph(
            **self.deployed_graph().model_dump(),
            study=self.study.model_dump(mode="json"),
            images={e.definition.name: e.image for e in self._entries()},
        )

    def deployed_graph(self) -> DeployedGraph:
        point = self.point
        return DeployedGraph(
            chain=self.chain,
            execution=self.execution,
            workloads=tuple(offer.workload for offer in self.offers),
            role=point.role,
            network=point.network,
            graph=point.graph,
            categories={v: point.supplies[k].definition.category for v, k in point.kinds.items()},
            nodes={
                node.name: DeployedNode(
                    vnf=node.vnf,
                    kind=node.kind,
                    addresses={i.name: i.address for i in node.interfaces},
                    server=node.server or None,
                )
                for node in point.layout.nodes
            },
            subject=point.subject,
            instances=point.instances,
            swept=point.swept,
        )

    def _entries(self) -> list[CatalogueEntry]:
        return [e for e in self.expanded.entries if e.definition.name in self.point.supplies]

    @contextmanager
    def deploy(self, site: Site) -> Iterator[Running]:
        with ThreadPoolExecutor(1) as pool, self._graph(site) as deployed:
            running = Running(deployed, self.point.workloads, pool)
            try:
                yield running
            finally:
                running.close()

    def _graph(self, site: Site) -> ApplianceGraph:
        point, hosting = self.point, self.expanded.hosting
        if self.servers is not None:
            return GraphApart(
                point.layout, point.supplies, hosting.cables, self.servers.there, site.state,
                site.stopwatch, site.say,
            )  # fmt: skip
        with site.stopwatch.phase("building images"):
            ledger = Ledger(site.state.path)
            try:
                build_all(self._entries(), site.say, ledger)
            finally:
                ledger.undo()
        return RunningGraph(
            point.layout, point.supplies, point.network, site.state, site.stopwatch, site.say,
            hosting.pf, tester_lcore(self.study),
        )  # fmt: skip


def measure_of(study: Study, workload: AnyWorkload) -> Measure | None:
    """Packets and captures have the rates that are asked for; all others go as fast as the chain
    lets them."""
    if workload.kind in PACED:
        return None
    return Measure.model_validate({"max": True, "trial": study.measure.trial})


class Running(TrialsOnly):
    """A deployment that is up, under its loads: the contract's `Deployed`."""

    labels: Sequence[str] = ()

    def __init__(
        self, deployed: ApplianceGraph, workloads: Sequence[AnyWorkload], pool: ThreadPoolExecutor
    ) -> None:
        self._deployed, self._workloads, self._pool = deployed, workloads, pool
        self._verified: list[Finding] = []
        self._seed = _FIRST_SEED
        self._counters: Counters = {}  # the appliances' own, after the load before
        self._going: _Going | None = None
        self._seen: Observed | None = None

    @property
    def notes(self) -> Sequence[str]:
        return ()

    def about(self) -> About:
        return None

    def parts(self) -> Targets:
        return self._deployed.targets()

    def elsewhere(self) -> Elsewhere | None:
        return self._deployed.elsewhere()

    def verify(self) -> Sequence[Finding]:
        self._verified = verify(self._deployed, self._workloads)
        self._counters = self._deployed.all_counters()
        return self._verified

    def most_pps(self, offer: Offer) -> float | None:
        return None

    def lacks(self, offer: Offer) -> str | None:
        if isinstance(offer.spec, RequestResponse) and not has_netperf(self._deployed):
            return "the clients' image has no netperf"
        return None

    def start(self, offer: Offer, load_pps: float, seconds: float) -> None:
        workload: AnyWorkload = offer.spec
        self._seed += 1
        began = begin(self._deployed)
        load: Future[Load] | PacketsLoad
        if isinstance(workload, Packets):
            assert isinstance(self._deployed, RunningGraph)  # others refuse them
            load = PacketsLoad(self._deployed, workload, load_pps, seconds)
        else:
            load = self._pool.submit(
                run_load, self._deployed, workload, load_pps, seconds, self._seed
            )
        self._going = _Going(workload, asked_s(workload, seconds), load_pps, began, load)

    def wait(self) -> None:
        going = self._going
        assert going is not None
        load = going.load.result()
        self._seen = end(
            self._deployed, going.workload, going.asked_s, going.load_pps, going.began, load
        )

    def close(self) -> None:
        """Nothing is left of load generators in containers once these are removed."""
        if self._going is not None and isinstance(self._going.load, PacketsLoad):
            self._going.load.close()

    def read(self) -> Sequence[Observation]:
        assert self._seen is not None
        before, self._counters = self._counters, self._deployed.all_counters()
        return [observation(self._deployed, self._seen, before, self._counters, self._verified)]


@dataclass(frozen=True)
class _Going:
    """A load that was started."""

    workload: AnyWorkload
    asked_s: float
    load_pps: float
    began: Began
    load: Future[Load] | PacketsLoad
