# SPDX-License-Identifier: Apache-2.0
"""What the model of a described server does not cover is answered with the key that asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.engine.place import Placement
from headrace.ground.operated_check import check_operable
from headrace.ground.simulated.entries import ranks
from headrace.layout.predicted_latency import BURST
from headrace.spec.deployment import Deployment
from headrace.spec.described import DELAY, DescribedServer
from headrace.spec.document import Document, PathKey
from headrace.spec.hosting import Hosting
from headrace.spec.operate import Operate
from headrace.spec.study import Experiment
from headrace.spec.workload import Pcap

_LINE = 64  # bytes
_STATELESS = {"delay", "l2fwd", "null"}
_HOSTED, _NETWORKS = ("process", "container", "vm"), ("veb", "vepa", "sriov")
Problem = tuple[tuple[PathKey, ...], str]


def check_covered(
    experiment: Experiment, doc: Document, home: DescribedServer, server: DescribedServer
) -> None:
    """BadInput for the first key that no prediction is made for."""
    for path, problem in _problems(experiment, home, server):
        raise doc.error(path, f"cannot predict: {problem}")


def check_operated(
    experiment: Experiment,
    doc: Document,
    placement: Placement,
    home: DescribedServer,
    server: DescribedServer,
) -> None:
    """BadInput for what has no lcores that could be added or removed one by one."""
    check_operable(experiment, doc, placement)
    cpus = {cpu for segment in placement.segments for cpu in segment.cpus}
    if traffics := {placement.generator, placement.sink} & cpus:
        raise doc.error(
            ("deployment", "lcores"),
            f"cannot operate: lcore {min(traffics)} has traffic and chain; covered: lcores apart",
        )
    asked = experiment.study.measure.operate
    assert asked is not None  # who calls has asked
    for problem in _beside(experiment, asked, home, server):
        raise doc.error(("measure", "operate", "neighbour"), f"cannot operate: {problem}")
    if ranks(experiment) is not None:
        raise doc.error(
            ("workload", "flows", "order"), "cannot operate: zipf; covered: round-robin, random"
        )
    for node, path in zip(experiment.nodes, experiment.node_paths, strict=True):
        if node.to:
            raise doc.error(
                path[:-1], f"cannot operate: {node.name} has branches; covered: chains without"
            )


def _beside(
    experiment: Experiment, asked: Operate, home: DescribedServer, server: DescribedServer
) -> Iterator[str]:
    """What a neighbour in the last-level cache takes of functions is known where their accesses
    are, and where there are none."""
    for node in experiment.nodes if asked.neighbour else ():
        if node.nf not in _STATELESS and home.functions[node.nf].accesses is None:
            known = {nf for nf, cost in home.functions.items() if cost.accesses is not None}
            yield (
                f"nobody knows how often {node.nf} goes to its state; covered: "
                f"{', '.join(sorted(known | _STATELESS))}"
            )
    for _, taken in asked.neighbour:
        try:
            server.without_cache(taken)
        except ValueError as error:
            yield str(error)


def _problems(
    experiment: Experiment, home: DescribedServer, server: DescribedServer
) -> Iterator[Problem]:
    study, execution, workload = experiment.study, experiment.execution, experiment.workload
    if isinstance(workload, Pcap):
        yield ("workload", "kind"), "pcap: nobody knows its flows; covered: packets"
    elif workload.tuples_file is not None:
        yield ("workload", "tuples_file"), "nobody knows its flows; covered: `flows`"
    elif workload.flows.order == "zipf" and study.deployment.hosting.kind != "inline":
        # Which chain the most popular flow takes, and that one's share, is not told.
        yield ("workload", "flows", "order"), "zipf of hosted VNFs; covered: round-robin, random"
    if not experiment.nodes:
        yield ("chain",), "no functions; covered: one or more"
    if (burst := study.deployment.burst) != BURST:
        yield ("deployment", "burst"), f"{burst}; covered: {BURST}"
    branched = any(node.to for node in experiment.nodes)
    if workload.direction != "forward" and study.deployment.hosting.kind != "inline":
        yield ("workload", "direction"), f"{workload.direction} of hosted VNFs; covered: forward"
    if workload.direction != "forward" and branched:
        yield ("workload", "direction"), f"{workload.direction} with branches; covered: forward"
    if workload.direction != "forward" and server.tester == "outside":
        yield ("workload", "direction"), f"{workload.direction} by ports; covered: forward"
    if study.deployment.hosting.kind != "inline":
        yield from _unhosted(study.deployment, home, server)
    if study.testbed is not None:
        yield ("testbed",), "ports cost what nobody has measured; covered: chains without"
    if execution.parallel:
        yield ("deployment", "execution"), "parallel; covered: functions one after the other"
    if execution.elastic is not None and study.measure.operate is None:
        problem = "elastic: what it costs to steer by buckets; covered: with measure.operate"
        yield ("deployment", "execution"), problem
    if execution.becomes is not None:
        problem = "becomes: partitions that change under traffic; covered: each by itself"
        yield ("deployment", "execution"), problem
    if execution.fastpath_flows:
        yield ("deployment", "execution"), "fastpath; covered: every packet through every function"
    if execution.offload_flows:
        yield ("deployment", "execution"), "offload; covered: every packet to its VNF"
    if study.measure.chaos is not None:
        yield ("measure", "chaos"), "nothing is killed on a server that is not there"
    if study.measure.convergence is not None:
        yield ("measure", "convergence"), "there are no routing daemons"
    if home.traffic is None and server.tester == "inside":
        yield ("ground",), f"server {home.name} has no `traffic`: what source and sink cost"
    yield from _without_cost(experiment, home)


def _unhosted(
    deployment: Deployment, home: DescribedServer, server: DescribedServer
) -> Iterator[Problem]:
    """A container's VNF has a process' link and lcores. A machine's link is what a description says
    that it is: none of headrace's own does, as nobody measured one without emulation."""
    at, hosting = ("deployment", "hosting"), deployment.hosting
    if not isinstance(hosting, Hosting) or hosting.kind not in _HOSTED:
        yield at, f"{hosting.kind}; covered: inline, {', '.join(_HOSTED)}"
        return
    links, key = home.links_to(hosting.kind), "machines" if hosting.kind == "vm" else "hosting"
    if links is None:
        whose = "virtual machines" if hosting.kind == "vm" else "VNFs"
        yield at, f"server {home.name} has no `{key}`: what links to {whose} cost"
    if hosting.kind == "vm" and hosting.vm.vcpus != 1:
        yield (*at, "vm", "vcpus"), f"{hosting.vm.vcpus}; covered: 1"
    if deployment.network not in _NETWORKS:
        yield ("deployment", "network"), f"{deployment.network}; covered: {', '.join(_NETWORKS)}"
    elif deployment.network == "sriov" and not server.ports:
        yield ("deployment", "network"), f"sriov: server {server.name} has no `ports`"
    elif deployment.network == "sriov" and links is not None and links.vf_take is None:
        yield ("deployment", "network"), f"sriov: server {home.name} has no `{key}.vf_take`"
    if hosting.checkpoint is not None:
        yield (*at, "checkpoint"), "what writing it takes is not known; covered: none"
    if hosting.cpus is not None:
        yield (*at, "cpus"), "a limit of CPU time; covered: none"
    if hosting.shares is not None:
        yield (*at, "shares"), "weights of VNFs on one lcore; covered: equal ones"
    if "l2fwd" not in home.functions:
        yield at, f"server {home.name} has no cost of l2fwd, which writes VNFs' addresses"
    if server.tester == "outside":
        yield at, "behind ports of a tester outside; covered: traffic of an lcore of the server"


