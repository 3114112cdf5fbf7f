# SPDX-License-Identifier: Apache-2.0
"""A study of VNFs in containers: read, expanded to points, deployed and measured one by one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from headrace.graph.count import GraphCounter
from headrace.graph.draw import one_line
from headrace.graph.enumerate import Graph, parse, stream
from headrace.graph.knowledge import Category, load
from headrace.graph.problem import compile_problem, resolve
from headrace.graph.unrank import sample
from headrace.ground.appliances.addressing import ContainerLayout, lay_out
from headrace.ground.appliances.caches import sized
from headrace.ground.appliances.graph import Supply
from headrace.ground.catalogue import CatalogueEntry, VnfDefinition, catalogue
from headrace.record.deployment import Role
from headrace.spec.appliance import Allocation, Appliances, Base, NetworkName, ScaleOut
from headrace.spec.chain import Node
from headrace.spec.document import Document
from headrace.spec.study import Study, studies
from headrace.spec.workload import (
    PACED,
    AnyWorkload,
    Dns,
    Http,
    Packets,
    Pcap,
)

GRAPHS_MAX = 1000
EACH = "each"  # of a chain's VNFs that may be scaled out
TRAFFIC = "traffic"
_FRAME_MAX, _FLOWS_MAX = 1518, 60_000
_VNFS = ("deployment", "hosting", "vnfs")


@dataclass(frozen=True)
class GraphPoint:
    """One deployment of a study."""

    role: Role
    name: str
    graph: Graph
    kinds: dict[str, str]  # vertex -> VNF
    layout: ContainerLayout
    network: NetworkName
    supplies: dict[str, Supply]
    workloads: tuple[AnyWorkload, ...]
    subject: str = ""  # the VNF that stands alone or is scaled out
    instances: int = 1
    swept: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Expanded:
    study: Study
    hosting: Appliances
    points: tuple[GraphPoint, ...]
    entries: tuple[CatalogueEntry, ...]  # whose images are needed


def expand_study(doc: Document) -> Expanded:
    """Every deployment of the study; all that can be wrong with it is found here."""
    entries = catalogue()
    points: list[GraphPoint] = []
    study = None
    for study, swept in studies(doc):
        expanded = _Expander(doc, study, entries, swept).points()
        _some_use(doc, expanded)
        points += expanded
    assert study is not None  # sweep_points gives at least the empty point
    used = {vnf for point in points for vnf in point.supplies}
    hosting = study.deployment.hosting
    assert isinstance(hosting, Appliances)
    return Expanded(
        study, hosting, tuple(points), tuple(e for n, e in entries.items() if n in used)
    )


def _some_use(doc: Document, points: list[GraphPoint]) -> None:
    """A workload that no chain can take is a mistake; one that some cannot is left out there."""
    chains = [point for point in points if point.role == "chain"]
    for number, workload in enumerate(chains[0].workloads if chains else ()):
        problems = [workload_problem(point, workload) for point in chains]
        if all(problems):
            listed = isinstance(doc.data["workload"], list) if "workload" in doc.data else True
            place = ("workload", number) if listed else ("workload",)
            raise doc.error(
                (*place, "kind"), f"no chain of this study can take it: {problems[0]}",
                value=workload.kind,
            )  # fmt: skip


def tester_lcore(study: Study) -> int:
    """Where headrace's own source and sink run; the last CPU unless the study says which."""
    told = study.deployment.lcores.traffic
    return told[0] if told else max(os.sched_getaffinity(0))


