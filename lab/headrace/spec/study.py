# SPDX-License-Identifier: Apache-2.0
"""A study: what one spec file says, and the experiments that its sweeps expand to."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, model_validator

from headrace.spec import document, forms
from headrace.spec.appliance import Appliances, GraphSet, ScaleOut
from headrace.spec.base import NAME_PATTERN, Ratio, Seconds, Spec
from headrace.spec.chain import Chain, Node, check_chain
from headrace.spec.claim import Claim
from headrace.spec.collect import ALL_LAYERS, Collect
from headrace.spec.deployment import HEADRACE, OVS_DPDK, Deployment, Execution
from headrace.spec.document import Document, PathKey
from headrace.spec.dotted import put
from headrace.spec.fitted import Fitted
from headrace.spec.group import Group
from headrace.spec.hosting import Hosting
from headrace.spec.imix import Frame
from headrace.spec.invalid import explain
from headrace.spec.joined import check_joined
from headrace.spec.kubernetes import Kubernetes
from headrace.spec.measure import ASKED, Measure, PossibleRate, Repetitions
from headrace.spec.testbed import SshServer, Testbed
from headrace.spec.traffic_name import frames_of, traffic_name, traffic_names, what_differs
from headrace.spec.workload import Packets, Pcap, Workloads

EXPERIMENTS_MAX = 10_000

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Swept = tuple[tuple[str, Any], ...]


class Simulated(Spec):
    """A server that a file describes: a path beside the spec, or a name of headrace's own.
    `engine`: packets are followed one by one, or times are summed in closed form. `shares`: of a
    function's packets, those that take each of its edges: {fw: {out: 0.9, copy: 0.1}}."""

    server: str
    engine: Literal["events", "analytic"] = "events"
    shares: dict[str, dict[str, Annotated[Ratio, Field(ge=0, le=1)]]] = Field(default_factory=dict)


class GroundChoice(Spec):
    """Where the study runs, if not on this server: on a described one, in the rows of a table that
    others published, or on a cluster."""

    simulated: Simulated | None = None
    fitted: Fitted | None = None
    kubernetes: Kubernetes | None = None

    @model_validator(mode="after")
    def _one(self) -> GroundChoice:
        if sum(one is not None for one in (self.simulated, self.fitted, self.kubernetes)) != 1:
            raise ValueError(
                "give `simulated` (a described server), `fitted` (a table) or `kubernetes` (a "
                "cluster)"
            )
        return self

    @property
    def computed(self) -> bool:
        """Whether nothing is run."""
        return self.kubernetes is None

    @property
    def server(self) -> str:
        """Its description: a path beside the spec, or a name of headrace's own."""
        chosen = self.simulated or self.fitted
        assert chosen is not None
        return chosen.server


class _Grounded(BaseModel):
    """All that is read of a study before it is known where it runs."""

    ground: GroundChoice | None = None


def ground_of(doc: Document) -> GroundChoice | None:
    """The ground that a study names; None: this server."""
    if not isinstance(doc.data, dict):
        return None  # refused where it is read
    try:
        return _Grounded.model_validate(doc.data).ground
    except ValidationError as error:
        raise explain(doc, error, Study) from None


class Demand(Spec):
    """What a chain is to carry, and how long its packets may take at most in the middle. `parts`:
    into how many its flows may be divided, each with a way of its own through the server; a port's
    table (RETA) has that many halves."""

    rate: PossibleRate
    parts: Literal[1, 2, 4, 8] = 1
    latency: Annotated[Seconds, Field(gt=0)] | None = None


