# SPDX-License-Identifier: Apache-2.0
"""The VNFs of a hosted chain and where each runs, before anything is planned of them: what a
described server and this one have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.engine.place import PlacedSegment, Placement, check_told
from headrace.engine.plan_compiler import isolated_cpus, paths
from headrace.ground.hosted.cpus import Describe, describe_cpu, pin, without_siblings
from headrace.ground.hosted.parts import NIC, RUN, WRITABLE, Face, Vnf, switch_cpu
from headrace.ground.hosted.ports import ports_cpu
from headrace.ground.hosted.sriov import nic_at, refused
from headrace.record.text import lcores_text
from headrace.spec.document import Document, PathKey
from headrace.spec.hosting import RATE_COST, VFS_MAX, Hosting
from headrace.spec.study import Experiment
from headrace.spec.vm import VHOSTS_MAX
from headrace.spec.workload import Pcap

_AT = ("deployment", "hosting")
_BY_HOST = ("veb", "vepa")  # networks that the host's engine switches


@dataclass(frozen=True)
class Arrangement:
    """`chains`: VNFs of each, without plans. `traffic`: lcores of source, switch and sink."""

    traffic: list[int]
    chains: list[list[Vnf]]


def arrange(
    experiment: Experiment,
    doc: Document,
    available: Sequence[int],
    describe: Describe = describe_cpu,
) -> Arrangement:
    """BadInput for what cannot be hosted, wherever it is."""
    hosting, groups = experiment.hosting, vnf_groups(experiment)
    wires = len(paths(experiment))
    _check(experiment, hosting, groups, wires, doc)
    traffic, free = _lcores(experiment, doc, available, describe)
    count = hosting.chains * len(groups)
    vcpus = hosting.vm.vcpus if hosting.kind == "vm" else 1
    own = switch_cpu(traffic)
    cpus = pin(
        hosting,
        count,
        [describe(number) for number in free],
        nic_at(experiment, wires, count, own) if describe is describe_cpu else describe(own),
        lambda key, problem: doc.error((*_AT, key), problem),
        vcpus,
    )
    # A VNF listens there at the sockets of its interfaces; a container writes in one folder only.
    awaited = experiment.study.deployment.network == "ovs-dpdk" and hosting.kind == "container"
    below = f"{WRITABLE}/" if awaited else ""
    chains = [_chain(number, groups, cpus, vcpus, wires, below) for number in range(hosting.chains)]
    return Arrangement(traffic, chains)


def _chain(
    number: int,
    groups: list[tuple[str, ...]],
    cpus: list[tuple[int, ...]],
    vcpus: int,
    wires: int,
    below: str,
) -> list[Vnf]:
    first = number * len(groups)
    return [
        Vnf(f"vnf{number + 1}.{step + 1}", _faces(first + step, wires, below), nodes,
            cpus[(first + step + 1) * vcpus - 1], None,
            vcpus=tuple(cpus[(first + step) * vcpus : (first + step + 1) * vcpus]))
        for step, nodes in enumerate(groups)
    ]  # fmt: skip


def _faces(number: int, wires: int, below: str) -> tuple[Face, ...]:
    """Has as many as there are directions. `below`: their sockets, in the VNF's folder."""
    names = ("vf",) if wires == 1 else ("left", "right")
    first = number * wires + 1
    return tuple(
        Face(name, first + i, first + i + wires - 1, f"{RUN}/v{first}/{below}{name}.sock")
        for i, name in enumerate(names)
    )


def vnf_groups(experiment: Experiment) -> list[tuple[str, ...]]:
    """Which functions make up each VNF of a chain."""
    names = tuple(node.name for node in experiment.nodes)
    if experiment.execution.segments is not None:
        return list(experiment.execution.segments)
    if experiment.execution.model == "pipeline" and names:
        return [(name,) for name in names]
    return [names]


