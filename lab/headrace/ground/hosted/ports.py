# SPDX-License-Identifier: Apache-2.0
"""Plans of a hosted chain whose switch is not the host engine's: the tester and each VNF have ports
of the kernel's bridge, or of Open vSwitch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.engine.buffers import buffers
from headrace.engine.describe import Description
from headrace.engine.place import Placement
from headrace.engine.plan_compiler import SINK, data_bytes, paths, wire_size
from headrace.engine.plan_document import (
    Params,
    Plan,
    PlanEngine,
    PlanLink,
    passing,
    ring,
)
from headrace.ground.hosted.host import ends, leaves_by, sending
from headrace.ground.hosted.licence import RateCap, cap_of
from headrace.ground.hosted.parts import NIC, RUN, Vnf, switch_cpu, tester
from headrace.host.openvswitch import dpdk_lacking
from headrace.spec.document import Document
from headrace.spec.hosting import Hosting
from headrace.spec.study import Experiment

_MBUFS = 16383
_WIRE_MOST = 16384  # of buffers for whole frames
_LINK_MS = 60000
# Blocks of 64 KiB, 512 frames: bursts of the kernel's are not lost.
_AF_PACKET = "net_af_packet{n},iface={name},blocksz=65536,framesz=2048,framecnt=512"
_VIRTIO_USER = "net_virtio_user{n},path={socket},server=1,queues=1,queue_size={slots},mac={mac}"
# A bridge's packet socket has no more room in a frame; ovs-dpdk's ports have that MTU.
_FRAME_MOST = {"bridge": 1900, "ovs-dpdk": 1518}
_SLOTS_MOST = 32768  # of a virtqueue (virtio 1.1, 2.6)


@dataclass(frozen=True)
class SwitchPort:
    """A port of the switch, and whose it is."""

    owner: str  # a VNF, or "" for the tester
    number: int  # of the owner's ports, from 0
    name: str  # of the interface, and of the engine's link
    mac: str
    socket: str  # where its owner awaits a switch that comes by vhost-user
    cap: RateCap | None = None  # what its owner may send by it


@dataclass(frozen=True)
class OnSwitch:
    network: str
    ports: tuple[SwitchPort, ...]  # the tester's first
    slots: int  # of a VNF's port, where that is ours to say
    wire: int  # of the tester's: what waits in front of the switch
    lcore: int  # of a switch that polls
    shared: bool  # that lcore, with the tester
    times: bool

    def of(self, owner: str) -> list[SwitchPort]:
        return [port for port in self.ports if port.owner == owner]

    @property
    def kept(self) -> int:
        """Buffers of the tester's that have been sent and are not free yet, at most: virtio frees
        them when it wants their places; what a packet socket was given is copied."""
        return len(self.of("")) * self.wire if self.network == "ovs-dpdk" else 0

    def link(self, port: SwitchPort) -> PlanLink:
        params: Params = {"wait_link_ms": _LINK_MS, "times": self.times}
        if self.network == "bridge":
            params["devargs"] = _AF_PACKET.format(n=port.number, name=port.name)
        else:
            slots = self.slots if port.owner else self.wire
            params["devargs"] = _VIRTIO_USER.format(
                n=port.number, socket=port.socket, slots=slots, mac=port.mac
            )
            params |= {"rx_descriptors": slots, "tx_descriptors": slots}
        return PlanLink(type="port", params=params)


def on_switch(experiment: Experiment, chains: list[list[Vnf]], traffic: list[int]) -> OnSwitch:
    ways, deployment = paths(experiment), experiment.study.deployment
    own = {leaves_by(way, ways): tester(way.direction) for way in ways}
    testers = [
        SwitchPort("", i, f"wire{i}", own[i], f"{RUN}/wire{i}.sock") for i in range(len(ways))
    ]
    others = [
        SwitchPort(one.name, i, face.name, face.mac, face.socket, cap_of(one, experiment))
        for chain in chains
        for one in chain
        for i, face in enumerate(one.faces)
    ]
    hosting, lcore = experiment.hosting, switch_cpu(traffic)
    return OnSwitch(
        network=deployment.network,
        ports=(*testers, *others),
        slots=hosting.slots,
        wire=1 << (min(_wire(experiment, traffic), _WIRE_MOST).bit_length() - 1),
        lcore=lcore,
        shared=lcore in (traffic[0], traffic[-1]),
        times=hosting.times,
    )


def _wire(experiment: Experiment, traffic: list[int]) -> int:
    told = experiment.study.deployment.wire
    if told != "auto":
        return told
    return min(_WIRE_MOST, wire_size(experiment, Placement(traffic[0], traffic[-1], (), ())))


def ports_cpu(network: str, traffic: list[int]) -> int:
    """Where the tester's ports are fed: a switch that polls has the switch's lcore."""
    return traffic[0] if network == "ovs-dpdk" else switch_cpu(traffic)


def tester_plan(
    experiment: Experiment,
    description: Description,
    doc: Document,
    engine: PlanEngine,
    chains: list[list[Vnf]],
    traffic: list[int],
    switch: OnSwitch,
) -> tuple[Plan, list[str]]:
    """The host's engine has traffic only; a direction's leaves it by one port, and comes back by
    that at the other end."""
    ways = paths(experiment)
    deployment, own = experiment.study.deployment, switch.of("")
    own_ring = ring(deployment.ring.size, deployment.ring.on_full)
    wire = _wire(experiment, traffic)
    links, notes = ends(experiment, description, doc, chains, [port.mac for port in own])
    links |= {port.name: switch.link(port) for port in own}
    for way in ways:
        links[way.wire], links[way.back] = ring(wire, "drop"), own_ring
    out = [(way.wire, own[i].name) for i, way in enumerate(ways)]
    back = [(own[leaves_by(way, ways)].name, way.back) for way in ways]
    segments = (
        sending(traffic[0], ways, [way.wire for way in ways]),
        passing(NIC, ports_cpu(switch.network, traffic), [*out, *back]),
        passing(SINK, traffic[-1], [(way.back, way.sink) for way in ways]),
    )
    plan = Plan(engine=engine, links=links, nfs={}, segments=segments)
    held = sum(one.params["size"] for one in plan.rings.values())
    held += 2 * switch.kept  # as much waits to be received
    engine = engine.having(
        **buffers(experiment, held + _MBUFS), mbuf_data_bytes=buffer_bytes(experiment)
    )
    return plan.having(engine=engine), notes


def vnf_plan(one: Vnf, experiment: Experiment, switch: OnSwitch) -> Plan | None:
    """A VNF's plan, its interfaces being ports of the switch; an appliance has none."""
    plan = one.plan
    if plan is None:
        return None
    links = {port.name: switch.link(port) for port in switch.of(one.name)}
    engine = plan.engine.having(mbuf_data_bytes=buffer_bytes(experiment))
    return plan.having(engine=engine, links={**plan.links, **links})