class Study(Spec):
    """What one file says; with `groups`, what they have in common.

    `baseline`: the same clients and servers without any VNF; `alone`: each VNF by itself;
    `scale_out`: VNFs with more and more instances: all three of appliances.
    """

    name: Name  # a letter, then letters, digits, `_`, `-`
    description: str = ""  # one paragraph for the report
    paper: str | None = None  # whose figures these are
    chain: Chain | None = None
    chains: Annotated[dict[Name, Chain], Field(min_length=1)] | None = None
    demands: dict[Name, Demand] = Field(default_factory=dict)  # by chain: what `headrace plan
    # --server` places it for
    graphs: GraphSet | None = None  # of appliances: every sensible chain of a set of them
    ground: GroundChoice | None = None  # a described server instead of this one, a table, or a
    # cluster
    deployment: Deployment = Deployment()  # how the chain is put on this server
    testbed: Testbed | None = (
        None  # ports between the tester and the chain; none: one engine has both
    )
    servers: dict[Name, SshServer] = Field(default_factory=dict)  # other machines, which have the
    # testbed's ports, or appliances
    workload: Workloads = (Packets(),)  # the traffic: one, or a list; each is measured by itself
    measure: Measure = Field(default_factory=lambda: Measure.model_validate({}))  # what is asked: a
    # search, loads, the maximum; NDR and PDR by default
    repetitions: Repetitions = 1  # how often the whole measurement is done
    warmup: Annotated[Seconds, Field(ge=0, le=3600)] = 1.0  # traffic before the first counted trial
    collect: Collect = Field(default_factory=lambda: Collect(layers=()))  # layers that are sampled
    # beside the trials
    baseline: bool = False  # of appliances: measure clients and servers without any, too
    alone: bool = False  # of appliances: each by itself, too
    scale_out: tuple[ScaleOut, ...] = ()  # of appliances: several instances of one
    sweep: dict[str, tuple[Any, ...]] = Field(default_factory=dict)  # `{path: [values]}`: every
    # combination is measured
    groups: dict[Name, Group] = Field(default_factory=dict)  # several studies of one kind
    claims: dict[Name, Claim] = Field(default_factory=dict)  # what is said of the results
    quick: dict[str, Any] = Field(default_factory=dict)  # part of a study, laid over it by `run
    # --quick`

    @model_validator(mode="before")
    @classmethod
    def _of_appliances(cls, value: Any) -> Any:
        """Their chains name VNFs, which may have any name, as often as one likes. Their packets'
        path is the kernel's and no lcore polls beside it, so all layers are collected."""
        if not isinstance(value, dict) or forms.hosting_kind(value) != "appliances":
            return value
        measure = value.get("measure") or {}
        asked = isinstance(measure, dict) and any(key in measure for key in ASKED)
        laid = {
            "workload": {"kind": "http"},
            "collect": {"layers": ALL_LAYERS, "trace": 0.01},
            **value,
        }
        if isinstance(measure, dict):
            laid["measure"] = {"trial": 3.0, **({} if asked else {"max": True}), **measure}
        if "chain" in value:
            laid["chain"] = _vnfs(value["chain"])
        if isinstance(value.get("chains"), dict):
            laid["chains"] = {name: _vnfs(chain) for name, chain in value["chains"].items()}
        return laid

    @model_validator(mode="after")
    def _fits_its_testbed(self) -> Study:
        generators = self.deployment.lcores.generators
        if self.testbed is None:
            if generators is not None:
                raise ValueError(
                    "deployment.lcores.generators: is of a tester with ports of its own; got no "
                    "testbed; allowed: with `testbed`"
                )
            return self
        both = any(getattr(one, "direction", "") == "both" for one in self.workload)
        measuring = len(self.deployment.lcores.traffic or ()) - (generators or 0)
        if both and generators is not None and measuring not in (0, generators):
            raise ValueError(
                f"deployment.lcores.generators: {generators}, and {measuring} that measure, with "
                "traffic both ways, of which each port has as many queues as lcores; allowed: as "
                "many that measure as make packets, or all doing both"
            )
        if self.testbed.shares_memory and self.deployment.hugepages is True:
            raise ValueError(
                "deployment.hugepages: true; a virtio_user port shares memory that is in few "
                "files; allowed with one: auto, false, which are the same"
            )
        if OVS_DPDK in self.deployment.engine and self.deployment.hugepages is True:
            raise ValueError(
                "deployment.hugepages: true; ovs-dpdk has ordinary memory, and is compared with "
                "engines that have it, too; allowed with it: auto, false, which are the same"
            )
        if self.testbed.external is not None and any(self.by_name().values()):
            raise ValueError("chain: with `dut: external` the chain is not headrace's; allowed: []")
        for key, ends in (("tester", self.testbed.tester), ("chain", self.testbed.chain)):
            if both and ends and len(set(ends)) == 1:
                raise ValueError(
                    f"testbed.{key}: one port, and traffic goes both ways; allowed: two ports, as "
                    "directions are told by them"
                )
        return self

    @model_validator(mode="after")
    def _ports_for_engines(self) -> Study:
        for name in self.deployment.foreign:
            if self.testbed is None or not self.testbed.chain:
                raise ValueError(
                    f"deployment.engine: {name} has its chain between ports; allowed: with a "
                    "`testbed` that has ports of the chain"
                )
        return self

    @model_validator(mode="after")
    def _ports_on_servers(self) -> Study:
        if isinstance(self.deployment.hosting, Appliances):
            self._appliances_on_servers(self.deployment.hosting)
            return self
        ports = {} if self.testbed is None else self.testbed.ports
        external = None if self.testbed is None else self.testbed.external
        at = {f"ports.{name}": port.server for name, port in ports.items()}
        if external is not None and external.commanded:
            at["dut"] = external.server
        named = {*at.values()} - {None}
        for key, server in at.items():
            if server not in (self.servers or (None,)):
                allowed = ", ".join(self.servers) or "none, as there are no `servers`"
                raise ValueError(
                    f"testbed.{key}.server: got {server or 'none'}; allowed: {allowed}"
                )
        for name in self.servers:
            if name not in named:
                raise ValueError(
                    f"servers.{name}: no port is there; allowed: servers that a port of the "
                    "testbed names, or its `dut`"
                )
        if self.servers:
            self._only_what_servers_can()
        self._functions_on_servers()
        return self

    def _appliances_on_servers(self, hosting: Appliances) -> None:
        if self.groups:
            return
        chains = {} if self.chain is None and self.chains is None else self.by_name()
        if self.servers:
            for key, given in (
                ("graphs", self.graphs), ("alone", self.alone), ("baseline", self.baseline),
                ("ground", self.ground),
            ):  # fmt: skip
                if given:
                    raise ValueError(f"{key}: names no servers; allowed: none with `servers`")
            if any(isinstance(one, Packets) for one in self.workload):
                raise ValueError(
                    "workload.kind: packets, whose latency is of one clock, and clients and "
                    "servers are on two servers; allowed with `servers`: all other kinds"
                )
        check_joined(self.servers, chains, hosting)

    def _functions_on_servers(self) -> None:
        """Each server of the chain has functions, in the order in which traffic meets them."""
        hops = self.testbed.hops if self.testbed is not None else ()
        names = [name for name, _ in hops if name is not None]
        for chain, nodes in self.by_name().items():
            on = [node.server or "none" for node in nodes]
            if len(names) < 2 and set(on) <= {"none"}:
                continue
            if list(dict.fromkeys(on)) != names or on != sorted(on, key=names.index):
                raise ValueError(
                    f"chain {chain}: its functions are on servers {', '.join(on)}; allowed: "
                    + (f"{', '.join(names)}, in this order" if names else "none")
                )

    def _only_what_servers_can(self) -> None:
        deployment = self.deployment
        for key, given in (
            ("deployment.engine", deployment.foreign or deployment.build is not None),
            ("deployment.locate", deployment.locate),
        ):
            if given:
                raise ValueError(f"{key}: is for this machine; allowed: none with `servers`")

    @model_validator(mode="after")
    def _one_kind_of_chain(self) -> Study:
        given = [one for one in (self.chain, self.chains, self.graphs) if one is not None]
        kind = self.deployment.hosting.kind
        if self.ground is not None and self.ground.fitted is not None:
            return self  # what its rows are of was chained by others
        if not self.groups and len(given) != (kind != "offload"):
            more = ", or `graphs`" if kind == "appliances" else ""
            raise ValueError(
                f"give `chain` (a list of {'VNFs' if more else 'functions; [] is the empty chain'})"
                f" or `chains` (by name){more}"
            )
        return self

    @model_validator(mode="after")
    def _demands_of_chains(self) -> Study:
        for name in self.demands:
            if name not in self.by_name():
                chains = ", ".join(self.by_name())
                raise ValueError(f"demands: {name} is no chain; allowed: {chains}")
        return self

    @model_validator(mode="after")
    def _load_that_changes(self) -> Study:
        """It belongs to `measure.operate`, which has no other one."""
        if self.groups:
            return self
        operated = self.measure.operate is not None
        shared = self.measure.operate is not None and bool(self.measure.operate.chains)
        for i, one in enumerate(self.workload):
            at = f"workload[{i}].load" if len(self.workload) > 1 else "workload.load"
            loaded = getattr(one, "load", None) is not None
            if operated and shared and loaded:
                raise ValueError(f"{at}: beside measure.operate.chains; allowed: each chain's own")
            if operated and not shared and not loaded:
                raise ValueError(f"{at}: none; allowed with measure.operate: a load over time")
            if not operated and loaded:
                raise ValueError(
                    f"{at}: belongs to `measure: {{operate: ...}}`, which has no other"
                )
        simulated = self.ground is not None and self.ground.simulated is not None
        here = self.ground is None and self.testbed is None and not self.servers
        if operated and not (simulated or (here and self.deployment.hosting.kind == "inline")):
            raise ValueError(
                "measure.operate: in one engine on this machine, or on a described server "
                "(`ground: {simulated: {server: ...}}`, or --on SERVER) only"
            )
        return self

    @model_validator(mode="after")
    def _chains_that_share(self) -> Study:
        """`measure.operate.chains` has all of the study's chains, and no others."""
        asked = self.measure.operate
        if self.groups or asked is None or not asked.chains:
            return self
        at = "measure.operate.chains"
        if self.chains is None or len(self.chains) < 2:
            raise ValueError(f"{at}: the study has one chain; allowed: with two or more `chains`")
        if set(asked.chains) != set(self.chains):
            given, chains = ", ".join(asked.chains), ", ".join(self.chains)
            raise ValueError(f"{at}: got {given}; allowed: all of {chains}")
        return self

    def by_name(self) -> dict[str, tuple[Node, ...]]:
        return self.chains if self.chains is not None else {self.name: self.chain or ()}


