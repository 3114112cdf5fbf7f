# SPDX-License-Identifier: Apache-2.0
"""What a hosted chain is made of: VNFs, their interfaces, and what these are called."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.engine.plan_document import Plan
from headrace.engine.ways import Direction
from headrace.spec.vm import ApplianceVm

RUN = "@RUN@"  # the run's directory, which is known when it begins
NIC, MAC_OUT = "nic", "mac-out"
WRITABLE = "c"  # by a container: this one within its VNF's folder


@dataclass(frozen=True)
class Face:
    """A VNF's interface: a virtual function of the switch's."""

    name: str  # the VNF's own link
    vf: int  # from 1
    port: int  # of the switch: those of its wires come first
    socket: str  # where the two engines meet

    @property
    def link(self) -> str:
        """The host's."""
        return f"vf{self.vf}"

    @property
    def mac(self) -> str:
        return f"02:68:72:00:{self.vf >> 8:02x}:{self.vf & 255:02x}"


@dataclass(frozen=True)
class Vnf:
    """One VNF: its interfaces, and where it may run. With traffic both ways it has two of them,
    forward traffic coming in by the first."""

    name: str
    faces: tuple[Face, ...]
    nodes: tuple[str, ...]
    lcores: tuple[int, ...]
    plan: Plan | None  # None: it is an appliance
    files: tuple[str, ...] = ()  # that its functions read

    vcpus: tuple[tuple[int, ...], ...] = ()  # of a virtual machine: the lcores of each
    appliance: ApplianceVm | None = None  # it is an image of the user's
    # An appliance's: its addresses, and where its frames are to go.
    told: dict[str, str] = field(default_factory=dict)
    listens: bool = False  # at its interfaces' sockets, to which the switch comes

    @property
    def folder(self) -> str:
        """Below the run's; short, as paths of sockets are."""
        return f"v{self.faces[0].vf}"

    def entry(self, direction: Direction) -> Face:
        return self.faces[0 if direction == "forward" else -1]

    def exit(self, direction: Direction) -> Face:
        return self.faces[-1 if direction == "forward" else 0]


def tester(direction: Direction) -> str:
    """The address at which a direction's traffic is awaited."""
    return f"02:68:72:00:ff:{1 if direction == 'forward' else 2:02x}"


def topology(length: int) -> str:
    """Ben Hamed et al.'s names: one VNF is a PVP, two are a PVVP."""
    return {1: "pvp", 2: "pvvp"}.get(length, f"snake of {length}")


def switch_cpu(traffic: list[int]) -> int:
    """One lcore does all; of two the second switches and measures; three have one task each."""
    return traffic[min(1, len(traffic) - 1)]