class _Expander:
    """The points of one study without sweeps."""

    def __init__(
        self,
        doc: Document,
        study: Study,
        entries: dict[str, CatalogueEntry],
        swept: tuple[tuple[str, Any], ...],
    ) -> None:
        self.doc = doc
        self.study = study
        hosting = study.deployment.hosting
        assert isinstance(hosting, Appliances)  # who calls has looked
        self.hosting = hosting
        self.entries = entries
        self.swept = swept
        rules = study.graphs.rules if study.graphs else ()
        self.workloads = tuple(_one_frame_each(doc, study))
        self.rules = [doc.resolve(file) for file in rules]
        self.names = load(self.rules, base=Base.HEADRACE)  # and aliases; no rule of it is used
        self.definitions = {n: e.definition for n, e in entries.items()} | self._appliances()
        self._on_servers: dict[str, dict[str, str]] = {}  # chain: vertex: its server
        for name in hosting.vnfs:
            if self._find(name) is None:
                swept_here = (p for p, _ in swept if p.startswith(f"{'.'.join(_VNFS)}.{name}."))
                place = next((("sweep", path) for path in swept_here), (*_VNFS, name))
                raise doc.error(place, f"no such VNF; {self._allowed()}")

    def _appliances(self) -> dict[str, VnfDefinition]:
        for name, own in self.hosting.images.items():
            self.doc.check_trusted((*_VNFS[:-1], "images", name, "image"), own.image)
        return {
            name: VnfDefinition(
                name=name, title=f"appliance {a.image}", category=Category.UNCLASSIFIED,
                kind=a.kind, hides_source=a.hides_source, scale_out=a.scale_out,
                capabilities=a.capabilities, devices=a.devices, whole_frames=a.whole_frames,
                forwards=a.forwards,
                ports=a.ports, addresses=a.addresses, health_timeout_s=a.health_timeout_s,
            )
            for name, a in self.hosting.images.items()
        }  # fmt: skip

    def points(self) -> list[GraphPoint]:
        return [point for network in self.hosting.network for point in self._on(network)]

    def _on(self, network: NetworkName) -> Iterator[GraphPoint]:
        chains = self._chains()
        if self.study.baseline:
            yield self._point("baseline", "no VNF", {}, {}, network)
        kinds = {kind: None for _, _, used in chains for kind in used.values()}
        if self.study.alone:
            for kind in kinds:
                yield self._point("alone", kind, {kind: None}, {kind: kind}, network, kind)
        for name, graph, used in chains:
            yield self._point("chain", name, graph, used, network)
        for number, scale in enumerate(self.study.scale_out):
            yield from self._scaled(number, scale, chains, network)

    def _scaled(
        self,
        number: int,
        scale: ScaleOut,
        chains: list[tuple[str, Graph, dict[str, str]]],
        network: NetworkName,
    ) -> Iterator[GraphPoint]:
        kind, place = self._find(scale.vnf), ("scale_out", number)
        if kind is not None and not self.definitions[kind].scale_out and max(scale.instances) > 1:
            alike = ", ".join(n for n, d in self.definitions.items() if d.scale_out)
            raise self.doc.error(
                (*place, "vnf"), f"instances of it cannot share a load; allowed: each, {alike}",
                value=scale.vnf,
            )  # fmt: skip
        for name, graph, used in chains:
            those = (
                self._scalable(used)
                if scale.vnf == EACH
                else [kind] if kind in used.values() else []
            )  # fmt: skip
            if those and scale.chain in (None, name):
                for one in those:
                    # The chain as it is has been measured: it is not deployed once more.
                    own = self._instances(str(one))
                    for count in (n for n in scale.instances if n != own):
                        title = f"{name} with {count} x {one}"
                        yield self._point(
                            "scale-out", title, graph, used, network, str(one), {str(one): count},
                            of=name,
                        )  # fmt: skip
                return
        raise self.doc.error(
            place, f"no chain {scale.chain or ''} has the VNF {scale.vnf!r}; {self._allowed()}"
        )

    def _instances(self, kind: str) -> int:
        given = (a.instances for n, a in self.hosting.vnfs.items() if self._find(n) == kind)
        return next(given, 1)

    def _scalable(self, used: dict[str, str]) -> list[str]:
        return [kind for kind in dict.fromkeys(used.values()) if self.definitions[kind].scale_out]

    def _chains(self) -> list[tuple[str, Graph, dict[str, str]]]:
        """Name, graph, and the VNF of each vertex."""
        chains = []
        if self.study.chain is not None:
            own = self.study.name
            chains.append((own, *self._row(own, self.study.chain, ("chain",))))
        for name, vnfs in (self.study.chains or {}).items():
            chains.append((name, *self._row(name, vnfs, ("chains", name))))
        return chains + self._generated()

    def _row(
        self, name: str, vnfs: tuple[Node, ...], path: tuple[str | int, ...]
    ) -> tuple[Graph, dict[str, str]]:
        """VNFs in order; a leaf hangs on the one before it."""
        graph: Graph = {}
        kinds: dict[str, str] = {}
        trunk: str | None = None
        for i, node in enumerate(vnfs):
            given = node.nf
            if node.params or node.to:
                raise self.doc.error(
                    (*path, i), "a VNF is a name here; allowed: its parameters in "
                    f"{'.'.join(_VNFS)}.{given}.parameters",
                )  # fmt: skip
            kind = self._find(given)
            if kind is None:
                raise self.doc.error((*path, i), f"no such VNF; {self._allowed()}", value=given)
            number = list(kinds.values()).count(kind)
            vertex = kind if not number else f"{kind}-{number + 1}"
            graph[vertex], kinds[vertex] = trunk, kind
            if node.server is not None:
                self._on_servers.setdefault(name, {})[vertex] = node.server
            if self.definitions[kind].kind != "leaf":
                trunk = vertex
        return graph, kinds

    def _generated(self) -> list[tuple[str, Graph, dict[str, str]]]:
        wish = self.study.graphs
        if wish is None:
            return []
        knowledge = load(self.rules, base=wish.base)
        wanted, _ = resolve(wish.vnfs, knowledge)
        for want in wanted:
            if want.kind not in knowledge.vnfs and self.names.find(want.kind) is not None:
                raise self.doc.error(
                    ("graphs", "vnfs"), f"the knowledge base {wish.base} has no such VNF; allowed: "
                    f"base: {Base.HEADRACE}, which has it", value=want.kind,
                )  # fmt: skip
        counter = GraphCounter(compile_problem(wanted, knowledge))
        if wish.sample is not None:
            graphs = list(sample(counter, min(wish.sample, GRAPHS_MAX + 1), wish.seed))
        else:
            limit = min(wish.limit or GRAPHS_MAX + 1, GRAPHS_MAX + 1)
            graphs = [parse(text) for text in islice(stream(counter), limit)]
        if len(graphs) > GRAPHS_MAX:
            raise self.doc.error(
                ("graphs",), f"{counter.total()} graphs; allowed: {GRAPHS_MAX}, by limit or sample"
            )
        kinds = {item.name: item.kind for item in counter.problem.items}
        for kind in kinds.values():
            if kind not in self.definitions:
                raise self.doc.error(
                    ("graphs", "vnfs"), f"no such VNF; {self._allowed()}", value=kind
                )
        leaves = {name for name, kind in kinds.items() if self.definitions[kind].kind == "leaf"}
        return [(one_line(graph, leaves), graph, {v: kinds[v] for v in graph}) for graph in graphs]

    def _find(self, name: str) -> str | None:
        if name in self.definitions and name != TRAFFIC:
            return name
        known = self.names.find(name)
        return known if known in self.definitions else None

    def _allowed(self) -> str:
        return "allowed: " + ", ".join(n for n in self.definitions if n != TRAFFIC)

    # one point ---------------------------------------------------------------------------

    def _point(
        self,
        role: Role,
        name: str,
        graph: Graph,
        kinds: dict[str, str],
        network: NetworkName,
        subject: str = "",
        scaled: dict[str, int] | None = None,
        of: str | None = None,
    ) -> GraphPoint:
        """`of`: the chain's name, where the point has another one."""
        allocations = {str(self._find(n)): a for n, a in self.hosting.vnfs.items()}
        instances = {kind: allocations.get(kind, Allocation()).instances for kind in kinds.values()}
        if role == "alone":
            instances = {}
        instances.update(scaled or {})
        tester = any(isinstance(w, Packets) for w in self.study.workload)
        servers = self.hosting.servers
        on = self._on_servers.get(of or name) if role in ("chain", "scale-out") else None
        layout = lay_out(graph, kinds, self.definitions, instances, servers, tester, on)
        supplies = {
            kind: self._supply(kind, allocations.get(kind, Allocation()))
            for kind in (*dict.fromkeys(kinds.values()), TRAFFIC)
        }
        count = max(instances.get(subject, 1), 1) if subject else 1
        return GraphPoint(
            role, name, graph, kinds, layout, network, supplies, self.workloads, subject, count,
            self.swept,
        )  # fmt: skip

    def _supply(self, kind: str, allocation: Allocation) -> Supply:
        if kind == TRAFFIC:
            sizes = {w.object_kb for w in self.study.workload if isinstance(w, Http)}
            parameters = {"object_kb": " ".join(map(str, sorted(sizes or {16})))}
            allocation = allocation.model_copy(update={"parameters": parameters})
        given = sized(self.definitions[kind], allocation.parameters, self.study.workload)
        allocation = allocation.model_copy(update={"parameters": given})
        own = self.hosting.images.get(kind)
        supply = (
            Supply(self.definitions[kind], self.entries[kind].image, allocation)
            if own is None
            else Supply(
                self.definitions[kind], own.image, allocation, True, own.health, own.environment,
                own.command,
            )
        )  # fmt: skip
        place = f"{'.'.join(_VNFS)}.{kind}.parameters"
        supply.environment(f"{self.doc.place}: {place}")  # complains here, not later
        return supply