def _vnfs(chain: Any) -> Any:
    if not isinstance(chain, list | tuple):
        return chain
    return [
        {"name": f"vnf-{i}", "nf": one}
        if isinstance(one, str)
        else {"name": f"vnf-{i}", **one}
        if isinstance(one, dict) and "nf" in one
        else one
        for i, one in enumerate(chain, 1)
    ]


@dataclass(frozen=True)
class Experiment:
    """One point of a study: one chain, one execution, one frame mix."""

    chain: str
    nodes: tuple[Node, ...]
    execution: Execution
    frame: Frame
    study: Study  # as this point of the sweep has it
    point: Swept  # the sweep's values here
    node_paths: tuple[tuple[PathKey, ...], ...]  # where each node stands in the file
    engine: str = HEADRACE  # whose chain it is
    captured_bytes: int = 0  # the largest packet of the capture that is replayed, without FCS
    captured_pps: float | None = None  # its mean rate; None: all packets have the same time
    told_apart: str = ""  # what other traffic differs in, where that has the same name otherwise

    @property
    def hosting(self) -> Hosting:
        hosting = self.study.deployment.hosting
        assert isinstance(hosting, Hosting)  # all others are of no functions of headrace's
        return hosting

    @property
    def workload(self) -> Packets | Pcap:
        [workload] = self.study.workload
        assert isinstance(workload, Packets | Pcap)
        return workload

    @property
    def flows(self) -> int:
        """How many flows there are; of a capture nobody knows, and many are taken for granted."""
        return (self.workload if isinstance(self.workload, Packets) else Packets()).flows.count

    @property
    def workload_name(self) -> str:
        """Frame size or mix, flows, direction unless forward, and whatever the sweep set."""
        parts = [traffic_name(self.workload, self.frame), self.told_apart]
        parts += [f"{path}={value}" for path, value in self.point]
        return " ".join(filter(None, parts))


