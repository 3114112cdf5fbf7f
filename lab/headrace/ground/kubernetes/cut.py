# SPDX-License-Identifier: Apache-2.0
"""One engine's plan cut into one for each pod: what was a ring between two of them is a memif or a
vhost-user port, over a socket in a folder that the pods of a node share; or a device of the network
that each of them is given, where the tester is apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.engine.plan_compiler import GENERATOR, SINK
from headrace.engine.plan_document import (
    Plan,
    PlanEngine,
    PlanLink,
)
from headrace.ground.wired.wiring import devargs
from headrace.spec.kubernetes import PodLink
from headrace.spec.testbed import Device, WirePort

TESTER = "tester"
# The two sides of a chain that is apart: the tester's device and the chain's, as ports of a testbed
# are called in the docs. Forward traffic enters by the first.
SIDES: Mapping[str, tuple[str, str]] = {"in": ("left", "in"), "out": ("right", "out")}
SOCKETS = "/run/headrace-links"  # the shared folder, in each pod
_LONGEST: Mapping[PodLink, int] = {"memif": 14, "vhost-user": 10}  # log2 of rings
_BUFFER_BYTES = 2048  # of a memif; longer frames take several
_PACKET_RINGS_BYTES = 2 << 20  # of a packet socket, a ring of 1 MB each way
_MBUFS_LEAST = 8191
_DATA_BYTES = 2176  # what drivers want to have in an mbuf


@dataclass(frozen=True)
class Wire:
    """A ring that became a link from one pod to another."""

    ring: str
    writer: str
    reader: str
    number: int
    size: int  # log2 of its ring
    kind: PodLink
    side: str | None = None  # by whose devices it goes; none: by shared memory

    @property
    def out(self) -> str:
        """The writer's link."""
        if self.side is not None:
            return self._device(self.writer)
        return f"{self.ring}.{self.number}.out"

    @property
    def end(self) -> str:
        """The reader's."""
        if self.side is not None:
            return self._device(self.reader)
        return f"{self.ring}.{self.number}.in"

    def _device(self, pod: str) -> str:
        """Both ways of a side go by one device of each pod."""
        assert self.side is not None
        return SIDES[self.side][pod != TESTER]

    @property
    def name(self) -> str:
        """As a user is told of it."""
        if self.side is not None:
            return f"{self.writer}/{self.out} to {self.reader}/{self.end}"
        return f"{self.kind} {self.socket} from pod {self.writer} to pod {self.reader}"

    @property
    def socket(self) -> str:
        return f"{SOCKETS}/{self.number}.sock"

    def link(self, pod: str, number: int, listens: bool) -> PlanLink:
        """`number`: of the pod's ports."""
        if self.side is not None:
            return self._packet_socket(pod, number)
        queues = 1 << self.size
        device = self._memif(number, listens)
        if self.kind == "vhost-user":
            device = self._vhost_user(number, listens)
        params = {"devargs": device, "rx_descriptors": queues, "tx_descriptors": queues}
        return PlanLink(type="port", params=params)

    def _packet_socket(self, pod: str, number: int) -> PlanLink:
        """What the pod was given takes packets for any address: its CNI plugin has seen to that."""
        to = Device("af_packet", self._device(pod))
        port = WirePort(device=to.text)
        return PlanLink(
            type="port",
            params={
                "devargs": devargs(to, number, port, 1, False),
                "rx_descriptors": port.rx_descriptors,
                "tx_descriptors": port.tx_descriptors,
                "promiscuous": False,
            },
        )

    def _memif(self, number: int, listens: bool) -> str:
        return (
            f"net_memif{number},role={'server' if listens else 'client'},id=0,"
            f"socket={self.socket},socket-abstract=no,rsize={self.size},bsize={_BUFFER_BYTES}"
        )

    def _vhost_user(self, number: int, listens: bool) -> str:
        """Who calls is the driver (virtio), whose memory the one that listens maps."""
        if listens:
            return f"net_vhost{number},iface={self.socket},queues=1"
        return f"net_virtio_user{number},path={self.socket},queues=1,queue_size={1 << self.size}"

    @property
    def held(self) -> int:
        """Buffers of an engine that lie in its end: a virtqueue's are in use until they are sent,
        or until something comes for them; other drivers copy."""
        return 2 << self.size if self.side is None and self.kind == "vhost-user" else 0

    @property
    def memory_bytes(self) -> int:
        """A memif has a ring each way; vhost-user moves packets in the engines' own memory."""
        if self.side is not None:
            return _PACKET_RINGS_BYTES
        return 2 * _BUFFER_BYTES << self.size if self.kind == "memif" else 0


