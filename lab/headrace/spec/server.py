# SPDX-License-Identifier: Apache-2.0
"""A server, as everything that places, predicts or explains needs to know it."""

from __future__ import annotations

from typing import Literal

from headrace.spec.base import Spec

Cpus = tuple[int, ...]


class Cache(Spec):
    """One cache and the CPUs that share it."""

    level: int
    kind: Literal["data", "instruction", "unified"]
    size_bytes: int
    line_bytes: int | None
    ways: int | None
    cpus: Cpus


class Core(Spec):
    """One physical core; `cpus` are its hardware threads, the online ones."""

    socket: int
    node: int | None
    core: int
    cpus: Cpus


class Hugepages(Spec):
    page_bytes: int
    total: int
    free: int


class NumaNode(Spec):
    node: int
    cpus: Cpus
    memory_bytes: int | None
    free_bytes: int | None
    hugepages: tuple[Hugepages, ...]
    distances: tuple[int, ...]  # to each node in order (ACPI SLIT); 10 is local


class Nic(Spec):
    """A network device: a PCI function of class 02, or another device with interfaces."""

    address: str  # of the bus: 0000:03:00.0, virtio0
    interfaces: tuple[str, ...]  # empty when a userspace driver has it
    driver: str | None
    vendor: str | None  # hexadecimal PCI ids
    device: str | None
    node: int | None
    speed_mbps: int | None
    queues: int | None
    vfs_max: int
    vfs: tuple[str, ...]  # addresses of the virtual functions that exist
    physical_function: str | None  # of a virtual function


class Server(Spec):
    """What `headrace server detect` finds. What cannot be read is null, never guessed."""

    hostname: str
    architecture: str
    cpu: str | None
    hypervisor: bool | None
    sockets: int
    cpus: Cpus  # online
    usable_cpus: Cpus  # that this process may run on
    isolated_cpus: Cpus
    cores: tuple[Core, ...]
    caches: tuple[Cache, ...]
    nodes: tuple[NumaNode, ...]
    nics: tuple[Nic, ...]
    memory_bytes: int | None
    tsc_invariant: bool | None

    def data_caches(self, cpu: int) -> tuple[Cache, ...]:
        """The caches that data of this CPU may lie in, the nearest first."""
        own = (c for c in self.caches if cpu in c.cpus and c.kind != "instruction")
        return tuple(sorted(own, key=lambda c: c.level))

    def node_of(self, cpu: int) -> int | None:
        return next((n.node for n in self.nodes if cpu in n.cpus), None)

    def core_of(self, cpu: int) -> Core | None:
        return next((c for c in self.cores if cpu in c.cpus), None)

    def siblings(self, cpu: int) -> Cpus:
        """Other hardware threads of the same core."""
        core = self.core_of(cpu)
        return tuple(c for c in core.cpus if c != cpu) if core else ()
