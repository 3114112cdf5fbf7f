# SPDX-License-Identifier: Apache-2.0
"""The ports between the tester and the device under test (DUT, RFC 2544), and what the DUT is: the
chain in an engine of its own, or anything that headrace only sends to and measures."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from headrace.spec.base import INTERFACE_PATTERN, NAME_PATTERN, Count, Seconds, Spec, listed

Kind = Literal[
    "pci", "interface", "af_xdp", "af_packet", "pcap", "tap", "memif", "vhost", "virtio_user"
]  # fmt: skip
_PCI = re.compile(r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
_INTERFACE = re.compile(INTERFACE_PATTERN)
_OF_INTERFACES = ("af_xdp", "af_packet", "pcap", "tap")
_OF_SOCKETS = ("memif", "vhost", "virtio_user")
_KEY = re.compile(r"^([0-9a-f]{2}){40,52}$")
_SSH = r"^([A-Za-z0-9_.-]+@)?[A-Za-z0-9_][A-Za-z0-9_.:-]*$"
SOCKET_MOST = 107  # characters of a Unix socket's path (unix(7))
DEVICES = (
    "a PCI address (0000:81:00.0), an interface's name (ens1f0), af_xdp:NAME, af_packet:NAME, "
    "pcap:NAME, tap:NAME, memif:/PATH, vhost:/PATH, virtio_user:/PATH"
)


@dataclass(frozen=True)
class Device:
    """How a port is reached: a kind, and an address, an interface's name or a socket's path."""

    kind: Kind
    name: str

    @property
    def interface(self) -> str | None:
        """The kernel's interface that it is, under the name it has there."""
        return self.name if self.kind in _OF_INTERFACES else None

    @property
    def text(self) -> str:
        """The end as a spec has it."""
        return self.name if self.kind in ("pci", "interface") else f"{self.kind}:{self.name}"

    @property
    def socket(self) -> str | None:
        """The path at which two programs share its memory."""
        return self.name if self.kind in _OF_SOCKETS else None


def device_of(text: str) -> Device:
    """ValueError where it is none."""
    kind, colon, name = text.partition(":")
    if _PCI.match(text):
        return Device("pci", text)
    if not colon and _INTERFACE.match(text):
        return Device("interface", text)
    for one in _OF_INTERFACES:
        if kind == one and _INTERFACE.match(name):
            return Device(one, name)  # type: ignore[arg-type]
    for one in _OF_SOCKETS:
        if kind == one and name.startswith("/") and not re.search(r"[,\s]", name):
            if len(name) > SOCKET_MOST:
                raise ValueError(f"a path of {len(name)} characters; allowed: {SOCKET_MOST}")
            return Device(one, name)  # type: ignore[arg-type]
    raise ValueError(f"allowed: {DEVICES}")


def _device(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(f"allowed: {DEVICES}")
    device_of(value)
    return value


def _key(value: Any) -> Any:
    text = value.replace(":", "").lower() if isinstance(value, str) else ""
    if not _KEY.match(text):
        raise ValueError("allowed: 40 to 52 bytes as hexadecimal digits in quotes")
    return text


class Rss(Spec):
    """How a port spreads flows over its receive queues (receive side scaling, Toeplitz hash)."""

    fields: Annotated[tuple[Literal["ip", "tcp", "udp"], ...], Field(min_length=1)] = (
        "ip",
        "tcp",
        "udp",
    )  # that are hashed, as far as the device can
    key: Annotated[str, BeforeValidator(_key)] | None = None  # one that makes both directions of a
    # flow meet, where none is given


PortName = Annotated[str, Field(pattern=NAME_PATTERN)]
Command = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(listed), Field(min_length=1)
]


class SshServer(Spec):
    """A server that is reached over SSH, with the keys and the configuration of who runs headrace.
    The same headrace is there; nothing listens but its SSH server."""

    ssh: Annotated[str, Field(pattern=_SSH)]  # HOST or USER@HOST, as `ssh` takes it
    headrace: Annotated[Command, Field(max_length=16)] = ("headrace",)  # the command there, as
    # [sudo, /opt/headrace/bin/headrace]


class WirePort(Spec):
    """A port. It has a receive queue for each lcore that reads it."""

    device: Annotated[str, BeforeValidator(_device)]  # PCI address, interface, KIND:NAME
    server: PortName | None = None  # which of `servers` has it; this machine, where there are none
    rx_descriptors: Annotated[Count, Field(ge=32, le=32768)] = 1024  # receive queue, in packets
    tx_descriptors: Annotated[Count, Field(ge=32, le=32768)] = 1024  # transmit queue, in packets
    mtu: Annotated[Count, Field(ge=68, le=9600)] | None = None  # bytes; the device's own
    promiscuous: bool = True  # take packets for any MAC address
    rss: Rss = Rss()  # how flows are spread over its queues

    @property
    def to(self) -> Device:
        return device_of(self.device)


