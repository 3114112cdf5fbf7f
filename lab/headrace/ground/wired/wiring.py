# SPDX-License-Identifier: Apache-2.0
"""Plans of a testbed: the tester's engine, and the chain's, each with its own ports."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from headrace.engine.buffers import buffers
from headrace.engine.describe import Description
from headrace.engine.place import Placement
from headrace.engine.plan_compiler import GENERATOR, SINK, Path, compile_plan, data_bytes, paths
from headrace.engine.plan_document import (
    Params,
    Plan,
    PlanEngine,
    PlanLink,
    PlanSegment,
    passing,
)
from headrace.engine.traffic import source_params
from headrace.engine.ways import Direction
from headrace.errors import BadInput, bad_value
from headrace.ground.hosted.host import sending
from headrace.spec.document import Document
from headrace.spec.study import Experiment
from headrace.spec.testbed import Device, Testbed, WirePort

CHAIN = "dut"  # what the chain's engine is called
_MBUFS = 16383
# What AF_XDP and packet sockets hold fits into one buffer; NICs' drivers want as much.
_BUFFER_BYTES = 2176
# Blocks of 64 KiB, 512 frames: bursts of the kernel's are not lost.
_PACKET_RING = "blocksz=65536,framesz=2048,framecnt=512"
_MEMIF_MOST = 14  # log2 of its longest ring


def entry(names: tuple[str, ...], direction: Direction) -> str:
    """By which of one or two ports a direction's traffic begins."""
    return names[0] if direction == "forward" else names[-1]


def leaving(names: tuple[str, ...], direction: Direction) -> str:
    return names[-1] if direction == "forward" else names[0]


def wires(bed: Testbed) -> dict[str, str]:
    """Which port is at the other end of which: the tester's first, then those between servers."""
    if bed.external is not None:
        return {}
    ends = {bed.tester[0]: bed.chain[0], bed.tester[-1]: bed.chain[-1]}
    return ends | dict(zip(bed.chain[1:-1:2], bed.chain[2:-1:2], strict=True))


def devargs(to: Device, number: int, port: WirePort, readers: int, listens: bool) -> str:
    """The device as DPDK names it. `listens`: at its socket, of the two ends of a memif."""
    if to.kind == "af_xdp":
        return f"net_af_xdp{number},iface={to.name},start_queue=0,queue_count={readers}"
    if to.kind == "af_packet":
        return f"net_af_packet{number},iface={to.name},qpairs={readers},{_PACKET_RING}"
    if to.kind == "pcap":
        return f"net_pcap{number},rx_iface_in={to.name},tx_iface={to.name}"
    if to.kind == "tap":
        return f"net_tap{number},iface={to.name}"
    if to.kind == "memif":
        size = min((port.rx_descriptors - 1).bit_length(), _MEMIF_MOST)
        role = "server" if listens else "client"
        return (
            f"net_memif{number},role={role},id=0,socket={to.name},socket-abstract=no,"
            f"rsize={size},bsize={_BUFFER_BYTES - 128}"
        )
    if to.kind == "vhost":
        return f"net_vhost{number},iface={to.name},queues={readers}"
    if to.kind == "virtio_user":
        size = 1 << (port.rx_descriptors - 1).bit_length()
        return f"net_virtio_user{number},path={to.name},queues={readers},queue_size={size}"
    return to.name


def _link(to: Device, number: int, port: WirePort, readers: int, listens: bool) -> PlanLink:
    params: Params = {
        "devargs": devargs(to, number, port, readers, listens),
        "rx_descriptors": port.rx_descriptors,
        "tx_descriptors": port.tx_descriptors,
        "promiscuous": port.promiscuous,
        "rss_fields": list(port.rss.fields),
    }
    if port.mtu is not None:
        params["mtu"] = port.mtu
    if port.rss.key is not None:
        params["rss_key"] = port.rss.key
    return PlanLink(type="port", params=params)


def _links(
    names: tuple[str, ...],
    bed: Testbed,
    devices: Mapping[str, Device],
    segments: tuple[PlanSegment, ...],
    listens: bool,
) -> dict[str, PlanLink]:
    """A virtual device has as many queues each way as more of its readers or writers are."""
    users: dict[str, int] = {}
    for segment in segments:
        for link in {*(one.link for one in segment.inputs), *segment.writes}:
            users[link] = max(users.get(link, 1), len(segment.cpus))
    for name in names:
        if devices[name].kind == "pcap" and (lcores := users.get(name, 1)) > 1:
            raise bad_value(
                f"testbed.ports.{name}.device", devices[name].text,
                problem=f"libpcap has one queue, and {lcores} lcores share it",
                allowed="one lcore that reads it and one that writes it, or af_packet:NAME",
            )  # fmt: skip
    return {
        name: _link(devices[name], i, bed.ports[name], users.get(name, 1), listens)
        for i, name in enumerate(dict.fromkeys(names))
    }


