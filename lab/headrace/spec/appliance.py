# SPDX-License-Identifier: Apache-2.0
"""A study of third-party VNFs in containers: chains or chain graphs, allocation, workload."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from headrace.spec.base import (
    CPUS_PATTERN,
    INTERFACE_PATTERN,
    NAME_PATTERN,
    Rate,
    Ratio,
    Seconds,
    Spec,
)
from headrace.spec.collect import ALL_LAYERS, Collect
from headrace.spec.deployment import Count
from headrace.spec.document import Document
from headrace.spec.measure import Measure


class Base(StrEnum):
    """The knowledge bases that come with headrace; each has what those before it have."""

    NFVINSIGHT = "nfvinsight"
    HEADRACE = "headrace"


Name = Annotated[str, Field(pattern=NAME_PATTERN)]
NetworkName = Literal["bridge", "ovs", "macvlan", "sriov"]
Side = Literal["up", "down"]
Port = Literal["up", "down", "mirror"]
Device = Annotated[str, Field(pattern=INTERFACE_PATTERN)]


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


def _ipv4(value: str) -> str:
    try:
        address = IPv4Address(value)
    except ValueError:
        raise ValueError("allowed: an IPv4 address") from None
    if address.is_multicast or address.is_unspecified or int(address) & 0xFF in (0, 255):
        raise ValueError("allowed: an IPv4 address of a host, its network being the /24 around it")
    return str(address)


Address = Annotated[str, AfterValidator(_ipv4)]

# capabilities(7), as of Linux 6.18
_NAMES = (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE "
    "NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO "
    "SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME "
    "SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG "
    "WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE"
)


def _capability(name: str) -> str:
    short = name.upper().removeprefix("CAP_")
    if short not in _NAMES.split():
        raise ValueError("allowed: a capability's name as in capabilities(7), such as NET_ADMIN")
    return short


Capabilities = tuple[Annotated[str, AfterValidator(_capability)], ...]


class Appliance(Spec):
    """An image of the user's: wired, started and watched; nothing else is known of it."""

    kind: Literal["routed", "proxy", "leaf"]
    image: str
    hides_source: bool = False
    scale_out: bool = False
    capabilities: Capabilities = ()
    devices: tuple[str, ...] = ()
    health: tuple[str, ...] | None = None  # a command inside; None: it runs
    health_timeout_s: Annotated[float, Field(gt=0, le=600)] = 60
    ports: dict[Port, Device] = Field(default_factory=dict)  # what it calls its interfaces
    addresses: dict[Side, Address] = Field(default_factory=dict)
    environment: dict[str, str] = Field(default_factory=dict)
    command: tuple[str, ...] = ()
    whole_frames: bool = False  # reads frames itself: no offloads on its networks
    forwards: Literal["kernel", "process", "itself"] = "kernel"  # who does, where `kind` is routed


class Allocation(Spec):
    """What a VNF gets; everything has a default."""

    instances: Annotated[Count, Field(ge=1, le=64)] = 1
    cpus: Annotated[float, Field(gt=0, le=1024)] | None = None  # quota; None: no limit
    cpuset: Annotated[str, Field(pattern=CPUS_PATTERN)] | None = None
    memory_mb: Annotated[Count, Field(ge=8, le=1 << 22)] | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)


class ContainerDeployment(Spec):
    hosting: Literal["container"]
    network: Annotated[
        tuple[NetworkName, ...], BeforeValidator(_listed), Field(min_length=1, max_length=4)
    ] = ("bridge",)
    servers: Annotated[Count, Field(ge=1, le=16)] = 2
    pf: Device | None = None  # sriov: the NIC whose virtual functions are used; None: any that can


