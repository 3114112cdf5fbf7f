# SPDX-License-Identifier: Apache-2.0
"""The host's engine of a hosted chain: its traffic, and the switch that plays the NIC's part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from headrace.engine.buffers import buffers
from headrace.engine.describe import Description
from headrace.engine.place import Placement
from headrace.engine.plan_compiler import GENERATOR, SINK, Path, data_bytes, paths, wire_size
from headrace.engine.plan_document import (
    Params,
    Plan,
    PlanEngine,
    PlanFunction,
    PlanInput,
    PlanLink,
    PlanSegment,
    Targets,
    passing,
    ring,
)
from headrace.engine.traffic import source_params
from headrace.ground.hosted import vm_plan
from headrace.ground.hosted.licence import rate_cap_gbps
from headrace.ground.hosted.parts import NIC, Face, Vnf, switch_cpu, tester
from headrace.spec.document import Document
from headrace.spec.hosting import Hosting
from headrace.spec.study import Experiment

OUTSIDE = "outside"
UP, DOWN = "up", "down"  # between the bridge outside and the NIC
_MBUFS = 16383
_SLOT_BYTES = 2048  # that a link has by itself


def host_plan(
    experiment: Experiment,
    description: Description,
    doc: Document,
    engine: PlanEngine,
    chains: list[list[Vnf]],
    traffic: list[int],
) -> tuple[Plan, list[str]]:
    """Each direction's traffic has a wire of its own: it comes in by one and, with traffic both
    ways, leaves by the other."""
    ways = paths(experiment)
    deployment, hosting = experiment.study.deployment, experiment.hosting
    vnfs = [one for chain in chains for one in chain]
    own_ring = ring(deployment.ring.size, deployment.ring.on_full)
    wire = deployment.wire if deployment.wire != "auto" else _wire(experiment, traffic)
    links, notes = ends(experiment, description, doc, chains)
    for way in ways:
        links[way.wire], links[way.back] = ring(wire, "drop"), own_ring
    faces = [face for one in vnfs for face in one.faces]
    room = data_bytes(experiment)
    keep = {one.faces[0] for one in vnfs} if hosting.checkpoint is not None else set()
    links |= {face.link: host_link(face, experiment, room, face in keep) for face in faces}
    cpu = switch_cpu(traffic)
    nic = _nic(vnfs, ways, hosting, "vepa" if deployment.network == "vepa" else "veb")
    nfs = {NIC: PlanFunction(type="veb", params=nic)}
    if deployment.network == "vepa":
        names = [name for up, down in _outer(ways) for name in (up, down)]
        links |= dict.fromkeys(names, own_ring)
        nfs[OUTSIDE] = PlanFunction(type="veb", params=_outside(faces, ways))
        switches = _vepa(faces, ways, cpu)
    else:
        switches = [_veb(faces, ways, cpu)]
    segments = [
        sending(traffic[0], ways, [way.wire for way in ways]),
        *switches,
        passing(SINK, traffic[-1], [(way.back, way.sink) for way in ways]),
    ]
    plan = Plan(engine=engine, links=links, nfs=nfs, segments=tuple(segments))
    held = sum(one.params["size"] for one in plan.rings.values()) + nic_holds(nic)
    engine = engine.having(**buffers(experiment, held + _MBUFS), mbuf_data_bytes=room)
    return plan.having(engine=engine), notes


def ends(
    experiment: Experiment,
    description: Description,
    doc: Document,
    chains: list[list[Vnf]],
    macs: Sequence[str] = (),
) -> tuple[dict[str, PlanLink], list[str]]:
    """Each direction's source and sink, and what is to be known of the flows. `macs`: the ports'
    own, by direction, where who sends is looked at."""
    links: dict[str, PlanLink] = {}
    notes: list[str] = []
    carrying = experiment.hosting.carrying
    for i, way in enumerate(paths(experiment)):
        source = source_params(experiment, way.direction, doc, description)
        source["dst_macs"] = entries(way, chains[:carrying])
        if macs:
            source["src_mac"] = macs[i]
        notes = even_flows(source, carrying)
        links |= way.ends(source)
    return links, notes


def host_link(face: Face, experiment: Experiment, room: int, keeps: bool) -> PlanLink:
    """The host's end of a VNF's interface, with room for packets of so many bytes; a VNF's
    checkpoints are kept with one of them."""
    hosting, flows = experiment.hosting, experiment.execution.offload_flows
    if hosting.kind == "vm":
        return vm_plan.host_link(face, hosting)
    link: Params = {"socket": face.socket, "slots": hosting.slots, "times": hosting.times}
    if room > _SLOT_BYTES:
        link["slot_bytes"] = room
    if flows:
        link["offload"] = flows
    if keeps and hosting.checkpoint is not None:
        link["checkpoint_mb"] = hosting.checkpoint.memory_mb
    return PlanLink(type="shm", params=link)


def entries(way: Path, chains: list[list[Vnf]]) -> list[str]:
    """Where each chain begins for this direction."""
    first = 0 if way.direction == "forward" else -1
    return [chain[first].entry(way.direction).mac for chain in chains]


def leaves_by(way: Path, ways: tuple[Path, ...]) -> int:
    """The wire, and so the switch's port, at whose end a direction's sink is."""
    return len(ways) - 1 - ways.index(way)


def sending(cpu: int, ways: Sequence[Path], to: Sequence[str]) -> PlanSegment:
    """The tester's sources: a packet is marked with its direction where it is made."""
    inputs = tuple(
        PlanInput(link=way.source, to=f"link:{one}", direction=way.direction)
        for way, one in zip(ways, to, strict=True)
    )
    return PlanSegment(name=GENERATOR, cpus=(cpu,), inputs=inputs)


