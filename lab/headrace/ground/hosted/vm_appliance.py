# SPDX-License-Identifier: Apache-2.0
"""A virtual machine with an image of the user's: nothing inside is asked; it is started, and
watched from outside."""

from __future__ import annotations

import re
import socket
import time
from dataclasses import replace
from pathlib import Path

from headrace.engine.counts import EngineCounts
from headrace.errors import HeadraceError
from headrace.ground.hosted import vm_qemu
from headrace.ground.hosted.functions import NicFunctions
from headrace.ground.hosted.parts import Vnf
from headrace.ground.hosted.switch import Switch
from headrace.ground.hosted.vm import Machines, VnfMachine
from headrace.host.cgroups import Cgroup
from headrace.spec.vm import ApplianceVm

_LOCAL = "127.0.0.1"
_ANSWER_S = 0.5
_POLL_S = 0.1


class VnfAppliance(VnfMachine):
    def __init__(
        self,
        common: Machines,
        vnf: Vnf,
        appliance: ApplianceVm,
        run: Path,
        prefix: str,
        group: Cgroup | None,
        behind: Switch | NicFunctions | None,
    ) -> None:
        super().__init__(common, vnf, run, prefix, group, behind)
        self._is = appliance
        self.link_s = appliance.boot
        self.forwards: tuple[tuple[int, int], ...] = ()

    @property
    def note(self) -> str | None:
        """How its management interface is reached."""
        ports = ", ".join(f"{there} at {_LOCAL}:{here}" for here, there in self.forwards)
        return f"{self.vnf.name}: its ports {ports}" if ports else None

    def start(self) -> None:
        wanted = dict.fromkeys(self._is.ports)
        if self._is.health is not None and self._is.health.tcp is not None:
            wanted[self._is.health.tcp] = None
        self.forwards = tuple((_free_port(), port) for port in wanted)
        machine = replace(
            self._machine(),
            memory_mb=self._is.memory_mb,
            boot=self._kernel(),
            disk=self._disk(),
            forwards=self.forwards,
            told=tuple(self.vnf.told.items()),
        )
        self._run_qemu(machine)

    def not_linked(self) -> HeadraceError:
        return HeadraceError(
            f"{self.vnf.name}: its link is not up after {self.link_s:g} s (`boot`); its console: "
            f"{self._console_words()}"
        )

    def _kernel(self) -> vm_qemu.Linux | None:
        if self._is.kernel is None:
            return None
        initrd = None if self._is.initrd is None else Path(self._is.initrd)
        return vm_qemu.Linux(Path(self._is.kernel), initrd, self._is.append)

    def _disk(self) -> vm_qemu.Disk | None:
        if self._is.image is None:
            return None
        return vm_qemu.Disk(Path(self._is.image), self._is.format)

    def connect(self) -> None:
        """Its link is up when its driver is; ready is what the spec's health says."""
        self._await(self._healthy, self._is.boot, "no sign of health")
        self._pin()

    def _healthy(self) -> bool:
        health = self._is.health
        if health is None:
            return True
        if health.console is not None and not re.search(health.console, self._said(), re.MULTILINE):
            time.sleep(_POLL_S)
            return False
        return health.tcp is None or _answers(
            next(here for here, there in self.forwards if there == health.tcp)
        )

    def close(self) -> None:
        """Its disk is a snapshot: there is nothing that it could save."""
        self.kill()

    def gone(self) -> HeadraceError | None:
        return None if self.alive else self.died()

    def read(self) -> EngineCounts:
        raise HeadraceError(f"{self.vnf.name}: an image of the user's has no counters of ours")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_LOCAL, 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    """QEMU accepts for its guest, and closes at once when the guest does not."""
    try:
        with socket.create_connection((_LOCAL, port), _ANSWER_S) as probe:
            probe.settimeout(_ANSWER_S)
            return probe.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:
        time.sleep(_POLL_S)
        return False