def _one_frame_each(doc: Document, study: Study) -> Iterator[AnyWorkload]:
    """Each frame mix is a workload of its own; what tester and clients cannot send is refused."""
    listed = isinstance(doc.data.get("workload"), list)
    for i, workload in enumerate(study.workload):
        at = ("workload", i) if listed else ("workload",)
        if isinstance(workload, Pcap):
            if not doc.resolve(workload.file).is_file():
                raise doc.error((*at, "file"), "no such file", value=str(workload.file))
            yield workload
        elif isinstance(workload, Packets):
            _sendable(doc, at, workload)
            for frame in workload.frame:
                yield workload.model_copy(update={"frame": (frame,)})
        else:
            yield workload
    _asked(doc, study)


def _sendable(doc: Document, at: tuple[str | int, ...], workload: Packets) -> None:
    largest = max(size for frame in workload.frame for size in frame.sizes)
    if largest > _FRAME_MAX:
        raise doc.error(
            (*at, "frame"), f"{largest} B; allowed in front of appliances: 64 to {_FRAME_MAX}"
        )
    if workload.flows.count > _FLOWS_MAX:
        raise doc.error(
            (*at, "flows"), f"{workload.flows.count}; allowed in front of appliances: at most "
            f"{_FLOWS_MAX}, which differ in their source port",
        )  # fmt: skip


def _asked(doc: Document, study: Study) -> None:
    measure = study.measure
    for key in ("loads", "search"):
        if getattr(measure, key) and not any(one.kind in PACED for one in study.workload):
            raise doc.error(
                ("measure", key), "no workload of this study takes a rate; allowed: with workload "
                f"kinds {', '.join(PACED)}",
            )  # fmt: skip


def workload_problem(point: GraphPoint, workload: AnyWorkload) -> str | None:
    """Why a workload cannot run on a point."""
    serves = {point.supplies[n.vnf].definition.serves for n in point.layout.of_kind("proxy")}
    if isinstance(workload, Dns):
        return None if serves == {"dns"} else "DNS is answered by the VNF `dns` only"
    if isinstance(workload, Http):
        return "the VNF `dns` answers no HTTP" if "dns" in serves else None
    return "a proxy passes only requests of its own service" if serves else None