def _segment(name: str, cpu: int, inputs: list[PlanInput], edges: Targets) -> PlanSegment:
    return PlanSegment(
        name=name, cpus=(cpu,), inputs=tuple(inputs), nodes={name: {"forward": edges}}
    )


def _input(link: str, to: str, port: int) -> PlanInput:
    return PlanInput(link=link, to=to, port=port)


def _veb(faces: list[Face], ways: tuple[Path, ...], cpu: int) -> PlanSegment:
    inputs = [_input(way.wire, NIC, port) for port, way in enumerate(ways)]
    edges = {f"p{leaves_by(way, ways)}": f"link:{way.back}" for way in ways}
    inputs += [_input(face.link, NIC, face.port) for face in faces]
    return _segment(NIC, cpu, inputs, edges | _to_vnfs(faces))


def _to_vnfs(faces: list[Face]) -> Targets:
    return {f"p{face.port}": f"link:{face.link}" for face in faces}


def _outer(ways: tuple[Path, ...]) -> list[tuple[str, str]]:
    """Has for each wire the rings up to the bridge outside, and down from it."""
    if len(ways) == 1:
        return [(UP, DOWN)]
    return [(f"up{i}", f"down{i}") for i in range(len(ways))]


def _vepa(faces: list[Face], ways: tuple[Path, ...], cpu: int) -> list[PlanSegment]:
    """The bridge outside has the NIC's wires at its first ports, and the testers behind them."""
    wires = len(ways)
    inputs = [_input(way.wire, OUTSIDE, wires + i) for i, way in enumerate(ways)]
    edges = {f"p{wires + leaves_by(way, ways)}": f"link:{way.back}" for way in ways}
    nic_inputs, nic_edges = [], {}
    for i, (up, down) in enumerate(_outer(ways)):
        inputs.append(_input(up, OUTSIDE, i))
        edges[f"p{i}"] = f"link:{down}"
        nic_inputs.append(_input(down, NIC, i))
        nic_edges[f"p{i}"] = f"link:{up}"
    nic_inputs += [_input(face.link, NIC, face.port) for face in faces]
    return [
        _segment(OUTSIDE, cpu, inputs, edges),
        _segment(NIC, cpu, nic_inputs, nic_edges | _to_vnfs(faces)),
    ]


def _wire(experiment: Experiment, traffic: list[int]) -> int:
    return wire_size(experiment, Placement(traffic[0], traffic[-1], (), ()))


def even_flows(source: Params, chains: int) -> list[str]:
    """Destinations are taken in turn, packet by packet: a flow stays with its chain when the number
    of flows is a multiple of the chains'."""
    flows = int(source.get("flows", 1))
    most = -(-flows // chains) * chains
    if chains == 1 or most == flows:
        return []
    source["flows"] = most
    return [f"{most} flows, a multiple of the {chains} chains with traffic, for {flows}"]


def _nic(
    vnfs: list[Vnf],
    ways: tuple[Path, ...],
    hosting: Hosting,
    mode: Literal["veb", "vepa"],
) -> Params:
    nic: Params = {
        "ports": [
            *(_uplink(ways, i, hosting) for i in range(len(ways))),
            *(_function(face, one, hosting) for one in vnfs for face in one.faces),
        ],
        "mode": mode,
        "learning": False,
        "unknown": "uplink",
        "queue_packets": hosting.nic_queue,
    }
    if hosting.switch_gbps is not None:
        nic["capacity_bps"] = int(hosting.switch_gbps * 1e9)
    return nic


def nic_holds(nic: Params) -> int:
    """Frames that may wait in the NIC's queues: of each way those of its virtual functions, and of
    its wires, that have a limit."""
    shared = "capacity_bps" in nic
    queues = sum(
        (shared and "uplink" not in port) or way in port
        for port in nic["ports"]
        for way in ("rate_bps", "in_rate_bps")
    )
    return int(nic["queue_packets"] * queues)


def _function(face: Face, one: Vnf, hosting: Hosting) -> Params:
    """A virtual function; a licence is the function's limit, as an SR-IOV NIC's max_tx_rate is."""
    params: Params = {"macs": [face.mac], "spoof_check": True}
    if (cap := rate_cap_gbps(one, hosting)) is not None:
        params["in_rate_bps"] = int(cap * 1e9)
    return params


def _uplink(ways: tuple[Path, ...], port: int, hosting: Hosting) -> Params:
    """With several wires the switch has to know what is at the end of which."""
    params: Params = {"uplink": True}
    if len(ways) > 1:
        params["macs"] = [tester(way.direction) for way in ways if leaves_by(way, ways) == port]
    if hosting.uplink_gbps is not None:
        rate = int(hosting.uplink_gbps * 1e9)
        params |= {"rate_bps": rate, "in_rate_bps": rate}
    return params


def _outside(faces: list[Face], ways: tuple[Path, ...]) -> Params:
    """The bridge behind the wires: it gives back what is for the NIC's own (IEEE 802.1Qbg). A
    VNF's first interface is behind the first wire, and so on, as the switch spreads its ports."""
    wires = len(ways)
    inner = [
        {"macs": [f.mac for f in faces if (f.vf - 1) % wires == i], "reflect": True}
        for i in range(wires)
    ]
    outer = [
        {"macs": [tester(way.direction) for way in ways if leaves_by(way, ways) == i]}
        for i in range(wires)
    ]
    return {"ports": [*inner, *outer], "learning": False}
