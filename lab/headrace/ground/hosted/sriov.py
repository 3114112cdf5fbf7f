# SPDX-License-Identifier: Apache-2.0
"""A hosted chain on a real NIC: the tester and each VNF have virtual functions of it, and the NIC's
own switch is between them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headrace.engine.buffers import buffers
from headrace.engine.describe import Description
from headrace.engine.plan_compiler import SINK, paths
from headrace.engine.plan_document import Plan, PlanEngine, PlanLink, passing
from headrace.ground.hosted.cpus import Cpu, describe_cpu
from headrace.ground.hosted.host import ends, leaves_by, sending
from headrace.ground.hosted.licence import RateCap, cap_of
from headrace.ground.hosted.parts import Vnf, tester
from headrace.host.sriov import Pf, choose_nics, physical_functions
from headrace.spec.document import Document
from headrace.spec.study import Experiment

_AT = ("deployment", "hosting")
_INSTEAD = "veb, vepa, bridge, ovs-dpdk"
_MBUFS = 16383
# What the kernel's rings hold fits into one buffer (packet_mmap, AF_XDP); a function's own driver
# wants as much.
_BUFFER_BYTES = 2176
_PROGRAM, _LIBXDP_PROGRAMS = "xsk_def_xdp_prog.o", "LIBXDP_OBJECT_PATH"  # libxdp(3)
_FRAME_MAX = 1518  # with the MTU that functions come with
# Blocks of 64 KiB, 512 frames: 1 MB a direction, and bursts of the kernel's are not lost.
_RING = "blocksz=65536,framesz=2048,framecnt=512"


@dataclass(frozen=True)
class Function:
    """A virtual function of the chain's, and who gets it: the tester ("") or a VNF."""

    owner: str
    name: str  # of its interface, and of the engine's link
    mac: str
    pf: Pf
    cap: RateCap | None = None  # what its owner may send by it

    @property
    def pci(self) -> str:
        """Stands in plans for its PCI address, which is known when it is there."""
        return f"@PCI-{self.mac}@"


@dataclass(frozen=True)
class OnNic:
    vf: str  # how engines reach their functions: af_packet, af_xdp, vfio
    functions: tuple[Function, ...]  # in the NICs' order: the tester's first
    times: bool
    machines: bool = False  # VNFs are, and are given functions by vfio in any case

    @property
    def pf(self) -> Pf:
        """The tester's."""
        return self.functions[0].pf

    def of(self, owner: str) -> list[Function]:
        return [one for one in self.functions if one.owner == owner]

    def way(self, owner: str) -> str:
        return "vfio" if owner and self.machines else self.vf


def needed(wires: int, vnfs: int) -> int:
    return wires * (1 + vnfs)


def no_functions(spec: dict[str, Any]) -> str | None:
    """Why no NIC here has virtual functions for a spec's chains of one VNF each; None: one has."""
    hosting = spec.get("deployment", {}).get("hosting", {})
    chains = hosting.get("chains", 1) if isinstance(hosting, dict) else 1  # else its kind alone
    chains = max(chains) if isinstance(chains, list) else chains  # of a sweep
    ways = 2 if spec.get("workload", {}).get("direction") == "both" else 1
    most = max((pf.enabled or pf.total for pf in physical_functions(Path("/"))), default=0)
    if not most:
        return "no NIC of this machine has virtual functions"
    wanted = needed(ways, chains)
    return None if wanted <= most else f"{wanted} virtual functions, a NIC here has {most}"


def on_nic(experiment: Experiment, chains: list[list[Vnf]]) -> OnNic:
    """BadInput where no NIC here has enough functions."""
    deployment, ways = experiment.study.deployment, paths(experiment)
    vnfs = [one for chain in chains for one in chain]
    pfs = iter(choose_nics(deployment.pf or (), needed(len(ways), len(vnfs)), instead=_INSTEAD))
    # By a wire comes what leaves it at the other end: the tester has an address for each.
    own = {leaves_by(way, ways): tester(way.direction) for way in ways}
    testers = [Function("", _wire(i), own[i], next(pfs)) for i in range(len(ways))]
    others = [
        Function(one.name, face.name, face.mac, next(pfs), cap_of(one, experiment))
        for one in vnfs
        for face in one.faces
    ]
    hosting = experiment.hosting
    machines = hosting.kind == "vm"
    return OnNic(hosting.vf or "af_packet", (*testers, *others), hosting.times, machines)


def nic_at(experiment: Experiment, wires: int, vnfs: int, switch: int) -> Cpu:
    """Where the NIC is, for who is placed near it or far from it: a real one is on a node, ours on
    the lcore that plays it."""
    deployment, cpu = experiment.study.deployment, describe_cpu(switch)
    if deployment.network != "sriov":
        return cpu
    node = choose_nics(deployment.pf or (), needed(wires, vnfs), instead=_INSTEAD)[0].node
    return cpu if node is None else replace(cpu, node=node)