def load_study(file: Path) -> tuple[Document, list[Experiment]]:
    """Read a spec file and expand it; BadInput names file, line, path, value, what is allowed."""
    doc = document.load(file)
    return doc, list(expand(doc))


def expand(doc: Document) -> Iterator[Experiment]:
    """The experiments of headrace's own functions."""
    for study, point in studies(doc):
        if study.ground is not None and study.ground.fitted is not None:
            raise doc.error(("ground", "fitted"), "has no chain of ours; allowed: `headrace run`")
        if not isinstance(study.deployment.hosting, Hosting):
            raise doc.error(
                ("deployment", "hosting"),
                f"got {study.deployment.hosting.kind}; allowed: inline, process, container, vm",
            )
        for name, nodes in study.by_name().items():
            check_chain(doc, nodes, _node_paths(study, name, doc))
            for execution in study.deployment.execution if study.deployment.headrace else ():
                check_execution(doc, execution, nodes, study)
                yield from _experiments(doc, study, name, execution, point)
            for engine in study.deployment.foreign:
                # It divides its work among lcores itself.
                whole = Execution(name=engine, model="rtc")
                for one in _experiments(doc, study, name, whole, point):
                    yield replace(one, engine=engine)


def _experiments(
    doc: Document, study: Study, name: str, execution: Execution, point: Swept
) -> Iterator[Experiment]:
    """One for each kind of traffic and frame."""
    nodes, paths = study.by_name()[name], _node_paths(study, name, doc)
    for number, workload in enumerate(study.workload):
        one = study.model_copy(update={"workload": (workload,)})
        for frame in frames_of(workload):
            apart = what_differs(
                study.workload, number, traffic_name(workload, frame), traffic_names
            )
            yield Experiment(name, nodes, execution, frame, one, point, paths, told_apart=apart)