class HttpWorkload(Spec):
    """Closed loop: each connection sends its next request when the last is answered."""

    kind: Literal["http"] = "http"
    object_kb: Annotated[Count, Field(ge=1, le=65536)] = 16
    repeated: Annotated[Ratio, Field(ge=0, le=1)] = 0.5
    hot_objects: Annotated[Count, Field(ge=1, le=100000)] = 50
    connections: Annotated[Count, Field(ge=1, le=500)] = 16
    threads: Annotated[Count, Field(ge=1, le=64)] = 1
    generator: Literal["wrk", "h2load"] = "wrk"
    duration: Annotated[Seconds, Field(ge=0.5, le=3600)] = 3.0
    warmup: Annotated[Seconds, Field(ge=0, le=600)] = 1.0

    @property
    def text(self) -> str:
        repeated = f"{self.repeated:.0%} repeated"
        by = ", h2load" if self.generator == "h2load" else ""
        return f"http {self.object_kb} KB, {repeated}, {self.connections} connections{by}"


class StreamWorkload(Spec):
    """One or several streams of iperf3, for chains without proxies."""

    kind: Literal["tcp", "udp"]
    streams: Annotated[Count, Field(ge=1, le=128)] = 1
    length: Annotated[Count, Field(ge=16, le=65507)] | None = None  # bytes a send
    rate_mbps: Annotated[float, Field(ge=0)] = 0.0  # 0: as fast as possible
    duration: Annotated[Seconds, Field(ge=0.5, le=3600)] = 3.0
    warmup: Annotated[Seconds, Field(ge=0, le=600)] = 1.0

    @property
    def text(self) -> str:
        rate = f", {self.rate_mbps:g} Mbit/s" if self.rate_mbps else ""
        return f"{self.kind} {self.streams} streams{rate}"


class DnsWorkload(Spec):
    """Queries to the VNF `dns`, as many at once as there are clients."""

    kind: Literal["dns"]
    names: Annotated[Count, Field(ge=1, le=1000000)] = 10000
    clients: Annotated[Count, Field(ge=1, le=500)] = 16
    duration: Annotated[Seconds, Field(ge=0.5, le=3600)] = 3.0
    warmup: Annotated[Seconds, Field(ge=0, le=600)] = 1.0

    @property
    def text(self) -> str:
        return f"dns {self.names} names, {self.clients} clients"


class RequestWorkload(Spec):
    """Request and response by netperf, one at a time: TCP_RR, TCP_CRR (with a new connection for
    each) or UDP_RR; for chains without proxies and images that have netperf."""

    kind: Literal["rr"]
    transport: Literal["tcp", "udp"] = "tcp"
    connect: bool = False  # each request on a connection of its own
    request: Annotated[Count, Field(ge=1, le=65000)] = 1  # bytes
    response: Annotated[Count, Field(ge=1, le=65000)] = 1
    duration: Annotated[Seconds, Field(ge=1, le=3600)] = 3.0
    warmup: Annotated[Seconds, Field(ge=0, le=600)] = 1.0

    @model_validator(mode="after")
    def _connections_are_tcp(self) -> RequestWorkload:
        if self.connect and self.transport == "udp":
            raise ValueError("connect: UDP has no connections; allowed with transport: tcp")
        return self

    @property
    def test(self) -> str:
        return "TCP_CRR" if self.connect else f"{self.transport.upper()}_RR"

    @property
    def text(self) -> str:
        return f"{self.test} {self.request}/{self.response} B"


class PcapWorkload(Spec):
    """A capture's packets sent by tcpreplay from the clients to a server, addresses rewritten."""

    kind: Literal["pcap"]
    file: Path
    rate: Annotated[Rate, Field(ge=0)] = 1000.0  # packets/s; 0: as fast as possible
    duration: Annotated[Seconds, Field(ge=0.5, le=3600)] = 3.0
    warmup: Annotated[Seconds, Field(ge=0, le=600)] = 0.0

    @property
    def text(self) -> str:
        rate = f"{self.rate:g} packets/s" if self.rate else "as fast as possible"
        return f"pcap {self.file.name}, {rate}"