def _wire(number: int) -> str:
    return f"wire{number}"


def tester_plan(
    experiment: Experiment,
    description: Description,
    doc: Document,
    engine: PlanEngine,
    chains: list[list[Vnf]],
    traffic: list[int],
    nic: OnNic,
) -> tuple[Plan, list[str]]:
    """Traffic goes out by a virtual function and comes back by one: there is no switch of ours."""
    ways = paths(experiment)
    own = nic.of("")
    # The NIC drops what claims to be somebody else's.
    links, notes = ends(experiment, description, doc, chains, [one.mac for one in own])
    links |= ports(own, nic)
    out = sending(traffic[0], ways, [own[i].name for i in range(len(ways))])
    back = [(own[leaves_by(way, ways)].name, way.sink) for way in ways]
    engine = engine.having(
        **buffers(experiment, _MBUFS), mbuf_data_bytes=_BUFFER_BYTES, **devices(own, nic)
    )
    segments = out, passing(SINK, traffic[-1], back)
    return Plan(engine=engine, links=links, nfs={}, segments=segments), notes


def vnf_plan(vnf: Vnf, nic: OnNic) -> Plan | None:
    """A VNF's plan, its interfaces being virtual functions. A machine's own says which; an
    appliance has none."""
    plan = vnf.plan
    if plan is None:
        return None
    own = nic.of(vnf.name)
    engine = plan.engine.having(mbuf_data_bytes=_BUFFER_BYTES, **devices(own, nic))
    return plan.having(engine=engine, links={**plan.links, **ports(own, nic)})


def ports(own: list[Function], nic: OnNic) -> dict[str, PlanLink]:
    return {one.name: _port(one, number, nic) for number, one in enumerate(own)}


def _port(function: Function, number: int, nic: OnNic) -> PlanLink:
    devargs, way = function.pci, nic.way(function.owner)
    if way == "af_xdp":
        devargs = f"net_af_xdp{number},iface={function.name}{_own_program()}"
    elif way == "af_packet":
        devargs = f"net_af_packet{number},iface={function.name},{_RING}"
    # A function's own address is all that it is to see: promiscuous ones would see the others'.
    params = {"devargs": devargs, "promiscuous": False, "times": nic.times}
    return PlanLink(type="port", params=params)


def _own_program() -> str:
    """For AF_XDP. libxdp attaches it in native mode only, for which few virtual functions' drivers
    are made (igbvf is not); by DPDK, it takes the mode that there is."""
    folders = [Path(named)] if (named := os.environ.get(_LIBXDP_PROGRAMS)) else []
    folders += [one for root in ("/usr/lib", "/usr/lib64", "/usr/local/lib")
                for one in (Path(root) / "bpf", *sorted(Path(root).glob("*/bpf")))]  # fmt: skip
    program = next((one for folder in folders if (one := folder / _PROGRAM).is_file()), None)
    return f",xdp_prog={program}" if program else ""


def devices(own: list[Function], nic: OnNic) -> dict[str, list[str]]:
    given = [one.pci for one in own if nic.way(one.owner) == "vfio"]
    return {"pci": given} if given else {}


def refused(experiment: Experiment) -> tuple[tuple[str, ...], str] | None:
    """The first key of the spec that a real NIC has no use for, and why."""
    hosting, largest = experiment.hosting, max(experiment.frame.sizes)
    if largest > _FRAME_MAX:
        return ("workload", "frame"), (
            f"{largest} bytes; allowed with `network: sriov`: at most {_FRAME_MAX}"
        )
    if hosting.kind == "container" and hosting.vf not in (None, "af_packet"):
        return (*_AT, "vf"), (
            f"{hosting.vf}, for which a container would need the host's devices or CAP_SYS_ADMIN; "
            "allowed with `kind: container`: af_packet"
        )
    if hosting.kind == "vm" and hosting.vm.driver != "auto":
        return (*_AT, "vm", "driver"), (
            f"{hosting.vm.driver}; the NIC says which driver a guest needs; allowed with "
            "`network: sriov`: auto"
        )
    for key in ("uplink_gbps", "switch_gbps", "nic_queue"):
        if key in hosting.model_fields_set and getattr(hosting, key) is not None:
            return (
                *_AT,
                key,
            ), "a real NIC has its own limits; allowed with `network: sriov`: none given"
    if hosting.wait == "interrupt":
        return (*_AT, "wait"), (
            "DPDK's drivers of virtual functions are polled; allowed with `network: sriov`: "
            "poll, adaptive"
        )
    return None
