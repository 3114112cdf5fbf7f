# SPDX-License-Identifier: Apache-2.0
"""A VNF's virtual machine, and an image of the user's own that runs in one."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, model_validator

from headrace.spec.base import Count, Seconds, Spec, not_a_bool

Gbps = Annotated[float, Field(gt=0, le=10_000), BeforeValidator(not_a_bool)]

APPLIANCE = "appliance"  # the name by which a chain has it
# QEMU takes these for a virtio-net device with a vhost-user back end (rx_queue_size).
QUEUE_MIN, QUEUE_MAX = 256, 1024
GIGABYTE_KB = 1 << 20  # a page of 1 GB
VHOSTS_MAX = 31  # devices that a DPDK of the distribution holds, less one


class Vm(Spec):
    """The machine that each VNF of `kind: vm` gets.

    `memory_mb` is the machine's, of which `hosting.memory_mb` is its engine's; on the host it comes
    from hugepages where `hugepages` says so: of the default size, or of 1 GB. `driver`: how the
    engine in the guest reaches its virtual function: DPDK's own driver (`virtio`), or the kernel's
    and a packet socket.
    """

    accel: Literal["auto", "kvm", "tcg"] = "auto"
    vcpus: Annotated[Count, Field(ge=1, le=64)] = 1
    memory_mb: Annotated[Count, Field(ge=128, le=1 << 20)] = 384
    hugepages: StrictBool | Literal["1G"] = False
    driver: Literal["auto", "virtio", "af_packet"] = "auto"
    boot: Annotated[Seconds, Field(ge=1, le=3600)] = 120.0

    @model_validator(mode="after")
    def _whole_pages(self) -> Vm:
        if self.hugepages == "1G" and self.memory_mb % 1024:
            raise ValueError(
                f"memory_mb: {self.memory_mb}; allowed with `hugepages: 1G`: 1024, 2048, ..."
            )
        return self

    @property
    def page_kb(self) -> int | None:
        """The size that the spec names."""
        return GIGABYTE_KB if self.hugepages == "1G" else None


def _expression(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"allowed: a regular expression; {error}") from None
    return value


class Health(Spec):
    """When the appliance is ready: a line on its serial console, or a TCP port that answers."""

    console: Annotated[str, Field(min_length=1), AfterValidator(_expression)] | None = None
    tcp: Annotated[Count, Field(ge=1, le=65535)] | None = None

    @model_validator(mode="after")
    def _some(self) -> Health:
        if self.console is None and self.tcp is None:
            raise ValueError("allowed: {console: REGULAR EXPRESSION}, {tcp: PORT}, or both")
        return self


class ApplianceVm(Spec):
    """The user's own image as one function of a chain: wired, started and watched; nothing else is
    known of it. A disk, of which what is written is forgotten when it ends, or a kernel that is
    started without one.

    `ports` of its management interface (behind the others, on a network of its own) are reached
    from this machine; `rate_cap_gbps` is what its licence allows it to send.
    """

    image: Annotated[str, Field(min_length=1)] | None = None
    format: Literal["qcow2", "raw"] = "qcow2"
    kernel: Annotated[str, Field(min_length=1)] | None = None
    initrd: Annotated[str, Field(min_length=1)] | None = None
    append: str = "console=ttyS0"
    memory_mb: Annotated[Count, Field(ge=32, le=1 << 20)] = 1024
    health: Health | None = None
    boot: Annotated[Seconds, Field(ge=1, le=3600)] = 300.0
    ports: tuple[Annotated[Count, Field(ge=1, le=65535)], ...] = ()
    rate_cap_gbps: Gbps | None = None

    @model_validator(mode="after")
    def _starts(self) -> ApplianceVm:
        if self.image is None and self.kernel is None:
            raise ValueError("nothing to start; allowed: `image`, a disk, or `kernel`, or both")
        if self.initrd is not None and self.kernel is None:
            raise ValueError("`initrd` belongs to a `kernel`")
        return self


_FILES = ("image", "kernel", "initrd")


def appliance_description() -> dict[str, Any]:
    """As the engine describes a network function, so that chains are checked and their files found
    in one way. What its parameters may be is the model's to say."""
    properties: dict[str, Any] = {name: {} for name in ApplianceVm.model_fields}
    properties |= {name: {"type": "string", "format": "file"} for name in _FILES}
    return {
        "doc": "a virtual machine of the user's own",
        "category": "general",
        "edges": ["out"],
        "policy_drops": [],
        "offloads": False,
        "keeps": False,
        "params": {"type": "object", "additionalProperties": False, "properties": properties},
    }
