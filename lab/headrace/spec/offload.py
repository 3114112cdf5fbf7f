# SPDX-License-Identifier: Apache-2.0
"""Forwarding offload: VNFs whose routing daemons run, and whose packets the host forwards."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from headrace.spec.base import (
    DAEMON_PATTERN,
    INTERFACE_PATTERN,
    NAME_PATTERN,
    Count,
    Rate,
    Seconds,
    Spec,
    listed,
)

PORTS_MAX = 15
_MAC = re.compile(r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")


def _interface_address(text: str) -> str:
    if "/" not in text:
        raise ValueError("allowed: an address with its prefix length, as 10.0.1.1/24")
    return str(ipaddress.ip_interface(text))


def _mac(text: str) -> str:
    if not _MAC.match(text.lower()) or int(text[:2], 16) & 1:
        raise ValueError("allowed: one station's MAC, as 02:00:00:00:01:00")
    return text.lower()


Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Device = Annotated[str, Field(pattern=INTERFACE_PATTERN)]
Address = Annotated[str, AfterValidator(_interface_address)]
Mac = Annotated[str, AfterValidator(_mac)]
Daemon = Literal["frr", "bird", "none"]
Memory = Annotated[int, Field(ge=64, le=1 << 20)]  # MB


class Port(Spec):
    """A link of the host. Without a device it is one between the VNFs only."""

    device: str | None = None


class Interface(Spec):
    port: Name
    mac: Mac | None = None  # made up unless given
    addresses: tuple[Address, ...] = ()


class Routing(Spec):
    """What runs in the VNF. frr speaks FPM; bird, and whatever else sets the kernel's routes, is
    learnt from there. `config` is the daemon's own file."""

    daemon: Daemon = "none"
    daemons: tuple[Annotated[str, Field(pattern=DAEMON_PATTERN)], ...] = ("bgpd",)
    config: str | None = None
    restart: bool = True

    @model_validator(mode="after")
    def _configured(self) -> Routing:
        if self.daemon != "none" and self.config is None:
            raise ValueError(f"daemon {self.daemon} needs a config")
        if self.daemon != "frr" and "daemons" in self.model_fields_set:
            raise ValueError(f"daemons are FRR's; daemon {self.daemon} has none")
        return self


class RouterVnf(Spec):
    interfaces: Annotated[dict[Device, Interface], Field(min_length=1)]
    routing: Routing = Routing()
    hold: Annotated[Seconds, Field(ge=0, le=86400)] = 30.0


Mode = Literal[
    "bare-metal", "offload", "offload-updates",
    "conventional-poll", "conventional-adaptive", "conventional-interrupt", "ovs-dpdk", "ovs-flows",
]  # fmt: skip


def _by_name_or_many(value: Any) -> str:
    return "by name" if isinstance(value, dict) else "how many"


class Offload(Spec):
    """VNFs whose routing daemons run and whose packets the host forwards.

    `vnfs` by name, on `ports`, are a service, which `headrace offload` runs. As a number they are
    alike, and measured: in each of `modes` with `routes` of each and `updates` (route changes per
    second, in all; `wire`: packets that wait before the router), `forwarders` of whose lcores
    forward, among which flows are spread; with `measure.chaos` with a
    routing `daemon` in each; with `measure.convergence` one VNF with each `daemon` in turn.
    """

    kind: Literal["offload"]
    vnfs: Annotated[
        Annotated[dict[Name, RouterVnf], Field(min_length=1, max_length=256), Tag("by name")]
        | Annotated[Count, Field(ge=1, le=256), Tag("how many")],
        Discriminator(_by_name_or_many),
    ] = 63
    ports: Annotated[dict[Name, Port], Field(max_length=PORTS_MAX)] = Field(default_factory=dict)
    lcore: Annotated[Count, Field(ge=0)] | None = None  # the last one unless given
    punt_pps: Annotated[Count, Field(ge=1)] = 100_000
    modes: Annotated[tuple[Mode, ...], BeforeValidator(listed), Field(min_length=1)] = (
        "bare-metal",
        "offload",
        "offload-updates",
    )
    routes: Annotated[Count, Field(ge=1, le=4096)] = 1024
    updates: Annotated[Rate, Field(gt=0, le=1e7)] = 64_000.0
    wire: Annotated[Count, Field(ge=64, le=1 << 17)] = 4096
    forwarders: Annotated[Count, Field(ge=1, le=64)] = 1
    daemon: Annotated[
        tuple[Literal["frr", "bird"], ...], BeforeValidator(listed), Field(min_length=1)
    ] = ("frr",)

    @model_validator(mode="after")
    def _as_told(self) -> Offload:
        for key in ("modes", "daemon"):
            given = getattr(self, key)
            if len(set(given)) < len(given):
                raise ValueError(f"{key}: {', '.join(given)}; allowed: each once")
        if self.wire & (self.wire - 1):
            raise ValueError(f"wire: {self.wire}; allowed: a power of two")
        wrong = _OF_MANY if isinstance(self.vnfs, dict) else _OF_SERVICE
        for key in wrong & self.model_fields_set:
            other = "a number of `vnfs`" if wrong is _OF_MANY else "`vnfs` by name"
            raise ValueError(f"{key}: belongs to {other}")
        if isinstance(self.vnfs, dict) and not self.ports:
            raise ValueError("ports: nothing; allowed: the links that the VNFs' interfaces are on")
        return self


_OF_SERVICE = {"ports", "lcore", "punt_pps"}
_OF_MANY = {"modes", "routes", "updates", "wire", "forwarders", "daemon"}


class _Named(Spec):
    """What a service has, and each measurement of one."""

    name: Name
    description: str = ""
    hugepages: Literal["auto"] | bool = "auto"
    memory_mb: Memory = 512


class OffloadService(_Named):
    ports: Annotated[dict[Name, Port], Field(min_length=1, max_length=PORTS_MAX)]
    vnfs: Annotated[dict[Name, RouterVnf], Field(min_length=1, max_length=256)]
    lcore: Annotated[int, Field(ge=0)] | None = None  # the last one unless given
    punt_pps: Annotated[int, Field(ge=1)] = 100_000