def _check(
    experiment: Experiment,
    hosting: Hosting,
    groups: list[tuple[str, ...]],
    wires: int,
    doc: Document,
) -> None:
    count, (most, of) = hosting.chains * len(groups), _most(experiment, wires)
    if count > most:
        raise doc.error(
            (*_AT, "chains"),
            f"{hosting.chains} chains of {len(groups)} VNFs are {count}; allowed: {most} VNFs, {of}"
            + ("" if wires == 1 else ", two for each VNF with traffic both ways"),
        )
    if experiment.study.deployment.network == "sriov" and (refusal := refused(experiment)):
        raise doc.error(refusal[0], refusal[1])
    _check_shares(experiment, hosting, groups, doc)
    execution, workload = experiment.execution, experiment.workload
    if execution.offload_flows and wires > 1:
        raise doc.error(
            ("deployment", "execution"),
            "offload with traffic both ways, where packets leave a VNF by another link than they "
            "came; allowed: direction forward or reverse",
        )
    if execution.fastpath_flows:
        raise doc.error(
            ("deployment", "execution"),
            "fastpath, which hosted VNFs have not; allowed there: offload",
        )
    if set(execution.replicas or ()) - {1} or execution.lcores is not None:
        raise doc.error(
            ("deployment", "execution"),
            "a hosted VNF has one lcore, and `hosting` says which; allowed: no replicas, no lcores",
        )
    if isinstance(workload, Pcap) or workload.headers.dst_mac:
        key: PathKey = "kind" if isinstance(workload, Pcap) else "headers"
        raise doc.error(
            ("workload", key),
            "the switch finds VNFs by MAC address; allowed: made frames, no dst_mac",
        )


def _most(experiment: Experiment, wires: int) -> tuple[int, str]:
    """How many VNFs there may be, and what of which there are no more."""
    deployment = experiment.study.deployment
    if experiment.hosting.kind == "vm" and deployment.network in _BY_HOST:
        return VHOSTS_MAX // wires, (
            "the vhost devices of the host's engine (more behind bridge, ovs-dpdk, sriov)"
        )
    ports = len(deployment.pf or ("the first",))
    of = "a port" if ports == 1 else f"{ports} ports"
    return VFS_MAX * ports // wires, f"the virtual functions of {of}"


def _check_shares(
    experiment: Experiment, hosting: Hosting, groups: list[tuple[str, ...]], doc: Document
) -> None:
    shares = hosting.shares
    if shares == RATE_COST:
        if experiment.study.measure.chaos:
            raise doc.error(
                (*_AT, "shares"),
                "rate-cost, where VNFs are killed, whose load nobody looks at; allowed with "
                "measure.chaos: a weight for each VNF of a chain",
            )
    elif shares is not None and len(shares) != len(groups):
        raise doc.error(
            (*_AT, "shares"),
            f"{len(shares)} weights for a chain of {len(groups)} VNFs; allowed: one for each",
        )


def _lcores(
    experiment: Experiment, doc: Document, available: Sequence[int], describe: Describe
) -> tuple[list[int], list[int]]:
    """Those of traffic and switch, and those of the VNFs. Where some are isolated VNFs have none of
    the others, which are for interrupts and all else that runs here; not even on a nearer node."""
    told = experiment.study.deployment.lcores
    check_told(told, doc, available)
    traffic = list(told.traffic or [c for c in available if c not in (told.chain or ())][:1])
    free = list(told.chain or without_siblings(available, traffic, describe))
    named = told.chain or experiment.hosting.lcores
    if describe is describe_cpu and not named:
        free = [cpu for cpu in free if cpu in isolated_cpus()] or free
    if not traffic or not free:
        raise doc.error(
            ("deployment", "lcores"),
            f"hosted VNFs need an lcore beside that of traffic; this machine gives {available}",
        )
    return traffic, free


def placement_of(
    vnfs: Sequence[Vnf], traffic: list[int], notes: Sequence[str], network: str,
    weighed: bool = False,
) -> Placement:  # fmt: skip
    """`weighed`: VNFs have weights for the time of lcores that they share."""
    switched = network != "sriov"
    cpu = ports_cpu(network, traffic)
    segments = [PlacedSegment(NIC, (NIC,), (cpu,))] if switched else []
    segments += [PlacedSegment(v.name, v.nodes, v.lcores) for v in vnfs]
    others = (switch_cpu(traffic),) if network == "ovs-dpdk" else ()
    if len(traffic) < 3:
        who = "generator, switch and sink" if switched else "generator and sink"
        notes = [*notes, f"{who} share {lcores_text(traffic)}"]
    lcores = sorted({cpu for v in vnfs for cpu in v.lcores})
    if len(vnfs) > len(lcores):
        notes = [*notes, f"{len(vnfs)} VNFs share {lcores_text(lcores)}"]
    elif weighed:
        notes = [*notes, "shares: no two VNFs are on one lcore, so that there is nothing to share"]
    return Placement(traffic[0], traffic[-1], tuple(segments), tuple(notes), others)