@dataclass(frozen=True)
class PlanCut:
    """`plans` by pod, the tester's first; each listens for those behind it."""

    plans: Mapping[str, Plan]
    wires: tuple[Wire, ...]

    def of(self, pod: str) -> list[Wire]:
        return [wire for wire in self.wires if pod in (wire.writer, wire.reader)]

    def listens(self, pod: str) -> bool:
        """At a socket of the folder that pods share; those behind it call."""
        return any(self.serves(pod, wire) for wire in self.of(pod) if wire.side is None)

    def serves(self, pod: str, wire: Wire) -> bool:
        """Whether it listens at that wire's socket, being the nearer to the tester of its two."""
        pods = list(self.plans)
        return pods.index(pod) == min(pods.index(wire.writer), pods.index(wire.reader))

    def writes(self, pod: str) -> bool:
        """Into that folder: DPDK's memif wants to be able to, who calls, too."""
        memif = any(wire.side is None and wire.kind == "memif" for wire in self.of(pod))
        return memif or self.listens(pod)

    def devices(self, pod: str) -> list[str]:
        """The network's, that a pod is given."""
        ends = ((w.out if w.writer == pod else w.end) for w in self.of(pod) if w.side is not None)
        return list(dict.fromkeys(ends))

    @property
    def kinds(self) -> tuple[str, ...]:
        """What joins pods."""
        return tuple(dict.fromkeys("af_packet" if w.side else w.kind for w in self.wires))

    def with_buffers(self, mbufs: int) -> PlanCut:
        """Each with so many, as the study asks."""
        plans = {
            pod: plan.having(engine=plan.engine.having(mbufs=mbufs))
            for pod, plan in self.plans.items()
        }
        return PlanCut(plans, self.wires)

    @property
    def together(self) -> Plan:
        """For who looks up what a link or a segment is."""
        first, *others = self.plans.values()
        links, nfs = dict(first.links), dict(first.nfs)
        segments = list(first.segments)
        for one in others:
            links |= one.links
            nfs |= one.nfs
            segments += one.segments
        return first.having(links=links, nfs=nfs, segments=tuple(segments))


def cut(whole: Plan, kind: PodLink = "memif", sides: Mapping[str, str] | None = None) -> PlanCut:
    """Sources and sinks are the tester's; each other segment is a pod of its own. `sides`: of the
    rings from and to the tester, where it is apart."""
    owners = {
        one.name: TESTER if one.name in (GENERATOR, SINK) else pod_of(one.name)
        for one in whole.segments
    }
    pods = tuple(dict.fromkeys([TESTER, *owners.values()]))
    wires = tuple(_wires(whole, owners, kind, sides or {}))
    plans = {pod: _plan(pod, pods, whole, owners, wires) for pod in pods}
    return PlanCut(plans, wires)


def pod_of(segment: str) -> str:
    """A pod's name (RFC 1123) for a segment's."""
    return "".join(c if c.isalnum() else "-" for c in segment.lower()).strip("-")


def _wires(
    whole: Plan, owners: Mapping[str, str], kind: PodLink, sides: Mapping[str, str]
) -> Iterable[Wire]:
    number = 0
    for ring, link in whole.rings.items():
        writers = dict.fromkeys(owners[s.name] for s in whole.segments if ring in s.writes)
        readers = dict.fromkeys(owners[s.name] for s in whole.segments if ring in s.reads)
        assert len(readers) == 1, ring
        [reader] = readers
        if list(writers) == [reader]:
            continue
        assert reader not in writers, ring
        size = min(int(link.params["size"]).bit_length() - 1, _LONGEST[kind])
        for writer in writers:
            yield Wire(ring, writer, reader, number, size, kind, sides.get(ring))
            number += 1


def _plan(
    pod: str, pods: tuple[str, ...], whole: Plan, owners: Mapping[str, str], wires: tuple[Wire, ...]
) -> Plan:
    own = [one for one in wires if pod in (one.writer, one.reader)]
    out = {one.ring: one.out for one in own if one.writer == pod}
    ends: dict[str, list[str]] = {}
    for one in own:
        if one.reader == pod:
            ends.setdefault(one.ring, []).append(one.end)
    segments = tuple(s.between(ends, out) for s in whole.segments if owners[s.name] == pod)
    used = {name for s in segments for name in s.reads | s.writes}
    links = {name: link for name, link in whole.links.items() if name in used}
    for number, one in enumerate(own):
        other = one.reader if one.writer == pod else one.writer
        listens = pods.index(pod) < pods.index(other)
        links[one.out if one.writer == pod else one.end] = one.link(pod, number, listens)
    functions = {node for s in segments for node in s.nodes or {}}
    return Plan(
        engine=_engine(whole, links, sum(one.held for one in own)),
        functions=whole.functions,
        links=links,
        nfs={name: nf for name, nf in whole.nfs.items() if name in functions},
        segments=segments,
    )


def _engine(whole: Plan, links: Mapping[str, PlanLink], held: int) -> PlanEngine:
    """With the buffers of the whole, but for those that lie in rings of other pods, or in rings
    that are none any more. `held`: what its ports hold instead."""
    engine = whole.engine
    size = max(engine.mbuf_data_bytes or 0, _DATA_BYTES)
    if engine.mbufs is None:
        return engine.having(mbuf_data_bytes=size)
    gone = sum(int(ring.params["size"]) for name, ring in whole.rings.items() if name not in links)
    return engine.having(mbuf_data_bytes=size, mbufs=max(engine.mbufs - gone + held, _MBUFS_LEAST))


def on_cpus(plan: Plan, cpus: Mapping[int, int]) -> Plan:
    """The plan with the lcores that its pod has."""
    segments = tuple(
        one.model_copy(update={"cpus": tuple(cpus[cpu] for cpu in one.cpus)})
        for one in plan.segments
    )
    return plan.having(segments=segments)