class PacketsWorkload(Spec):
    """headrace's own source and sink at both ends: UDP at a set rate, open loop, each packet's
    latency from the time it was due."""

    kind: Literal["packets"]
    rate: Annotated[Rate, Field(gt=0, le=1e9)] = 10000.0
    frame: Annotated[Count, Field(ge=64, le=1518)] = 128  # bytes, FCS included
    flows: Annotated[Count, Field(ge=1, le=60000)] = 64
    link: Literal["af_packet", "af_xdp"] = "af_packet"
    lcore: Annotated[Count, Field(ge=0, le=1023)] | None = None  # None: the last CPU
    duration: Annotated[Seconds, Field(ge=0.5, le=3600)] = 3.0
    warmup: Annotated[Seconds, Field(ge=0, le=600)] = 1.0

    @property
    def text(self) -> str:
        return f"packets {self.frame} B, {self.rate:g} pps, {self.flows} flows, {self.link}"


AnyWorkload = (
    HttpWorkload | StreamWorkload | DnsWorkload | RequestWorkload | PcapWorkload | PacketsWorkload
)
_OneWorkload = Annotated[AnyWorkload, Field(discriminator="kind")]


class GraphSet(Spec):
    """Chain graphs to be generated, as `headrace chains` does."""

    vnfs: Annotated[tuple[str, ...], Field(min_length=1)]
    base: Base = Base.NFVINSIGHT
    rules: tuple[Path, ...] = ()
    limit: Annotated[Count, Field(ge=1)] | None = None
    sample: Annotated[Count, Field(ge=1)] | None = None
    seed: Count = 1

    @model_validator(mode="before")
    @classmethod
    def _nobody_joins(cls, value: Any) -> Any:
        if isinstance(value, dict) and "parallel" in value:
            raise ValueError(
                "parallel: nothing on the kernel's path joins what neighbours made of copies of a "
                "packet; allowed: one VNF after the other (`headrace chains --parallel` lists such "
                "graphs; the engine runs them, with `deployment.execution.parallel`)"
            )
        return value


class ScaleOut(Spec):
    """One VNF (or `each` that may be) with more and more instances; in the study's first chain
    unless named."""

    vnf: str
    instances: Annotated[
        tuple[Annotated[Count, Field(ge=1, le=64)], ...],
        BeforeValidator(_listed),
        Field(min_length=1),
    ]
    chain: str | None = None


class ContainerStudy(Spec):
    """What one spec file with `hosting: container` says."""

    name: Name
    description: str = ""
    deployment: ContainerDeployment
    chain: tuple[str, ...] | None = None
    chains: dict[Name, tuple[str, ...]] = Field(default_factory=dict)
    graphs: GraphSet | None = None
    appliances: dict[Name, Appliance] = Field(default_factory=dict)
    vnfs: dict[str, Allocation] = Field(default_factory=dict)
    workload: Annotated[
        tuple[_OneWorkload, ...], BeforeValidator(_listed), Field(min_length=1, max_length=100)
    ] = (HttpWorkload(),)
    baseline: bool = False  # the same clients and servers without any VNF (S4)
    alone: bool = False  # each VNF by itself (S4 section 5.1)
    scale_out: tuple[ScaleOut, ...] = ()
    repetitions: Annotated[Count, Field(ge=1, le=1000)] = 1
    sweep: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    # On: these chains' path is the kernel's, and no lcore polls beside it.
    collect: Collect = Field(default_factory=lambda: Collect(layers=ALL_LAYERS, trace=0.01))

    @property
    def measure(self) -> Measure:
        """Each workload says itself how long it is and how fast."""
        return Measure.model_validate({"max": True})

    @property
    def warmup(self) -> float:
        return 0.0

    @model_validator(mode="after")
    def _some_chain(self) -> ContainerStudy:
        if self.chain is None and not self.chains and self.graphs is None:
            raise ValueError("give `chain` (VNFs in order), `chains` (by name) or `graphs`")
        return self


def is_container_study(doc: Document) -> bool:
    data = doc.data if isinstance(doc.data, dict) else {}
    deployment = data.get("deployment")
    return isinstance(deployment, dict) and deployment.get("hosting") == "container"
