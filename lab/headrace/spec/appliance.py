# SPDX-License-Identifier: Apache-2.0
"""Third-party VNFs in containers: their network, what each gets, chain graphs of them."""

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
    Count,
    Spec,
    listed,
)


class Base(StrEnum):
    """The knowledge bases that come with headrace; each has what those before it have."""

    NFVINSIGHT = "nfvinsight"
    HEADRACE = "headrace"


Name = Annotated[str, Field(pattern=NAME_PATTERN)]
NetworkName = Literal["bridge", "ovs", "macvlan", "sriov"]
Side = Literal["up", "down"]
Port = Literal["up", "down", "mirror"]
Device = Annotated[str, Field(pattern=INTERFACE_PATTERN)]


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


Cable = Annotated[dict[Name, Device], Field(min_length=2, max_length=2)]


class Appliances(Spec):
    """Third-party VNFs, each in a container, between clients and `servers` on a network of the
    kernel's, of Open vSwitch or of a NIC's virtual functions; on each network in turn.

    `vnfs` says what each gets, `images` which images of the user's own there are; `pf` is the NIC
    whose virtual functions are used (network sriov); without it any that can.
    """

    kind: Literal["appliances"]
    network: Annotated[
        tuple[NetworkName, ...], BeforeValidator(listed), Field(min_length=1, max_length=4)
    ] = ("bridge",)
    servers: Annotated[Count, Field(ge=1, le=16)] = 2
    pf: Device | None = None
    cables: tuple[Cable, ...] = ()  # between the chain's servers: of each of two its interface
    vnfs: dict[str, Allocation] = Field(default_factory=dict)
    images: dict[Name, Appliance] = Field(default_factory=dict)


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
        BeforeValidator(listed),
        Field(min_length=1),
    ]
    chain: str | None = None