def studies(doc: Document) -> Iterator[tuple[Study, Swept]]:
    """The study as each point of its sweep has it. Those of groups are points of their own
    (points.py)."""
    _check_is_mapping(doc)
    if doc.data.get("groups"):
        raise doc.error(
            ("groups",), "this command takes one study, and no groups; allowed: `headrace run`"
        )
    for point in sweep_points(doc):
        yield read(doc, point), point


def _check_is_mapping(doc: Document) -> None:
    if not isinstance(doc.data, dict):
        keys = ", ".join(Study.model_fields)
        raise doc.error((), f"a spec is a mapping; allowed keys: {keys}", value=doc.data)


def read(doc: Document, point: Swept = ()) -> Study:
    """The study with these values of its sweep."""
    _check_is_mapping(doc)
    data = copy.deepcopy(doc.data)
    swept = [path for path, _ in point]
    for path, value in point:
        problem = put(data, path, value)
        if problem is not None:
            raise doc.error(("sweep", path), problem)
    forms.check(doc, data, swept)
    try:
        return Study.model_validate(data)
    except ValidationError as error:
        raise explain(doc, error, Study, data, swept) from None


def sweep_points(doc: Document) -> list[Swept]:
    """Each combination of the sweep's values."""
    sweep = doc.data.get("sweep") or {}
    if not isinstance(sweep, dict):
        raise doc.error(("sweep",), "allowed: {path: [values]}", value=sweep)
    total = 1
    for path, values in sweep.items():
        if not isinstance(values, list) or not values:
            raise doc.error(("sweep", path), "allowed: a list of values", value=values)
        total *= len(values)
        if total > EXPERIMENTS_MAX:
            raise doc.error(("sweep",), f"more than {EXPERIMENTS_MAX} combinations")
    choices = [[(str(path), value) for value in values] for path, values in sweep.items()]
    return [tuple(combination) for combination in itertools.product(*choices)]


def check_execution(
    doc: Document, execution: Execution, nodes: tuple[Node, ...], study: Study
) -> None:
    """Explicit segments partition the chain in its order; functions side by side are neighbours."""
    wanted = [node.name for node in nodes]
    index = study.deployment.execution.index(execution)
    given = doc.data.get("deployment", {}).get("execution")
    path: tuple[PathKey, ...] = ("deployment", "execution")
    path += (index,) if isinstance(given, list) else ()
    _check_shares(doc, study)
    _check_handed_over(doc, execution, study)
    if execution.parallel is not None:
        _check_parallel(doc, (*path, "parallel"), list(execution.parallel), wanted, study)
    if execution.elastic is not None:
        _check_elastic(doc, (*path, "elastic"), study)
    if execution.becomes is not None:
        _check_elastic(doc, (*path, "becomes"), study)
        for other in execution.others:
            _check_partition(doc, (*path, "becomes"), other, wanted)
    _check_partition(doc, (*path, "segments"), execution, wanted)