class ExternalDut(Spec):
    """A device under test that is none of headrace's. Its commands are run without a shell.

    `start` runs in the foreground until the point is over, and is ended then; `configure` runs to
    its end when the tester's ports are up; `read` prints a JSON object of counters, whose growth
    belongs to a trial's record. One without commands is there already: a cable, a switch. They
    share the folder that HEADRACE_DUT names, which is gone when the point is over.
    """

    start: Command | None = None
    configure: tuple[Command, ...] = ()
    read: Command | None = None
    up: Annotated[Seconds, Field(gt=0, le=3600)] = 30.0  # until its links are up, at most
    server: PortName | None = None  # which of `servers` runs its commands

    @property
    def commanded(self) -> bool:
        return bool(self.start or self.configure or self.read)

    @model_validator(mode="after")
    def _runs_something_there(self) -> ExternalDut:
        if self.server is not None and not self.commanded:
            raise ValueError(
                f"server: {self.server}, and no command to run there; allowed: with start, "
                "configure or read"
            )
        return self


def _dut(value: Any) -> Any:
    if value == "external":
        return {}
    if isinstance(value, str) and value != "headrace":
        raise ValueError("allowed: headrace, external, {start: [...], configure: [[...]]}")
    return value


_Ends = Annotated[tuple[PortName, ...], BeforeValidator(listed)]


class Testbed(Spec):
    """Forward traffic leaves the tester by its first port and comes back by its last one; it enters
    the chain by its first port and leaves by its last one. Reverse traffic goes the other way.
    Wires, or a switch, join first port to first port, and last to last; of a chain on several
    servers also each one's second port to the next one's first."""

    __test__: ClassVar[bool] = False  # pytest takes names that begin with Test for its own

    ports: Annotated[dict[PortName, WirePort], Field(min_length=1, max_length=32)]
    tester: Annotated[
        _Ends, Field(min_length=1, max_length=2)
    ]  # whose ports make and measure traffic: one or two
    chain: Annotated[_Ends, Field(max_length=32)] = ()  # the chain's: one or two; where it is on
    # several servers, each one's way in and way out, in the order of forward traffic
    dut: Annotated[Literal["headrace"] | ExternalDut, BeforeValidator(_dut)] = "headrace"  # who has
    # the other ends of the tester's ports: the chain in an engine of its own, or `external`

    @property
    def shares_memory(self) -> bool:
        """A virtio_user port hands its engine's memory over, at most eight files of it: hugepages
        are a file each."""
        return any(port.to.kind == "virtio_user" for port in self.ports.values())

    @property
    def tester_server(self) -> str | None:
        """The server that makes the traffic; None: this machine."""
        return self.ports[self.tester[0]].server

    @property
    def hops(self) -> tuple[tuple[str | None, tuple[str, ...]], ...]:
        """The chain's servers with their ports, in the order of forward traffic."""
        pairs = [self.chain[i : i + 2] for i in range(0, len(self.chain), 2)]
        return tuple((self.ports[ports[0]].server, ports) for ports in pairs)

    @property
    def external(self) -> ExternalDut | None:
        return self.dut if isinstance(self.dut, ExternalDut) else None

    @model_validator(mode="after")
    def _consistent(self) -> Testbed:
        ends = [*dict.fromkeys(self.tester), *dict.fromkeys(self.chain)]
        for name in ends:
            if name not in self.ports:
                raise ValueError(f"there is no port {name}; allowed: {', '.join(self.ports)}")
            if ends.count(name) > 1:
                raise ValueError(
                    f"port {name} is the tester's and the chain's; allowed: one of them"
                )
        unused = [name for name in self.ports if name not in ends]
        if unused:
            raise ValueError(f"port {unused[0]} is nobody's; allowed: in `tester` or in `chain`")
        if self.external is not None and self.chain:
            raise ValueError("chain: with `dut: external` no port is headrace's; allowed: none")
        several = len(self.tester) == 2 and len(self.chain) > 2 and len(self.chain) % 2 == 0
        if self.external is None and len(self.chain) != len(self.tester) and not several:
            raise ValueError(
                f"chain: {len(self.chain)} ports, the tester has {len(self.tester)}; allowed: as "
                "many, joined one to one; with two, two for each server of the chain"
            )
        devices = [(port.server, port.device) for port in (self.ports[name] for name in ends)]
        for at in devices:
            shared = device_of(at[1]).kind in _OF_SOCKETS
            if devices.count(at) > (2 if shared else 1):
                raise ValueError(f"device {at[1]} is there twice; allowed: each once")
        return self

    @model_validator(mode="after")
    def _each_end_on_a_server(self) -> Testbed:
        """Latency is between two stamps of one clock, so that source and sink are together."""
        hops = [("chain", ports) for _, ports in self.hops]
        for key, ends in (("tester", self.tester), *hops):
            on = sorted({self.ports[name].server or "none" for name in ends})
            if len(on) > 1:
                raise ValueError(
                    f"{key}: its ports are on servers {', '.join(on)}; allowed: one server"
                    + (", as latency is of one clock" if key == "tester" else "")
                )
        servers = [server for server, _ in self.hops]
        if len(set(servers)) < len(servers):
            raise ValueError(f"chain: servers {', '.join(map(str, servers))}; allowed: each once")
        if servers not in ([], [self.tester_server]):
            for name, port in self.ports.items():
                if port.to.socket is not None:
                    raise ValueError(
                        f"ports.{name}: {port.device} joins programs of one server, and the chain "
                        "is on another one; allowed: a PCI address, an interface, af_xdp:NAME, "
                        "af_packet:NAME, pcap:NAME, tap:NAME"
                    )
        return self