def _without_cost(experiment: Experiment, home: DescribedServer) -> Iterator[Problem]:
    for node, path in zip(experiment.nodes, experiment.node_paths, strict=True):
        if node.nf not in home.functions:
            known = ", ".join(sorted(home.functions)) or "none"
            yield path[:-1], f"{node.nf}: server {home.name} has no cost of it; covered: {known}"
        if node.nf == DELAY:
            for key, problem in _of_delay(node.params, home):
                yield (*path[:-1], key), f"{node.name}: {problem}"
        if node.to and experiment.hosting.kind != "inline":
            yield path[:-1], f"{node.name} has branches, hosted; covered: inline"


def _of_delay(params: Mapping[str, Any], home: DescribedServer) -> Iterator[tuple[str, str]]:
    """A byte that is read is the line that it is in."""
    touched = params.get("touch_bytes") or 0
    if params.get("table_reads"):
        yield "table_reads", "nobody has measured what that takes; covered: cycles, touch_bytes"
    if touched and params.get("touch") == "write":
        yield "touch", "write: what it costs who has the line next; covered: read"
    if isinstance(touched, int | float) and touched > _LINE:
        yield "touch_bytes", f"{touched}: lines behind the first; covered: 1 to {_LINE}"
    if touched and home.transfer_cycles is None:
        yield "touch_bytes", f"server {home.name} has no `transfer_cycles`, which a line takes"
