# SPDX-License-Identifier: Apache-2.0
"""A hosted chain: its VNFs, their interfaces, where each runs, and the engine's plan of each."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.engine.describe import Description, files_in, with_absolute_files
from headrace.engine.place import Placement
from headrace.engine.plan_compiler import data_bytes, paths
from headrace.engine.plan_document import (
    Params,
    Plan,
    PlanEngine,
    PlanFunction,
    PlanInput,
    PlanLink,
    PlanSegment,
    PlanWait,
    Targets,
)
from headrace.engine.ways import Direction
from headrace.ground.hosted.arrangement import arrange, placement_of
from headrace.ground.hosted.host import host_plan
from headrace.ground.hosted.licence import check_caps
from headrace.ground.hosted.parts import MAC_OUT, Face, Vnf, tester, topology
from headrace.ground.hosted.ports import OnSwitch, lay_out
from headrace.ground.hosted.sriov import OnNic, on_nic, tester_plan
from headrace.ground.hosted.sriov import vnf_plan as vnf_plan_on_nic
from headrace.ground.hosted.vm import Tools
from headrace.ground.hosted.vm_plan import appliance_of
from headrace.spec.document import Document
from headrace.spec.hosting import Hosting
from headrace.spec.study import Experiment

_AT = ("deployment", "hosting")
_WAIT_LINK_MS = 60000


@dataclass(frozen=True)
class Hosted:
    placement: Placement
    plan: Plan
    vnfs: tuple[Vnf, ...]
    hosting: Hosting
    topology: str
    nic: OnNic | None = None  # the real one that is between them; None: the host's engine plays it
    switch: OnSwitch | None = None  # of the kernel's or of Open vSwitch, instead


def lay_out_hosted(
    experiment: Experiment,
    description: Description,
    doc: Document,
    available: list[int],
    engine: PlanEngine,
) -> Hosted:
    hosting = experiment.hosting
    bare = arrange(experiment, doc, available)
    traffic = bare.traffic
    laid = Laid(experiment, description, doc)
    chains = [_planned(laid, one) for one in bare.chains]
    between = _between(laid, chains, traffic, engine)
    vnfs = tuple(one for chain in between.chains for one in chain)
    network = experiment.study.deployment.network
    if hosting.kind == "vm":  # last: this machine's faults come after the spec's
        Tools(hosting, len(vnfs), functions=network == "sriov")
    weighed = hosting.shares is not None
    placement = placement_of(vnfs, traffic, between.notes, network, weighed)
    nic, switch, names = between.nic, between.switch, topology(len(bare.chains[0]))
    return Hosted(placement, between.plan, vnfs, hosting, names, nic, switch)


@dataclass(frozen=True)
class Laid:
    """What is laid out, and what it is checked against."""

    experiment: Experiment
    description: Description
    doc: Document


def _planned(laid: Laid, chain: list[Vnf]) -> list[Vnf]:
    """The VNFs of one of the parallel chains, each with its plan or its appliance."""
    given = laid.experiment, laid.description, laid.doc
    ways = [way.direction for way in paths(laid.experiment)]
    return [
        replace(one, plan=_vnf_plan(chain, one, *given), files=_files(one, *given))
        if (appliance := appliance_of(one, *given)) is None
        else replace(one, appliance=appliance, told=_told(chain, one, ways))
        for one in chain
    ]


@dataclass(frozen=True)
class Between:
    """What joins VNFs and traffic: the network, and the plan of the engine at its ends."""

    chains: list[list[Vnf]]
    plan: Plan
    notes: list[str]
    nic: OnNic | None = None
    switch: OnSwitch | None = None


def _between(
    laid: Laid, chains: list[list[Vnf]], traffic: list[int], engine: PlanEngine
) -> Between:
    experiment, description, doc = laid.experiment, laid.description, laid.doc
    deployment = experiment.study.deployment
    check_caps([one for chain in chains for one in chain], experiment, doc)
    if deployment.network in ("bridge", "ovs-dpdk"):
        outer = lay_out(experiment, description, doc, engine, chains, traffic)
        return Between(outer.chains, outer.plan, outer.notes, switch=outer.switch)
    if deployment.network == "sriov":
        nic = on_nic(experiment, chains)
        chains = [[replace(v, plan=vnf_plan_on_nic(v, nic)) for v in chain] for chain in chains]
        plan, notes = tester_plan(experiment, description, doc, engine, chains, traffic, nic)
        return Between(chains, plan, notes, nic=nic)
    plan, notes = host_plan(experiment, description, doc, engine, chains, traffic)
    return Between(chains, plan, notes)


def _vnf_plan(
    chain: list[Vnf], one: Vnf, experiment: Experiment, description: Description, doc: Document
) -> Plan:
    """The functions, and behind them the VNF's own addresses: frames leave with one of them, for
    the next VNF's."""
    hosting = experiment.hosting
    nodes = {node.name: node for node in experiment.nodes}
    directions = [way.direction for way in paths(experiment)]
    nfs: dict[str, PlanFunction] = {}
    wired: dict[str, dict[Direction, Targets]] = {}
    for name in one.nodes:
        node = nodes[name]
        params = with_absolute_files(description.nfs[node.nf]["params"], node.params, doc)
        nfs[name] = PlanFunction(type=node.nf, params=params)
        if experiment.execution.offload_flows:
            _check_offloads(node.name, node.nf, description, doc)
        if hosting.checkpoint is not None:
            _check_keeps(node.name, node.nf, description, doc)
        wired[name] = {}
        for direction in directions:
            edges = {description.edges(node.nf)[0]: _onwards(one, name, direction)}
            if direction == "forward":
                edges |= {edge: _target(to, one) for edge, to in node.to.items()}
            wired[name][direction] = edges
    nfs[MAC_OUT] = PlanFunction(type="l2fwd", params=_addresses(chain, one, directions))
    wired[MAC_OUT] = {d: {"out": f"link:{one.exit(d).name}"} for d in directions}
    for ways in wired.values():  # the engine wants `forward` always
        ways.setdefault("forward", ways[directions[0]])
    inputs = (PlanInput(link=one.entry(d).name, to=_first(one, d), direction=d) for d in directions)
    segment = PlanSegment(
        name=one.name,
        cpus=one.lcores[:1],
        burst=experiment.study.deployment.burst,
        inputs=tuple(inputs),
        fastpath=experiment.execution.offload_flows or None,
        nodes=wired,
    )
    engine = PlanEngine(
        hugepages=hosting.hugepages,
        memory_mb=hosting.memory_mb,
        mbufs=hosting.mbufs,
        mbuf_data_bytes=data_bytes(experiment),
        wait=PlanWait(mode=hosting.wait),
    )
    flows = experiment.execution.offload_flows
    links = {face.name: vnf_link(face, hosting, flows) for face in one.faces}
    if hosting.checkpoint is not None:
        links[one.faces[0].name].params["checkpoint_ms"] = round(hosting.checkpoint.every * 1e3)
    return Plan(engine=engine, links=links, nfs=nfs, segments=(segment,))


