# SPDX-License-Identifier: Apache-2.0
"""The traffic: packets that headrace makes, a capture replayed, or streams and requests of
well-known load generators. How fast, how long and how often it is sent is the measurement's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from headrace.spec.base import Count, Ratio, Spec, listed
from headrace.spec.imix import Frame
from headrace.spec.load import LoadCurve

Varying = Literal["src_ip", "dst_ip", "src_port", "dst_port"]
Direction = Literal["forward", "reverse", "both"]
_FLOWS_MAX = 1 << 31


class Flows(Spec):
    """How many flows there are, in which header fields they differ, in which order they come."""

    count: Annotated[Count, Field(ge=1, le=_FLOWS_MAX)] = 1024  # how many
    vary: tuple[Varying, ...] = ("src_ip", "src_port")  # header fields in which they differ
    order: Literal["round-robin", "random", "zipf"] = "round-robin"  # in which they come
    zipf_exponent: Annotated[float, Field(gt=0, le=5)] = 1.0  # of order zipf
    seed: Annotated[Count, Field(ge=0, lt=1 << 32)] = 1  # of the orders random and zipf

    @model_validator(mode="before")
    @classmethod
    def _from_short(cls, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return {"count": value}
        if not isinstance(value, dict | Flows):
            raise ValueError(
                f"allowed: a count, 1 to {_FLOWS_MAX}, or {{count: 1000, vary: [src_ip], ...}}"
            )
        return value

    @model_validator(mode="after")
    def _as_told(self) -> Flows:
        """What would change nothing is a mistake."""
        if len(set(self.vary)) != len(self.vary):
            raise ValueError(f"vary: {list(self.vary)}; allowed: each field once")
        if not self.vary and self.count > 1:
            raise ValueError(
                f"vary: [] leaves {self.count} flows with the same headers; allowed: at least one "
                "field, or a count of 1"
            )
        if "zipf_exponent" in self.model_fields_set and self.order != "zipf":
            raise ValueError(f"zipf_exponent: order is {self.order}; allowed: with `order: zipf`")
        return self

    @property
    def order_name(self) -> str:
        return f"zipf {self.zipf_exponent}" if self.order == "zipf" else self.order


class Headers(Spec):
    """The headers of flow 0; addresses and ports that vary count up from here."""

    l3: Literal["ipv4", "ipv6"] = "ipv4"
    l4: Literal["udp", "tcp"] = "udp"
    src_ip: str | None = None
    dst_ip: str | None = None
    src_port: Annotated[Count, Field(ge=0, le=65535)] | None = None
    dst_port: Annotated[Count, Field(ge=0, le=65535)] | None = None
    src_mac: str | None = None
    dst_mac: Annotated[tuple[str, ...], BeforeValidator(listed), Field(max_length=1024)] = ()
    vlan: Annotated[Count, Field(ge=0, le=4094)] | None = None
    dscp: Annotated[Count, Field(ge=0, le=63)] | None = None
    ttl: Annotated[Count, Field(ge=1, le=255)] | None = None


Frames = Annotated[tuple[Frame, ...], BeforeValidator(listed), Field(min_length=1, max_length=100)]
_SMALLEST = (Frame(name="64", sizes=(64,)),)


class Packets(Spec):
    """headrace's own source and sink: open loop, each packet's latency from the time it was due.

    `link`: how they reach the interfaces in front of appliances.
    """

    kind: Literal["packets"] = "packets"
    frame: Frames = _SMALLEST  # sizes in bytes with FCS, or a mix; a list is swept
    flows: Flows = Flows()  # how many flows, how they differ, their order
    headers: Headers = Headers()  # of flow 0
    dst_ips_file: Path | None = None  # destination addresses or prefixes, one a line, taken in turn
    tuples_file: Path | None = None  # a ClassBench header trace, taken in turn
    direction: Direction = "forward"  # through the chain
    stamp: bool = True  # sequence and time in the payload: latency, order, duplicates
    link: Literal["af_packet", "af_xdp"] = "af_packet"  # in front of appliances
    load: LoadCurve | None = None  # over time, of `measure.operate`

    @model_validator(mode="after")
    def _one_origin(self) -> Packets:
        if self.dst_ips_file is not None and self.tuples_file is not None:
            raise ValueError(
                "dst_ips_file and tuples_file exclude each other; allowed: one of them"
            )
        return self

    @property
    def text(self) -> str:
        size = self.frame[0].name
        return f"packets {size}{' B' if size.isdigit() else ''}, {self.flows.count} flows"


class Pcap(Spec):
    """A capture's packets, as they are. In front of appliances tcpreplay sends them all from the
    clients to a server, with the addresses of these.

    `timing`: packets in equal distances, or in the capture's own, stretched so that their mean rate
    is the trial's load. Then, unless `measure` asks for something, the load is the capture's own.
    """

    kind: Literal["pcap"]
    file: Path  # the capture
    timing: Literal["load", "capture"] = "load"  # equal distances, or the capture's own
    direction: Direction = "forward"  # through the chain

    @property
    def text(self) -> str:
        return f"pcap {self.file.name}"


class Http(Spec):
    """Closed loop: each connection sends its next request when the last is answered."""

    kind: Literal["http"] = "http"
    object_kb: Annotated[Count, Field(ge=1, le=65536)] = 16
    repeated: Annotated[Ratio, Field(ge=0, le=1)] = 0.5
    hot_objects: Annotated[Count, Field(ge=1, le=100000)] = 50
    connections: Annotated[Count, Field(ge=1, le=500)] = 16
    threads: Annotated[Count, Field(ge=1, le=64)] = 1
    generator: Literal["wrk", "h2load"] = "wrk"

    @property
    def text(self) -> str:
        repeated = f"{self.repeated:.0%} repeated"
        by = ", h2load" if self.generator == "h2load" else ""
        return f"http {self.object_kb} KB, {repeated}, {self.connections} connections{by}"


class Stream(Spec):
    """One or several streams of iperf3, for chains without proxies."""

    kind: Literal["tcp", "udp"]
    streams: Annotated[Count, Field(ge=1, le=128)] = 1
    length: Annotated[Count, Field(ge=16, le=65507)] | None = None  # bytes a send
    rate_mbps: Annotated[float, Field(ge=0)] = 0.0  # 0: as fast as possible

    @property
    def text(self) -> str:
        rate = f", {self.rate_mbps:g} Mbit/s" if self.rate_mbps else ""
        return f"{self.kind} {self.streams} streams{rate}"


class Dns(Spec):
    """Queries to the VNF `dns`, as many at once as there are clients."""

    kind: Literal["dns"]
    names: Annotated[Count, Field(ge=1, le=1000000)] = 10000
    clients: Annotated[Count, Field(ge=1, le=500)] = 16

    @property
    def text(self) -> str:
        return f"dns {self.names} names, {self.clients} clients"


class RequestResponse(Spec):
    """Request and response by netperf, one at a time: TCP_RR, TCP_CRR (with a new connection for
    each) or UDP_RR; for chains without proxies and images that have netperf."""

    kind: Literal["rr"]
    transport: Literal["tcp", "udp"] = "tcp"
    connect: bool = False  # each request on a connection of its own
    request: Annotated[Count, Field(ge=1, le=65000)] = 1  # bytes
    response: Annotated[Count, Field(ge=1, le=65000)] = 1

    @model_validator(mode="after")
    def _connections_are_tcp(self) -> RequestResponse:
        if self.connect and self.transport == "udp":
            raise ValueError("connect: UDP has no connections; allowed with transport: tcp")
        return self

    @property
    def test(self) -> str:
        return "TCP_CRR" if self.connect else f"{self.transport.upper()}_RR"

    @property
    def text(self) -> str:
        return f"{self.test} {self.request}/{self.response} B"


WORKLOAD_KINDS = ("packets", "pcap", "tcp", "udp", "http", "dns", "rr")


def _known(value: Any) -> Any:
    kind = value.get("kind", "packets") if isinstance(value, dict) else None
    if kind is not None and kind not in WORKLOAD_KINDS:
        raise ValueError(f"kind: {kind}; allowed: {', '.join(WORKLOAD_KINDS)}")
    return value


def _tag(value: Any) -> str:
    """A tag is no key of a workload, so that an error's path stays the file's."""
    kind = value.get("kind", "packets") if isinstance(value, dict) else getattr(value, "kind", "")
    return f"kind {'stream' if kind in ('tcp', 'udp') else kind or 'packets'}"


AnyWorkload = Packets | Pcap | Stream | Http | Dns | RequestResponse
OneWorkload = Annotated[
    Annotated[Packets, Tag("kind packets")]
    | Annotated[Pcap, Tag("kind pcap")]
    | Annotated[Stream, Tag("kind stream")]
    | Annotated[Http, Tag("kind http")]
    | Annotated[Dns, Tag("kind dns")]
    | Annotated[RequestResponse, Tag("kind rr")],
    Discriminator(_tag),
    BeforeValidator(_known),
]
Workloads = Annotated[
    tuple[OneWorkload, ...], BeforeValidator(listed), Field(min_length=1, max_length=100)
]
PACED = ("packets", "pcap")  # kinds that take a rate; all others have but one: their most
