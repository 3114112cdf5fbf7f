# SPDX-License-Identifier: Apache-2.0
"""The machine and the software that a bundle was measured with."""

from __future__ import annotations

from typing import Any

from headrace.record.frozen import Record


class Environment(Record):
    """The machine and the software, as flat facts per topic.

    Facts are open-ended (each collector adds its own), hence mappings and not fields; what
    could not be read is absent, never guessed.
    """

    collected_at: str
    hostname: str = ""
    headrace: dict[str, Any] = {}  # version, commit, python, libraries
    engine: dict[str, Any] = {}  # version, build, dpdk, tsc_hz, hugepages, simd_bits
    cpu: dict[str, Any] = {}  # model, cores, threads_per_core, governor, caches
    memory: dict[str, Any] = {}  # total_bytes, numa_nodes, hugepages
    kernel: dict[str, Any] = {}  # release, cmdline, lockdown
    mitigations: dict[str, str] = {}
    virtualisation: dict[str, Any] = {}
    network: dict[str, Any] = {}  # NIC: driver, firmware, numa node
    kubernetes: dict[str, Any] = {}  # version, nodes: where it ran instead of on the lab's machine
    noise: dict[str, Any] = {}  # load average before and after, other busy processes
    servers: dict[str, Environment] = {}  # those of the study; what is above is the lab's then

    @property
    def simulated(self) -> bool:
        """A described server's, not that of the machine that computed it."""
        return "simulated" in self.engine