def _engine(
    engine: PlanEngine,
    experiment: Experiment,
    names: tuple[str, ...],
    devices: Mapping[str, Device],
    held: int,
) -> PlanEngine:
    ports = experiment.study.testbed
    assert ports is not None
    given = [devices[name] for name in dict.fromkeys(names)]
    queues = sum(
        ports.ports[name].rx_descriptors + ports.ports[name].tx_descriptors for name in names
    )
    pci = tuple(one.name for one in given if one.kind == "pci")
    engine = engine.having(
        **buffers(experiment, _MBUFS + queues + held),
        mbuf_data_bytes=max(data_bytes(experiment), _BUFFER_BYTES),
    )
    return engine.having(pci=pci) if pci else engine


def tester_plan(
    experiment: Experiment,
    description: Description,
    doc: Document,
    engine: PlanEngine,
    placement: Placement,
    devices: Mapping[str, Device],
) -> Plan:
    """Sources straight into ports, ports straight into sinks."""
    bed, ways = experiment.study.testbed, paths(experiment)
    assert bed is not None
    out = [entry(bed.tester, way.direction) for way in ways]
    back = [(leaving(bed.tester, way.direction), way.sink) for way in ways]
    making = sending(placement.generator, ways, out)
    making = making.model_copy(update={"cpus": placement.making})
    measuring = passing(SINK, placement.sink, back)
    segments = making, measuring.model_copy(update={"cpus": placement.measuring})
    links: dict[str, PlanLink] = {}
    for way in ways:
        links |= way.ends(source_params(experiment, way.direction, doc, description))
    links |= _links(bed.tester, bed, devices, segments, listens=True)
    return Plan(
        engine=_engine(engine, experiment, bed.tester, devices, 0),
        links=links,
        nfs={},
        segments=segments,
    )


def chain_plans(
    experiment: Experiment,
    description: Description,
    doc: Document,
    engine: PlanEngine,
    placement: Placement,
    devices: Mapping[str, Device],
) -> dict[str, Plan]:
    """The chain as it is compiled for one engine, its wires and backs being ports; cut where it
    goes from one server to the next, with a port at either side instead of a ring. By `hop_name`.
    """
    bed = experiment.study.testbed
    assert bed is not None
    whole = compile_plan(experiment, placement, description, doc, engine)
    names = _port_names(bed, paths(experiment))
    chain = [one for one in whole.segments if one.name not in (GENERATOR, SINK)]
    home = _hops_of(chain, experiment)
    plans: dict[str, Plan] = {}
    for hop, (_, ports) in enumerate(bed.hops):
        own = [one for one in chain if home[one.name] == hop]
        crossing = _crossing(chain, home, bed, hop)
        at = {**names, **crossing}
        read_from = {name: (port,) for name, port in at.items()}
        segments = tuple(one.between(read_from, at) for one in own)
        read_here = {link for one in segments for link in one.reads}
        between = {name: link for name, link in whole.links.items() if name in read_here}
        used = read_here.union(*(one.writes for one in segments))
        if strange := used - set(ports) - set(between):
            raise _two_ways(experiment, doc, strange)
        held = sum(link.params["size"] for link in between.values())
        links = between | _links(ports, bed, devices, segments, listens=False)
        plans[hop_name(hop)] = Plan(
            engine=_engine(engine, experiment, ports, devices, held),
            functions=whole.functions,
            links=links,
            nfs={n: one for segment in own for n in segment.nodes or () for one in [whole.nfs[n]]},
            segments=segments,
        )
    return plans


def hop_name(number: int) -> str:
    """What the engine of a chain's part is called: the only one's, dut; then dut-2."""
    return CHAIN if number == 0 else f"{CHAIN}-{number + 1}"


def _hops_of(chain: Sequence[PlanSegment], experiment: Experiment) -> dict[str, int]:
    """On which of the chain's servers each segment is."""
    bed = experiment.study.testbed
    assert bed is not None
    servers = [server for server, _ in bed.hops]
    if len(servers) < 2:
        return dict.fromkeys((one.name for one in chain), 0)
    at = {node.name: servers.index(node.server) for node in experiment.nodes}
    return {one.name: at[next(iter(one.nodes or ()))] for one in chain}


def _crossing(
    chain: Sequence[PlanSegment], home: Mapping[str, int], bed: Testbed, hop: int
) -> dict[str, str]:
    """The ports of a server that take the place of rings from it, and to it."""
    readers = {entry.link: home[one.name] for one in chain for entry in one.inputs}
    ports: dict[str, str] = {}
    for one in chain:
        for ring in (one.reads | one.writes) & set(readers):
            ends = (home[one.name], readers[ring])
            if hop in ends and abs(ends[0] - ends[1]) == 1:
                ports[ring] = bed.hops[hop][1][int(max(ends) > hop)]
    return ports


def _two_ways(experiment: Experiment, doc: Document, links: Collection[str]) -> BadInput:
    return doc.error(
        ("chain",) if experiment.study.chain is not None else ("chains", experiment.chain),
        f"packets go from one server to another that is not its neighbour ({min(links)}); "
        "allowed: functions that send to those of their own server, and of the next",
    )


def _port_names(bed: Testbed, ways: tuple[Path, ...]) -> dict[str, str]:
    """What a plan inside one engine calls the ends of a way, and the chain's port there."""
    return {
        name: port
        for way in ways
        for name, port in (
            (way.wire, entry(bed.chain, way.direction)),
            (way.back, leaving(bed.chain, way.direction)),
        )
    }