def _check_partition(
    doc: Document, at: tuple[PathKey, ...], execution: Execution, wanted: list[str]
) -> None:
    if execution.segments is None:
        return
    if wanted != [name for segment in execution.segments for name in segment]:
        raise doc.error(
            at,
            f"the segments must hold the chain's functions, each once and in order: {wanted}",
            value=[list(segment) for segment in execution.segments],
        )


def _check_shares(doc: Document, study: Study) -> None:
    names = [*(one.name for one in study.deployment.execution), *study.deployment.foreign]
    for share in study.measure.shares:
        if share.execution is not None and share.execution not in names:
            raise doc.error(
                ("measure", "loads"),
                f"{share.text}: there is no execution {share.execution}; "
                f"allowed: {', '.join(names)}",
            )


def _check_handed_over(doc: Document, execution: Execution, study: Study) -> None:
    if study.measure.chaos is None or study.measure.chaos.how == "killed":
        return
    problem, hosting = None, study.deployment.hosting
    if not isinstance(hosting, Hosting) or hosting.checkpoint is None:
        problem = (
            "what VNFs keep is given on by their checkpoints; allowed with: hosting.checkpoint"
        )
    elif execution.offload:
        problem = f"{execution.name} has offload; allowed: executions without"
    if problem is not None:
        raise doc.error(("measure", "chaos", "how"), f"handed-over: {problem}")


def _check_elastic(doc: Document, at: tuple[PathKey, ...], study: Study) -> None:
    """What its functions keep of flows is the engine's to judge."""
    hosting, ground = study.deployment.hosting.kind, study.ground
    problem = None
    if hosting != "inline":
        problem = f"with hosting {hosting}"
    elif study.testbed is not None:
        problem = "between ports, whose packets the NIC steers"
    elif ground is not None and ground.kubernetes is not None:
        problem = "on a cluster"
    elif study.deployment.steer != "hash":
        problem = f"with steer {study.deployment.steer}"
    elif study.measure.operate is not None and at[-1] == "becomes":
        problem = "with measure.operate, whose policies have one segment"
    elif study.deployment.locate and at[-1] == "becomes":
        problem = "with locate, whose counts are each segment's"
    if problem is not None:
        raise doc.error(at, f"{problem}; allowed: inside one engine, with steer hash")


def _check_parallel(
    doc: Document, at: tuple[PathKey, ...], group: list[str], chain: list[str], study: Study
) -> None:
    """What their functions do to packets is the engine's to judge (docs/design/parallel.md)."""
    first = chain.index(group[0]) if group[0] in chain else 0
    if chain[first : first + len(group)] != group:
        raise doc.error(
            at,
            f"allowed: functions that follow each other, in the chain's order: {chain}",
            value=group,
        )
    for workload in study.workload:
        if isinstance(workload, Packets | Pcap) and workload.direction != "forward":
            raise doc.error(
                at,
                f"functions side by side see forward traffic only, and workload.direction is "
                f"{workload.direction}; allowed: forward",
            )
    if study.deployment.hosting.kind != "inline":
        raise doc.error(
            at,
            f"the chain's hosting is {study.deployment.hosting.kind}; allowed: inline, as "
            "functions side by side are in one process",
        )


def _node_paths(study: Study, chain: str, doc: Document) -> tuple[tuple[PathKey, ...], ...]:
    """Where each node's parameters stand in the file."""
    base: tuple[PathKey, ...] = ("chain",) if study.chain is not None else ("chains", chain)
    data = doc.data.get("chain") if study.chain is not None else doc.data["chains"].get(chain)
    paths: list[tuple[PathKey, ...]] = []
    for i, node in enumerate(study.by_name()[chain]):
        item = data[i] if isinstance(data, list) and i < len(data) else None
        long_form = isinstance(item, dict) and "nf" in item
        paths.append((*base, i, "params" if long_form else node.nf))
    return tuple(paths)
