# SPDX-License-Identifier: Apache-2.0
"""The machine and the software that a bundle was measured with."""

from __future__ import annotations

from pydantic import JsonValue

from headrace.record.frozen import Record

Facts = dict[str, JsonValue]


class Environment(Record):
    """The machine and the software, as facts by topic, which are shown and compared.

    They are whatever a kernel, an engine or a cluster says of itself, hence mappings; what could
    not be read is absent, never guessed. The few that anything is decided by are properties.
    """

    collected_at: str
    hostname: str = ""
    headrace: Facts = {}  # version, commit, python, libraries
    engine: Facts = {}  # version, build, dpdk, tsc_hz, hugepages, simd_bits
    cpu: Facts = {}  # model, cores, threads_per_core, governor, caches
    memory: Facts = {}  # total_bytes, numa_nodes, hugepages
    kernel: Facts = {}  # release, cmdline, lockdown
    mitigations: dict[str, str] = {}
    virtualisation: Facts = {}
    network: Facts = {}  # NIC: driver, firmware, numa node
    kubernetes: Facts = {}  # version, nodes: where it ran instead of on the lab's machine
    noise: Facts = {}  # load average before and after, other busy processes
    servers: dict[str, Environment] = {}  # those of the study; what is above is the lab's then

    @property
    def simulated(self) -> bool:
        """A described server's, not that of the machine that computed it."""
        return "simulated" in self.engine

    @property
    def cpu_model(self) -> str:
        """Empty, where nothing says it."""
        return str(self.cpu.get("model") or "")

    @property
    def cpus(self) -> int | None:
        """How many CPUs the kernel has."""
        cpus = self.cpu.get("cpus")
        return cpus if isinstance(cpus, int) else None

    @property
    def load_before(self) -> float | None:
        """The load average of the last minute, when the run began."""
        load = self.noise.get("load_average")
        first = load[0] if isinstance(load, list) and load else None
        return float(first) if isinstance(first, int | float) else None
