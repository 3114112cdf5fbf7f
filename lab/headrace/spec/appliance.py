# SPDX-License-Identifier: Apache-2.0
"""A study of third-party VNFs in containers: chains or chain graphs, allocation, workload."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from headrace.spec.base import NAME_PATTERN, Ratio, Seconds, Spec
from headrace.spec.deployment import Count

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
NetworkName = Literal["bridge", "ovs", "macvlan"]


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


class Appliance(Spec):
    """An image of the user's: wired, started and watched; nothing else is known of it."""

    kind: Literal["routed", "proxy", "leaf"]
    image: str
    hides_source: bool = False
    scale_out: bool = False
    capabilities: tuple[str, ...] = ()
    health: tuple[str, ...] | None = None  # a command inside; None: it runs


class Allocation(Spec):
    """What a VNF gets; everything has a default."""

    instances: Annotated[Count, Field(ge=1, le=64)] = 1
    cpus: Annotated[float, Field(gt=0, le=1024)] | None = None  # quota; None: no limit
    cpuset: Annotated[str, Field(pattern=r"^[0-9]+([,-][0-9]+)*$")] | None = None
    memory_mb: Annotated[Count, Field(ge=8, le=1 << 22)] | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)


class ContainerDeployment(Spec):
    hosting: Literal["container"]
    network: Annotated[
        tuple[NetworkName, ...], BeforeValidator(_listed), Field(min_length=1, max_length=3)
    ] = ("bridge",)
    servers: Annotated[Count, Field(ge=1, le=16)] = 2


class HttpWorkload(Spec):
    """Closed loop: each connection sends its next request when the last is answered."""

    kind: Literal["http"] = "http"
    object_kb: Annotated[Count, Field(ge=1, le=65536)] = 16
    repeated: Annotated[Ratio, Field(ge=0, le=1)] = 0.5
    hot_objects: Annotated[Count, Field(ge=1, le=100000)] = 50
    connections: Annotated[Count, Field(ge=1, le=500)] = 16
    threads: Annotated[Count, Field(ge=1, le=64)] = 1
    duration: Annotated[Seconds, Field(ge=0.5, le=3600)] = 3.0
    warmup: Annotated[Seconds, Field(ge=0, le=600)] = 1.0

    @property
    def text(self) -> str:
        repeated = f"{self.repeated:.0%} repeated"
        return f"http {self.object_kb} KB, {repeated}, {self.connections} connections"


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


AnyWorkload = HttpWorkload | StreamWorkload | DnsWorkload
_OneWorkload = Annotated[AnyWorkload, Field(discriminator="kind")]


class GraphSet(Spec):
    """Chain graphs to be generated, as `headrace chains` does."""

    vnfs: Annotated[tuple[str, ...], Field(min_length=1)]
    rules: tuple[Path, ...] = ()
    limit: Annotated[Count, Field(ge=1)] | None = None
    sample: Annotated[Count, Field(ge=1)] | None = None
    seed: Count = 1


class ScaleOut(Spec):
    """One VNF with more and more instances; in the study's first chain unless named."""

    vnf: str
    instances: Annotated[tuple[Annotated[Count, Field(ge=1, le=64)], ...], Field(min_length=1)]
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

    @model_validator(mode="after")
    def _some_chain(self) -> ContainerStudy:
        if self.chain is None and not self.chains and self.graphs is None:
            raise ValueError("give `chain` (VNFs in order), `chains` (by name) or `graphs`")
        return self