def _files(
    one: Vnf, experiment: Experiment, description: Description, doc: Document
) -> tuple[str, ...]:
    nodes = (node for node in experiment.nodes if node.name in one.nodes)
    named = (files_in(description.nfs[node.nf]["params"], node.params) for node in nodes)
    return tuple(sorted({str(doc.resolve(name)) for names in named for name in names}))


def vnf_link(face: Face, hosting: Hosting, flows: int) -> PlanLink:
    """The VNF's end of an interface, by which it tells of so many flows."""
    link: Params = {"socket": face.socket, "role": "client", "wait_link_ms": _WAIT_LINK_MS}
    if flows:
        link["offload"] = flows
    return PlanLink(type="shm", params={**link, "times": hosting.times})


def _check_keeps(name: str, kind: str, description: Description, doc: Document) -> None:
    if not description.nfs[kind]["keeps"]:
        able = sorted(one for one, what in description.nfs.items() if what["keeps"])
        raise doc.error(
            ("deployment", "hosting", "checkpoint"),
            f"{name} is a {kind}, of whose state none is written; allowed with checkpoint: "
            f"{', '.join(able)}",
        )


def _check_offloads(name: str, kind: str, description: Description, doc: Document) -> None:
    if not description.nfs[kind]["offloads"]:
        able = sorted(one for one, what in description.nfs.items() if what["offloads"])
        raise doc.error(
            ("deployment", "execution"),
            f"offload, and {name}, a {kind}, has to see each packet; allowed with offload: "
            f"{', '.join(able)}",
        )


def _in_order(one: Vnf, direction: Direction) -> list[str]:
    nodes = list(one.nodes if direction == "forward" else reversed(one.nodes))
    return [*nodes, MAC_OUT]


def _first(one: Vnf, direction: Direction) -> str:
    return _in_order(one, direction)[0]


def _onwards(one: Vnf, name: str, direction: Direction) -> str:
    order = _in_order(one, direction)
    return order[order.index(name) + 1]


def _target(to: str, one: Vnf) -> str:
    """Another function of this VNF; who leaves it otherwise, leaves it for the next one."""
    return to if to in one.nodes or to == "drop" else MAC_OUT


def _addresses(chain: list[Vnf], one: Vnf, directions: list[Direction]) -> dict[str, str]:
    """Frames leave it with these: by each direction's interface, for the next VNF on the way."""
    addresses: dict[str, str] = {}
    for direction in directions:
        way = chain if direction == "forward" else chain[::-1]
        behind = way[way.index(one) + 1 :]
        to = behind[0].entry(direction).mac if behind else tester(direction)
        prefix = "reverse_" if direction == "reverse" else ""
        addresses |= {f"{prefix}src_mac": one.exit(direction).mac, f"{prefix}dst_mac": to}
    return addresses


def _told(chain: list[Vnf], one: Vnf, directions: list[Direction]) -> dict[str, str]:
    to = _addresses(chain, one, directions)
    if len(directions) == 1:
        key = "dst_mac" if directions == ["forward"] else "reverse_dst_mac"
        return {"mac": one.faces[0].mac, "next_mac": to[key]}
    own = {f"{face.name}_mac": face.mac for face in one.faces}
    return {**own, "next_mac": to["dst_mac"], "reverse_next_mac": to["reverse_dst_mac"]}
