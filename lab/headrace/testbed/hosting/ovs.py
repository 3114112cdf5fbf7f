# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch with DPDK as the switch of a hosted chain: a polling thread, and vhost-user ports
whose other ends are engines with virtio-user."""

from __future__ import annotations

import secrets
import subprocess
from pathlib import Path

from headrace.testbed.containers.fabric import Ovs
from headrace.testbed.containers.fabric import Port as SwitchPort
from headrace.testbed.containers.ledger import Ledger
from headrace.testbed.hosting.parts import RUN
from headrace.testbed.hosting.ports import OVS_DPDK, OnSwitch
from headrace.testbed.state import dpdk_prefix

_MEMORY_MB = 512
_LAN = 0


class OvsDpdk(Ovs):
    """Each port's engine owns the socket and outlives nobody: the switch comes to it again and
    again, so that a VNF may die and come back."""

    def __init__(self, switch: OnSwitch, ledger: Ledger, run: Path) -> None:
        self._cpu, self._prefix = switch.cpu, f"{dpdk_prefix(run)}-ovs"
        super().__init__(f"hr{secrets.token_hex(2)}", ledger, run)
        additions: list[str] = []
        for number, one in enumerate(switch.ports, 1):
            name = f"{self.tag}p{number}"
            path = one.socket.replace(RUN, str(run))
            additions += ["--", "add-port", self.bridge, name, "--", "set", "interface", name]
            additions += ["type=dpdkvhostuserclient", f"options:vhost-server-path={path}"]
            additions += [f"ofport_request={number}"]
            self.ports.append(SwitchPort(_LAN, name, one.mac, number))
        self._vsctl(*additions[1:])
        self._write_flows()

    def namespace_of(self, owner: str) -> None:
        """Sockets are files: nobody needs a network namespace for them."""

    def enter(self, owner: str) -> list[str]:
        return []

    def _write_flows(self) -> None:
        file = self.directory / "flows"
        file.write_text("\n".join(self.flows()) + "\n")
        socket = f"unix:{self.directory}/{self.bridge}.mgmt"
        self._tool("ovs-ofctl", "add-flows", socket, str(file))

    def _daemon(self, name: str, *arguments: str) -> None:
        if name == "ovs-vswitchd":
            # Without --legacy-mem, memory that is not hugepages is not there for vhost's tables.
            eal = f"--no-huge --legacy-mem -m {_MEMORY_MB} --no-pci --file-prefix={self._prefix}"
            self._vsctl(
                "--no-wait", "set", "Open_vSwitch", ".", "other_config:dpdk-init=true",
                f"other_config:pmd-cpu-mask={1 << self._cpu:#x}",
                f"other_config:dpdk-lcore-mask={1 << self._cpu:#x}",
                f'other_config:dpdk-extra="{eal}"',
            )  # fmt: skip
        super()._daemon(name, *arguments)

    def _run(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return super()._run(OVS_DPDK if name == "ovs-vswitchd" else name, *arguments)