def buffer_bytes(experiment: Experiment) -> int:
    """Drivers of devices want room for a whole frame in each."""
    return max(data_bytes(experiment), 2176)


def refused(experiment: Experiment) -> tuple[str, str] | None:
    """The first word of the spec that this switch has no use for, and why."""
    deployment = experiment.study.deployment
    hosting, network = experiment.hosting, deployment.network
    for key in ("uplink_gbps", "switch_gbps", "nic_queue"):
        if key in hosting.model_fields_set and getattr(hosting, key) is not None:
            return f"hosting.{key}", (
                f"the limits are those of networks veb and vepa; allowed with {network}: none"
            )
    if hosting.wait == "interrupt":
        return "hosting.wait", (
            f"ports of {network} can only be polled; allowed with {network}: poll, adaptive"
        )
    most, largest = _FRAME_MOST[network], max(experiment.frame.sizes)
    if largest > most:
        return "network", f"frames of {largest} B; allowed with {network}: up to {most} B"
    if network == "ovs-dpdk":
        return _refused_by_ovs(hosting, len(paths(experiment)))
    return None


def _refused_by_ovs(hosting: Hosting, faces: int) -> tuple[str, str] | None:
    if hosting.slots > _SLOTS_MOST:
        return "hosting.slots", (
            f"{hosting.slots}; allowed with ovs-dpdk: at most {_SLOTS_MOST}, as virtio's queues"
        )
    if hosting.mbufs < (least := 2 * faces * hosting.slots):
        return "hosting.mbufs", (
            f"{hosting.mbufs}, with slots: {hosting.slots}; allowed with ovs-dpdk: at least "
            f"{least}, as virtio keeps buffers in both of an interface's queues"
        )
    if (missing := dpdk_lacking()) is not None:
        return "network", missing
    return None


@dataclass(frozen=True)
class Outer:
    """A chain laid out behind such a switch."""

    switch: OnSwitch
    chains: list[list[Vnf]]
    plan: Plan
    notes: list[str]


def lay_out(
    experiment: Experiment,
    description: Description,
    doc: Document,
    engine: PlanEngine,
    chains: list[list[Vnf]],
    traffic: list[int],
) -> Outer:
    if refusal := refused(experiment):
        key, problem = refusal
        raise doc.error(("deployment", *key.split(".")), problem)
    switch = on_switch(experiment, chains, traffic)
    listens = switch.network == "ovs-dpdk"
    chains = [
        [replace(one, listens=listens, plan=vnf_plan(one, experiment, switch)) for one in chain]
        for chain in chains
    ]
    plan, notes = tester_plan(experiment, description, doc, engine, chains, traffic, switch)
    return Outer(switch, chains, plan, notes)
