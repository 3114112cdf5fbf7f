# SPDX-License-Identifier: Apache-2.0
"""Where a chain's segments run: in the engine of the traffic, or each as a VNF of its own behind
the host's switch (Wang et al. 2016, Ben Hamed et al. 2020)."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictBool, model_validator

from headrace.spec.base import Count, Seconds, Spec, not_a_bool
from headrace.spec.vm import QUEUE_MAX, QUEUE_MIN, Vm

VFS_MAX = 63  # of one port of Wang et al.'s NIC (Intel 82599), and of the engine's veb
KINDS = ("inline", "process", "container", "vm")
PROGRAM_MB = 64  # of an engine, beside what DPDK has
SLOTS = 1024
RATE_COST = "rate-cost"
LIGHTEST, HEAVIEST = 0.01, 100.0
Weight = Annotated[float, Field(ge=LIGHTEST, le=HEAVIEST), BeforeValidator(not_a_bool)]
SLOT_BYTES = 2 * 2 * 2112  # of memory that a VNF shares with the host: two links, two ways
GUEST_MB = 96  # of a guest, beside what its engine has
QEMU_MB = 256

_RATIO = re.compile(r"^([1-9]\d?):1$")


def _ratio(value: Any) -> Any:
    """Reads a ratio: `2:1` is two vCPUs on each physical core. YAML 1.1 reads a bare 2:1 as the
    number 121."""
    if isinstance(value, str) and _RATIO.match(value):
        return int(value.split(":")[0])
    if isinstance(value, int) and not isinstance(value, bool) and value % 60 == 1 and value > 60:
        return value // 60
    raise ValueError('allowed: "1:1", "2:1", "4:1", vCPUs to a physical core, 1 to 99')


def _shares(value: Any) -> Any:
    """What is none of its forms has one message: each form would have its own."""
    if value is None or value == RATE_COST:
        return value
    if isinstance(value, list | tuple) and 1 <= len(value) <= VFS_MAX:
        numbers = [v for v in value if isinstance(v, int | float) and not isinstance(v, bool)]
        if len([v for v in numbers if LIGHTEST <= v <= HEAVIEST]) == len(value):
            return value
    raise ValueError(
        f"allowed: {RATE_COST}, or a weight for each VNF of a chain, {LIGHTEST:g} to {HEAVIEST:g}"
    )


class Checkpoint(Spec):
    """`every` so often each flow's state of a VNF is written into memory that the host keeps, and
    a VNF that is started again goes on with it. `memory_mb` of it are each VNF's: flows beyond
    have no place. `100 ms` is short for `{every: 100 ms}`."""

    every: Annotated[Seconds, Field(ge=0.01, le=60)] = 0.1
    memory_mb: Annotated[Count, Field(ge=1, le=4096)] = 16

    @model_validator(mode="before")
    @classmethod
    def _from_short(cls, value: Any) -> Any:
        return {"every": value} if isinstance(value, str | int | float) else value


class Hosting(Spec):
    """VNFs made of headrace's own functions. `execution` says which make up a VNF: each of its
    segments is one.

    `chains` copies of the chain run side by side, `active` of them carry traffic and the others
    stand by (Ben Hamed et al. 2020 section 4.1.2). The host's switch is a NIC's: `uplink_gbps`
    limits its wire, `switch_gbps` the way between it and the host, each way; a frame from VNF to
    VNF goes by it both ways. `rate_cap_gbps` is each VNF's licence: what it may send, on any
    network. Frames wait for the host's switch's limits in queues of `nic_queue` frames. `cpus` and
    `memory_limit_mb` are limits of each VNF's control group. `hugepages`: `memory_mb` of each
    process or container is this server's hugepages, which no control group counts. `vf`: how a
    VNF's engine reaches its virtual function of a real NIC: the kernel's driver and a packet
    socket, AF_XDP, or DPDK's own driver by vfio-pci. Machines are given theirs whole; `vf` then is
    the tester's way.
    `audit_placement`: each trial's audit says whether threads and memory are where the placement
    has them. `checkpoint`: a VNF that is started again goes on with the state that the one before
    had written by then. `shares`: how VNFs on one lcore share its time, which is evenly if it is
    not given: by a weight for each VNF of a chain, or by the time that each needs for what comes to
    its chain (`rate-cost`; Kulkarni et al. 2017, NFVnice: Dynamic Backpressure and Scheduling for
    NFV Service Chains).
    """

    kind: Literal["inline", "process", "container", "vm"] = "inline"
    chains: Annotated[Count, Field(ge=1, le=VFS_MAX)] = 1
    active: Annotated[Count, Field(ge=1, le=VFS_MAX)] | None = None
    wait: Literal["poll", "adaptive", "interrupt"] = "adaptive"
    placement: Literal["numa-aware", "random", "worst", "explicit"] = "numa-aware"
    lcores: Annotated[tuple[Annotated[Count, Field(ge=0)], ...], Field(min_length=1)] | None = None
    oversubscription: Annotated[int, BeforeValidator(_ratio)] | None = None
    memory_mb: Annotated[Count, Field(ge=64, le=1 << 20)] = 64
    hugepages: StrictBool = False
    mbufs: Annotated[Count, Field(ge=1024, le=1 << 24)] = 4096
    cpus: Annotated[float, Field(ge=0.1, le=1), BeforeValidator(not_a_bool)] | None = None
    memory_limit_mb: Annotated[Count, Field(ge=128, le=1 << 20)] | None = None
    slots: Annotated[Count, Field(ge=64, le=1 << 20)] = SLOTS
    uplink_gbps: Annotated[float, Field(gt=0, le=10_000), BeforeValidator(not_a_bool)] | None = None
    switch_gbps: Annotated[float, Field(gt=0, le=10_000), BeforeValidator(not_a_bool)] | None = None
    rate_cap_gbps: Annotated[float, Field(gt=0, le=10_000), BeforeValidator(not_a_bool)] | None = (
        None
    )
    nic_queue: Annotated[Count, Field(ge=1, le=1 << 16)] = 512
    times: bool = True
    vm: Vm = Vm()
    vf: Literal["af_packet", "af_xdp", "vfio"] | None = None
    audit_placement: StrictBool = False
    checkpoint: Checkpoint | None = None
    shares: Annotated[
        Literal["rate-cost"]
        | Annotated[tuple[Weight, ...], Field(min_length=1, max_length=VFS_MAX)]
        | None,
        BeforeValidator(_shares),
    ] = None

    @model_validator(mode="after")
    def _consistent(self) -> Hosting:
        if self.active is not None and self.active > self.chains:
            raise ValueError(f"active: {self.active} of {self.chains} chains; allowed: at most all")
        if (self.placement == "explicit") != (self.lcores is not None):
            raise ValueError("`placement: explicit` and `lcores` (one for each VNF) go together")
        for key in ("uplink_gbps", "switch_gbps", "rate_cap_gbps", "nic_queue"):
            if self.kind == "inline" and key in self.model_fields_set:
                raise ValueError(
                    f"{key} is of the NIC in front of hosted VNFs; got kind inline; allowed: "
                    f"process, container, vm"
                )
        for key in ("audit_placement", "shares"):
            if self.kind == "inline" and getattr(self, key):
                raise ValueError(
                    f"{key} is for hosted VNFs; got kind inline; allowed: process, container, vm"
                )
        if self.shares == RATE_COST and (self.kind == "vm" or self.wait == "poll"):
            raise ValueError(
                f"shares: rate-cost, with kind {self.kind} and wait {self.wait}; who polls takes "
                "all the time that it gets; allowed: with kind process or container, and wait "
                "adaptive or interrupt"
            )
        if self.hugepages and self.kind not in ("process", "container"):
            raise ValueError(
                f"hugepages: true, with kind {self.kind}; allowed: with kind process or container "
                "(machines have vm.hugepages)"
            )
        if self.slots & (self.slots - 1):
            raise ValueError(f"slots: {self.slots}; allowed: a power of two")
        program = PROGRAM_MB + max(0, (self.slots - SLOTS) * SLOT_BYTES >> 20)
        program += 0 if self.checkpoint is None else self.checkpoint.memory_mb
        ordinary = 0 if self.hugepages else self.memory_mb
        least = ordinary + program
        if self.memory_limit_mb is not None and self.memory_limit_mb < least:
            beside = "memory_mb and " if ordinary else ""
            raise ValueError(
                f"memory_limit_mb: {self.memory_limit_mb}; allowed: at least {least}, {beside}"
                f"{program} for the program and its links"
            )
        return self

    @model_validator(mode="after")
    def _machines(self) -> Hosting:
        if self.kind != "vm":
            if "vm" in self.model_fields_set:
                raise ValueError(f"`vm` belongs to `kind: vm`, and kind is {self.kind}")
            return self
        if self.wait == "interrupt":
            raise ValueError(
                "wait: interrupt; a guest's network device is polled; allowed with `kind: vm`: "
                "poll, adaptive"
            )
        if not QUEUE_MIN <= self.slots <= QUEUE_MAX:
            raise ValueError(
                f"slots: {self.slots}; allowed with `kind: vm`: 256, 512 or 1024, as QEMU's queues"
            )
        least = self.memory_mb + GUEST_MB
        if self.vm.memory_mb < least:
            raise ValueError(
                f"vm.memory_mb: {self.vm.memory_mb}; allowed: at least {least}, memory_mb and "
                f"{GUEST_MB} for Linux"
            )
        least = self.vm.memory_mb + QEMU_MB
        if self.memory_limit_mb is not None and self.memory_limit_mb < least:
            raise ValueError(
                f"memory_limit_mb: {self.memory_limit_mb}; allowed: at least {least}, vm.memory_mb "
                f"and {QEMU_MB} for QEMU"
            )
        return self

    @property
    def limited(self) -> bool:
        """Whether its control groups are to hold anything."""
        return bool(self.held)

    @property
    def held(self) -> tuple[str, ...]:
        """What its control groups are to hold."""
        keys = ("cpus", "memory_limit_mb", "shares")
        return tuple(key for key in keys if getattr(self, key) is not None)

    @property
    def carrying(self) -> int:
        return self.chains if self.active is None else self.active
